package gateway

import (
	"errors"
	"os"
	"time"
)

// follow is run for a stream whose connection was taken over and that nothing but
// its subscription and the registry has to tell of anything. It needs no second
// goroutine and no timer: it reads, as that is how it learns that the client left,
// until it has been silent for long enough or is woken. Like run it is kept flat.
func (s *streams) follow(st *stream) {
	st.sub.Notify(st.wake)
	said := make([]byte, 64) // by the client, which has nothing to say
	quiet := time.Now().Add(s.silence(st))
	for {
		message, what := s.due(st, quiet)
		var err error
		switch what {
		case stepMessage:
			err = st.out.send(message)
		case stepSilence:
			err = st.out.comment()
		case stepEnd:
			st.out.end(st.sub.End)
			return
		default:
			if st.idle(quiet, said) {
				continue
			}
			return
		}
		if err != nil {
			return // the client left, or takes nothing
		}
		quiet = time.Now().Add(s.silence(st))
	}
}

// due gives what a stream is to do now. quiet is when it has been silent for long
// enough.
//
//go:noinline
func (s *streams) due(st *stream, quiet time.Time) ([]byte, step) {
	if s.left(st) <= 0 {
		return nil, stepEnd
	}
	message, open := st.sub.Next()
	switch {
	case message != nil:
		return message, stepMessage
	case !open:
		return nil, stepEnd
	}
	select {
	case <-s.quit:
		return nil, stepEnd
	case <-st.grant.revoked:
		return nil, stepEnd
	default:
	}
	if !time.Now().Before(quiet) {
		return nil, stepSilence
	}
	return nil, stepNothing
}

// idle waits until there may be something to do, and tells whether the client is
// still there.
func (st *stream) idle(until time.Time, said []byte) (here bool) {
	if err := st.conn.SetReadDeadline(until); err != nil {
		return false
	}
	// Who wakes the stream says so first and sets the deadline then: either it is
	// seen here, or its deadline comes after this one.
	if st.woken.Swap(false) {
		return true
	}
	_, err := st.conn.Read(said)
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// wake has a stream that is idle look at what there is to do.
func (st *stream) wake() {
	st.woken.Store(true)
	_ = st.conn.SetReadDeadline(longAgo()) // what is closed needs not be woken
}

// nudge wakes a stream that follow works for, if it is that far; the others hear of
// what they wait for by themselves. The registry is locked.
func (st *stream) nudge() {
	if st.conn != nil && st.feed == nil {
		st.wake()
	}
}

// revoke ends a stream whose caller may not go on.
func (s *streams) revoke(st *stream) {
	st.grant.revoke()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.nudge()
}

// longAgo is a time at which no read may still be waiting.
func longAgo() time.Time { return time.Unix(1, 0) }
