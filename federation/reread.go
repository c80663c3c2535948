package federation

import (
	"context"
	"time"
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
// time in which changes may have been missed.
func (h *hub) rereadKnown(m *member) {
	for k := range kindDiscover {
		s := &m.slots[k]
		s.mu.Lock()
		if s.cur.Load() != nil || s.flight != nil {
			h.readFromNow(s)
		}
		s.mu.Unlock()
	}
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
