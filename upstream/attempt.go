package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// retryPause is what a second attempt waits for at least, and up to as long again.
const retryPause = 25 * time.Millisecond

// begin sends the request and returns when an answer has begun.
func (r *Response) begin(ctx context.Context) *fault {
	c := r.client
	r.version = c.era.version()
	if err := c.usable(); err != nil {
		f := r.failure(ClassConnect, err)
		f.Retryable = err == errClosed
		return r.fail(f)
	}
	ctx, r.span = c.startSpan(ctx, r)
	if data, ok := withTrace(ctx, r.payload.data, c.conf.MaxDepth); ok {
		r.payload.replace(data)
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	r.timer = time.AfterFunc(r.limit(), func() { r.cancel(errDeadline) })
	if f := r.identify(ctx); f != nil {
		return r.fail(f)
	}
	if !r.req.Listen {
		if f := r.enter(ctx); f != nil {
			return r.fail(f)
		}
	}
	if r.version != mcp.VersionModern {
		if f := r.setVersion(r.version); f != nil {
			return r.fail(f)
		}
	}
	f := r.attempt(ctx)
	if f == nil && r.status < 400 {
		return nil
	}
	var m *mcp.Message
	if f == nil {
		m, f = r.read()
	}
	m, f = r.persist(m, f)
	if f != nil {
		return r.fail(f)
	}
	r.first = m
	return nil
}

// limit is the time that the request has from now, or from its latest progress.
func (r *Response) limit() time.Duration {
	if r.req.Timeout > 0 {
		return r.req.Timeout - time.Since(r.start)
	}
	return min(r.client.conf.CallTimeout, r.client.conf.CallMax-time.Since(r.start))
}

// enter waits for a slot.
func (r *Response) enter(ctx context.Context) *fault {
	defer r.wait(time.Now())
	switch err := r.client.guard.enter(ctx); err {
	case nil:
		r.entered = true
		return nil
	case errBusy:
		return r.failure(ClassOverloaded, err)
	case gobreaker.ErrOpenState:
		return r.failure(ClassBreakerOpen, err)
	default:
		f := r.ended(err)
		f.Retryable = f.Class == ClassTimeout // it was not sent
		return f
	}
}

// attempt sends the request once, and once more where the server refuses what it is
// shown of who calls and there is something else to show. A nil fault means that
// r.read can be called.
func (r *Response) attempt(ctx context.Context) *fault {
	for {
		if f := r.post(ctx); f != nil {
			return f
		}
		if r.source == nil || !refuses(r.status) {
			return r.head()
		}
		again, f := r.reshow(ctx)
		if f != nil {
			return f
		}
		if !again {
			return r.head()
		}
	}
}

// post makes one HTTP request.
func (r *Response) post(ctx context.Context) *fault {
	c := r.client
	transport := c.listens
	if !r.req.Listen {
		transport = c.calls
		var err error
		if r.ticket, err = c.guard.allow(); err != nil {
			return r.failure(ClassBreakerOpen, err)
		}
	}
	r.sent = true
	r.http = c.request(ctx, r)
	start := time.Now()
	resp, err := transport.RoundTrip(r.http)
	r.wait(start)
	if err != nil {
		return r.unanswered(ctx, err)
	}
	r.resp, r.status = resp, resp.StatusCode
	return nil
}

// head looks at the header of the answer.
func (r *Response) head() *fault {
	kind := mediaType(r.resp.Header.Get("Content-Type"))
	coding := r.resp.Header.Get("Content-Encoding") // net/http has taken a gzip away that it decodes
	foreign := coding != "" && !strings.EqualFold(coding, "identity")
	switch {
	case r.source != nil && r.status == http.StatusUnauthorized:
		// It is about the gateway, whatever it says to whom.
		r.drain = true
		return r.badStatus()
	case r.status >= 400 && kind == "application/json" && !foreign:
		return nil
	case r.status >= 300 || r.status < 200:
		r.drain = true
		return r.badStatus()
	case foreign:
		return r.nonsense("content encoding %q was not asked for", coding)
	case kind == "application/json":
		return nil
	case kind == "text/event-stream":
		r.events = r.client.readers.Get().(*sse.Reader)
		r.events.Reset(r.resp.Body)
		return nil
	}
	r.drain = true
	return r.nonsense("status %d with content type %q", r.status, r.resp.Header.Get("Content-Type"))
}

func mediaType(contentType string) string {
	switch contentType {
	case "application/json", "text/event-stream":
		return contentType
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil && err != mime.ErrInvalidMediaParameter {
		return ""
	}
	return kind
}

// persist tries again where that is allowed, until there is a message or a fault
// to give.
func (r *Response) persist(m *mcp.Message, f *fault) (*mcp.Message, *fault) {
	for !r.delivered {
		if f == nil && !(m.Kind == mcp.KindError && m.Code == mcp.CodeUnsupportedProtocol) {
			break
		}
		if f == nil {
			if r.renegotiated || !r.renegotiate(m) {
				return nil, r.failure(ClassVersion, fmt.Errorf("no version in common; the refusal says %.200s", m.ErrorData.In(m.Raw)))
			}
		} else if !r.pause(f) {
			break
		}
		next := r.attempt(r.http.Context())
		switch {
		case next == nil:
			m, f = r.read()
		case next.Class == ClassBreakerOpen && f != nil:
			return nil, f // it says more than that the breaker has opened meanwhile
		default:
			m, f = nil, next
		}
	}
	return m, f
}

// pause gets ready for a second attempt after the failure of the first; false
// when there is none to be made.
func (r *Response) pause(f *fault) bool {
	if r.retried || r.req.Listen || r.http == nil || !f.worthRetry(r.req.Method) {
		return false
	}
	defer r.wait(time.Now())
	r.retried = true
	r.abandon(f)
	timer := time.NewTimer(retryPause + rand.N(retryPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.http.Context().Done():
		return false
	}
}

// renegotiate gets ready for an attempt with another protocol version.
func (r *Response) renegotiate(refusal *mcp.Message) bool {
	version, ok := r.client.era.negotiate(r.version, refusal)
	if !ok || r.setVersion(version) != nil {
		return false
	}
	r.renegotiated, r.final = true, false
	r.abandon(nil)
	return true
}

func (r *Response) setVersion(version string) *fault {
	data, err := withVersion(r.payload.data, r.client.conf.MaxDepth, version)
	if err != nil {
		return r.failure(ClassVersion, err)
	}
	r.payload.replace(data)
	r.version = version
	return nil
}

// abandon ends the present attempt, so that there can be another one.
func (r *Response) abandon(f *fault) {
	r.report(f)
	r.drain = false // what cuts a long rest off would end the other attempt too
	r.closeBody()
	r.ticket = nil
}
