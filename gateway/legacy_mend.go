package gateway

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"
)

// mendPause is between two tries to share what could not be shared, and then up to
// as much again.
const mendPause = time.Second

// debt is what the other replicas have to be told of a session.
type debt struct {
	owes  owed
	count int // rises with each that is added
}

type owed uint8

const (
	owesNews   owed = iota // something happened in it
	owesLost               // its state, if they have none
	owesChange             // what was set in it here
)

// share notes that others have to be told of a session.
func (s *sharedStates) share(id string, owes owed) {
	s.mu.Lock()
	// What is not known here any more cannot be shared.
	if d, ok := s.unshared[id]; ok || len(s.unshared) < s.near.max {
		s.unshared[id] = debt{max(d.owes, owes), d.count + 1}
	}
	s.mu.Unlock()
	s.stir()
}

// shared notes that others were told, unless there is more by now.
func (s *sharedStates) shared(id string, d debt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unshared[id] == d {
		delete(s.unshared, id)
	}
}

// doubt notes that signals of a session may have been missed, or of all when id is
// empty. Sessions that nobody here works for are of no interest.
func (s *sharedStates) doubt(id string) {
	if id != "" && !s.near.isAttached(id) {
		return
	}
	s.mu.Lock()
	if id == "" {
		s.doubtAll = true
	} else {
		s.doubtful[id] = struct{}{}
	}
	s.mu.Unlock()
	s.stir()
}

// stir wakes mend.
func (s *sharedStates) stir() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// mend shares what could not be shared, and looks at what may have been missed, one
// session after the other, until ctx ends.
func (s *sharedStates) mend(ctx context.Context) {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		for !s.shareAll(ctx) || !s.lookAtAll(ctx) {
			// Replicas that lost the same thing at the same time must not all come back
			// for it at once.
			if pause(ctx, mendPause+rand.N(mendPause)) != nil {
				return
			}
		}
	}
}

// shareAll shares what can be shared now; false when something is left.
func (s *sharedStates) shareAll(ctx context.Context) bool {
	s.mu.Lock()
	list := maps.Clone(s.unshared)
	s.mu.Unlock()
	for id, d := range list {
		_, expires := s.near.known(id)
		if !time.Now().Before(expires) {
			s.shared(id, d) // forgotten, or over
			continue
		}
		if d.owes != owesNews {
			next, _, err := s.write(ctx, id, expires, func(*softState) error { return nil })
			if err != nil {
				s.failed(err)
				return false
			}
			s.near.set(id, expires, next)
		}
		if err := s.publish(ctx, id, signal{kind: signalState}); err != nil {
			s.failed(err)
			return false
		}
		s.shared(id, d)
	}
	return true
}

// lookAtAll tells those who work for a session how things are, where they may have
// missed it; false when something is left.
func (s *sharedStates) lookAtAll(ctx context.Context) bool {
	s.mu.Lock()
	all, list := s.doubtAll, s.doubtful
	s.doubtAll, s.doubtful = false, map[string]struct{}{}
	s.mu.Unlock()
	if all {
		list = s.near.attachedTo()
	}
	for id := range list {
		state, err := s.read(ctx, id)
		if err != nil {
			s.failed(err)
			s.mu.Lock()
			for id := range list {
				s.doubtful[id] = struct{}{}
			}
			s.mu.Unlock()
			return false
		}
		delete(list, id)
		_ = s.near.signal(ctx, id, signal{kind: signalState, state: state}) // never fails
	}
	return true
}
