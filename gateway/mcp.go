package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// router is what the edge needs of the federation.
type router interface {
	// Tenant gives the registration that an endpoint is served with, or
	// federation.ErrNoEndpoint when nothing is registered there.
	Tenant(ctx context.Context, e federation.Endpoint) (*tenant.Tenant, error)
	// Handle answers one request.
	Handle(ctx context.Context, c *federation.Call) (*federation.Reply, error)
	// Listen opens a listen stream that lives no longer than ctx.
	Listen(ctx context.Context, c *federation.Call) (*federation.Subscription, error)
	// Watchable gives an error unless updates of the resource params.uri may be
	// subscribed to.
	Watchable(ctx context.Context, c *federation.Call) error
}

// edge is the MCP endpoint on net/http types.
type edge struct {
	router  router
	limits  Limits
	budget  *mcp.Budget
	metrics *telemetry.Metrics
	tracer  trace.Tracer // nil where nothing is traced
	log     *slog.Logger
	guard   *guard
	streams *streams
	auth    *auth.Authenticator
	store   tenant.Store // nil where router knows all that there is
	public  publicURL
	hosts   *hosts
	pages   *pages // nil where there are none
	// open tells that tenants without authentication may be served: nobody else
	// reaches the listener, or that was acknowledged.
	open bool

	handshakes *handshakes
	peers      *peers // nil where this is the only replica

	versions      []string // that are spoken per request, the newest first
	supported     []byte   // the same as JSON
	supportedText string   // and for people
	comment       []byte   // a comment line of an event stream

	// Header values, made once.
	typeJSON, typeSSE, noCache, noBuffering, noSniff []string
}

// newEdge makes the endpoint; the caller sets its collaborators.
func newEdge() *edge {
	e := &edge{
		versions:    mcp.ModernVersions(),
		comment:     sse.AppendComment(nil),
		typeJSON:    []string{typeJSON},
		typeSSE:     []string{typeSSE},
		noCache:     []string{"no-cache"},
		noBuffering: []string{"no"},
		noSniff:     []string{"nosniff"},
	}
	e.supportedText = strings.Join(e.versions, ", ")
	e.supported = append(e.supported, '[')
	for i, v := range e.versions {
		if i > 0 {
			e.supported = append(e.supported, ',')
		}
		e.supported = mcp.AppendQuote(e.supported, v)
	}
	e.supported = append(e.supported, ']')
	return e
}

// serve answers one HTTP request to an MCP endpoint. address gives where the client is,
// behind trusted proxies.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, p place, address func() string) {
	x := &exchange{
		edge: e, r: r, place: p, start: time.Now(), address: address,
		caller: tenant.Principal{Tenant: p.at.Tenant},
		method: methodOther, id: requestID(r.Header),
		w: w, rc: http.NewResponseController(w),
	}
	if e.log.Enabled(r.Context(), slog.LevelDebug) {
		x.client = address()
	}
	x.serve()
}

// serve answers the request, whatever happens.
func (x *exchange) serve() {
	x.edge.metrics.InFlight.Inc()
	defer x.finish()
	h := x.w.Header()
	h[headerRequestID] = []string{x.id}
	h["X-Content-Type-Options"] = x.edge.noSniff
	run := (*exchange).run
	if x.passed != nil {
		run = (*exchange).runPassed
	}
	if err := run(x); err != nil {
		x.fail(err)
	}
}

// run takes the steps of a request until one fails or the response is complete.
// The order is that of the design's table.
func (x *exchange) run() error {
	e := x.edge
	if !e.guard.allowAt(x.r, x.host) {
		return refuse(http.StatusForbidden, "origin", "Forbidden: this Origin or Host may not use the endpoint")
	}
	allowPage(x.w.Header(), x.r)
	t, err := e.router.Tenant(x.r.Context(), x.at)
	if err != nil {
		return err
	}
	x.tenant = x.at.Tenant
	if isPreflight(x.r) { // it carries no token (Fetch standard, 3.3.5)
		x.preflight()
		return nil
	}
	if err := x.authenticate(t); err != nil {
		return err
	}
	if x.r.Method != http.MethodPost {
		return x.otherMethod()
	}
	if err := x.negotiate(); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	req, bad := mcp.ParseRequest(x.body.B, e.limits.MaxDepth)
	if x.req = req; bad != nil {
		return x.odd(bad)
	}
	if !e.modern(x.r.Header, req) && (!req.IsNotification() || e.hasSession(x.r.Header)) {
		return x.serveLegacy()
	}
	if req.IsNotification() {
		// Revision 2026-07-28 has no notification that a client sends over HTTP, and
		// nobody waits for one.
		x.acknowledge()
		return nil
	}
	return x.serveModern()
}

// serveModern answers a request of the era without sessions.
func (x *exchange) serveModern() error {
	x.method = methodLabel(x.req.Method)
	ctx := x.startSpan()
	if err := x.edge.check(x.r.Header, x.at, x.req); err != nil {
		return err
	}
	x.call = x.newCall(x.req)
	if x.req.Method == mcp.MethodListen {
		return x.listen(ctx)
	}
	return x.handle(ctx)
}

// negotiate looks at the headers that say what is sent and what is wanted.
func (x *exchange) negotiate() error {
	h := x.r.Header
	if !isJSON(h) {
		return refuse(http.StatusUnsupportedMediaType, "content_type", "Content-Type must be application/json")
	}
	if !isPlain(h) {
		err := refuse(http.StatusUnsupportedMediaType, "content_type", "Content-Encoding is not supported")
		err.header = [2]string{"Accept-Encoding", "identity"} // RFC 9110, 15.5.16
		return err
	}
	if x.accept = parseAccept(h); !x.accept.any() {
		return refuse(http.StatusNotAcceptable, "not_acceptable", "Accept must allow application/json or text/event-stream")
	}
	return nil
}

// read reads the body within its bounds.
func (x *exchange) read() error {
	e := x.edge
	if len(x.r.Header["Expect"]) > 0 {
		// Reading writes "100 Continue" first, and the connection may still have the
		// deadline of its last response.
		x.expect(0)
	}
	x.await(phaseBody, e.limits.BodyTimeout)
	var err error
	if x.r.ContentLength > e.limits.MaxBody {
		err = mcp.ErrTooLarge
	} else {
		x.body, err = mcp.ReadAll(x.r.Body, e.limits.MaxBody, x.r.ContentLength, e.budget)
	}
	if err != nil {
		return x.unread(err)
	}
	x.disarm()
	return nil
}

// unread tells why a body could not be read.
func (x *exchange) unread(err error) error {
	switch {
	case errors.Is(err, mcp.ErrTooLarge):
		// A body that is not much too large is read to its end, so that the client
		// gets the answer and the connection stays usable.
		if x.r.ContentLength <= 2*x.edge.limits.MaxBody {
			_, _ = io.CopyN(io.Discard, x.r.Body, x.edge.limits.MaxBody) // what fails here shows when the answer is written
		}
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "The request is larger than the gateway takes")
	case errors.Is(err, mcp.ErrOverBudget):
		return &refusal{
			status: http.StatusServiceUnavailable, class: "overloaded", header: retryAfter(time.Second),
			rpc: mcp.Errorf(mcp.CodeInternal, "The gateway holds too many messages at the moment"),
		}
	case x.isLate():
		return refuse(http.StatusRequestTimeout, "timeout", "The request did not arrive in time")
	case x.gone():
		return errGone
	}
	return refuse(http.StatusBadRequest, "body", "The request's body could not be read")
}

// handle has the federation answer the request.
func (x *exchange) handle(ctx context.Context) error {
	if x.accept.sse {
		x.call.Notify = x.notify
		x.await(phaseWaiting, x.edge.limits.KeepAlive)
	}
	reply, err := x.edge.router.Handle(ctx, &x.call)
	var other *federation.Elsewhere
	if errors.As(err, &other) && x.edge.peers != nil && x.passed == nil {
		return x.passOn(ctx, other)
	}
	if err != nil {
		return err
	}
	defer reply.Body.Release()
	x.errorType, x.upstream, x.waited = closedLabel(reply.ErrorType), reply.Upstream, reply.Waited
	if x.gone() {
		return errGone
	}
	x.reply(reply.Status, reply.Body.B)
	return nil
}
