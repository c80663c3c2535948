package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// TestReplicasWithoutRedis holds that replicas start and serve while no Redis is
// there, say so without being taken out, and use it when it comes.
func TestReplicasWithoutRedis(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	s := newScripted(t)
	s.tools("look")
	replicas := gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{
		N: 2, RedisURL: redis.URL(), Config: gatewaytest.Config(gatewaytest.Upstream{Alias: "one", URL: s.URL}),
	})
	says := func(want string) {
		t.Helper()
		for _, r := range replicas.All {
			eventually(t, r.URL+" says "+want, func() bool {
				ready, text := r.Readiness(t)
				if !ready {
					t.Fatalf("%s is taken out: %s", r.URL, text)
				}
				return strings.HasPrefix(text, want)
			})
		}
	}
	client := newRawClient(t, replicas.URL+"/mcp")
	serves := func(when string) {
		t.Helper()
		for range 2 * len(replicas.All) {
			if r := client.send(ask("tools/list", "")); r.status != http.StatusOK || !strings.Contains(r.last(), "one_look") {
				t.Errorf("%s: status %d: %s", when, r.status, r.last())
			}
		}
	}
	says("degraded: ")
	serves("without Redis")
	redis.Restart(true)
	says("ok")
	serves("with Redis")
	redis.Kill()
	says("degraded: ")
	serves("without Redis again")
	redis.Restart(true)
	says("ok")
	for _, r := range replicas.All {
		r.Stop(t)
	}
}
