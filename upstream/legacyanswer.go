package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

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
	task      taskStage
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
	a.key.source = l.conf.source(&a.req)
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
			f := a.legacy.failure(a.req.Method, a.flight.session.blame(err))
			if a.task == taskRuns {
				f.Retryable, f.unsent = false, false // what was not sent is not the call
			}
			return nil, f
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
			if a.taskStep(it.msg) {
				continue
			}
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
	if f == nil && !a.sent {
		v = errNoVerdict // the answer was known already
	}
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
