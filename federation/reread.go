package federation

import (
	"context"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// reread reads a list of a member from now on, again and again until it could be
// had, while somebody listens to the member. There is one such loop for a list.
// What is not known yet counts as changed, since the client may know it from
// elsewhere.
func (h *hub) reread(m *member, k kind) {
	s := &m.slots[k]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur.Load() == nil {
		s.missed = true
	}
	h.readFromNow(s)
}

// rereadKnown reads the lists of a member that are known or under way, after a
// time in which changes may have been missed. What was fetched before the floor
// does not count, and what was fetched since need not be read.
func (h *hub) rereadKnown(m *member, floor cache.Fence) {
	h.rereadAll(m, func(s *slot) bool {
		if floor == (cache.Fence{}) {
			return true
		}
		s.from(floor)
		cur := s.cur.Load()
		return cur == nil || cur.gen != s.gen || cur.fence.Before(floor)
	})
}

// rereadAnew is rereadKnown for what is asked of the upstream from now on.
func (h *hub) rereadAnew(m *member) {
	h.rereadAll(m, func(s *slot) bool {
		s.wish()
		return true
	})
}

// rereadAll reads those lists of a member that are known or under way and of which
// old, which is called with the slot's lock, says so.
func (h *hub) rereadAll(m *member, old func(s *slot) bool) {
	for k := range kindDiscover {
		s := &m.slots[k]
		s.mu.Lock()
		if (s.cur.Load() != nil || s.flight != nil) && old(s) {
			h.readFromNow(s)
		}
		s.mu.Unlock()
	}
}

// rereadStale is rereadKnown that also reads lists of which another replica has a
// later one.
func (h *hub) rereadStale(ctx context.Context, m *member, floor cache.Fence) {
	if floor != (cache.Fence{}) {
		h.rereadKnown(m, floor)
	}
	for k := range kindDiscover {
		s := &m.slots[k]
		cur := s.cur.Load()
		if cur == nil {
			continue
		}
		w := &sharedFetch{slot: s, cluster: m.cluster(), topic: m.topic(k.method())}
		e, ok, err := w.stored(ctx)
		if err == nil && (!ok || !later(e, cache.Entry{Fence: cur.fence, Stored: cur.fetched})) {
			continue
		}
		s.mu.Lock()
		h.readFromNow(s)
		s.mu.Unlock()
	}
}

// rereadOlder reads a list that another replica has found to be another one than it
// was at the floor, unless that is known soon.
func (h *hub) rereadOlder(m *member, k kind, floor cache.Fence) {
	s := &m.slots[k]
	if cur := s.cur.Load(); cur == nil || !cur.fence.Before(floor) {
		return
	}
	h.domain.run(func(ctx context.Context) {
		if !h.settle(ctx) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if cur := s.cur.Load(); cur != nil && cur.fence.Before(floor) {
			s.from(floor)
			h.readFromNow(s)
		}
	})
}

// readFromNow starts the loop, or makes it go on. The caller holds the slot's lock.
func (h *hub) readFromNow(s *slot) {
	s.due = time.Now()
	if !s.reading {
		s.reading = h.domain.run(func(ctx context.Context) { h.readUntilDone(ctx, s) })
	}
}

func (h *hub) readUntilDone(ctx context.Context, s *slot) {
	backoff := reopenLeast
	for {
		done, err := s.readOnce(ctx)
		if done {
			return
		}
		// One that changed again meanwhile is read again soon.
		wait := h.domain.fed.opts.Limits.Coalesce
		if err != nil {
			wait, backoff = jitter(backoff), min(2*backoff, reopenMost)
		}
		s.mu.Lock()
		due := s.due
		s.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if !h.listens(s.member) && s.stopReading(due) {
			return
		}
	}
}

// stopReading ends the loop unless there was another wish since.
func (s *slot) stopReading(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due.Equal(since) {
		return false
	}
	s.reading = false
	return true
}

// readOnce waits for one fetch. It ends the loop when the fetch began after the
// latest wish for one and nothing has come in between.
func (s *slot) readOnce(ctx context.Context) (done bool, err error) {
	s.mu.Lock()
	f := s.fetch()
	s.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done = f.err == nil && !f.begun.Before(s.due) && f.seg.gen == s.gen
	if done {
		s.reading = false
	}
	return done, f.err
}
