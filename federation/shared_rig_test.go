package federation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// replicas are several Federations that share their lists, in front of the same
// fakes.
type replicas struct {
	t      *testing.T
	all    []*rig
	links  []*link // of each to what is shared
	lists  *cache.Memory
	leases *cache.MemoryShared
	doers  map[string]upstream.Doer
	stops  []func()
}

// cluster runs a test of n replicas in front of one fake upstream, a, in a bubble.
func cluster(t *testing.T, n int, test func(t *testing.T, p *fake, c *replicas)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("one"))
		p.listens("")
		c := newReplicas(t, n, fakes(map[string]*fake{"a": p}))
		defer c.stop()
		test(t, p, c)
	})
}

func newReplicas(t *testing.T, n int, doers map[string]upstream.Doer) *replicas {
	t.Helper()
	c := &replicas{t: t, lists: cache.NewMemory(0), leases: cache.NewShared(), doers: doers}
	for range n {
		c.join(nil)
	}
	return c
}

// join starts one more replica.
func (c *replicas) join(change func(*Options)) *rig {
	c.t.Helper()
	l := newLink(c.lists, c.leases)
	r, stop := newFakeRig(c.t, c.doers, func(o *Options) {
		o.Cluster = &Cluster{
			Replica: fmt.Sprint("replica ", len(c.all)), Lists: l, Leases: linkLeases{l}, Boards: c.leases, Bus: c.leases,
		}
		if change != nil {
			change(o)
		}
	})
	c.all, c.links, c.stops = append(c.all, r), append(c.links, l), append(c.stops, stop)
	return r
}

func (c *replicas) stop() {
	for _, stop := range c.stops {
		stop()
	}
}

// member gives the member a of a replica.
func (c *replicas) member(i int) *member { return c.all[i].load(c.t).member("a") }

// tools gives the names of the tools that a replica lists, and what it marks.
func (c *replicas) tools(i int) string {
	c.t.Helper()
	got, partial := c.all[i].listed("", kindTools)
	return strings.Join(got, ",") + partial
}

// want lists the tools on some replicas.
func (c *replicas) want(want string, on ...int) {
	c.t.Helper()
	for _, i := range on {
		if got := c.tools(i); got != want {
			c.t.Errorf("replica %d lists %q, want %q", i, got, want)
		}
	}
}

// asked checks how often the upstream was asked for its tools since the last time.
func asked(t *testing.T, p *fake, want int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := p.asked[mcp.MethodToolsList]; got != want {
		t.Errorf("the upstream was asked %d times, want %d", got, want)
	}
	p.asked[mcp.MethodToolsList] = 0
}

// toolsTopic is the topic of the tools of a.
var toolsTopic = cache.Topic{Tenant: "default", Upstream: "a", Version: "1", Method: mcp.MethodToolsList}

// stored gives what the replicas share of a list of a.
func (c *replicas) stored(k kind, credential string) (cache.Entry, bool) {
	c.t.Helper()
	topic := toolsTopic
	topic.Method = k.method()
	e, ok, err := c.lists.Get(c.t.Context(), cache.Key{Topic: topic, Credential: credential})
	if err != nil {
		c.t.Fatal(err)
	}
	return e, ok
}

// outcomes gives how often the lists of tools of a replica were hits, stale and
// misses.
func outcomes(t *testing.T, r *rig) string {
	t.Helper()
	return fmt.Sprint(counterOf(t, r, "hit"), counterOf(t, r, "stale"), counterOf(t, r, "miss"))
}

func counterOf(t *testing.T, r *rig, outcome string) float64 {
	t.Helper()
	families, err := registryOf(r.fed).Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := prometheus.Labels{"method": mcp.MethodToolsList, "outcome": outcome}
	for _, mf := range families {
		if mf.GetName() != "causeway_cache_requests_total" {
			continue
		}
		for _, m := range mf.GetMetric() {
			got := prometheus.Labels{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			if maps.Equal(got, want) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// link is one replica's way to what is shared, which may be cut. As a back end has
// to, it keeps the invalidations that it could not write, uses nothing of their
// topics until it has written them, and looks at the generations that it knows
// after a time in which it heard nothing.
type link struct {
	inner  cache.Responses
	leases cache.Leases

	mu       sync.Mutex
	cut      bool // neither lists nor leases
	noLeases bool
	deaf     bool          // what changes is not told
	forgets  bool          // invalidations that cannot be written are not kept
	lag      time.Duration // of each call, one half on either way
	slowly   time.Duration // of each invalidation, on the way there
	owed     []cache.Topic
	known    map[cache.Topic]uint64
	follow   map[int]func(cache.Change)
	last     int
	calls    int
}

var errCut = errors.New("cannot be reached")

func newLink(inner cache.Responses, leases cache.Leases) *link {
	return &link{inner: inner, leases: leases, known: map[cache.Topic]uint64{}, follow: map[int]func(cache.Change){}}
}

// try tells whether the topic can be used.
func (l *link) try(t cache.Topic) error {
	l.wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.cut || slices.Contains(l.owed, t) {
		return errCut
	}
	return nil
}

func (l *link) wait() {
	l.mu.Lock()
	lag := l.lag
	l.mu.Unlock()
	if lag > 0 {
		time.Sleep(lag / 2)
	}
}

func (l *link) note(t cache.Topic, gen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[t] = max(l.known[t], gen)
}

// Generation and the others implement cache.Responses.
func (l *link) Generation(ctx context.Context, t cache.Topic) (uint64, error) {
	if err := l.try(t); err != nil {
		return 0, err
	}
	gen, err := l.inner.Generation(ctx, t)
	l.note(t, gen)
	l.wait()
	return gen, err
}

func (l *link) Invalidate(ctx context.Context, t cache.Topic, param string) (uint64, error) {
	l.mu.Lock()
	slowly, cut := l.slowly, l.cut
	l.mu.Unlock()
	if slowly > 0 {
		time.Sleep(slowly)
	}
	if err := l.try(t); err != nil || cut {
		l.set(func(l *link) {
			if !l.forgets {
				l.owed = append(l.owed, t)
			}
		})
		return 0, errCut
	}
	gen, err := l.inner.Invalidate(ctx, t, param)
	l.note(t, gen)
	l.wait()
	return gen, err
}

func (l *link) Get(ctx context.Context, k cache.Key) (cache.Entry, bool, error) {
	if err := l.try(k.Topic); err != nil {
		return cache.Entry{}, false, err
	}
	defer l.wait()
	return l.inner.Get(ctx, k)
}

func (l *link) Put(ctx context.Context, k cache.Key, e cache.Entry, gen uint64) (bool, error) {
	if err := l.try(k.Topic); err != nil {
		return false, err
	}
	defer l.wait()
	return l.inner.Put(ctx, k, e, gen)
}

func (l *link) Delete(ctx context.Context, k cache.Key) error {
	if err := l.try(k.Topic); err != nil {
		return err
	}
	return l.inner.Delete(ctx, k)
}

func (l *link) Follow(tenant string, changed func(cache.Change)) (stop func()) {
	end := l.inner.Follow(tenant, func(c cache.Change) {
		l.mu.Lock()
		cut := l.cut || l.deaf
		if !cut {
			l.known[c.Topic] = max(l.known[c.Topic], c.Gen)
		}
		l.mu.Unlock()
		if !cut {
			changed(c)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	id := l.last
	l.follow[id] = changed
	return func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.follow, id)
	}
}

// tell tells of a change that nobody else hears of.
func (l *link) tell(c cache.Change) {
	l.mu.Lock()
	follow := slices.Collect(maps.Values(l.follow))
	l.mu.Unlock()
	for _, changed := range follow {
		changed(c)
	}
}

// set changes what the link does.
func (l *link) set(change func(l *link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// sever cuts the link.
func (l *link) sever() { l.set(func(l *link) { l.cut = true }) }

// state tells whether the link is cut, or deaf.
func (l *link) state() (cut, deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.deaf
}

// heal ends what sever began, and deafness.
func (l *link) heal(t *testing.T) {
	l.mu.Lock()
	owed := l.owed
	l.cut, l.deaf = false, false
	known := maps.Clone(l.known)
	l.mu.Unlock()
	for _, topic := range owed {
		if _, err := l.inner.Invalidate(t.Context(), topic, ""); err != nil {
			t.Error(err)
		}
	}
	l.mu.Lock()
	l.owed = nil
	l.mu.Unlock()
	for topic, before := range known {
		gen, err := l.inner.Generation(t.Context(), topic)
		if err != nil {
			t.Error(err)
		}
		if gen != before {
			l.tell(cache.Change{Topic: topic, Gen: gen})
		}
	}
}

// linkLeases are the leases behind a link.
type linkLeases struct{ *link }

func (l linkLeases) try() error {
	l.wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.cut || l.noLeases {
		return errCut
	}
	return nil
}

// Acquire and the others implement cache.Leases.
func (l linkLeases) Acquire(ctx context.Context, s cache.Scope, name, holder string, ttl time.Duration) (cache.Lease, bool, error) {
	if err := l.try(); err != nil {
		return cache.Lease{}, false, err
	}
	return l.leases.Acquire(ctx, s, name, holder, ttl)
}

func (l linkLeases) Renew(ctx context.Context, held cache.Lease, ttl time.Duration) (bool, error) {
	if err := l.try(); err != nil {
		return false, err
	}
	return l.leases.Renew(ctx, held, ttl)
}

func (l linkLeases) Release(ctx context.Context, held cache.Lease) error {
	if err := l.try(); err != nil {
		return err
	}
	return l.leases.Release(ctx, held)
}

func (l linkLeases) Draw(ctx context.Context, s cache.Scope) (cache.Fence, error) {
	if err := l.try(); err != nil {
		return cache.Fence{}, err
	}
	return l.leases.Draw(ctx, s)
}

var (
	_ cache.Responses = (*link)(nil)
	_ cache.Leases    = linkLeases{}
)
