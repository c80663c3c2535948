package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// statusClientGone is what metrics and logs say of a request whose client left;
// it is never sent.
const statusClientGone = 499

// refusal is an error that the edge answers itself, with a status of HTTP that
// the JSON-RPC code does not tell.
type refusal struct {
	status int
	class  string     // the error_type label
	rpc    *mcp.Error // nil where MCP does not begin: the body is plain JSON
	header [2]string  // one more response header, or empty
	noID   bool       // the error is about more than one request: it has no id
}

// Error gives the class, the status and what the client is told.
func (r *refusal) Error() string {
	if r.rpc == nil {
		return fmt.Sprintf("%s (HTTP %d)", r.class, r.status)
	}
	return fmt.Sprintf("%s (HTTP %d): %v", r.class, r.status, r.rpc)
}

// refuse makes a refusal with a JSON-RPC error of the code -32600.
func refuse(status int, class, message string) *refusal {
	return &refusal{status: status, class: class, rpc: mcp.Errorf(mcp.CodeInvalidRequest, "%s", message)}
}

// errGone tells that the client left before it got an answer.
var errGone = errors.New("the client left")

// failure is what becomes of an error: the client's answer and the label. Nothing
// of the error's cause is in it.
type failure struct {
	status    int // of HTTP, if nothing was sent yet
	rpc       *mcp.Error
	errorType string
	upstream  string // the alias at fault
	header    [2]string
	noID      bool // leave the id out
	// needed are scopes that the caller has to have, and lacks some of.
	needed []string
	// ofRPC tells that the status follows from the code of rpc.
	ofRPC bool
	// internal tells that the gateway itself is at fault: the cause is logged.
	internal bool
}

// mapError is the one place where errors become answers.
func mapError(err error) failure {
	var (
		own  *refusal
		rpc  *mcp.Error
		peer *upstream.Error
		lost *lostError
		who  *auth.Refusal
		held *federation.Elsewhere

		scopes  *federation.ScopeError
		consent interface {
			ConsentURL() (url, message string)
		}
	)
	switch {
	case errors.Is(err, errGone):
		return failure{status: statusClientGone, errorType: string(upstream.ClassCanceled)}
	case errors.As(err, &own):
		return failure{status: own.status, rpc: own.rpc, errorType: own.class, header: own.header, noID: own.noID}
	case errors.As(err, &who):
		return unauthenticated(who)
	case errors.As(err, &rpc):
		f := failure{status: statusOf(rpc.Code), rpc: rpc, errorType: codeLabel(rpc.Code), ofRPC: true}
		if rpc.Code == federation.CodeOverQuota {
			f.header = retryAfter(waitOf(rpc.Data))
		}
		return f
	case errors.As(err, &scopes):
		return insufficient(scopes)
	case errors.As(err, &consent):
		return unconnected(err)
	case errors.As(err, &peer):
		return failure{status: http.StatusOK, rpc: upstreamError(peer), errorType: string(peer.Class), upstream: peer.Alias}
	case errors.As(err, &lost):
		return failure{status: http.StatusOK, rpc: lost.rpc(), errorType: string(upstream.ClassInterrupted), upstream: lost.alias}
	case errors.As(err, &held):
		// It was passed on already, or there is nobody to pass it on to.
		return mapError(noCallWaits())
	case errors.Is(err, federation.ErrNoEndpoint):
		return failure{status: http.StatusNotFound, errorType: "no_endpoint"}
	}
	return failure{
		status:    http.StatusInternalServerError,
		rpc:       &mcp.Error{Code: mcp.CodeInternal, Message: "Internal error"},
		errorType: codeLabel(mcp.CodeInternal),
		internal:  true,
	}
}

// insufficient tells what becomes of a request that needs more scopes (2026-07-28,
// basic/authorization, Scope Challenge Handling). Who is told by a stream or in a batch
// has no challenge, so the scopes are in the message too.
func insufficient(e *federation.ScopeError) failure {
	return failure{
		status: http.StatusForbidden, errorType: classAuthentication, needed: e.Needed,
		rpc: mcp.Errorf(mcp.CodeInvalidRequest, "Forbidden: this needs the scopes %s", strings.Join(e.Needed, " ")),
	}
}

// unconnected tells what becomes of a request to an upstream at which the user has to
// sign in first, where nobody could ask for that. The page is for that user alone, so
// that nothing of it is told.
func unconnected(err error) failure {
	peer := &upstream.Error{}
	var of *upstream.Error
	if errors.As(err, &of) {
		peer.Alias = of.Alias
	}
	peer.Class = upstream.ClassUnauthorized
	return failure{status: http.StatusOK, rpc: upstreamError(peer), errorType: string(peer.Class), upstream: peer.Alias}
}

// statusOf gives the status of HTTP that goes with a JSON-RPC code, where the
// specification wants another than 200 (2026-07-28, basic/index and
// basic/transports/streamable-http).
func statusOf(code int) int {
	switch code {
	case mcp.CodeParse, mcp.CodeInvalidRequest,
		mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability, mcp.CodeUnsupportedProtocol:
		return http.StatusBadRequest
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// codeLabel gives the error_type of a JSON-RPC code. Upstreams may invent codes;
// the label is from a closed set.
func codeLabel(code int) string {
	switch code {
	case mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeInternal,
		mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability, mcp.CodeUnsupportedProtocol,
		mcp.CodeLegacyResourceNotFound, mcp.CodeLegacyElicitationRequired, federation.CodeOverQuota:
		return strconv.Itoa(code)
	}
	return "other_code"
}

// closedLabel keeps an error_type that the federation gave in a closed set: a
// class passes, an unusual JSON-RPC code does not.
func closedLabel(errorType string) string {
	if errorType == "" || errorType[0] != '-' && (errorType[0] < '0' || errorType[0] > '9') {
		return errorType
	}
	code, err := strconv.Atoi(errorType)
	if err != nil {
		return "other_code"
	}
	return codeLabel(code)
}

// upstreamError tells a client which upstream failed it and whether it may try
// again, and nothing of the upstream's internals.
func upstreamError(e *upstream.Error) *mcp.Error {
	data := append([]byte(nil), `{"alias":`...)
	data = mcp.AppendQuote(data, e.Alias)
	data = append(data, `,"reason":`...)
	data = mcp.AppendQuote(data, string(e.Class))
	data = append(data, `,"retryable":`...)
	data = append(strconv.AppendBool(data, e.Retryable), '}')
	return &mcp.Error{
		Code:    mcp.CodeInternal,
		Message: fmt.Sprintf("upstream %q %s", e.Alias, reason(e.Class)),
		Data:    data,
	}
}

// reason says what an upstream did, after its name.
func reason(c upstream.Class) string {
	switch c {
	case upstream.ClassConnect:
		return "could not be reached"
	case upstream.ClassTimeout:
		return "did not answer in time"
	case upstream.ClassInterrupted:
		return "broke off its answer"
	case upstream.ClassStatus:
		return "answered with an HTTP error"
	case upstream.ClassUnauthorized:
		return "cannot be given credentials that it accepts" // the log tells where it failed
	case upstream.ClassProtocol:
		return "gave an answer that is not valid MCP"
	case upstream.ClassVersion:
		return "speaks no protocol version that the gateway speaks"
	case upstream.ClassTooLarge:
		return "gave an answer that is too large"
	case upstream.ClassOverloaded:
		return "has too many requests under way"
	case upstream.ClassBreakerOpen:
		return "failed repeatedly and is not asked for a moment"
	case upstream.ClassRejected:
		return "refused what the gateway asked of it"
	case upstream.ClassCanceled:
		return "was not waited for"
	}
	return "failed"
}

// waitOf reads data.retryAfterMs of an error; one second where there is none.
func waitOf(data []byte) time.Duration {
	ms, err := strconv.Atoi(string(mcp.Find(data, mcp.Span{End: len(data)}, "retryAfterMs").In(data)))
	if err != nil {
		return time.Second
	}
	return time.Duration(ms) * time.Millisecond
}

// retryAfter makes the header that asks a client to wait (RFC 9110, 10.2.3).
func retryAfter(d time.Duration) [2]string {
	seconds := int((d + time.Second - 1) / time.Second) // the header knows whole ones only
	return [2]string{"Retry-After", strconv.Itoa(max(seconds, 1))}
}
