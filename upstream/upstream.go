// Package upstream talks to one upstream MCP server: it sends a request with
// the headers that the transport wants, reads the answer as a stream of
// messages, and guards the server with deadlines, a concurrency limit, a
// circuit breaker and careful retries. It imports upstream/mcp, upstream/sse,
// upstream/egress and auth/seal only.
package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Config says how to reach one upstream and what bounds hold for it. Zero
// values mean the named defaults.
type Config struct {
	Tenant, Alias string
	URL           string
	// Process is the program to start in place of URL; nil for servers over HTTP.
	Process *Process
	// Checked is set where URL was not chosen by the operator: it leads to public
	// addresses only, and to those of egress.Options.AllowPrivate.
	Checked bool
	Era     Era // EraAuto

	ConnectTimeout time.Duration // DefaultConnectTimeout
	CallTimeout    time.Duration // DefaultCallTimeout; reset by progress
	CallMax        time.Duration // DefaultCallMax; never exceeded
	IdleTimeout    time.Duration // DefaultIdleTimeout; idle connections are dropped after it

	MaxInFlight     int           // DefaultMaxInFlight
	BreakerFailures int           // DefaultBreakerFailures consecutive failures open the breaker
	BreakerOpen     time.Duration // DefaultBreakerOpen until one request probes again

	MaxMessage int64 // DefaultMaxMessage bytes of one message
	MaxDepth   int   // DefaultMaxDepth of JSON nesting

	Sessions Sessions // towards servers of the handshake era

	Credentials CredentialSource // nil where the server is shown nobody
}

// CredentialSource gives what a server is shown of who calls: one source is for one
// server and one caller, or all. Sources are compared, so they are pointers, and are
// safe for concurrent use. A program that is a server is shown nobody.
//
// Errors are given as an *Error of ClassUnauthorized that wraps them, and are logged:
// they hold no secrets. They say nothing about the server's health.
type CredentialSource interface {
	// Credential gives header lines for one request, without waiting where they are
	// known. An error that has ConsentURL() (url, message string) tells that the user
	// has to go there first. The lines are not changed any more by anybody. They
	// replace what the request's own header says under the same names. A line that
	// belongs to the connection or to the protocol (Host, Accept, Range, Content-*,
	// Mcp-* and what RFC 9110, 7.6.1 names) makes the request fail.
	Credential(ctx context.Context) (http.Header, error)
	// Refused tells that the server refused a request with these lines by 401 or
	// 403, with what its WWW-Authenticate said. again is true when another attempt
	// with new ones makes sense; an error is like that of Credential. It is told of
	// the second refusal of a request, too, after which there is no other attempt.
	Refused(ctx context.Context, sent http.Header, status int, challenges []string) (again bool, err error)
}

// Defaults of Config.
const (
	DefaultConnectTimeout  = 2 * time.Second
	DefaultCallTimeout     = 60 * time.Second
	DefaultCallMax         = 10 * time.Minute
	DefaultIdleTimeout     = 4 * time.Second
	DefaultMaxInFlight     = 256
	DefaultBreakerFailures = 5
	DefaultBreakerOpen     = 5 * time.Second
	DefaultMaxMessage      = 32 << 20
	DefaultMaxDepth        = 256
)

// Deps are the collaborators of a Client. Budget, Ring and Holder may be left out.
type Deps struct {
	Logger  *slog.Logger
	Tracer  trace.Tracer
	Metrics *Metrics
	Budget  *mcp.Budget
	// Ring seals the names of parked calls, which clients carry, and Holder is the
	// address at which other replicas reach this process for them; both are empty
	// where there are no others. HolderOf reads it.
	Ring   *seal.Ring
	Holder string
}

// Request is one JSON-RPC request for an upstream.
type Request struct {
	Method string
	Name   string // the value of Mcp-Name; HasName tells whether the header is due
	// HasName is true for tools/call, prompts/get, resources/read and tasks/*.
	HasName bool
	// ToolName is the tool's own name for the span; empty for other methods.
	ToolName string
	// ID is the raw JSON of the id in Body, which is the gateway's own.
	ID []byte
	// ProgressToken is the raw JSON of the token in Body; nil for none. Progress
	// for it resets the deadline.
	ProgressToken []byte
	// Body is the whole message. Do owns it from here on and releases it.
	Body *mcp.Buffer
	// Params are the Mcp-Param-* headers: full name, encoded value.
	Params []Header
	// Header holds other request headers to send; may be nil.
	Header http.Header
	// Timeout replaces Config.CallTimeout and Config.CallMax when it is set.
	Timeout time.Duration
	// Principal stands for the user whom the request is for, and Session for the
	// handshake session that the client itself has with the gateway (empty for
	// modern clients). Together with the client capabilities in Body they key the
	// sessions towards a handshake upstream, which no two users share. Both are
	// empty for the gateway's own requests.
	Principal, Session string
	// Credentials replaces Config.Credentials where it is set: it is for the user whom
	// Principal stands for. Sessions towards a handshake upstream are never shared by
	// two sources.
	Credentials CredentialSource
	// Listen marks subscriptions/listen: no deadline, a transport of its own, no
	// place in the concurrency limit.
	Listen bool
}

// Header is one header line.
type Header struct{ Name, Value string }

// Class says in one word why an upstream could not be used. It is a closed set:
// clients see it as data.reason, metrics as error_type.
type Class string

// Classes of failures.
const (
	ClassConnect      Class = "connect"      // no connection, or it broke before the answer began
	ClassTimeout      Class = "timeout"      // no answer within the deadline
	ClassInterrupted  Class = "interrupted"  // the answer ended before its final message
	ClassStatus       Class = "http_status"  // an HTTP status that carries no JSON-RPC message
	ClassUnauthorized Class = "unauthorized" // 401 or 403
	ClassProtocol     Class = "protocol"     // an answer that is not MCP
	ClassVersion      Class = "version"      // no protocol version in common
	ClassTooLarge     Class = "too_large"    // a message over its bound
	ClassOverloaded   Class = "overloaded"   // the concurrency limit or the process's buffer budget
	ClassBreakerOpen  Class = "breaker_open" // not tried, since it failed repeatedly
	ClassRejected     Class = "rejected"     // a JSON-RPC error in answer to a request of the gateway's own
	ClassCanceled     Class = "canceled"     // the caller left
)

// Error tells that an upstream could not be used. Its text is for logs: it may
// hold addresses, so clients get Alias, Class and Retryable only.
type Error struct {
	Alias     string
	Class     Class
	Retryable bool // the same request may succeed later, and was surely not carried out or is safe to repeat
	Err       error
}

// Error gives the alias, the class and the cause.
func (e *Error) Error() string { return fmt.Sprintf("upstream %s: %s: %v", e.Alias, e.Class, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Doer sends requests to one upstream server. *Client implements it.
type Doer interface {
	// Do sends the request and returns its answer as soon as its first message
	// can be told apart; the error is an *Error. Cancelling ctx closes the
	// upstream's stream, which cancels the request there
	// (basic/transports/streamable-http, Cancellation).
	Do(ctx context.Context, req *Request) (Answer, error)
}

// Answer is the answer to one request: notifications, then one final result or
// error, in the form of the modern era whatever the upstream speaks. Its methods
// are not to be called concurrently.
type Answer interface {
	// Next gives the next message, which is valid until the following Next or
	// Close; io.EOF after the final one. Other errors are *Error.
	Next() (*mcp.Message, error)
	// Status is that of HTTP, or what it would be.
	Status() int
	// Waited tells how long the request has waited for the upstream so far.
	Waited() time.Duration
	// Close ends the answer, cancelling what is still under way, and gives all
	// memory back. It must be called, and may be called twice.
	Close()
}
