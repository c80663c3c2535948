// Package federation makes many upstream servers look like one: it merges their
// lists, routes what names one of them, and fans their notifications out. One
// table serves lists and routes, so what is hidden cannot be called. It imports
// federation/tenant, upstream, upstream/mcp, upstream/sse, cache and auth/seal.
package federation

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// ErrNoEndpoint tells that no tenant or upstream is registered for an endpoint.
var ErrNoEndpoint = errors.New("no such endpoint")

// ScopeError tells that what is asked for is there, and that the caller's token lacks
// scopes for it (2026-07-28, basic/authorization, Scope Challenge Handling).
type ScopeError struct {
	// Needed are all the scopes that policy wants for it, also those that the token
	// has.
	Needed []string
}

// Error names the scopes.
func (e *ScopeError) Error() string { return "needs the scopes " + strings.Join(e.Needed, " ") }

// Elsewhere is the error for a request about something that another replica holds,
// such as the retry of a call that is parked there: the request has to go to that
// replica.
type Elsewhere struct {
	Holder string // the peer address of the replica, as upstream.Deps.Holder
	Alias  string // of the upstream that it is about
}

// Error names the holder.
func (e *Elsewhere) Error() string { return "held by the replica at " + e.Holder }

// Endpoint names what a URL stands for.
type Endpoint struct {
	Tenant string
	Alias  string // the one upstream behind /t/{tenant}/u/{alias}/mcp; empty for the merged endpoint
	// Toolset is the one behind /t/{tenant}/s/{toolset}/mcp, where only what it
	// selects is there; empty for other endpoints. Not with Alias.
	Toolset string
	// Discovery is the mode that the URL asks for; empty for the tenant's own.
	Discovery tenant.DiscoveryMode
}

// Call is one message from a client whose envelope and headers have been
// checked. It is not used after Handle or Listen returned.
type Call struct {
	Endpoint  Endpoint
	Principal tenant.Principal
	// Session is the id of the client's handshake session; empty for modern
	// clients.
	Session string
	// NoHeaders tells that the client owes no Mcp-Param-* headers, as those of
	// earlier revisions do not: they are derived from the body unseen.
	NoHeaders bool
	// Token is the access token that the client showed, and TokenExpires when it
	// ends; empty where it showed none or an API key. It is exchanged for tokens
	// that upstreams accept (RFC 8693), and goes nowhere else.
	Token        string
	TokenExpires time.Time
	Request      *mcp.Request
	Header       http.Header // as received: Mcp-Param-* and what an upstream's configuration names are used
	// Notify sends one notification to the client before the response. It may
	// be nil when the client takes none.
	Notify func(raw []byte) error

	bounds  []bound // what Handle counts the call against, for its caller
	resumed bool    // it is the retry of a call that waited for a sign-in
}

// Reply is the final message for the client, with the client's own id.
type Reply struct {
	Status int // of HTTP
	Body   *mcp.Buffer
	// ErrorType is the error_type label: "" for success, the JSON-RPC code,
	// "tool_error" or a class of upstream failures.
	ErrorType string
	// Upstream is the alias that answered; empty for what the gateway answers.
	Upstream string
	// Waited is how long the call waited for upstreams; the rest of its time is
	// the gateway's own.
	Waited time.Duration
}

// Subscription is one client's listen stream.
type Subscription struct {
	// Ack is the first message to send.
	Ack []byte
	// End is the completion result to send before the stream is closed from our
	// side (basic/patterns/subscriptions, Graceful Closure).
	End []byte

	queue *Queue
	close func()
}

// NewSubscription makes a Subscription whose messages are those of a queue. Close
// calls end, which must bear a second call.
func NewSubscription(ack []byte, queue *Queue, completion []byte, end func()) *Subscription {
	return &Subscription{Ack: ack, End: completion, queue: queue, close: end}
}

// Next takes the next message to send, nil when none waits. open is false when none
// will come any more: the federation has ended the subscription (a reader that is
// too slow, a registration that went).
func (s *Subscription) Next() (message []byte, open bool) { return s.queue.next() }

// Notify has ready be called, until another one is set, whenever Next may give
// something else than before; at once if it does already. ready may be called from
// several goroutines at once, and must not wait.
func (s *Subscription) Notify(ready func()) { s.queue.onChange(ready) }

// Close ends the subscription; it may be called twice.
func (s *Subscription) Close() { s.close() }
