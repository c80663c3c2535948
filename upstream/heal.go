package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// doubtPause is the least time between two probes for the sake of a remembered era
// that has become doubtful: a server may refuse every request for good reasons.
const doubtPause = 30 * time.Second

// doubtful tells whether a failure is one that a server of the other era makes.
func (a *auto) doubtful(c *choice, err error) bool {
	switch class := failureClass(err); class {
	case ClassVersion:
		return a.mayDoubt(c)
	case ClassStatus:
		return !inconclusive(httpStatusOf(err)) && a.mayDoubt(c)
	case ClassRejected, ClassProtocol:
		return c.way != wayModern && a.mayDoubt(c)
	case ClassConnect:
		return errors.Is(err, errClosed) && a.current.Load() != c // another request has healed it
	}
	return false
}

// refused tells whether an answer is one that a server of the other era gives.
func (a *auto) refused(c *choice, seen *seenAnswer, method string) bool {
	switch {
	case seen.err != nil:
		return a.doubtful(c, seen.err)
	case seen.message.Kind != mcp.KindError:
		return false
	case c.way == wayModern:
		return refusedByHandshake(seen.message.Code, seen.Status(), method) && a.mayDoubt(c)
	}
	// A program is another one only after it was started again, and then it does
	// not answer initialize.
	return a.conf.Process == nil && refusedByModern(seen.message.Code) && a.mayDoubt(c)
}

// refusedByHandshake tells whether an error for a modern request may be one of a
// handshake server. A modern one has only these codes for what is not about the
// version (2026-07-28, basic/transports/streamable-http), and knows
// server/discover.
func refusedByHandshake(code, status int, method string) bool {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability:
		return false
	case mcp.CodeMethodNotFound, mcp.CodeInvalidParams:
		return method == mcp.MethodDiscover
	}
	return status != http.StatusUnauthorized && status != http.StatusForbidden && !inconclusive(status)
}

// refusedByModern tells whether an error for a handshake request may be one of a
// server that misses the version, the header or the `_meta` of the modern era.
func refusedByModern(code int) bool {
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeUnsupportedProtocol, mcp.CodeInvalidParams, mcp.CodeInvalidRequest:
		return true
	}
	return false
}

// mayDoubt tells whether it is time to ask once more, or somebody does or did.
func (a *auto) mayDoubt(c *choice) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.runs) > 0 || a.current.Load() != c {
		return true
	}
	if now := time.Now(); now.Sub(a.doubted) >= a.pause {
		a.doubted = now
		return true
	}
	return false
}

// heal asks the server which era it speaks now. If that is another one the request
// is sent again: what refused it in the old one has not carried it out.
// Otherwise its outcome, an answer or an error, stands.
func (a *auto) heal(ctx context.Context, old *choice, spare *spare, seen *seenAnswer, cause error) (Answer, error) {
	if !spare.kept {
		a.forget(old) // too large to be kept: the next request finds out
		return seen.orError(cause)
	}
	start := time.Now()
	again := spare.request()
	c, err := a.find(ctx, again, old)
	if err != nil || c.way == old.way || !spare.mayRepeat(cause) {
		again.Body.Release()
		return seen.orError(cause)
	}
	if seen != nil {
		seen.Close()
	}
	waited := time.Since(start)
	answer, err := c.doer.Do(ctx, again)
	if err != nil {
		return nil, err
	}
	return &seenAnswer{Answer: answer, waited: waited, used: true}, nil
}

// forget drops what is remembered, if it is still that.
func (a *auto) forget(c *choice) { a.current.CompareAndSwap(c, nil) }
