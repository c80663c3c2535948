package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// errTooManySessions tells that there is no room for another session.
var errTooManySessions = errors.New("too many sessions are in use")

// session gives the session for a key, shaking hands first where there is none
// yet. The caller holds it, and must release it or start a flight on it.
func (l *Legacy) session(ctx context.Context, key sessionKey, caps *clientCaps) (*session, error) {
	s, err := l.sessionOf(key, caps)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		err := s.blame(context.Cause(ctx))
		l.release(s)
		return nil, err
	}
	if s.failed != nil {
		l.release(s)
		return nil, s.failed
	}
	return s, nil
}

func (l *Legacy) sessionOf(key sessionKey, caps *clientCaps) (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, linkFailure(ClassConnect, true, errClosed)
	}
	if s := l.sessions[key]; s != nil {
		s.holds++
		return s, nil
	}
	if l.unused.Len() >= l.conf.Sessions.Max && !l.makeRoom() {
		return nil, linkFailure(ClassOverloaded, true, errTooManySessions)
	}
	s := &session{
		pool: l, key: key, caps: caps, holds: 2, // the caller's, and that of open
		ready: make(chan struct{}), tells: make(chan struct{}, maxTells), flights: map[string]*flight{},
	}
	if key.source != nil {
		s.source = &sessionSource{source: key.source}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stream.init(s)
	s.level.init()
	l.sessions[key] = s
	s.place = l.unused.PushBack(s)
	go func() { // whoever waits for ready joins it; Close does not wait for a slow server
		s.open()
		l.release(s)
	}()
	return s, nil
}

// makeRoom ends the longest unused session, with l.mu held; false when all are in
// use.
func (l *Legacy) makeRoom() bool {
	for e := l.unused.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*session); s.holds == 0 {
			l.remove(s)
			l.work.Go(s.close)
			return true
		}
	}
	return false
}

// remove takes a session out of the pool, with l.mu held.
func (l *Legacy) remove(s *session) {
	if s.dropped {
		return
	}
	s.dropped = true
	l.unused.Remove(s.place)
	if l.sessions[s.key] == s {
		delete(l.sessions, s.key)
	}
}

// hold keeps a session that the caller holds already.
func (l *Legacy) hold(s *session) {
	l.mu.Lock()
	s.holds++
	l.mu.Unlock()
}

// drop makes the next request get another session than s, which ends when nobody
// holds it any more.
func (l *Legacy) drop(s *session) {
	l.mu.Lock()
	l.remove(s)
	l.mu.Unlock()
}

// release gives a hold back.
func (l *Legacy) release(s *session) {
	l.mu.Lock()
	s.holds--
	if s.holds > 0 {
		l.mu.Unlock()
		return
	}
	if !s.dropped && l.closed {
		l.remove(s)
	}
	if s.dropped {
		l.mu.Unlock()
		l.background(s.close)
		return
	}
	s.since = time.Now()
	l.unused.MoveToBack(s.place)
	if l.janitor == nil {
		l.janitor = time.AfterFunc(l.conf.Sessions.Idle, l.closeIdle)
	}
	l.mu.Unlock()
}

// closeIdle ends the sessions that nobody has used for the idle time.
func (l *Legacy) closeIdle() {
	now := time.Now()
	expired := l.takeUnused(func(s *session) bool { return now.Sub(s.since) >= l.conf.Sessions.Idle }, l.conf.Sessions.Idle)
	for _, s := range expired {
		l.background(s.close)
	}
}

// takeUnused takes out of the pool all sessions that nobody holds and that match.
// Afterwards the janitor comes when the next one may be due; never when idle is
// negative.
func (l *Legacy) takeUnused(match func(*session) bool, idle time.Duration) []*session {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []*session
	next := idle
	for e := l.unused.Front(); e != nil; {
		s := e.Value.(*session)
		e = e.Next()
		switch {
		case s.holds > 0:
		case match(s):
			l.remove(s)
			taken = append(taken, s)
		default:
			next = min(next, idle-time.Since(s.since))
		}
	}
	if idle < 0 || l.closed {
		return taken
	}
	if l.unused.Len() == 0 {
		l.janitor = nil // the next release starts it again
	} else {
		l.janitor = time.AfterFunc(max(next, time.Millisecond), l.closeIdle)
	}
	return taken
}

// failure makes a fault of one of the links', or of a context's cause.
func (l *Legacy) failure(method string, err error) *fault {
	var le *linkError
	var known *Error
	f := &fault{Error: Error{Class: ClassConnect, Err: err}}
	switch {
	case errors.As(err, &le):
		c := *le.fault
		f = &c
		f.Err = err
	case errors.As(err, &known):
		f.Error = *known
	case errors.Is(err, errNoSession):
		f.Class, f.status, f.unsent = ClassStatus, http.StatusNotFound, true
	case errors.Is(err, errDeadline):
		f.Class = ClassTimeout
	case errors.Is(err, context.DeadlineExceeded):
		f.Class, f.callers = ClassTimeout, true
	case errors.Is(err, context.Canceled), errors.Is(err, errDone):
		f.Class = ClassCanceled
	case errors.Is(err, errClosed):
		f.unsent = true
	}
	f.Alias = l.conf.Alias
	switch f.Class {
	case ClassTimeout, ClassInterrupted, ClassConnect:
		f.Retryable = !f.blocked && (f.Retryable || f.unsent || mayRepeat(method))
	case ClassStatus:
		f.Retryable = f.Retryable || f.unsent || f.status >= 500 && mayRepeat(method)
	case ClassOverloaded:
		f.Retryable = f.unsent || mayRepeat(method)
	case ClassBreakerOpen:
		f.Retryable = true
	}
	return f
}

// mayRepeat tells whether a request may be carried out twice without anybody
// noticing.
func mayRepeat(method string) bool { return repeatable(method) || method == mcp.MethodPromptsGet }

// rejected makes a fault with a cause of its own.
func (l *Legacy) rejected(class Class, format string, args ...any) *fault {
	return l.failure("", linkFailure(class, false, fmt.Errorf(format, args...)))
}
