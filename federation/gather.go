package federation

import (
	"context"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
)

// reasonPending says that an upstream missed its deadline and has not answered
// since. The other reasons are the classes of upstream failures.
const reasonPending = string(upstream.ClassTimeout)

// part is one member's share of a list. reason is set when it is missing
// (seg is nil) or stale against its will.
type part struct {
	seg      *segment
	reason   string
	outdated bool     // was invalidated while it was fetched, again and again
	expired  *segment // what is there and too old to be used
}

// begin gives what can be served at once, or the fetch to wait for and how long.
func (s *slot) begin(now time.Time) (p part, f *flight, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.cur.Load()
	valid := cur != nil && cur.gen == s.gen
	if valid && now.Before(cur.fetched.Add(cur.ttl)) {
		s.count(cacheHit)
		return part{seg: cur}, nil, 0
	}
	f = s.fetch()
	if valid && cur.ttl > 0 && now.Before(cur.fetched.Add(cur.ttl).Add(s.member.staleFor())) {
		s.count(cacheStale)
		return part{seg: cur, reason: reasonOf(s.err)}, nil, 0
	}
	if s.late {
		s.count(cacheStale)
		return s.fallback(now, reasonPending), nil, 0
	}
	if s.member.cluster() == nil {
		s.count(cacheMiss)
	}
	wait = s.member.listWait()
	if valid && cur.ttl == 0 {
		wait = min(wait, s.member.domain.fed.opts.Limits.RevalidateWait)
	}
	return part{}, f, wait
}

// fetchAside has the list fetched, as a list was served without it that it may change.
func (s *slot) fetchAside(now time.Time) {
	s.mu.Lock()
	s.missed = s.missed || s.cur.Load() == nil
	s.mu.Unlock()
	s.begin(now)
}

// settle gives what can be served after the wait for f.
func (s *slot) settle(f *flight, now time.Time) part {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-f.done:
		if f.err == nil {
			return part{seg: f.seg, outdated: f.seg.gen != s.gen}
		}
		return s.fallback(now, reasonOf(f.err))
	default:
	}
	if s.flight == f {
		s.late = true
	}
	return s.fallback(now, reasonPending)
}

// fallback is what is left when the upstream cannot be asked: the old list while
// it may still be used, marked. The caller holds the lock.
func (s *slot) fallback(now time.Time, reason string) part {
	p := part{reason: reason}
	cur := s.cur.Load()
	switch {
	case cur != nil && now.Before(cur.fetched.Add(cur.ttl).Add(s.member.staleIfError())):
		p.seg = cur
	case cur != nil && s.kind != kindDiscover: // an outage does not shrink what is offered
		p.expired = cur
	}
	s.missed = s.missed || p.seg == nil
	return p
}

// moved gives the fetch to wait for when what is to be served as fresh was
// invalidated meanwhile; else nil.
func (s *slot) moved(p part) *flight {
	if p.seg == nil || p.reason != "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.seg.gen == s.gen {
		return nil
	}
	return s.fetch()
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
// reason in it. When ctx ends first the parts are good for nothing.
func (d *domain) gather(ctx context.Context, members []*member, k kind) []part {
	now, start := d.fed.now(), time.Now()
	parts := make([]part, len(members))
	var waits []waiting
	for i, m := range members {
		p, f, wait := m.slots[k].begin(now)
		parts[i] = p
		if f != nil {
			waits = append(waits, waiting{&m.slots[k], f, wait, i})
		}
	}
	waited := len(waits) > 0
	for round := 0; len(waits) > 0; round++ {
		there := await(ctx, start, waits)
		if round == 0 {
			countFetched(waits)
		}
		if !there {
			break
		}
		now = d.fed.now()
		for _, w := range waits {
			parts[w.index] = w.slot.settle(w.flight, now)
		}
		waits = waits[:0]
		if round == maxRestarts {
			break
		}
		for i, m := range members {
			if f := m.slots[k].moved(parts[i]); f != nil {
				waits = append(waits, waiting{&m.slots[k], f, m.listWait(), i})
			}
		}
	}
	if waited && ctx.Err() != nil {
		return parts
	}
	for i := range parts {
		if old := parts[i].expired; old != nil {
			members[i].slots[k].expire(old)
		}
	}
	return parts
}

// waiting is one fetch that somebody waits for.
type waiting struct {
	slot   *slot
	flight *flight
	wait   time.Duration
	index  int
}

// await waits until all fetches are there or their time since start is over;
// false when the caller left, which says nothing about the upstreams.
func await(ctx context.Context, start time.Time, waits []waiting) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, w := range waits {
		timer.Reset(w.wait - time.Since(start))
		select {
		case <-w.flight.done:
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// countFetched adds to the cache metric what begin could not know: with a Cluster, a
// list that is waited for may come from what another replica had stored.
func countFetched(waits []waiting) {
	for _, w := range waits {
		s := w.slot
		if s.member.cluster() == nil {
			continue
		}
		s.mu.Lock()
		outcome := cacheMiss
		if w.flight.stored {
			outcome = cacheHit
		}
		s.mu.Unlock()
		s.count(outcome)
	}
}

// reread fetches one list of several members anew, each folded with a fetch that
// is under way, and waits for them as a list would. With a Cluster, what another
// replica has fetched later than this one is looked at first; found tells whether
// that is enough. The outcome is read from the catalogue.
func (d *domain) reread(ctx context.Context, members []*member, k kind, found func() bool) {
	start := time.Now()
	var waits []waiting
	for _, m := range members {
		s := &m.slots[k]
		s.mu.Lock()
		f, late := s.fetch(), s.late
		s.mu.Unlock()
		if !late {
			waits = append(waits, waiting{slot: s, flight: f, wait: m.listWait()})
		}
	}
	d.settleAll(ctx, start, waits)
	if d.fed.opts.Cluster == nil || found() {
		return
	}
	var again []waiting
	for _, w := range waits {
		s := w.slot
		s.mu.Lock()
		if w.flight.stored {
			if s.flight == nil || !s.flight.asking {
				s.wish()
			}
			again = append(again, waiting{slot: s, flight: s.fetch(), wait: w.wait})
		}
		s.mu.Unlock()
	}
	d.settleAll(ctx, start, again)
}

// look waits for those of the member's lists that are not known, at the same
// time.
func (m *member) look(ctx context.Context, kinds ...kind) {
	now, start := m.domain.fed.now(), time.Now()
	var waits []waiting
	for _, k := range kinds {
		if m.known(k) != nil {
			continue
		}
		if _, f, wait := m.slots[k].begin(now); f != nil {
			waits = append(waits, waiting{slot: &m.slots[k], flight: f, wait: wait})
		}
	}
	m.domain.settleAll(ctx, start, waits)
	countFetched(waits)
}

// settleAll waits for fetches and notes which of them are late.
func (d *domain) settleAll(ctx context.Context, start time.Time, waits []waiting) {
	if len(waits) == 0 || !await(ctx, start, waits) {
		return
	}
	now := d.fed.now()
	for _, w := range waits {
		w.slot.settle(w.flight, now)
	}
}
