package federation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
)

// slot keeps one kind of list of one member fresh.
type slot struct {
	member *member
	kind   kind

	// cur is the last good list; nil when there is none, or when it is too old to
	// be shown. It is set under the hub's lock and the slot's own, in this order,
	// so that the hub knows of each change that its digests show.
	cur atomic.Pointer[segment]

	mu     sync.Mutex
	gen    uint64  // counts invalidations in this process
	flight *flight // the fetch under way
	late   bool    // a deadline was missed, and there has been no answer since
	missed bool    // a list was served without cur, or an upstream told of a change before it was there
	err    error   // of the last fetch; nil after a good one
	told   bool    // the upstream announced a change, and there has been no good fetch since

	reading bool      // it is read until it could be had
	due     time.Time // from when on that reading counts

	shared sharing
}

// flight is one fetch that callers fold into.
type flight struct {
	begun time.Time
	done  chan struct{} // closed when seg and err are set
	seg   *segment
	err   error

	// With a Cluster, guarded by the slot:
	asking  bool   // the upstream is asked, not what others have stored
	stored  bool   // it came from what others had stored before it began
	shared  bool   // it came from another replica
	honours uint64 // the wishes that it makes true
}

// known gives the member's current segment without waiting; nil when there is
// none. It may be stale or invalidated.
func (m *member) known(k kind) *segment { return m.slots[k].cur.Load() }

// refresh fetches the list, folded with a fetch that is under way, and waits for
// it within ctx. A fetch that an invalidation overtakes starts again by itself.
func (m *member) refresh(ctx context.Context, k kind) (*segment, error) {
	s := &m.slots[k]
	s.mu.Lock()
	f := s.fetch()
	s.mu.Unlock()
	return f.wait(ctx, m)
}

// anew is refresh with a fetch that begins from now on, on whichever replica.
func (m *member) anew(ctx context.Context, k kind) (*segment, error) {
	s, since := &m.slots[k], time.Now()
	s.mu.Lock()
	s.wish()
	s.mu.Unlock()
	for {
		s.mu.Lock()
		f := s.fetch()
		s.mu.Unlock()
		seg, err := f.wait(ctx, m)
		if err != nil || !f.begun.Before(since) {
			return seg, err
		}
	}
}

// wait gives the fetch's outcome.
func (f *flight) wait(ctx context.Context, m *member) (*segment, error) {
	select {
	case <-f.done:
		return f.seg, f.err
	case <-ctx.Done():
		return nil, &upstream.Error{Alias: m.conf.Alias, Class: upstream.ClassTimeout, Retryable: true, Err: context.Cause(ctx)}
	}
}

// fetch joins the fetch under way or starts one. The caller holds the lock.
func (s *slot) fetch() *flight {
	if s.flight != nil {
		return s.flight
	}
	f := &flight{begun: time.Now(), done: make(chan struct{})}
	started := s.member.domain.run(func(ctx context.Context) {
		seg, err := s.walk(ctx, f)
		if _, _, ask := consentNeeded(err); ask && s.member.lane != nil {
			seg, err = s.consentSegment(), nil
		}
		s.land(f, seg, err)
	})
	if !started {
		f.err = &upstream.Error{Alias: s.member.conf.Alias, Class: upstream.ClassCanceled, Err: errors.New("the tenant is closed")}
		close(f.done)
		return f
	}
	s.flight = f
	return f
}

// maxRestarts bounds how often one fetch starts again because the list changed
// meanwhile.
const maxRestarts = 3

// walk fetches the list until no invalidation came in between.
func (s *slot) walk(ctx context.Context, f *flight) (seg *segment, err error) {
	if s.member.cluster() != nil {
		return s.walkShared(ctx, f)
	}
	for range maxRestarts {
		s.mu.Lock()
		gen := s.gen
		s.mu.Unlock()
		if seg, err = s.member.load(ctx, s.kind); err != nil {
			return nil, err
		}
		seg.gen = gen
		s.mu.Lock()
		moved := s.gen != gen
		s.mu.Unlock()
		if !moved {
			break
		}
	}
	return seg, nil
}

// land publishes a fetch's outcome.
func (s *slot) land(f *flight, seg *segment, err error) {
	f.seg, f.err = seg, err
	defer close(f.done)
	m := s.member
	if err != nil {
		s.mu.Lock()
		s.flight, s.err = nil, err
		if time.Since(f.begun) < m.listWait() {
			// It fails sooner than a list would have to wait for it. What fails later
			// has not answered yet.
			s.late = false
		}
		s.mu.Unlock()
		if cur := s.cur.Load(); cur != nil && cur.consent {
			s.expire(cur) // the user has signed in, or nobody can tell: to ask again would be a lie
		}
		if !errors.Is(err, context.Canceled) {
			m.domain.log.Warn("list from upstream", "upstream", m.conf.Alias, "method", s.kind.method(), "error", err)
		}
		return
	}
	if s.take(seg) {
		s.report(seg)
	}
	m.counted(seg)
}

// take makes seg the current segment, and tells whether there is news in it: other
// items, or other reasons to leave some out.
func (s *slot) take(seg *segment) bool {
	hub := s.member.domain.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	s.mu.Lock()
	cur := s.cur.Load()
	if cur != nil && cur.digest == seg.digest {
		// The same items: what was made of them stays good.
		seg.items, seg.index = cur.items, cur.index
	}
	n := news{
		other:     cur == nil || cur.digest != seg.digest,
		first:     cur == nil && !s.missed,
		announced: s.told && seg.gen == s.gen,
	}
	s.cur.Store(seg)
	if s.flight != nil {
		s.shared.granted = max(s.shared.granted, s.flight.honours)
	}
	s.flight, s.err, s.late, s.missed = nil, nil, false, false
	s.told = s.told && !n.announced
	s.mu.Unlock()
	if n.other || n.announced {
		hub.changed(s.member, s.kind, n)
	}
	return n.other || !slices.Equal(cur.rejected, seg.rejected)
}

// adopt makes seg, which has expired, the current segment if there is none.
func (s *slot) adopt(seg *segment) {
	hub := s.member.domain.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	s.mu.Lock()
	adopted := s.gen == seg.gen && s.cur.CompareAndSwap(nil, seg)
	first := !s.missed
	s.missed = s.missed && !adopted
	s.mu.Unlock()
	if adopted {
		hub.changed(s.member, s.kind, news{other: true, first: first})
	}
}

// expire drops a segment that is too old to be shown: what cannot be listed
// cannot be called either.
func (s *slot) expire(seg *segment) {
	hub := s.member.domain.hub
	hub.mu.Lock()
	defer hub.mu.Unlock()
	s.mu.Lock()
	dropped := s.cur.CompareAndSwap(seg, nil)
	if dropped {
		s.missed = true
	}
	s.mu.Unlock()
	if dropped {
		hub.changed(s.member, s.kind, news{other: true})
	}
}

// maxReports bounds how many oddities of one list are logged one by one.
const maxReports = 50

// report logs what is wrong with a list.
func (s *slot) report(seg *segment) {
	log := s.member.domain.log.With("upstream", s.member.conf.Alias, "method", s.kind.method())
	for i, r := range seg.rejected {
		if i == maxReports {
			log.Warn("more were left out of a list", "count", len(seg.rejected)-i)
			break
		}
		log.Warn("left out of a list", "name", r.name, "reason", r.reason)
	}
	for i, n := range seg.notes {
		if i == maxReports {
			log.Info("more oddities in a list", "count", len(seg.notes)-i)
			break
		}
		log.Info("oddity in a list", "name", n.name, "note", n.reason)
	}
}

// count adds to the cache metric.
func (s *slot) count(outcome cacheOutcome) {
	s.member.domain.fed.metrics.lists[s.kind][outcome].Inc()
}

// classOf gives the class of an upstream failure; "" for other errors.
func classOf(err error) upstream.Class {
	var ue *upstream.Error
	if errors.As(err, &ue) {
		return ue.Class
	}
	return ""
}

// reasonOf says in one word why a part is missing; "" for no error.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	if c := classOf(err); c != "" {
		return string(c)
	}
	return string(upstream.ClassProtocol)
}
