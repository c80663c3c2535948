package redistest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const clusterSlots = 16384

// Cluster is a Redis Cluster of three masters without replicas.
type Cluster struct{ Nodes []*Server }

// StartCluster starts a cluster and waits until each of its nodes says that it is
// well.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	const masters = 3
	c := &Cluster{}
	for i := range masters {
		s := StartWith(tb, Options{Args: args, cluster: true})
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*clusterSlots/masters, (i+1)*clusterSlots/masters-1)
		c.Nodes = append(c.Nodes, s)
	}
	for _, s := range c.Nodes[1:] {
		s.Do("CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port, c.Nodes[0].bus)
	}
	for _, s := range c.Nodes {
		await(tb, "a cluster of three nodes", func() bool {
			info := fmt.Sprint(s.Do("CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3") &&
				strings.Contains(info, "cluster_slots_ok:16384")
		})
	}
	return c
}

// URL gives its URL, which names all nodes.
func (c *Cluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr()
	}
	return urlOf(addrs)
}

// urlOf gives the URL of several servers.
func urlOf(addrs []string) string {
	u := url.URL{Scheme: "redis", Host: addrs[0], RawQuery: url.Values{"addr": addrs[1:]}.Encode()}
	return u.String()
}

// Master is the name by which Sentinels know their primary.
const Master = "causeway"

// Sentinels are a primary with a replica, and two Sentinels that watch them.
type Sentinels struct {
	Primary, Replica *Server // as they were at the start
	addrs            []string
}

// StartSentinels starts them and waits until the Sentinels know all.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{Primary: Start(tb)}
	s.Replica = StartWith(tb, Options{ReplicaOf: s.Primary})
	await(tb, "a replica that follows its primary", func() bool {
		return strings.Contains(fmt.Sprint(s.Replica.Do("INFO", "replication")), "master_link_status:up")
	})
	for range 2 {
		s.addrs = append(s.addrs, startSentinel(tb, s.Primary))
	}
	return s
}

// URL gives their URL, which names all Sentinels.
func (s *Sentinels) URL() string { return urlOf(s.addrs) }

// startSentinel starts a Sentinel and gives its address.
func startSentinel(tb testing.TB, primary *Server) string {
	tb.Helper()
	path := find(tb)
	var err error
	for range 20 {
		port := randomPort()
		conf := filepath.Join(tb.TempDir(), "sentinel.conf")
		text := fmt.Sprintf(`bind 127.0.0.1
port %[1]d
sentinel monitor %[2]s 127.0.0.1 %[3]d 2
sentinel down-after-milliseconds %[2]s 500
sentinel failover-timeout %[2]s 3000
`, port, Master, primary.port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
		p := &process{path: path, args: []string{conf, "--sentinel"}, ready: "Sentinel ID is"}
		if err = p.start(); err == nil {
			tb.Cleanup(p.kill)
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		if !isPortTaken(err) {
			break
		}
	}
	tb.Fatal(err)
	return ""
}
