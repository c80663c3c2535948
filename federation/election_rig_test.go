package federation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// group are several Federations in front of one fake upstream, a, that share
// their state.
type group struct {
	t     *testing.T
	p     *fake
	links []*line
	rigs  []*rig
	stops []func()
}

// cluster runs a test with n group in a bubble.
func grouped(t *testing.T, n int, test func(t *testing.T, c *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newGroup(t, n, nil)
		defer c.stop()
		test(t, c)
	})
}

func newGroup(t *testing.T, n int, change func(*Options)) *group {
	t.Helper()
	c := &group{t: t, p: newFake(t)}
	c.p.list(kindTools, tool("one"))
	c.p.listens("")
	shared, reads, lists := cache.NewShared(), cache.NewMemory(0), cache.NewMemory(0)
	for i := range n {
		l := newLine(shared)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": c.p}), func(o *Options) {
			o.Cache = reads
			o.Cluster = &Cluster{Replica: fmt.Sprintf("r%d", i), Lists: &linedLists{lists, l}, Leases: l, Boards: l, Bus: l}
			if change != nil {
				change(o)
			}
		})
		c.links, c.rigs, c.stops = append(c.links, l), append(c.rigs, r), append(c.stops, stop)
	}
	return c
}

// stop ends those that have not ended.
func (c *group) stop() {
	for i := range c.stops {
		c.end(i)
	}
}

// end ends a replica gracefully.
func (c *group) end(i int) {
	c.links[i].thaw()
	c.stops[i]()
	c.stops[i] = func() {}
}

// listed has all group know a list.
func (c *group) listed(alias string, k kind) {
	c.t.Helper()
	for _, r := range c.rigs {
		r.listed(alias, k)
	}
}

// open opens a listen stream on each replica.
func (c *group) open(t *testing.T, filter string) []*Subscription {
	t.Helper()
	var subs []*Subscription
	for _, r := range c.rigs {
		subs = append(subs, r.open(t, filter))
	}
	return subs
}

// listener is a replica's listener of the upstream; nil when it has none.
func (c *group) listener(i int) *listener {
	f := c.rigs[i].fed
	f.mu.Lock()
	d := f.domains["default"]
	f.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.hub.listenerOf("a", "1")
}

// holder is the one that listens for all.
func (c *group) holder() int {
	c.t.Helper()
	found := -1
	for i := range c.rigs {
		if l := c.listener(i); l != nil && l.election.is(holder) {
			if found >= 0 {
				c.t.Fatal("several group listen for all")
			}
			found = i
		}
	}
	if found < 0 {
		c.t.Fatal("no replica listens for all")
	}
	return found
}

// received gives what has come on a stream.
func received(t *testing.T, s *Subscription) []string {
	t.Helper()
	var got []string
	for {
		msg, open := s.Next()
		switch {
		case msg != nil:
			got = append(got, string(msg))
		case !open:
			t.Fatal("a stream has ended")
		default:
			return got
		}
	}
}

// clearAll forgets what has come.
func clearAll(t *testing.T, subs []*Subscription) {
	t.Helper()
	for _, s := range subs {
		if s != nil {
			received(t, s)
		}
	}
}

// line is one replica's way to what all share. It can be cut, or its use be held up
// as that of a process that is suspended.
type line struct {
	*cache.MemoryShared

	mu     sync.Mutex
	cut    bool
	deaf   bool // messages that come are lost
	frozen chan struct{}
	subs   map[*func([]byte, bool)]struct{}
}

func newLine(shared *cache.MemoryShared) *line {
	return &line{MemoryShared: shared, subs: map[*func([]byte, bool)]struct{}{}}
}

var errNoLine = errors.New("the shared state is gone")

// pass waits while the replica is suspended, and fails while it is cut off.
func (l *line) pass() error {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errNoLine
	}
	return nil
}

func (l *line) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = make(chan struct{})
}

func (l *line) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		close(l.frozen)
		l.frozen = nil
	}
}

// setCut cuts the replica off, or connects it again, which its subscriptions are told.
func (l *line) setCut(cut bool) {
	l.mu.Lock()
	l.cut = cut
	l.mu.Unlock()
	if !cut {
		l.gap()
	}
}

// setDeaf has messages be lost; when it ends, that is told.
func (l *line) setDeaf(deaf bool) {
	l.mu.Lock()
	l.deaf = deaf
	l.mu.Unlock()
	if !deaf {
		l.gap()
	}
}

func (l *line) gap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for receive := range l.subs {
		(*receive)(nil, true)
	}
}

func (l *line) Acquire(ctx context.Context, s cache.Scope, name, holder string, ttl time.Duration) (cache.Lease, bool, error) {
	if err := l.pass(); err != nil {
		return cache.Lease{}, false, err
	}
	return l.MemoryShared.Acquire(ctx, s, name, holder, ttl)
}

func (l *line) Renew(ctx context.Context, lease cache.Lease, ttl time.Duration) (bool, error) {
	if err := l.pass(); err != nil {
		return false, err
	}
	return l.MemoryShared.Renew(ctx, lease, ttl)
}

func (l *line) Release(ctx context.Context, lease cache.Lease) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.MemoryShared.Release(ctx, lease)
}

func (l *line) Draw(ctx context.Context, s cache.Scope) (cache.Fence, error) {
	if err := l.pass(); err != nil {
		return cache.Fence{}, err
	}
	return l.MemoryShared.Draw(ctx, s)
}

func (l *line) Post(ctx context.Context, s cache.Scope, board, field string, value []byte, ttl time.Duration) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.MemoryShared.Post(ctx, s, board, field, value, ttl)
}

func (l *line) Read(ctx context.Context, s cache.Scope, board string) (map[string][]byte, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.MemoryShared.Read(ctx, s, board)
}

func (l *line) Publish(ctx context.Context, channel string, body []byte) error {
	if err := l.pass(); err != nil {
		return err
	}
	return l.MemoryShared.Publish(ctx, channel, body)
}

func (l *line) Subscribe(channel string, receive func([]byte, bool)) (stop func()) {
	l.mu.Lock()
	l.subs[&receive] = struct{}{}
	l.mu.Unlock()
	end := l.MemoryShared.Subscribe(channel, func(body []byte, gap bool) {
		l.mu.Lock()
		lost := l.cut || l.deaf
		l.mu.Unlock()
		if !lost {
			receive(body, gap)
		}
	})
	return func() {
		end()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subs, &receive)
	}
}

// linedLists are the shared lists as a replica has them.
type linedLists struct {
	*cache.Memory
	line *line
}

func (s *linedLists) Generation(ctx context.Context, t cache.Topic) (uint64, error) {
	if err := s.line.pass(); err != nil {
		return 0, err
	}
	return s.Memory.Generation(ctx, t)
}

func (s *linedLists) Invalidate(ctx context.Context, t cache.Topic, param string) (uint64, error) {
	if err := s.line.pass(); err != nil {
		return 0, err
	}
	return s.Memory.Invalidate(ctx, t, param)
}

func (s *linedLists) Get(ctx context.Context, k cache.Key) (cache.Entry, bool, error) {
	if err := s.line.pass(); err != nil {
		return cache.Entry{}, false, err
	}
	return s.Memory.Get(ctx, k)
}

func (s *linedLists) Put(ctx context.Context, k cache.Key, e cache.Entry, gen uint64) (bool, error) {
	if err := s.line.pass(); err != nil {
		return false, err
	}
	return s.Memory.Put(ctx, k, e, gen)
}
