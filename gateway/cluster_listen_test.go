package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const (
	crowdSize = 1000 // clients of each replica whose view changes
	asideSize = 20   // of each kind whose view does not
	allLists  = `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`
)

// crowdConfig is a configuration of two tenants. Redis may be slow on a machine that
// has much else to do.
const crowdConfig = `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
redis: {timeout: 2s}
limits: {streamsPerPrincipal: 2000, listenStreams: 2000}
tenants:
  - name: default
    auth: {mode: none}
    upstreams:
      - {alias: a, url: %q}
      - {alias: b, url: %q}
  - name: other
    auth: {mode: none}
    upstreams:
      - {alias: c, url: %q}
`

// audience are the clients of three replicas, those of each together.
type audience struct {
	*crowd
	replicas *gatewaytest.Replicas
	a, b, c  *announcer

	members  [][]*fan // of the tenant's merged endpoint
	alone    [][]*fan // of the endpoint that shows b alone
	strange  [][]*fan // of the other tenant
	watchers [][]*fan // of one resource and one task of a for each replica
}

// of gives those of some replicas.
func of(fans [][]*fan, replicas ...int) (all []*fan) {
	for _, i := range replicas {
		all = append(all, fans[i]...)
	}
	return all
}

// newAudience starts replicas that know the lists of their upstreams, and has the
// crowd listen.
func newAudience(t *testing.T) *audience {
	t.Helper()
	gatewaytest.NeedFiles(t, 3*(crowdSize+2*asideSize)+1000)
	redis := redistest.Start(t)
	h := &audience{a: newAnnouncer(t), b: newAnnouncer(t), c: newAnnouncer(t)}
	for _, up := range []*announcer{h.a, h.b, h.c} {
		up.tools("first")
	}
	h.replicas = gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{
		Config: fmt.Sprintf(crowdConfig, h.a.URL, h.b.URL, h.c.URL), RedisURL: redis.URL(),
	})
	h.crowd = newCrowd(t) // it leaves before replicas and upstreams end
	for _, r := range h.replicas.All {
		for _, path := range []string{"/mcp", "/t/other/mcp"} {
			for _, method := range []string{"tools/list", "prompts/list"} {
				if got := newRawClient(t, r.URL+path).send(ask(method, "")); got.status != http.StatusOK {
					t.Fatalf("%s: %d %s", method, got.status, got.last())
				}
			}
		}
		h.members = append(h.members, h.join(crowdSize, r.URL+"/mcp", allLists))
		h.alone = append(h.alone, h.join(asideSize, r.URL+"/t/default/u/b/mcp", allLists))
		h.strange = append(h.strange, h.join(asideSize, r.URL+"/t/other/mcp", allLists))
	}
	return h
}

// TestCrowdAtReplicas has thousands of clients listen at three replicas. Each change
// reaches each client whose view it changes once, over one stream from the upstream,
// also after the replica that held the stream was killed.
func TestCrowdAtReplicas(t *testing.T) {
	h := newAudience(t)
	h.announced(t)
	h.watched(t)
	h.takenOver(t)
}

// announced has lists change that all or some are to hear of.
func (h *audience) announced(t *testing.T) {
	t.Helper()
	all := []int{0, 1, 2}
	h.a.only("one replica listens")
	h.a.tools("first", "second")
	began := time.Now()
	h.a.announce("tools/list_changed", "", "")
	last := h.await("tools of a", of(h.members, all...), "tools/list_changed")
	t.Logf("%d clients of 3 replicas heard of a change, the last one after %v", 3*crowdSize, last.Sub(began))

	// What comes next comes alone: nothing was told twice, nor to others.
	h.a.list("prompts/list", `{"name":"p"}`)
	h.a.announce("prompts/list_changed", "", "")
	h.await("prompts of a", of(h.members, all...), "tools/list_changed", "prompts/list_changed")
	h.b.tools("first", "second")
	h.b.announce("tools/list_changed", "", "")
	h.await("tools of b", of(h.members, all...), "tools/list_changed", "prompts/list_changed", "tools/list_changed")
	h.await("tools of b, alone", of(h.alone, all...), "tools/list_changed")
	h.c.tools("first", "second")
	h.c.announce("tools/list_changed", "", "")
	h.await("tools of c", of(h.strange, all...), "tools/list_changed")
	for name, up := range map[string]*announcer{"a": h.a, "b": h.b, "c": h.c} {
		if total, most := up.streams(); total != 1 || most != 1 {
			t.Errorf("%s saw %d listen streams, %d at once, want one", name, total, most)
		}
	}
}

// watched has clients of each replica watch a resource and a task of their own.
func (h *audience) watched(t *testing.T) {
	t.Helper()
	var parts []string
	for i, r := range h.replicas.All {
		parts = append(parts, fmt.Sprintf(`"doc://%d"`, i), fmt.Sprintf(`"task-%d"`, i))
		h.watchers = append(h.watchers, h.join(1, r.URL+"/mcp",
			fmt.Sprintf(`"resourceSubscriptions":["a+doc://%d"],"taskIds":["a+task-%d"]`, i, i)))
	}
	h.a.only("one stream is for what all replicas watch", parts...)
	h.update(t, "before", 0, 1, 2)
}

// update has what clients of some replicas watch be updated.
func (h *audience) update(t *testing.T, mark string, replicas ...int) {
	t.Helper()
	for _, i := range replicas {
		f, m := h.watchers[i][0], fmt.Sprintf("%s-%d", mark, i)
		h.a.announce("tasks", m, fmt.Sprintf(`"taskId":"task-%d","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000`, i))
		eventually(t, fmt.Sprintf("a client of replica %d hears of its task", i), func() bool {
			return slices.Contains(h.sees(f), "tasks "+m)
		})
		// One that comes together with those that a new stream makes up for is not
		// told by itself.
		for !slices.Contains(h.sees(f), "resources/updated "+m) {
			before := len(h.sees(f))
			h.a.announce("resources/updated", m, fmt.Sprintf(`"uri":"doc://%d"`, i))
			eventually(t, fmt.Sprintf("a client of replica %d hears of its resource", i), func() bool { return len(h.sees(f)) > before })
		}
	}
}

// takenOver kills the replica that listens to a.
func (h *audience) takenOver(t *testing.T) {
	t.Helper()
	before := h.a.only("one replica listens")
	victim := h.a.ownerOf(h.replicas, before)
	left := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == victim })
	seen := []string{"tools/list_changed", "prompts/list_changed", "tools/list_changed"}

	h.replicas.All[victim].Kill()
	killed := time.Now()
	h.a.tools("third") // nobody is told of it
	seen = append(seen, "tools/list_changed")
	h.await("a change while nobody listened", of(h.members, left...), seen...)
	t.Logf("the change made while nobody listened was heard of %v after the holder was killed", time.Since(killed))

	now := h.a.only("another replica listens", fmt.Sprintf(`"doc://%d"`, left[0]), fmt.Sprintf(`"task-%d"`, left[1]))
	if holder := h.a.ownerOf(h.replicas, now); !slices.Contains(left, holder) {
		t.Errorf("replica %d listens, which was killed", holder)
	}
	h.a.tools("third", "fourth")
	h.a.announce("tools/list_changed", "", "")
	seen = append(seen, "tools/list_changed")
	h.await("a change after the takeover", of(h.members, left...), seen...)
	h.update(t, "after", left...)

	h.a.list("prompts/list", `{"name":"p"}`, `{"name":"q"}`)
	h.a.announce("prompts/list_changed", "", "")
	seen = append(seen, "prompts/list_changed")
	h.await("the last change", of(h.members, left...), seen...)
	h.c.tools("third")
	h.c.announce("tools/list_changed", "", "")
	h.await("the last change of c", of(h.strange, left...), "tools/list_changed", "tools/list_changed")
	h.hold("those of b alone", of(h.alone, left...), "tools/list_changed")
}
