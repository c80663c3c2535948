package federation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// Times of a fetch that replicas share.
const (
	fetchLease = 3 * time.Second // how long the right to fetch outlives its holder
	fetchRenew = time.Second
	pollLeast  = 10 * time.Millisecond // between looks for what another replica fetches
	pollMost   = 100 * time.Millisecond
)

// errNotShared tells that the shared state cannot be used: the list is fetched as
// if there were no other replica.
var errNotShared = errors.New("the shared state cannot be used")

// sharedFetch is one fetch of a list that other replicas may have, or fetch at the
// same time. What counts is a list that was stored after the one that is current
// here, and is fresh or was stored since the fetch began: that was fetched for
// others who wanted it at the same time.
type sharedFetch struct {
	slot    *slot
	flight  *flight
	cluster *Cluster
	topic   cache.Topic

	gen     uint64       // the slot's own generation
	topicAt uint64       // the topic's generation
	anew    bool         // the list is wanted as it is from the fetch's beginning on
	after   *cache.Fence // then: of whoever fetched it at that time; nil until that is known
	looked  bool
	first   cache.Entry // what was stored at the first look
	lease   *heldLease
}

// walkShared is walk where replicas share their lists: one of them asks the
// upstream.
func (s *slot) walkShared(ctx context.Context, f *flight) (*segment, error) {
	m := s.member
	w := &sharedFetch{slot: s, flight: f, cluster: m.cluster(), topic: m.topic(s.kind.method())}
	defer w.release(ctx)
	var seg *segment
	for range maxRestarts {
		next, again, err := w.once(ctx)
		if err != nil {
			return nil, err
		}
		if next != nil {
			seg = next
		}
		if !again {
			return seg, nil
		}
	}
	if seg == nil { // there was an invalidation each time before the upstream was asked
		if _, err := w.begin(ctx); err != nil {
			return nil, err
		}
		next, _, err := w.alone(ctx)
		return next, err
	}
	return seg, nil
}

// once fetches the list; again tells that it was invalidated meanwhile.
func (w *sharedFetch) once(ctx context.Context) (seg *segment, again bool, err error) {
	m, k := w.slot.member, w.slot.kind
	known, err := w.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	if k != kindDiscover && !m.offers(ctx, k) {
		seg = m.builder(k).finish()
		seg.gen = w.gen
		return seg, w.outrun(), nil
	}
	gen, err := w.cluster.Lists.Generation(ctx, w.topic)
	if err != nil {
		return w.alone(ctx)
	}
	own, usable, moved := w.slot.learn(gen, known, w.gen)
	switch {
	case moved:
		return nil, true, nil
	case !usable:
		w.gen = own
		return w.alone(ctx)
	}
	w.gen, w.topicAt = own, gen
	switch seg, err = w.fromOthers(ctx); {
	case err == errNotShared:
		return w.alone(ctx)
	case err != nil, seg != nil:
		return seg, false, err
	case w.outrun():
		return nil, true, nil
	}
	return w.ask(ctx)
}

// begin notes what the slot knows and wants, and gives the topic's generation as it
// is known. It waits until this process has raised it.
func (w *sharedFetch) begin(ctx context.Context) (known uint64, err error) {
	s := w.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.shared.raising > 0 {
		raised := s.shared.raised
		s.mu.Unlock()
		select {
		case <-raised:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
	w.gen = s.gen
	w.wishes()
	return s.shared.gen, nil
}

// wishes takes the wishes for a list as it is from now on. The caller holds the
// slot's lock.
func (w *sharedFetch) wishes() {
	if sh := &w.slot.shared; w.flight.honours != sh.wishes {
		w.anew, w.after = w.anew || sh.wishes > sh.granted, nil
		w.flight.honours = sh.wishes
	}
}

// outrun tells whether the list was invalidated since the fetch began.
func (w *sharedFetch) outrun() bool {
	w.slot.mu.Lock()
	defer w.slot.mu.Unlock()
	return w.slot.gen != w.gen
}

// alone asks the upstream without a word to the others.
func (w *sharedFetch) alone(ctx context.Context) (*segment, bool, error) {
	w.asking()
	seg, err := w.slot.member.load(ctx, w.slot.kind)
	if err != nil {
		return nil, false, err
	}
	seg.gen = w.gen
	return seg, w.outrun(), nil
}

// asking notes that the upstream is asked from now on.
func (w *sharedFetch) asking() {
	w.slot.mu.Lock()
	defer w.slot.mu.Unlock()
	w.wishes()
	w.flight.asking = true
}

// fromOthers gives the list that another replica has stored, or fetches now; nil
// when it is for this one to ask the upstream, or the list was invalidated.
func (w *sharedFetch) fromOthers(ctx context.Context) (*segment, error) {
	if !w.anew {
		if seg, err := w.look(ctx); seg != nil || err != nil {
			return seg, err
		}
	}
	for wait := pollLeast; w.lease == nil; wait = min(2*wait, pollMost) {
		free, err := w.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if free {
			if w.anew {
				return nil, nil
			}
			// The one before may have stored it since.
			return w.look(ctx)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if seg, err := w.look(ctx); seg != nil || err != nil || w.outrun() {
			return seg, err
		}
	}
	return nil, nil
}

// look gives the stored list if it counts.
func (w *sharedFetch) look(ctx context.Context) (*segment, error) {
	e, ok, err := w.stored(ctx)
	if err != nil || !ok {
		w.looked = w.looked || err == nil
		return nil, err
	}
	since := w.anew && w.after != nil && w.after.Before(e.Fence)
	if w.looked {
		since = since || later(e, w.first)
	} else {
		w.looked, w.first = true, e
	}
	now := w.slot.member.domain.fed.now()
	if !since && !now.Before(e.Stored.Add(e.TTL)) {
		w.adopt(e, now)
		return nil, nil
	}
	if !w.counts(e) {
		return nil, nil
	}
	seg := w.read(e)
	if seg == nil || !w.counts(e) {
		return nil, nil
	}
	w.slot.mu.Lock()
	defer w.slot.mu.Unlock()
	w.flight.shared = true
	w.flight.stored = !since
	return seg, nil
}

// stored gives the list that is stored: of the public and the private one that
// which was fetched later.
func (w *sharedFetch) stored(ctx context.Context) (e cache.Entry, ok bool, err error) {
	for _, credential := range []string{"", serviceCredential} {
		one, there, err := w.cluster.Lists.Get(ctx, cache.Key{Topic: w.topic, Credential: credential})
		if err != nil {
			return e, false, errNotShared
		}
		if there && (!ok || later(one, e)) {
			e, ok = one, true
		}
	}
	return e, ok, nil
}

// later tells whether a was fetched after b.
func later(a, b cache.Entry) bool {
	if a.Fence.Epoch == b.Fence.Epoch {
		return a.Fence.N > b.Fence.N
	}
	return a.Stored.After(b.Stored)
}

// counts tells whether what is stored may take the place of the current list.
func (w *sharedFetch) counts(e cache.Entry) bool {
	s := w.slot
	s.mu.Lock()
	defer s.mu.Unlock()
	w.wishes()
	cur := s.cur.Load()
	switch {
	case s.gen != w.gen, s.shared.barred:
		return false
	case w.anew && (w.after == nil || !w.after.Before(e.Fence)):
		return false
	case s.shared.floor != cache.Fence{} && e.Fence.Before(s.shared.floor):
		return false
	}
	return cur == nil || later(e, cache.Entry{Fence: cur.fence, Stored: cur.fetched})
}

// read makes the segment of what is stored; nil when it cannot be read, which is as
// if it were not there.
func (w *sharedFetch) read(e cache.Entry) *segment {
	m, s := w.slot.member, w.slot
	seg, err := m.segmentOf(s.kind, e)
	s.mu.Lock()
	logged := s.shared.unreadable
	s.shared.unreadable = err != nil
	s.mu.Unlock()
	if err != nil {
		if !logged {
			m.domain.log.Warn("read a shared list", "upstream", m.conf.Alias, "method", s.kind.method(), "error", err)
		}
		return nil
	}
	seg.gen = w.gen
	return seg
}

// adopt makes a list that has expired the current one where there is none, for
// those who get it while the upstream is asked or cannot be.
func (w *sharedFetch) adopt(e cache.Entry, now time.Time) {
	s := w.slot
	usable := s.kind == kindDiscover || now.Before(e.Stored.Add(e.TTL).Add(s.member.staleIfError()))
	if !usable || s.cur.Load() != nil || !w.counts(e) {
		return
	}
	if seg := w.read(e); seg != nil {
		s.adopt(seg)
		s.member.counted(seg)
	}
}

// acquire takes the right to ask the upstream; false when another replica has it.
func (w *sharedFetch) acquire(ctx context.Context) (bool, error) {
	l, ok, err := w.cluster.Leases.Acquire(ctx, w.scope(), w.leaseName(), w.cluster.Replica, fetchLease)
	if err != nil {
		return false, errNotShared
	}
	if ok {
		w.lease = hold(ctx, w.cluster.Leases, l)
		return true, nil
	}
	w.slot.mu.Lock()
	defer w.slot.mu.Unlock()
	w.wishes()
	if w.anew && w.after == nil {
		w.after = &l.Fence
	}
	return false, nil
}

func (w *sharedFetch) scope() cache.Scope {
	return cache.Scope{Tenant: w.topic.Tenant, Upstream: w.topic.Upstream}
}

// leaseName is what the right to fetch the list is called. Those of a tenant's
// users who had a credential of their own would each have one.
func (w *sharedFetch) leaseName() string { return "fetch " + w.topic.Method + " " + w.topic.Version }

// ask asks the upstream, and stores what it answers for the others.
func (w *sharedFetch) ask(ctx context.Context) (seg *segment, again bool, err error) {
	s := w.slot
	w.asking()
	seg, pages, err := s.member.loadAll(ctx, s.kind)
	if err != nil {
		return nil, false, err
	}
	seg.gen, seg.fence = w.gen, w.lease.Fence
	s.mu.Lock()
	if floor := &s.shared.floor; floor.Epoch != 0 && floor.Epoch != seg.fence.Epoch {
		// The store has lost all: no fence is after that one any more.
		*floor = seg.fence
	}
	s.mu.Unlock()
	if !w.outrun() && w.lease.held(ctx) && !w.store(ctx, seg, pages) {
		return seg, true, nil
	}
	return seg, w.outrun(), nil
}

// store stores a list for the others; false when it was invalidated meanwhile.
func (w *sharedFetch) store(ctx context.Context, seg *segment, pages [][]byte) bool {
	m, lists := w.slot.member, w.cluster.Lists
	e := cache.Entry{
		Body: appendPages(nil, pages), Stored: seg.fetched, TTL: seg.ttl, Keep: max(m.staleIfError(), fetchLease),
		Public: seg.public, Fence: seg.fence,
	}
	key := cache.Key{Topic: w.topic}
	if !seg.public {
		// What was public and became private must not stay for everybody.
		if err := lists.Delete(ctx, key); err != nil {
			return true // the store fails: nothing is shared
		}
		key.Credential = serviceCredential
	}
	stored, err := lists.Put(ctx, key, e, w.topicAt)
	if err != nil || stored {
		return true
	}
	// It may also be too large to be stored.
	gen, err := lists.Generation(ctx, w.topic)
	return err != nil || gen == w.topicAt
}

// release gives the right to fetch back.
func (w *sharedFetch) release(ctx context.Context) {
	if w.lease != nil {
		w.lease.release(ctx)
	}
}

// heldLease is a lease that is renewed until it is released.
type heldLease struct {
	cache.Lease
	leases cache.Leases
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	lost    bool
	renewed time.Time
}

func hold(ctx context.Context, leases cache.Leases, l cache.Lease) *heldLease {
	h := &heldLease{Lease: l, leases: leases, renewed: time.Now()}
	//nolint:gosec // the cancel function is kept and called by release
	ctx, h.cancel = context.WithCancel(ctx)
	h.work.Go(func() {
		tick := time.NewTicker(fetchRenew)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				h.renew(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return h
}

// renew makes the lease last, and tells whether it is held. A store that fails
// decides nothing.
func (h *heldLease) renew(ctx context.Context) bool {
	began := time.Now()
	ok, err := h.leases.Renew(ctx, h.Lease, fetchLease)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		return false
	case ok:
		h.renewed = began
	default:
		h.lost = true
	}
	return !h.lost
}

// held tells whether nobody else can have the lease: what a process writes that was
// suspended for long must not take the place of newer things.
func (h *heldLease) held(ctx context.Context) bool {
	h.mu.Lock()
	lost, renewed := h.lost, h.renewed
	h.mu.Unlock()
	return !lost && (time.Since(renewed) < fetchLease/2 || h.renew(ctx))
}

// release gives the lease back.
func (h *heldLease) release(ctx context.Context) {
	h.cancel()
	h.work.Wait()
	// The others are not kept waiting by a process that ends. If this fails, they
	// wait until the lease is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLease)
	defer cancel()
	_ = h.leases.Release(ctx, h.Lease)
}
