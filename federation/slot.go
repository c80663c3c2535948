package federation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
)

// reasonPending says that an upstream missed its deadline and has not answered
// since. The other reasons are the classes of upstream failures.
const reasonPending = string(upstream.ClassTimeout)

// slot keeps one kind of list of one member fresh.
type slot struct {
	member *member
	kind   kind

	mu     sync.Mutex
	cur    *segment // the last good one
	stale  bool     // a notification invalidated cur
	gen    uint64   // counts invalidations in this process
	flight *flight  // the fetch under way
	late   bool     // a deadline was missed, and there has been no answer since
	missed bool     // a list was served without cur, or an upstream told of a change before it was there
	err    error    // of the last fetch; nil after a good one
}

// flight is one fetch that callers fold into.
type flight struct {
	done chan struct{} // closed when seg and err are set
	seg  *segment
	err  error
}

// part is one member's share of a list. reason is set when it is missing
// (seg is nil) or stale against its will.
type part struct {
	seg    *segment
	reason string
}

// known gives the member's current segment without waiting; nil when there is
// none yet. It may be stale or invalidated.
func (m *member) known(k kind) *segment {
	s := &m.slots[k]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}

// invalidate tells that the list has changed at the upstream: it raises the
// generation, so that the current segment is not served while it is refreshed.
func (m *member) invalidate(ctx context.Context, k kind) {
	s := &m.slots[k]
	s.mu.Lock()
	s.stale = true
	s.gen++
	s.mu.Unlock()
	if _, err := m.domain.fed.opts.Cache.Invalidate(ctx, m.topic(k.method()), ""); err != nil {
		m.domain.log.Warn("invalidate the cache", "upstream", m.conf.Alias, "method", k.method(), "error", err)
	}
}

// refresh fetches the list, folded with a fetch that is under way, and waits for
// it within ctx. A fetch that an invalidation overtakes starts again by itself.
func (m *member) refresh(ctx context.Context, k kind) (*segment, error) {
	s := &m.slots[k]
	s.mu.Lock()
	f := s.fetch()
	s.mu.Unlock()
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
	f := &flight{done: make(chan struct{})}
	started := s.member.domain.run(func(ctx context.Context) {
		seg, err := s.walk(ctx)
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
func (s *slot) walk(ctx context.Context) (seg *segment, err error) {
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
	m := s.member
	s.mu.Lock()
	s.flight = nil
	s.err = err
	changed, silent := false, false
	if err == nil {
		changed = s.cur == nil || s.cur.digest != seg.digest
		silent = s.cur == nil && !s.missed
		s.cur, s.late, s.missed = seg, false, false
		// Overtaken once too often: good enough to be served when the upstream
		// fails, but not to be called fresh.
		s.stale = seg.gen != s.gen
	} else if classOf(err) != upstream.ClassTimeout {
		s.late = false
	}
	s.mu.Unlock()
	if err == nil {
		m.counted(s.kind, len(seg.items))
		if changed {
			s.report(seg)
		}
	} else if !errors.Is(err, context.Canceled) {
		m.domain.log.Warn("list from upstream", "upstream", m.conf.Alias, "method", s.kind.method(), "error", err)
	}
	if changed {
		m.domain.hub.changed(m, s.kind, silent)
	}
	close(f.done)
}

// report logs what is wrong with a list.
func (s *slot) report(seg *segment) {
	log := s.member.domain.log.With("upstream", s.member.conf.Alias, "method", s.kind.method())
	for _, r := range seg.rejected {
		log.Warn("left out of a list", "name", r.name, "reason", r.reason)
	}
	for _, n := range seg.notes {
		log.Info("oddity in a list", "name", n.name, "note", n.reason)
	}
}

// begin gives what can be served at once, or the fetch to wait for and how long.
func (s *slot) begin(now time.Time) (p part, f *flight, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.cur
	if cur != nil && !s.stale && now.Before(cur.fetched.Add(cur.ttl)) {
		s.count("hit")
		return part{seg: cur}, nil, 0
	}
	f = s.fetch()
	if cur != nil && !s.stale && cur.ttl > 0 && now.Before(cur.fetched.Add(cur.ttl).Add(s.member.staleFor())) {
		s.count("stale")
		return part{seg: cur, reason: reasonOf(s.err)}, nil, 0
	}
	if s.late {
		s.count("stale")
		return s.fallback(now, reasonPending), nil, 0
	}
	s.count("miss")
	wait = s.member.listWait()
	if cur != nil && cur.ttl == 0 && !s.stale {
		wait = min(wait, s.member.domain.fed.opts.Limits.RevalidateWait)
	}
	return part{}, f, wait
}

// settle gives what can be served after the wait for f.
func (s *slot) settle(f *flight, now time.Time) part {
	select {
	case <-f.done:
		if f.err == nil {
			return part{seg: f.seg}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.fallback(now, reasonOf(f.err))
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight == f {
		s.late = true
	}
	return s.fallback(now, reasonPending)
}

// fallback is what is left when the upstream cannot be asked: the old list while
// it may still be used, marked. The caller holds the lock.
func (s *slot) fallback(now time.Time, reason string) part {
	if s.cur != nil && now.Before(s.cur.fetched.Add(s.cur.ttl).Add(s.member.staleIfError())) {
		return part{seg: s.cur, reason: reason}
	}
	s.missed = true
	return part{reason: reason}
}

// count adds to the cache metric.
func (s *slot) count(outcome string) {
	s.member.domain.fed.metrics.cache(s.kind.method(), outcome)
}

func (m *member) staleFor() time.Duration {
	if m.conf.Cache.Stale > 0 {
		return m.conf.Cache.Stale
	}
	return m.domain.fed.opts.Limits.Stale
}

func (m *member) staleIfError() time.Duration {
	if m.conf.Cache.StaleIfError > 0 {
		return m.conf.Cache.StaleIfError
	}
	return m.domain.fed.opts.Limits.StaleIfError
}

// gather collects the parts of a list from all members, waiting for those that
// must be waited for at the same time. Members without a part to give have a
// reason in it.
func (d *domain) gather(ctx context.Context, members []*member, k kind) []part {
	now := d.fed.now()
	parts := make([]part, len(members))
	var waits []waiting
	for i, m := range members {
		p, f, wait := m.slots[k].begin(now)
		parts[i] = p
		if f != nil {
			waits = append(waits, waiting{i, f, wait})
		}
	}
	if len(waits) == 0 {
		return parts
	}
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, w := range waits {
		timer.Reset(w.wait - time.Since(start))
		select {
		case <-w.flight.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return parts // the caller left, which says nothing about the upstreams
	}
	now = d.fed.now()
	for _, w := range waits {
		parts[w.index] = members[w.index].slots[k].settle(w.flight, now)
	}
	return parts
}

// waiting is one fetch that gather waits for.
type waiting struct {
	index  int
	flight *flight
	wait   time.Duration
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
