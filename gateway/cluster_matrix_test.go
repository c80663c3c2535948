package gateway_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// TestMatrixOfReplicas is TestMatrix with three processes behind a balancer that
// sends every request to another one: what a client asks, answers and cancels, and
// what it listens for, is hardly ever where it was begun.
func TestMatrixOfReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("the matrix of real clients and servers takes minutes")
	}
	node := gatewaytest.NewNode(t)
	redis := redistest.Start(t)
	everything := gatewaytest.StartNode(t, node, "/mcp", "PORT", filepath.Join(node.Modules, ".bin", "mcp-server-everything"), "streamableHttp")
	plans, conf := matrixPlans(t, node, everything)
	for _, p := range plans {
		if s := p.Subscribe; s != nil {
			// The tool works in the session of the replica that calls it, and one of
			// them listens: it is called until that one's turn has come.
			s.Undo = nil
		}
	}
	replicas := gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{Config: conf, RedisURL: redis.URL()})
	table := matrixHead()
	// One after the other: each replica runs programs of its own, and the counters
	// of the Go servers tell of one client's calls only.
	for _, c := range matrixClients(node) {
		t.Run(c.name, func(t *testing.T) {
			seen := c.run(t, replicas.URL, plans)
			for _, p := range plans {
				table += c.row(t, p, seen[p.Alias])
			}
		})
	}
	served := replicas.Balancer.Served()
	t.Logf("requests of each replica: %v\n%s", served, table)
	if least := slices.Min(served); least == 0 || slices.Max(served) > 2*least {
		t.Errorf("requests of each replica: %v, want about the same of each", served)
	}
}
