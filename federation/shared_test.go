package federation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// slow has an upstream answer each list after d.
func slow(p *fake, k kind, d time.Duration, result func() string) {
	p.handle(k.method(), func(ctx context.Context, m *mcp.Request) (*answer, error) {
		select {
		case <-time.After(d):
			return says(200, resultFor(m, result())), nil
		case <-ctx.Done():
			return nil, &upstream.Error{Alias: "fake", Class: upstream.ClassCanceled, Err: ctx.Err()}
		}
	})
}

// herd has each replica handle a method n times at once.
func (c *replicas) herd(n int, method string) {
	var wg sync.WaitGroup
	for range n {
		for _, r := range c.all {
			wg.Go(func() {
				if _, err := r.try(r.callOf("", method, "")); err != nil {
					c.t.Errorf("%s: %v", method, err)
				}
			})
		}
	}
	wg.Wait()
}

// A cold herd on cold replicas is one request per upstream and list.
func TestAColdHerdAsksOnce(t *testing.T) {
	methods := []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList, mcp.MethodDiscover}
	for _, tt := range []struct {
		name string
		took time.Duration
		ttl  int
	}{
		{"an upstream that answers at once", 0, 60000},
		{"a slow upstream", 1500 * time.Millisecond, 60000},
		{"a slow upstream whose lists are never fresh", 1500 * time.Millisecond, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ups := map[string]*fake{"a": newFake(t), "b": newFake(t)}
				discovery := func() string {
					return fmt.Sprintf(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"ttlMs":%d,"cacheScope":"public"}`, tt.ttl)
				}
				for _, p := range ups {
					for k := range kindDiscover {
						slow(p, k, tt.took, func() string { return listResult(k, tt.ttl) })
					}
					slow(p, kindDiscover, tt.took, discovery)
				}
				c := newReplicas(t, 3, fakes(ups))
				defer c.stop()
				var wg sync.WaitGroup
				for _, method := range methods {
					wg.Go(func() { c.herd(100, method) })
				}
				wg.Wait()
				synctest.Wait()
				for alias, p := range ups {
					for _, method := range methods {
						if n := p.count(method); n != 1 {
							t.Errorf("%s of %s was asked %d times, want once", method, alias, n)
						}
					}
				}
			})
		})
	}
}

// What one replica has fetched another one serves, for as long as it is fresh.
func TestAListIsFetchedForAllReplicas(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0)
		time.Sleep(20 * time.Second)
		c.want("a_one", 1, 1)
		asked(t, p, 1)
		body := c.all[1].do(c.all[1].callOf("", mcp.MethodToolsList, ""))
		if got := field(t, body, "result", "ttlMs"); got != "40000" {
			t.Errorf("ttlMs = %s, want what is left, 40000", got)
		}
		if got := outcomes(t, c.all[0]); got != "0 0 1" {
			t.Errorf("hits, stale, misses of the replica that asked = %s", got)
		}
		if got := outcomes(t, c.all[1]); got != "3 0 0" {
			t.Errorf("hits, stale, misses of the other = %s", got)
		}
		p.list(kindTools, tool("two"))
		time.Sleep(40*time.Second - time.Millisecond)
		c.want("a_one", 1)
		asked(t, p, 0)
		time.Sleep(10 * time.Minute)
		c.want("a_two", 1, 0)
		asked(t, p, 1)
	})
}

// An expired list is served while one replica refreshes it for all.
func TestExpiredListsAreRefreshedOnce(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1, 2)
		asked(t, p, 1)
		time.Sleep(2 * time.Minute)
		slow(p, kindTools, time.Second, func() string { return listResult(kindTools, 60000, tool("two")) })
		c.want("a_one", 0, 1, 2)
		time.Sleep(1500 * time.Millisecond)
		c.want("a_two", 0, 1, 2)
		asked(t, p, 1)
	})
}

// A list with ttlMs 0 is asked for each time, but by one for all who wait at the
// same time.
func TestListsThatAreNeverFresh(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		now := "one"
		slow(p, kindTools, 100*time.Millisecond, func() string { return listResult(kindTools, 0, tool(now)) })
		c.want("a_one", 0)
		now = "two"
		c.want("a_two", 1)
		now = "three"
		c.want("a_three", 2)
		asked(t, p, 3)
		now = "four"
		c.herd(50, mcp.MethodToolsList)
		asked(t, p, 1)
		for i := range c.all {
			if seg := c.member(i).known(kindTools); seg.items[0].name != "four" {
				t.Errorf("replica %d has %s", i, seg.items[0].name)
			}
		}
	})
}

// What the upstream announced to one replica is fresh on none.
func TestAnInvalidationReachesAllReplicas(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1, 2)
		asked(t, p, 1)
		p.list(kindTools, tool("two"))
		before := c.member(1).slots[kindTools].gen
		gen := c.member(0).invalidate(t.Context(), kindTools)
		c.member(1).invalidated(kindTools, gen, true)
		if got := c.member(1).slots[kindTools].gen; got != before+1 {
			t.Errorf("the slot's generation went from %d to %d, want once", before, got)
		}
		c.want("a_two", 1, 2, 0)
		asked(t, p, 1)
	})
}

// A list that is invalidated while it is fetched is fetched again, whoever was told
// of it.
func TestAnInvalidationWhileTheListIsFetched(t *testing.T) {
	for _, told := range []int{0, 1} {
		cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
			slow(p, kindTools, time.Second, func() string { return listResult(kindTools, 60000, tool("old")) })
			m := c.member(told)
			var wg sync.WaitGroup
			for _, r := range c.all {
				wg.Go(func() {
					// It may be waited for in vain, but is never the old one.
					body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
					if err == nil && names(t, kindTools, body)[0] != "a_new" {
						t.Errorf("got %s", body)
					}
				})
			}
			time.Sleep(999 * time.Millisecond)
			slow(p, kindTools, time.Second, func() string { return listResult(kindTools, 60000, tool("new")) })
			m.invalidate(t.Context(), kindTools)
			wg.Wait()
			time.Sleep(3 * time.Second)
			c.want("a_new", 0, 1)
			asked(t, p, 2)
		})
	}
}

// What is listened to is read again when another replica was told of a change.
func TestListenersAreToldOfAChangeThatAnotherReplicaKnows(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		p.handle(mcp.MethodListen, nil) // no stream tells of it
		s := c.all[1].listen("", `{"toolsListChanged":true}`)
		defer s.Close()
		c.want("a_one", 1)
		time.Sleep(5 * time.Second)
		none(t, s)
		p.list(kindTools, tool("two"))
		c.member(0).invalidate(t.Context(), kindTools)
		time.Sleep(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
		c.want("a_two", 1)
	})
}

// A name that no replica knows makes one ask; one that another has found since is
// found there.
func TestUnknownNamesAmongReplicas(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
		call := func(i int, name string) error {
			_, err := c.all[i].try(c.all[i].callOf("", mcp.MethodToolsCall, `"name":"a_`+name+`"`))
			return err
		}
		c.want("a_one", 0)
		asked(t, p, 1)
		if err := call(1, "one"); err != nil { // the first thing that it hears of
			t.Error(err)
		}
		asked(t, p, 0)
		p.list(kindTools, tool("one"), tool("two"))
		if err := call(0, "two"); err != nil {
			t.Error(err)
		}
		asked(t, p, 1)
		if err := call(1, "two"); err != nil {
			t.Error(err)
		}
		asked(t, p, 0)
		p.list(kindTools, tool("one"), tool("two"), tool("three"))
		for i := range c.all {
			wantCode(t, call(i, "four"), mcp.CodeInvalidParams)
		}
		asked(t, p, 2)
		c.join(nil)
		wantCode(t, call(2, "four"), mcp.CodeInvalidParams)
		asked(t, p, 1)
	})
}

// A list that is wanted anew is asked for, however fresh it is among the replicas,
// and folded with what was asked for since.
func TestAnewAmongReplicas(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1, 2)
		asked(t, p, 1)
		slow(p, kindTools, time.Second, func() string { return listResult(kindTools, 60000, tool("two")) })
		var wg sync.WaitGroup
		for i := range c.all {
			m := c.member(i)
			wg.Go(func() {
				seg, err := m.anew(t.Context(), kindTools)
				if err != nil || seg.items[0].name != "two" {
					t.Errorf("anew on replica %d: %v", i, err)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		// The second began after the first's request, the third as well; one serves both.
		asked(t, p, 2)
		c.want("a_two", 0, 1, 2)
		asked(t, p, 0)
	})
}

// Lists that are read again from a fence on are asked for once.
func TestRefreshFromAFence(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1, 2)
		asked(t, p, 1)
		p.list(kindTools, tool("two"))
		floor, err := c.leases.Draw(t.Context(), cache.Scope{Tenant: "default", Upstream: "a"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for i := range c.all {
				seg, err := c.member(i).refreshFrom(t.Context(), kindTools, floor)
				if err != nil || seg.items[0].name != "two" || seg.fence.Before(floor) {
					t.Errorf("replica %d: %v", i, err)
				}
			}
		}
		asked(t, p, 1)
	})
}

// A floor that another epoch's store gave out does not keep lists from being shared
// for ever.
func TestAFloorOfAStoreThatHasLostAll(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		lost := cache.Fence{Epoch: 1, N: 1 << 62}
		for i := range c.all {
			m := c.member(i)
			if _, err := m.refreshFrom(t.Context(), kindTools, lost); err != nil {
				t.Fatal(err)
			}
		}
		asked(t, p, 2)
		time.Sleep(10 * time.Minute)
		c.want("a_one", 0, 1)
		asked(t, p, 1)
	})
}

// What a private list shows is stored apart, and a list that becomes private is not
// there for everybody any more.
func TestPrivateListsAreStoredApart(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		scope := "public"
		slow(p, kindTools, 0, func() string {
			return `{"resultType":"complete","tools":[` + tool(scope) + `],"ttlMs":1000,"cacheScope":"` + scope + `"}`
		})
		for _, scope = range []string{"public", "private", "public"} {
			c.want("a_"+scope, 0, 1)
			asked(t, p, 1)
			body := c.all[1].do(c.all[1].callOf("", mcp.MethodToolsList, ""))
			if got := field(t, body, "result", "cacheScope"); got != `"`+scope+`"` {
				t.Errorf("cacheScope = %s, want %s", got, scope)
			}
			_, forAll := c.stored(kindTools, "")
			if forAll != (scope == "public") {
				t.Errorf("after a list with the scope %s: there is one for everybody: %v", scope, forAll)
			}
			if _, apart := c.stored(kindTools, serviceCredential); scope == "private" && !apart {
				t.Error("the private list is not shared")
			}
			time.Sleep(10 * time.Minute)
		}
	})
}

// A replica without a list of its own serves what another had when the upstream
// fails, marked, within the bound.
func TestAColdReplicaServesWhatHasExpired(t *testing.T) {
	cluster(t, 1, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0)
		time.Sleep(30 * time.Minute)
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		c.join(nil)
		c.want(`a_one[{"alias":"a","reason":"connect"}]`, 1, 1)
		slow(p, kindTools, time.Minute, func() string { return "" })
		c.join(nil)
		start := time.Now()
		c.want(`a_one[{"alias":"a","reason":"timeout"}]`, 2, 2)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two lists took %v, want the deadline of one", took)
		}
		time.Sleep(time.Hour)
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		c.join(nil)
		_, err := c.all[3].try(c.all[3].callOf("", mcp.MethodToolsList, ""))
		wantCode(t, err, mcp.CodeInternal)
	})
}

// An upstream that goes and comes back may be another server: what the replicas
// share of it goes with it.
func TestAnUpstreamThatGoesIsForgottenByAll(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		conf := c.all[0].conf.Upstreams
		c.want("a_one", 0)
		c.herd(1, mcp.MethodDiscover)
		c.all[0].reconfigure([]tenant.Upstream{}...)
		for _, k := range []kind{kindTools, kindDiscover} {
			if _, ok := c.stored(k, ""); ok {
				t.Errorf("%s is still there", k.method())
			}
		}
		p.list(kindTools, tool("two"))
		c.all[0].reconfigure(conf...)
		c.want("a_two", 0, 1)
	})
}
