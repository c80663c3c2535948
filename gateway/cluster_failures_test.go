package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// redisFailure is one way in which Redis fails, and how it heals.
type redisFailure struct {
	name       string
	fail, heal func(s *redistest.Server, p *redistest.Proxy)
}

func redisFailures() []redisFailure {
	set := func(value string) func(*redistest.Server, *redistest.Proxy) {
		return func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", value) }
	}
	return []redisFailure{
		{
			name: "stopped",
			fail: func(s *redistest.Server, _ *redistest.Proxy) { s.Stop() },
			heal: func(s *redistest.Server, _ *redistest.Proxy) { s.Restart(false) },
		},
		{
			name: "killed and empty",
			fail: func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
			heal: func(s *redistest.Server, _ *redistest.Proxy) { s.Restart(true) },
		},
		{
			name: "paused",
			fail: func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			heal: func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
		},
		{
			name: "slow",
			fail: func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(200 * time.Millisecond) },
			heal: func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(0) },
		},
		{name: "full", fail: set("1"), heal: set("0")},
		{
			name: "read-only",
			fail: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "127.0.0.1", "1") },
			heal: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "NO", "ONE") },
		},
	}
}

// TestReplicasThroughFailures holds for each way in which Redis fails that the
// replicas serve lists and calls meanwhile, say so without being taken out, keep to
// limits as they are configured, and heal by themselves.
func TestReplicasThroughFailures(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.Slow(t, server.Addr(), 0)
	s := newScripted(t)
	s.tools("look")
	s.result("tools/call", `{"resultType":"complete","content":[]}`)
	replicas := func(limits string) *gatewaytest.Replicas {
		conf := gatewaytest.Config(gatewaytest.Upstream{Alias: "one", URL: s.URL})
		conf = strings.Replace(conf, "tenants:", "redis: {prefix: "+limits+", limits: "+limits+"}\ntenants:", 1)
		conf = strings.Replace(conf, "name: default", "name: default\n    limits: {callsPerMinute: 600000}", 1)
		return gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{N: 2, RedisURL: "redis://" + proxy.Addr() + "/0", Config: conf})
	}
	groups := map[string]*gatewaytest.Replicas{"open": replicas("open"), "closed": replicas("closed")}
	says := func(group, want string) {
		t.Helper()
		for _, r := range groups[group].All {
			eventually(t, r.URL+" says "+want, func() bool {
				ready, text := r.Readiness(t)
				if !ready {
					t.Fatalf("%s is taken out: %s", r.URL, text)
				}
				return strings.HasPrefix(text, want)
			})
		}
	}
	clients := map[string]*rawClient{}
	for group, r := range groups {
		clients[group] = newRawClient(t, r.URL+"/mcp")
	}
	call := func(group string) reply {
		return clients[group].send(ask("tools/call", `"name":"one_look","arguments":{}`))
	}
	serves := func(group, when string) {
		t.Helper()
		for range 4 {
			if r := clients[group].send(ask("tools/list", "")); r.status != http.StatusOK || !strings.Contains(r.last(), "one_look") {
				t.Errorf("%s: list: status %d: %s", when, r.status, r.last())
			}
		}
	}
	calls := func(group, when string) {
		t.Helper()
		for range 4 {
			if r := call(group); r.status != http.StatusOK || !strings.Contains(r.last(), `"resultType":"complete"`) {
				t.Errorf("%s: call: status %d: %s", when, r.status, r.last())
			}
		}
	}
	for _, group := range []string{"open", "closed"} {
		says(group, "ok")
		serves(group, "at first")
		calls(group, "at first")
	}
	for _, f := range redisFailures() {
		t.Run(f.name, func(t *testing.T) {
			f.fail(server, proxy)
			for group := range groups {
				says(group, "degraded: ")
				serves(group, group+" while it fails")
			}
			calls("open", "open while it fails")
			// What was leased before is used up first.
			eventually(t, "calls are refused", func() bool {
				return strings.Contains(call("closed").last(), `"code":-31029`)
			})
			f.heal(server, proxy)
			for group := range groups {
				says(group, "ok")
				serves(group, group+" after it")
			}
			calls("open", "open after it")
			eventually(t, "calls are not refused any more", func() bool {
				return strings.Contains(call("closed").last(), `"resultType":"complete"`)
			})
		})
	}
}
