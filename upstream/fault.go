package upstream

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// Causes with which a request's context is cancelled.
var (
	errDeadline = errors.New("no answer in time")
	errDone     = errors.New("the response was closed")
)

// fault is an Error with what the guard wants to know of it.
type fault struct {
	Error
	status  int  // of ClassStatus
	unsent  bool // of ClassConnect: nothing of the request went out
	slow    bool // of ClassConnect: the connection was not made in time
	blocked bool // of ClassConnect: the address may not be reached, also not later
	callers bool // of ClassTimeout: it was the caller's own deadline
	unshown bool // of ClassUnauthorized: the source of credentials failed, and not the server
}

func (r *Response) failure(class Class, err error) *fault {
	f := &fault{Error: Error{Alias: r.client.conf.Alias, Class: class, Err: err}}
	switch class {
	case ClassTimeout, ClassInterrupted, ClassConnect:
		f.Retryable = repeatable(r.req.Method)
	case ClassOverloaded, ClassBreakerOpen:
		f.Retryable = true
	}
	return f
}

// ended makes the fault of a request whose context is done.
func (r *Response) ended(cause error) *fault {
	switch {
	case errors.Is(cause, errDeadline):
		return r.failure(ClassTimeout, cause)
	case errors.Is(cause, context.DeadlineExceeded):
		f := r.failure(ClassTimeout, cause)
		f.callers = true
		return f
	}
	return r.failure(ClassCanceled, cause)
}

// unanswered makes the fault of a failed round trip.
func (r *Response) unanswered(ctx context.Context, err error) *fault {
	if cause := context.Cause(ctx); cause != nil {
		return r.ended(cause)
	}
	f := r.failure(ClassConnect, err)
	if egress.NotSent(err) {
		f.unsent, f.Retryable = true, true
	}
	f.undialled(err)
	if f.blocked {
		f.Retryable = false
	}
	return f
}

// undialled notes what the error of a round trip tells about the connection.
func (f *fault) undialled(err error) {
	dial, ok := errors.AsType[*egress.DialError](err)
	f.slow = ok && dial.Timeout()
	_, f.blocked = errors.AsType[*egress.BlockedError](err)
}

// unread makes the fault of an answer that could not be read to its end.
func (r *Response) unread(err error) *fault {
	if cause := context.Cause(r.http.Context()); cause != nil {
		return r.ended(cause)
	}
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, mcp.ErrTooLarge), errors.Is(err, sse.ErrTooLarge):
		return r.failure(ClassTooLarge, err)
	case errors.Is(err, mcp.ErrOverBudget):
		f := r.failure(ClassOverloaded, err)
		f.Retryable = repeatable(r.req.Method) // it was carried out
		return f
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return r.failure(ClassProtocol, err)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return r.failure(ClassInterrupted, fmt.Errorf("read the answer: %w", err))
}

// badStatus makes the fault of a status that says no more than itself.
func (r *Response) badStatus() *fault {
	err := &statusError{r.status, r.resp.Header.Get("Content-Type")}
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return r.failure(ClassUnauthorized, err)
	}
	f := r.failure(ClassStatus, err)
	f.status = r.status
	switch {
	case r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable:
		f.Retryable = true // RFC 6585, 4 and RFC 9110, 15.6.4: it was not carried out
	case r.status >= 500:
		f.Retryable = repeatable(r.req.Method)
	}
	return f
}

func (r *Response) nonsense(format string, args ...any) *fault {
	return r.failure(ClassProtocol, fmt.Errorf(format, args...))
}
