package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// legacyAnswer is the answer of a handshake server to one request. Its methods
// are not to be called concurrently; to end it from another goroutine, cancel the
// context that Do was given.
type legacyAnswer struct {
	legacy *Legacy
	req    Request
	ids    [32]byte
	tokens [32]byte
	status int

	key       sessionKey
	caps      *clientCaps // what the session declares
	declared  *clientCaps // what the request declares
	level     string
	body      []byte // what is sent
	filter    []byte // params.notifications of subscriptions/listen
	state     string // of a parked call
	responses []byte // inputResponses, for a parked call

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels ctx
	span   trace.Span  // may be nil
	start  time.Time
	waited time.Duration

	flight *flight // nil when it was left or has not begun
	ticket *ticket
	first  *mcp.Message // read already, for the first Next
	buf    *mcp.Buffer  // of the message that was handed out last
	fault  *fault       // what ended it

	entered   bool // holds a slot
	sent      bool // an attempt was made
	retried   bool
	renewed   bool // the session was lost once
	delivered bool // a message was handed out
	final     bool // the final message was read
	finished  bool
	closed    bool
}

var _ Answer = (*legacyAnswer)(nil)

// Status implements Answer.
func (a *legacyAnswer) Status() int { return a.status }

// Waited implements Answer.
func (a *legacyAnswer) Waited() time.Duration { return a.waited }

func (a *legacyAnswer) wait(since time.Time) { a.waited += time.Since(since) }

// prepare reads the request and makes the handshake form of it.
func (a *legacyAnswer) prepare(ctx context.Context, body *mcp.Buffer) *fault {
	l := a.legacy
	a.ctx, a.span = l.startSpan(ctx, &a.req)
	a.ctx, a.cancel = context.WithCancelCause(a.ctx)
	if body == nil {
		return l.rejected(ClassProtocol, "the request is empty")
	}
	req, err := mcp.ParseRequest(body.B, l.conf.MaxDepth)
	if err != nil {
		return l.rejected(ClassProtocol, "the request is malformed: %w", err)
	}
	a.declared = l.caps.of(req.Meta.ClientCapabilities.In(req.Raw))
	a.caps = a.declared
	if l.conf.Sessions.Shared {
		a.caps = l.caps.of(nil)
	} else {
		a.key.owner = owner{a.req.Principal, a.req.Session}
	}
	a.key.caps = a.caps.digest
	a.level = req.Meta.LogLevel.Value
	if a.req.Listen {
		a.filter = slices.Clone(req.Notifications.In(req.Raw))
		return nil
	}
	if isParkState(req.RequestState.Value) {
		a.state = req.RequestState.Value
		a.responses = slices.Clone(req.InputResponses.In(req.Raw))
		return nil
	}
	a.body = toHandshake(a.ctx, req)
	return nil
}

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
// only what merely reads.
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

// say makes a final message of ours.
func (a *legacyAnswer) say(raw []byte) *mcp.Message {
	m, err := mcp.ParseMessage(raw, 0)
	if err != nil {
		// All its parts are valid JSON.
		panic("upstream: a message of our own is malformed: " + err.Error())
	}
	a.final = true
	return m
}

// Next implements Answer.
func (a *legacyAnswer) Next() (*mcp.Message, error) {
	m := a.first
	a.first = nil
	switch {
	case m != nil:
	case a.fault != nil:
		return nil, &a.fault.Error
	case a.final:
		return nil, io.EOF
	default:
		var f *fault
		if m, f = a.read(); f != nil {
			return nil, &a.fail(f).Error
		}
	}
	a.deliver(m)
	return m, nil
}

// read reads one message of the flight.
func (a *legacyAnswer) read() (*mcp.Message, *fault) {
	for {
		a.buf.Release()
		a.buf = nil
		start := time.Now()
		it, err := a.flight.take(a.ctx)
		a.wait(start)
		if err != nil {
			return nil, a.legacy.failure(a.req.Method, err)
		}
		switch it.msg.Kind {
		case mcp.KindRequest:
			if f := a.gather(it); f != nil {
				return nil, f
			}
			if !a.flight.isOver() {
				return a.park()
			}
			a.flight.asked = nil // the server has not waited for the answers
		case mcp.KindNotification:
			a.buf = it.buf
			return a.notification(it.msg)
		default:
			a.buf = it.buf
			a.final = true
			return a.translate(it)
		}
	}
}

// notification gives a notification with the token of this very request.
func (a *legacyAnswer) notification(m *mcp.Message) (*mcp.Message, *fault) {
	if m.Method != mcp.NotificationProgress {
		return m, nil
	}
	a.timer.Reset(a.limit())
	if bytes.Equal(a.flight.token, a.req.ProgressToken) || len(a.req.ProgressToken) == 0 {
		return m, nil
	}
	return a.checked(readdressed(m, nil, a.req.ProgressToken, a.legacy.conf.MaxDepth))
}

func (a *legacyAnswer) checked(m *mcp.Message, err error) (*mcp.Message, *fault) {
	if err != nil {
		return nil, a.legacy.rejected(ClassProtocol, "translate a message: %w", err)
	}
	return m, nil
}

// translate gives the modern form of a response.
func (a *legacyAnswer) translate(it flightItem) (*mcp.Message, *fault) {
	m, depth := it.msg, a.legacy.conf.MaxDepth
	var err error
	switch {
	case m.Kind == mcp.KindResult:
		if m, err = withoutHints(a.req.Method, it.buf, m, depth); err == nil {
			withResultType(it.buf, m)
		}
	case m.Code == mcp.CodeLegacyResourceNotFound:
		m, err = withCode(m, mcp.CodeInvalidParams, depth)
	case m.Code == mcp.CodeLegacyElicitationRequired && asksClient(a.req.Method):
		if asked := urlElicitations(m); len(asked) > 0 {
			return a.mustVisit(asked), nil
		}
	}
	if err == nil && !bytes.Equal(a.flight.id, a.req.ID) {
		m, err = readdressed(m, a.req.ID, nil, depth)
	}
	return a.checked(m, err)
}

// mustVisit asks the client to have its user visit URLs. Its retry makes the call
// again, since the server has forgotten it.
func (a *legacyAnswer) mustVisit(asked []askedRequest) *mcp.Message {
	if a.declared.url {
		return a.say(inputRequired(a.req.ID, asked, stateAgain))
	}
	a.status = http.StatusBadRequest
	// 2026-07-28, basic/index, Error Codes.
	return a.say(mcp.AppendErrorResponse(nil, a.req.ID, &mcp.Error{
		Code:    mcp.CodeMissingClientCapability,
		Message: "the server needs a client with elicitation by URL",
		Data:    []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`),
	}))
}

// deliver notes that m is handed out.
func (a *legacyAnswer) deliver(m *mcp.Message) {
	a.delivered = true
	if a.final {
		a.finish(nil, m)
	} else if a.ticket.isProbe() {
		a.ticket.settle(nil)
	}
}

// fail notes what ended the request.
func (a *legacyAnswer) fail(f *fault) *fault {
	a.fault = f
	if a.flight != nil {
		a.flight.abort(f.Err)
	}
	a.finish(f, nil)
	return f
}

// finish gives back what the request holds, and counts it.
func (a *legacyAnswer) finish(f *fault, m *mcp.Message) {
	if a.finished {
		return
	}
	a.finished = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.report(f)
	if a.entered {
		a.legacy.guard.leave()
	}
	if a.sent && !a.req.Listen {
		a.legacy.series.observe(time.Since(a.start).Seconds())
	}
	switch {
	case f != nil:
		spanError(a.span, string(f.Class))
	case m != nil && m.Kind == mcp.KindError:
		spanError(a.span, strconv.Itoa(m.Code))
	}
}

// report tells the breaker and the metric how the present attempt went.
func (a *legacyAnswer) report(f *fault) {
	v := verdict(f)
	a.ticket.settle(v)
	if a.sent && v != errNoVerdict {
		a.legacy.series.setUp(v == nil)
	}
}

// Close implements Answer.
func (a *legacyAnswer) Close() {
	if a.closed {
		return
	}
	a.closed = true
	a.first = nil
	if !a.finished {
		a.fail(a.legacy.failure(a.req.Method, errDone))
	}
	a.buf.Release()
	a.buf = nil
	if a.flight != nil {
		a.flight.drop()
	}
	if a.cancel != nil {
		a.cancel(errDone)
	}
	if a.span != nil {
		a.span.End()
	}
}
