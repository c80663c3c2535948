package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

const (
	// An upstream gets this long to end a stream after its final message, so that
	// the connection can be used again. One that does not is not waited for again
	// for lingerMemory.
	drainTime    = 50 * time.Millisecond
	drainBytes   = 4 << 10
	lingerMemory = time.Minute
)

// Response is the answer to one request: notifications, then one final result
// or error. Its methods are not to be called concurrently; to end it from another
// goroutine, cancel the context that Do was given.
type Response struct {
	status int // of HTTP

	client  *Client
	req     Request
	version string
	ids     [32]byte
	tokens  [32]byte
	payload payload

	start  time.Time
	waited time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels the request; nil before it began
	span   trace.Span  // may be nil

	source CredentialSource // nil where the server is shown nobody
	lines  http.Header      // of the source; not changed

	http   *http.Request // of the latest attempt
	resp   *http.Response
	ticket *ticket
	events *sse.Reader // nil for a JSON answer
	buf    *mcp.Buffer // of a JSON answer

	first        *mcp.Message // read already, for the first Next
	fault        *fault       // what ended it
	entered      bool         // holds a slot
	sent         bool         // an attempt was made
	retried      bool
	reshown      bool // the server has refused lines of the source, and got others
	renegotiated bool
	delivered    bool // a message was handed out
	final        bool // the final message was read
	drain        bool // the rest of the answer is short, and the connection worth keeping
	finished     bool
	closed       bool
}

var _ Answer = (*Response)(nil)

// Status implements Answer.
func (r *Response) Status() int { return r.status }

// Waited tells how long the request has waited for the upstream so far: for a
// place in its queue, for its answer and for the messages in it.
func (r *Response) Waited() time.Duration { return r.waited }

func (r *Response) wait(since time.Time) { r.waited += time.Since(since) }

// Next gives the next message, which is valid until the following Next or
// Close; io.EOF after the final one. Other errors are *Error, and then every
// further call gives the same.
func (r *Response) Next() (*mcp.Message, error) {
	m := r.first
	r.first = nil
	switch {
	case m != nil:
	case r.fault != nil:
		return nil, &r.fault.Error
	case r.final:
		return nil, io.EOF
	default:
		var f *fault
		m, f = r.read()
		if m, f = r.persist(m, f); f != nil {
			return nil, &r.fail(f).Error
		}
	}
	r.deliver(m)
	return m, nil
}

// read reads one message of the present attempt's answer.
func (r *Response) read() (*mcp.Message, *fault) {
	if r.events == nil {
		return r.readJSON()
	}
	for {
		start := time.Now()
		event, err := r.events.Next()
		r.wait(start)
		if err != nil {
			return nil, r.unread(err)
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		m, err := mcp.ParseMessage(event.Data, r.client.conf.MaxDepth)
		if err != nil {
			return nil, r.nonsense("read a message: %w", err)
		}
		if m.Kind == mcp.KindRequest {
			// The server must not send any (2026-07-28,
			// basic/transports/streamable-http, Receiving Messages).
			r.client.log.Debug("skip a request on a response stream", "method", m.Method)
			continue
		}
		return r.check(m)
	}
}

// readJSON reads the one message of a JSON answer.
func (r *Response) readJSON() (*mcp.Message, *fault) {
	start := time.Now()
	buf, err := mcp.ReadAll(r.resp.Body, r.client.conf.MaxMessage, r.resp.ContentLength, r.client.budget)
	r.wait(start)
	if err != nil {
		return nil, r.unread(err)
	}
	r.buf = buf
	m, err := mcp.ParseMessage(buf.B, r.client.conf.MaxDepth)
	switch {
	case err != nil && r.status >= 400:
		return nil, r.badStatus()
	case err != nil:
		return nil, r.nonsense("read the message: %w", err)
	case r.status >= 400 && (m.Kind != mcp.KindError || !r.owns(m)):
		return nil, r.badStatus()
	case m.Kind != mcp.KindResult && m.Kind != mcp.KindError:
		return nil, r.nonsense("the answer is no response")
	}
	return r.check(m)
}

// check accepts a message as part of this answer.
func (r *Response) check(m *mcp.Message) (*mcp.Message, *fault) {
	switch m.Kind {
	case mcp.KindResult, mcp.KindError:
		if !r.owns(m) {
			return nil, r.nonsense("the response has another request's id")
		}
		r.final, r.drain = true, true
	case mcp.KindNotification:
		if m.Method == mcp.NotificationProgress && len(r.req.ProgressToken) > 0 && !r.req.Listen &&
			bytes.Equal(m.ProgressToken.In(m.Raw), r.req.ProgressToken) {
			r.timer.Reset(r.limit())
		}
	}
	return m, nil
}

// owns tells whether a response is for our request. An error whose sender could
// not read the id has null or none; on a stream of our own it can only be ours.
func (r *Response) owns(m *mcp.Message) bool {
	id := m.ID.In(m.Raw)
	if bytes.Equal(id, r.req.ID) {
		return true
	}
	return m.Kind == mcp.KindError && (len(id) == 0 || string(id) == "null")
}

// deliver notes that m is handed out.
func (r *Response) deliver(m *mcp.Message) {
	if !r.delivered {
		r.delivered = true
		r.payload.release()
		if r.req.Listen {
			r.timer.Stop() // the acknowledgement is there; the stream has no deadline
		} else if r.ticket.isProbe() {
			r.ticket.settle(nil)
		}
	}
	if r.final {
		r.finish(nil, m)
	}
}

// fail notes what ended the request.
func (r *Response) fail(f *fault) *fault {
	r.fault = f
	r.finish(f, nil)
	return f
}

// finish gives back what the request holds at the upstream, and counts it.
func (r *Response) finish(f *fault, m *mcp.Message) {
	if r.finished {
		return
	}
	r.finished = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.report(f)
	if r.entered {
		r.client.guard.leave()
	}
	if r.sent && !r.req.Listen {
		r.client.series.observe(time.Since(r.start).Seconds())
	}
	switch {
	case f != nil:
		spanError(r.span, string(f.Class))
	case m != nil && m.Kind == mcp.KindError:
		spanError(r.span, strconv.Itoa(m.Code))
	}
}

// report tells the breaker and the metric how the present attempt went.
func (r *Response) report(f *fault) {
	v := verdict(f)
	r.ticket.settle(v)
	if r.sent && v != errNoVerdict {
		r.client.series.setUp(v == nil)
	}
}

// Close ends the response, cancelling what is still under way, and gives all
// memory back. It must be called, and may be called twice.
func (r *Response) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.first = nil
	if !r.finished {
		r.fail(r.failure(ClassCanceled, errDone))
	}
	r.closeBody()
	r.payload.release()
	if r.cancel != nil {
		r.cancel(errDone)
	}
	if r.span != nil {
		r.span.End()
	}
}

// closeBody closes the answer. The short rest of one that is as good as read is
// read first, since net/http uses a connection again only then.
func (r *Response) closeBody() {
	if r.resp == nil {
		return
	}
	if r.drain && r.buf == nil { // ReadAll has left no rest
		r.drainBody()
	}
	r.resp.Body.Close()
	r.resp = nil
	r.buf.Release()
	r.buf = nil
	if r.events != nil {
		r.events.Reset(nil)
		r.client.readers.Put(r.events)
		r.events = nil
	}
}

func (r *Response) drainBody() {
	now, lingers := time.Now(), &r.client.lingers
	if now.UnixNano() < lingers.Load() {
		return
	}
	defer r.wait(now)
	r.timer.Reset(drainTime)
	n, _ := io.CopyN(io.Discard, r.resp.Body, drainBytes)
	if n == drainBytes || !r.timer.Stop() {
		lingers.Store(now.Add(lingerMemory).UnixNano())
	}
	r.timer.Stop()
}
