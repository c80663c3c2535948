package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// ProbeTimeout bounds each of the steps in which the era of an upstream is found
// out. A process that says nothing for so long has been asked in the wrong era.
const ProbeTimeout = 10 * time.Second

// way is one way to speak with a server.
type way uint8

// The ways, in the order in which they are tried.
const (
	wayModern    way = iota // revision 2026-07-28
	wayHandshake            // sessions over Streamable HTTP or the standard streams
	waySSE                  // sessions over the HTTP+SSE of 2024-11-05
	ways
)

// String names the way for the log.
func (w way) String() string {
	return [...]string{"modern", "handshake", "handshake over HTTP+SSE"}[w]
}

// finding is what one step of a probe says.
type finding uint8

const (
	unclear     finding = iota // nothing: try again another time
	fits                       // this is how the server speaks
	fitsForNow                 // the same, but not to be remembered
	mismatch                   // the server does not speak this way
	mismatchSSE                // the same, in a way that the servers of 2024-11-05 have
)

// probe asks the server in one way and judges what it says. The error tells why it
// does not fit.
func (a *auto) probe(ctx context.Context, w way, template *Request) (finding, error) {
	doer, err := a.doer(w)
	if err != nil {
		return unclear, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	m, status, err := ask(ctx, doer, a.question(template))
	switch {
	case w == wayModern && err != nil:
		return a.modernFailed(err), err
	case w == wayModern:
		return a.modernAnswered(m, status)
	case err != nil:
		return a.handshakeFailed(err), err
	case m.Kind == mcp.KindError && fallsBackToSSE(status):
		return mismatchSSE, a.failure(ClassVersion, fmt.Errorf("initialize was answered with error %d and status %d", m.Code, status))
	case m.Kind == mcp.KindError:
		return mismatch, a.failure(ClassVersion, fmt.Errorf("initialize was answered with error %d", m.Code))
	}
	return fits, nil
}

// ask sends a request and gives its final message.
func ask(ctx context.Context, d Doer, req *Request) (*mcp.Message, int, error) {
	answer, err := d.Do(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Close()
	for {
		m, err := answer.Next()
		if err != nil {
			return nil, answer.Status(), err
		}
		if m.Kind == mcp.KindResult || m.Kind == mcp.KindError {
			kept := *m
			kept.Raw = slices.Clone(m.Raw)
			return &kept, answer.Status(), nil
		}
	}
}

// question makes server/discover on behalf of the request that wants to know, so
// that a session that answers it is the one that the request needs. For a server
// of unknown era it is the one request that cannot do any harm (2026-07-28,
// basic/transports/stdio, Backward Compatibility).
func (a *auto) question(template *Request) *Request {
	id := fmt.Appendf(nil, `"probe-%d"`, a.asked.Add(1))
	req := &Request{
		Method: mcp.MethodDiscover, ID: id, Header: template.Header, Timeout: a.patience,
		Principal: template.Principal, Session: template.Session, Credentials: template.Credentials,
	}
	var info, capabilities []byte
	// What cannot be read is the business of whoever made it.
	if r, err := mcp.ParseRequest(template.Body.B, a.conf.MaxDepth); err == nil {
		info, capabilities = r.Meta.ClientInfo.In(r.Raw), r.Meta.ClientCapabilities.In(r.Raw)
	}
	raw := mcp.AppendRequest(nil, 0, mcp.MethodDiscover, info, capabilities, nil)
	at := mcp.Find(raw, mcp.Span{Start: 0, End: len(raw)}, "id")
	var e mcp.Edits
	e.Replace(at, id)
	req.Body = mcp.GetBuffer(len(raw) + len(id))
	req.Body.B = e.AppendTo(req.Body.B, raw)
	return req
}

// modernAnswered judges the answer of server/discover (2026-07-28,
// basic/versioning, Backward Compatibility).
func (a *auto) modernAnswered(m *mcp.Message, status int) (finding, error) {
	refused := func(format string, args ...any) error { return a.failure(ClassVersion, fmt.Errorf(format, args...)) }
	if m.Kind == mcp.KindResult {
		var result struct {
			Versions []string `json:"supportedVersions"`
		}
		if json.Unmarshal(m.Result.In(m.Raw), &result) == nil && slices.ContainsFunc(result.Versions, isModern) {
			return fits, nil
		}
		return mismatch, refused("server/discover lists no version of ours")
	}
	switch {
	case m.Code == mcp.CodeUnsupportedProtocol && listsModern(m):
		return fits, nil
	case m.Code == mcp.CodeHeaderMismatch, m.Code == mcp.CodeMissingClientCapability:
		return fitsForNow, nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return unclear, a.failure(ClassUnauthorized, fmt.Errorf("status %d", status))
	case inconclusive(status):
		return unclear, a.failure(ClassStatus, &statusError{status: status})
	case fallsBackToSSE(status):
		return mismatchSSE, refused("server/discover was answered with error %d and status %d", m.Code, status)
	}
	return mismatch, refused("server/discover was answered with error %d", m.Code)
}

// listsModern tells whether a refusal of our version names one that we speak.
func listsModern(m *mcp.Message) bool {
	var data struct{ Supported []string }
	return json.Unmarshal(m.ErrorData.In(m.Raw), &data) == nil && slices.ContainsFunc(data.Supported, isModern)
}

func isModern(version string) bool { return slices.Contains(mcp.ModernVersions(), version) }

// inconclusive tells whether a status says more about the moment than about the
// server.
func inconclusive(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// fallsBackToSSE tells whether a status is one with which servers of 2024-11-05
// refuse a POST (2026-07-28, basic/transports/streamable-http, HTTP+SSE Transport).
func fallsBackToSSE(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// modernFailed judges a server/discover without an answer.
func (a *auto) modernFailed(err error) finding {
	class := failureClass(err)
	if a.conf.Process != nil {
		switch class {
		case ClassConnect, ClassInterrupted, ClassTimeout, ClassProtocol, ClassVersion:
			// Some end at a first message that is not initialize, and some are silent.
			return mismatch
		}
		return unclear
	}
	switch status := httpStatusOf(err); class {
	case ClassStatus:
		switch {
		case inconclusive(status):
			return unclear
		case fallsBackToSSE(status):
			return mismatchSSE
		}
		return mismatch
	case ClassVersion, ClassProtocol:
		return mismatch
	}
	return unclear
}

// handshakeFailed judges an initialize without a result.
func (a *auto) handshakeFailed(err error) finding {
	switch status := httpStatusOf(err); failureClass(err) {
	case ClassStatus:
		switch {
		case inconclusive(status):
			return unclear
		case fallsBackToSSE(status):
			return mismatchSSE
		}
		return mismatch
	case ClassVersion, ClassRejected, ClassProtocol:
		return mismatch
	}
	return unclear
}

// failureClass gives the class of a Doer's error; empty for others.
func failureClass(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	if err == io.EOF {
		return ClassInterrupted // the answer ended before its final message
	}
	return ""
}

func (a *auto) failure(class Class, err error) *Error {
	return &Error{Alias: a.conf.Alias, Class: class, Err: err}
}
