package federation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// scopeOfA is the scope of the upstream a.
var scopeOfA = cache.Scope{Tenant: "default", Upstream: "a"}

// take has somebody else hold the right to fetch the tools of a.
func (c *replicas) take(ttl time.Duration) cache.Lease {
	c.t.Helper()
	l, ok, err := c.leases.Acquire(c.t.Context(), scopeOfA, (&sharedFetch{topic: toolsTopic}).leaseName(), "somebody", ttl)
	if err != nil || !ok {
		c.t.Fatalf("acquire: %v, %v", ok, err)
	}
	return l
}

// When the replica that fetches dies, another one goes on as soon as its lease is
// over. Until then the upstream is pending, as one that is slow.
func TestAReplicaThatFetchesDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("one"))
		b.list(kindTools, tool("two"))
		c := newReplicas(t, 2, fakes(map[string]*fake{"a": a, "b": b}))
		defer c.stop()
		c.take(fetchLease)
		start := time.Now()
		c.want(`b_two[{"alias":"a","reason":"timeout"}]`, 0, 0)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two lists took %v, want the deadline of one", took)
		}
		asked(t, a, 0)
		time.Sleep(2 * time.Second)
		c.want("a_one,b_two", 0, 1)
		asked(t, a, 1)
	})
}

// When a fetch fails, the others try as well, one after the other.
func TestAFetchThatFailsIsTriedByTheOthers(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		var mu sync.Mutex
		n, now, most := 0, 0, 0
		p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
			mu.Lock()
			n++
			now++
			most = max(most, now)
			last := n == 3
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			if last {
				return says(200, resultFor(m, listResult(kindTools, 60000, tool("one")))), nil
			}
			return nil, &upstream.Error{Alias: "a", Class: upstream.ClassConnect}
		})
		var wg sync.WaitGroup
		var good []string
		for _, r := range c.all {
			wg.Go(func() {
				body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					good = append(good, body)
				}
			})
		}
		wg.Wait()
		if len(good) != 1 || n != 3 || most != 1 {
			t.Errorf("%d lists could be had after %d requests, %d at the same time; want 1, 3, 1", len(good), n, most)
		}
	})
}

// What another replica has stored between the look at it and the right to fetch is
// not fetched again.
func TestAListThatIsStoredBeforeTheRightToFetchIsHad(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		c.links[1].set(func(l *link) { l.lag = 200 * time.Millisecond })
		var wg sync.WaitGroup
		wg.Go(func() { c.want("a_one", 1) })
		// By then it has looked, in two calls, for what is stored.
		time.Sleep(650 * time.Millisecond)
		c.want("a_one", 0)
		wg.Wait()
		asked(t, p, 1)
	})
}

// A replica that ends while it fetches keeps nobody waiting.
func TestAReplicaThatEndsWhileItFetches(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		slow(p, kindTools, time.Minute, func() string { return "" })
		go func() { _, _ = c.all[0].try(c.all[0].callOf("", mcp.MethodToolsList, "")) }()
		time.Sleep(time.Second)
		p.list(kindTools, tool("one"))
		c.stops[0]()
		c.stops[0] = func() {}
		start := time.Now()
		c.want("a_one", 1)
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("the list took %v", took)
		}
	})
}

// A replica that was suspended stores nothing in the place of what another one has
// fetched since.
func TestAReplicaThatHasLostItsLeaseStoresNothing(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		slow(p, kindTools, 10*time.Second, func() string { return listResult(kindTools, 60000, tool("old")) })
		go func() { _, _ = c.all[0].try(c.all[0].callOf("", mcp.MethodToolsList, "")) }()
		time.Sleep(time.Second)
		c.links[0].sever() // so that it renews nothing
		p.list(kindTools, tool("new"))
		time.Sleep(4 * time.Second)
		c.want("a_new", 1)
		c.links[0].heal(t)
		time.Sleep(10 * time.Second)
		if e, ok := c.stored(kindTools, ""); !ok || !strings.Contains(string(e.Body), `"new"`) {
			t.Errorf("what is stored: %s", e.Body)
		}
		time.Sleep(10 * time.Minute)
		c.want("a_new", 0, 1)
	})
}

// While the lists cannot be shared each replica asks for itself, without waiting,
// and stores nothing; afterwards they are shared again.
func TestListsThatCannotBeShared(t *testing.T) {
	for _, tt := range []struct {
		name string
		cut  func(l *link, yes bool)
	}{
		{"nothing can be reached", func(l *link, yes bool) { l.cut = yes }},
		{"leases cannot be had", func(l *link, yes bool) { l.noLeases = yes }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
				cut := func(yes bool) {
					for _, l := range c.links {
						l.mu.Lock()
						tt.cut(l, yes)
						l.mu.Unlock()
					}
				}
				cut(true)
				c.take(time.Hour) // which they would have to wait for
				start := time.Now()
				c.want("a_one", 0, 1)
				if took := time.Since(start); took != 0 {
					t.Errorf("the lists took %v", took)
				}
				asked(t, p, 2)
				for i, l := range c.links {
					// Lists of a herd that is folded in front cost no calls either.
					if l.calls > 8 {
						t.Errorf("replica %d called %d times what it cannot reach", i, l.calls)
					}
				}
				if _, ok := c.stored(kindTools, ""); ok {
					t.Error("something was stored")
				}
				cut(false)
				time.Sleep(2 * time.Hour)
				c.want("a_one", 0, 1)
				asked(t, p, 1)
			})
		})
	}
}

// An announcement that cannot be passed on: here the list is read anew, and what is
// stored counts again only when the others know.
func TestAnAnnouncementThatCannotBePassedOn(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1)
		p.list(kindTools, tool("two"))
		c.links[0].sever()
		c.member(0).invalidate(t.Context(), kindTools)
		c.want("a_two", 0)
		c.want("a_one", 1) // which nobody could tell
		time.Sleep(time.Second)
		c.links[0].heal(t)
		c.want("a_two", 1, 0)
		asked(t, p, 3)
		if _, ok := c.stored(kindTools, ""); !ok {
			t.Error("lists are not shared any more")
		}
	})
}

// A change that could not be written down makes what is stored useless until the
// generation has moved.
func TestAChangeThatCouldNotBeWrittenDown(t *testing.T) {
	cluster(t, 3, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0, 1)
		asked(t, p, 1)
		p.list(kindTools, tool("two"))
		for i := range c.all[1:] {
			c.member(1 + i)
			c.links[1+i].tell(cache.Change{Topic: toolsTopic})
		}
		c.want("a_two", 1, 2, 2)
		asked(t, p, 2)
		time.Sleep(10 * time.Minute)
		c.want("a_two", 1, 2)
		asked(t, p, 2)
		time.Sleep(time.Second)
		if _, err := c.lists.Invalidate(t.Context(), toolsTopic, ""); err != nil {
			t.Fatal(err)
		}
		c.want("a_two", 0, 1, 2)
		asked(t, p, 1)
	})
}

// While an announcement is passed on, and when that failed, what is stored does not
// count, and neither does what is known.
func TestAnAnnouncementThatIsBeingPassedOn(t *testing.T) {
	for _, fails := range []bool{false, true} {
		cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
			c.want("a_one", 0)
			asked(t, p, 1)
			p.list(kindTools, tool("two"))
			m, l := c.member(1), c.links[1]
			l.set(func(l *link) { l.slowly, l.cut = time.Second, fails })
			var wg sync.WaitGroup
			wg.Go(func() { m.invalidate(t.Context(), kindTools) })
			time.Sleep(100 * time.Millisecond)
			l.set(func(l *link) { l.cut = false })
			if fails {
				l.set(func(l *link) { l.forgets = true })
			}
			c.want("a_two", 1)
			wg.Wait()
			asked(t, p, 1)
			if fails {
				time.Sleep(10 * time.Minute)
				c.member(1).slots[kindTools].cur.Store(nil)
				c.want("a_two", 1)
				asked(t, p, 1)
			}
		})
	}
}

// A generation that a fetch finds moved, of which nobody told, counts from then on.
func TestAGenerationThatNobodyToldOf(t *testing.T) {
	cluster(t, 2, func(t *testing.T, p *fake, c *replicas) {
		p.result(mcp.MethodToolsList, listResult(kindTools, 1000, tool("one")))
		c.want("a_one", 0, 1)
		c.links[1].set(func(l *link) { l.deaf = true })
		slow(p, kindTools, time.Second, func() string { return listResult(kindTools, 1000, tool("two")) })
		c.member(0).invalidate(t.Context(), kindTools)
		time.Sleep(2 * time.Second)
		c.want("a_one", 1) // expired, as far as it knows
		time.Sleep(100 * time.Millisecond)
		c.want("a_two", 1)
	})
}

// lossy is a store whose generations begin anew, lower than before.
type lossy struct {
	cache.Responses
	gen uint64
}

func (l *lossy) Generation(ctx context.Context, t cache.Topic) (uint64, error) {
	if l.gen != 0 {
		return l.gen, nil
	}
	return l.Responses.Generation(ctx, t)
}

func (l *lossy) Put(ctx context.Context, k cache.Key, e cache.Entry, gen uint64) (bool, error) {
	now, err := l.Responses.Generation(ctx, k.Topic)
	if err != nil || gen != l.gen {
		return false, err
	}
	return l.Responses.Put(ctx, k, e, now)
}

// Generations that are lower than before do not keep lists from being fresh.
func TestAStoreWhoseGenerationsBeginAnew(t *testing.T) {
	cluster(t, 1, func(t *testing.T, p *fake, c *replicas) {
		c.want("a_one", 0)
		store := &lossy{Responses: c.lists, gen: 1}
		c.links[0].inner = store
		m := c.member(0)
		m.invalidated(kindTools, 1000, false)
		p.list(kindTools, tool("two"))
		for range 3 {
			c.want("a_two", 0)
		}
		asked(t, p, 2)
		time.Sleep(10 * time.Minute)
		store.gen = 2
		c.want("a_two", 0, 0)
		asked(t, p, 1)
	})
}

// A list that is too large to be stored is asked for once by each replica, and not
// again and again.
func TestAListThatIsTooLargeToBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, benchTools(100)...)
		c := &replicas{t: t, lists: cache.NewMemory(8 << 10), leases: cache.NewShared(), doers: fakes(map[string]*fake{"a": p})}
		c.join(nil)
		c.join(nil)
		defer c.stop()
		for i := range c.all {
			if got, partial := c.all[i].listed("", kindTools); len(got) != 100 || partial != "" {
				t.Errorf("replica %d lists %d tools, partial %s", i, len(got), partial)
			}
		}
		asked(t, p, 2)
	})
}

// What another version or a broken store has left is as if it were not there, and
// logged once.
func TestStoredListsThatCannotBeRead(t *testing.T) {
	good := appendPages(nil, [][]byte{[]byte(`{"jsonrpc":"2.0","id":1,"result":` + listResult(kindTools, 60000, tool("old")) + `}`)})
	for _, tt := range []struct {
		name string
		body []byte
	}{
		{"nothing", nil},
		{"another version", append([]byte{pagesVersion + 1}, good[1:]...)},
		{"cut", good[:len(good)-1]},
		{"no JSON", appendPages(nil, [][]byte{[]byte("no JSON")})},
		{"an error", appendPages(nil, [][]byte{[]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}`)})},
		{"another list", appendPages(nil, [][]byte{[]byte(`{"jsonrpc":"2.0","id":1,"result":` + listResult(kindPrompts, 60000) + `}`)})},
		{"too many pages", appendPages(nil, slices.Repeat([][]byte{[]byte(`{"jsonrpc":"2.0","id":1,"result":` + listResult(kindTools, 60000) + `}`)}, 11))},
		{"too many items", appendPages(nil, [][]byte{[]byte(`{"jsonrpc":"2.0","id":1,"result":` + listResult(kindTools, 60000, benchTools(51)...) + `}`)})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFake(t)
				p.list(kindTools, tool("one"))
				c := newReplicas(t, 0, fakes(map[string]*fake{"a": p}))
				r := c.join(func(o *Options) { o.Limits.MaxPages, o.Limits.MaxItems = 10, 50 })
				defer c.stop()
				c.lists = c.links[0].inner.(*cache.Memory)
				for range 3 {
					gen, err := c.lists.Generation(t.Context(), toolsTopic)
					if err != nil {
						t.Fatal(err)
					}
					fence, err := c.leases.Draw(t.Context(), scopeOfA)
					if err != nil {
						t.Fatal(err)
					}
					e := cache.Entry{Body: tt.body, Stored: time.Now(), TTL: time.Minute, Keep: time.Hour, Public: true, Fence: fence}
					if ok, err := c.lists.Put(t.Context(), cache.Key{Topic: toolsTopic}, e, gen); !ok || err != nil {
						t.Fatal(ok, err)
					}
					if _, err := c.member(0).refresh(t.Context(), kindTools); err != nil {
						t.Error(err)
					}
				}
				c.want("a_one", 0)
				asked(t, p, 3)
				if n := strings.Count(r.log.String(), "read a shared list"); n != 1 {
					t.Errorf("it was logged %d times, want once:\n%s", n, r.log)
				}
			})
		})
	}
}
