package upstream

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// limit is the time that the request has from now, or from its latest progress.
func (a *legacyAnswer) limit() time.Duration {
	if a.req.Timeout > 0 {
		return a.req.Timeout - time.Since(a.start)
	}
	return min(a.legacy.conf.CallTimeout, a.legacy.conf.CallMax-time.Since(a.start))
}

// begin sends the request and returns when its first message is there.
func (a *legacyAnswer) begin() *fault {
	if isOwned(a.req.Method) {
		a.first = a.unknownMethod()
		return nil
	}
	cancel := a.cancel
	a.timer = time.AfterFunc(a.limit(), func() { cancel(errDeadline) })
	if f := a.identify(a.ctx); f != nil {
		return f
	}
	if f := a.enter(); f != nil {
		return f
	}
	var m *mcp.Message
	var f *fault
	switch {
	case a.state != "":
		m, f = a.resume()
	case a.req.Method == mcp.MethodDiscover:
		m, f = a.persist(a.discover)
	default:
		m, f = a.persist(a.attempt)
	}
	a.first = m
	return f
}

// enter waits for a slot.
func (a *legacyAnswer) enter() *fault {
	defer a.wait(time.Now())
	switch err := a.legacy.guard.enter(a.ctx); err {
	case nil:
		a.entered = true
		return nil
	case errBusy:
		return a.legacy.failure(a.req.Method, linkFailure(ClassOverloaded, true, err))
	case gobreaker.ErrOpenState:
		return a.legacy.failure(a.req.Method, linkFailure(ClassBreakerOpen, true, err))
	default:
		f := a.legacy.failure(a.req.Method, err)
		f.Retryable = f.Class == ClassTimeout // it was not sent
		return f
	}
}

// persist makes attempts until there is a message or a fault to give. When the
// server knows the session no more there is another attempt at once, in another
// session. A 404 for a session says that the server has not looked at the request
// (2025-11-25, basic/transports, Session Management, 3 and 4: the client starts a
// new session), so whatever it was may be sent again; after a broken connection
// only what merely reads. A server that does not know the other session either, as one
// that is restarted twice meanwhile, is not asked a third time: that is a status, and
// the caller may repeat the request.
func (a *legacyAnswer) persist(attempt func() (*mcp.Message, *fault)) (*mcp.Message, *fault) {
	for {
		var err error
		if a.ticket, err = a.legacy.guard.allow(); err != nil {
			return nil, a.legacy.failure(a.req.Method, linkFailure(ClassBreakerOpen, true, err))
		}
		m, f := attempt()
		if f == nil {
			return m, nil
		}
		lost := errors.Is(f.Err, errNoSession) || errors.Is(f.Err, errGone) && mayRepeat(a.req.Method)
		switch {
		case a.task == taskRuns:
			return nil, f
		case lost && !a.renewed:
			a.renewed = true
			a.abandon(f)
		case !a.pause(f):
			return nil, f
		}
	}
}

// abandon ends the present attempt, so that there can be another one.
func (a *legacyAnswer) abandon(f *fault) {
	a.report(f)
	a.ticket = nil
	if a.flight != nil {
		a.flight.abort(f.Err)
		a.flight = nil
	}
}

// pause gets ready for a second attempt after the failure of the first; false
// when there is none to be made.
func (a *legacyAnswer) pause(f *fault) bool {
	if a.retried || a.ctx.Err() != nil || !f.worthRetry(a.req.Method) {
		return false
	}
	defer a.wait(time.Now())
	a.retried = true
	a.abandon(f)
	return sleep(a.ctx, retryPause+rand.N(retryPause)) == nil
}

// attempt sends the request once and gives the first message.
func (a *legacyAnswer) attempt() (*mcp.Message, *fault) {
	s, f := a.session()
	if f != nil {
		return nil, f
	}
	a.sent = true
	if s.offers.tasks && a.legacy.taskTools.has(a.req.Name) {
		a.flight = nil
		a.beginTask(s)
		return a.read()
	}
	a.task = noTask
	fl := &flight{method: a.req.Method}
	fl.id, fl.token = append(fl.ids[:0], a.req.ID...), append(fl.tokens[:0], a.req.ProgressToken...)
	a.flight = fl
	s.start(a.ctx, a.flight, a.body, a.req.Header)
	m, f := a.read()
	if f != nil && f.Class == ClassStatus && meansUnknown(f.status) && !errors.Is(f.Err, errNoSession) && !isHandshakeMethod(a.req.Method) {
		return a.unknownMethod(), nil
	}
	return m, f
}

// unknownMethod answers for a server that does not know the method
// (2026-07-28, basic/transports/streamable-http, Protocol Version Header).
func (a *legacyAnswer) unknownMethod() *mcp.Message {
	a.status = http.StatusNotFound
	return a.say(mcp.AppendErrorResponse(nil, a.req.ID, mcp.Errorf(mcp.CodeMethodNotFound, "the server does not know the method")))
}

// meansUnknown tells whether a status without a JSON-RPC error is one with which
// servers refuse a method that they do not know.
func meansUnknown(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// session gets a session that is ready for the request, and a hold on it.
func (a *legacyAnswer) session() (*session, *fault) {
	l := a.legacy
	defer a.wait(time.Now())
	s, err := l.session(a.ctx, a.key, a.caps)
	if err != nil {
		a.sent = true
		return nil, l.failure(a.req.Method, err)
	}
	noteVersion(a.span, s.offers.version)
	if a.level != "" {
		err = s.wantLevel(a.ctx, a.level)
	}
	if err == nil && s.caps.asks() {
		err = s.stream.warm(a.ctx)
	}
	// Of what went wrong there only these two concern the request.
	if errors.Is(err, errNoSession) || a.ctx.Err() != nil {
		l.release(s)
		return nil, l.failure(a.req.Method, err)
	}
	return s, nil
}

// discover answers server/discover from what the server said of itself.
func (a *legacyAnswer) discover() (*mcp.Message, *fault) {
	s, f := a.session()
	if f != nil {
		return nil, f
	}
	defer a.legacy.release(s)
	return a.say(discoverResult(a.req.ID, s.offers)), nil
}
