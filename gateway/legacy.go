package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Methods of the handshake era that later revisions have not.
const (
	methodPing        = "ping"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
)

// codeNoSession is the JSON-RPC code that goes with 404 for a session that is not
// served. The specification names none; the SDKs use this one.
const codeNoSession = -32001

// handshakes is what the edge needs for clients of the handshake era.
type handshakes struct {
	ring   *seal.Ring
	peers  *peers // nil where this is the only replica
	states softStates
	limits Limits
	// server is the gateway's own Implementation, raw JSON.
	server []byte
	// forget ends what states do. It comes after all that uses them.
	forget func(context.Context) error

	mu           sync.Mutex
	asking       int // calls that wait for a client's answer
	perPrincipal map[principal]int

	// Calls outlive their clients' connections. ctx ends them in the end, work
	// counts them.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// newHandshakes makes it. The caller ends it with close, then forget.
func newHandshakes(opts *Options) *handshakes {
	h := &handshakes{
		ring:   opts.Ring,
		limits: opts.Limits,
		forget: func(context.Context) error { return nil },

		perPrincipal: map[principal]int{},
	}
	near := newMemoryStates(opts.Limits.Sessions, opts.Logger)
	if h.states = near; opts.Cluster != nil {
		shared := newSharedStates(opts.Cluster.Values, opts.Cluster.Bus, near, opts.Logger)
		h.states, h.forget = shared, shared.close
	}
	h.server = append(mcp.AppendQuote([]byte(`{"name":"causeway","title":"Causeway","version":`), opts.Version), '}')
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// close cuts off the calls that are still under way and waits for them.
func (h *handshakes) close(context.Context) error {
	h.cancel()
	h.work.Wait()
	return nil
}

// ask takes a place for a call that waits for its client's answer, or tells why
// there is none. done gives it back.
func (h *handshakes) ask(p tenant.Principal) (done func(), err error) {
	who := principal{p.Tenant, p.Issuer, p.Subject}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asking >= h.limits.Asking || h.perPrincipal[who] >= h.limits.AskingPerPrincipal {
		e := mcp.Errorf(federation.CodeOverQuota, "Too many calls wait for an answer of their clients")
		e.Data = []byte(`{"retryAfterMs":1000}`)
		return nil, e
	}
	h.asking++
	h.perPrincipal[who]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asking--
		if h.perPrincipal[who]--; h.perPrincipal[who] == 0 {
			delete(h.perPrincipal, who)
		}
	}, nil
}

// Why the context of a call ends.
var (
	errCancelled = errors.New("the client cancelled the request")
	errCutOff    = errors.New("the gateway was stopped")
)

// detach gives a context that does not end when the client's connection does
// (2025-11-25, basic/transports, Sending Messages to the Server), but when it is
// cancelled or the gateway stops. What bounds it are the deadlines of the call
// itself. stop must be called.
func (h *handshakes) detach(ctx context.Context) (detached context.Context, cancel context.CancelCauseFunc, stop func()) {
	h.work.Add(1)
	ctx, cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(h.ctx, func() { cancel(errCutOff) })
	return ctx, cancel, func() {
		release()
		cancel(nil)
		h.work.Done()
	}
}

// hasSession tells whether the request may be one of a session: it names one, and
// its version header names no revision without sessions.
func (e *edge) hasSession(h http.Header) bool {
	return h.Get(mcp.HeaderSessionID) != "" && !e.isModern(h.Get(mcp.HeaderProtocolVersion))
}

// open finds out on whose behalf the request of the handshake era is. A client
// that names no session is served with what its headers say, as one that declared
// nothing.
func (x *exchange) open() error {
	version := x.r.Header.Get(mcp.HeaderProtocolVersion)
	if version != "" && !isLegacyRevision(version) {
		return x.edge.unsupportedRevision(version)
	}
	token := x.r.Header.Get(mcp.HeaderSessionID)
	if token == "" {
		// Without the header it is the first revision that had this transport
		// (2025-11-25, basic/transports, Protocol Version Header).
		x.legacy = &session{revision: cmp.Or(version, revision202503), capabilities: []byte(noCapabilities)}
		return nil
	}
	h := x.edge.handshakes
	s, err := openSession(h.ring, token, x.at, &x.caller, time.Now())
	if err != nil {
		return noSession()
	}
	if x.state, err = h.states.get(x.r.Context(), s.id); err != nil {
		return err
	}
	if x.state.deleted {
		return noSession()
	}
	x.legacy = s
	return nil
}

// noSession refuses a session that is not valid here, has expired or was deleted;
// the client then begins a new one. An error with the request's id would be taken
// by some for the answer to it alone.
func noSession() error {
	return &refusal{status: http.StatusNotFound, class: "session", rpc: mcp.Errorf(codeNoSession, "Session not found"), noID: true}
}

// needsSession refuses what cannot be done for a client without one.
func needsSession() error {
	return refuse(http.StatusBadRequest, "session", "This needs a session: initialize, and send Mcp-Session-Id")
}

// unsupportedRevision refuses a version that is spoken in neither era.
func (e *edge) unsupportedRevision(version string) error {
	err := e.unsupported(version)
	err.Message += ", or with initialize " + strings.Join(legacyRevisions(), ", ")
	return err
}

// serveLegacy answers a request or notification of the handshake era.
func (x *exchange) serveLegacy() error {
	if x.req.Method == methodInitialize && !x.req.IsNotification() {
		return x.initialize()
	}
	if err := x.open(); err != nil {
		return err
	}
	if x.req.IsNotification() {
		if err := x.edge.handshakes.notified(x.r.Context(), x.legacy, x.req); err != nil {
			return err
		}
		x.acknowledge()
		return nil
	}
	x.method = legacyLabel(x.req.Method)
	ctx := x.startSpan()
	if x.accept.sse {
		x.await(phaseWaiting, x.edge.limits.KeepAlive)
	}
	t := &turn{x: x, out: x, session: x.legacy, state: x.state, req: x.req}
	body, err := t.run(ctx)
	if err != nil {
		return err
	}
	defer body.Release()
	switch {
	case t.cancelled:
		x.silence()
	case x.gone():
		return errGone
	default:
		x.reply(http.StatusOK, body.B)
	}
	return nil
}

// notified acts on a notification of a client.
func (h *handshakes) notified(ctx context.Context, s *session, req *mcp.Request) error {
	if req.Method != mcp.NotificationCancelled || s.id == "" {
		// initialized and roots/list_changed: nobody waits for the one, and no modern
		// server can be told of the other.
		return nil
	}
	id := mcp.Find(req.Raw, req.Params, "requestId")
	if !id.Ok() {
		return nil // malformed ones are ignored (basic/utilities/cancellation)
	}
	return h.states.signal(ctx, s.id, signal{kind: signalCancel, key: idKey(req.Raw, id)})
}

// idKey gives a text that is equal for equal ids.
func idKey(raw []byte, id mcp.Span) string {
	if text, ok := mcp.String(raw, id); ok {
		return `"` + text
	}
	return string(id.In(raw))
}

// odd serves a message that is no request on behalf of a session: a response, or
// a batch. bad is what is wrong with it elsewhere.
func (x *exchange) odd(bad *mcp.Error) error {
	if !x.edge.hasSession(x.r.Header) {
		return bad
	}
	if err := x.open(); err != nil {
		return err
	}
	if isBatch(x.body.B) {
		if x.legacy.revision != revision202503 {
			return malformed(bad) // 2025-06-18, changelog: batches are gone
		}
		return x.batch()
	}
	msg, err := mcp.ParseMessage(x.body.B, x.edge.limits.MaxDepth)
	if err != nil || !isResponse(msg) {
		return malformed(bad)
	}
	if err := x.edge.handshakes.answered(x.r.Context(), x.legacy, msg); err != nil {
		return err
	}
	x.acknowledge()
	return nil
}

// malformed refuses a message that cannot be taken, which is no answer to it
// (2025-11-25, basic/transports, Sending Messages to the Server).
func malformed(bad *mcp.Error) error {
	return &refusal{status: http.StatusBadRequest, class: codeLabel(bad.Code), rpc: bad}
}

// isResponse tells whether the message answers a request.
func isResponse(msg *mcp.Message) bool {
	return msg.Kind == mcp.KindResult || msg.Kind == mcp.KindError
}

// otherMethod serves GET and DELETE of a session; whatever else is not POST is
// refused.
func (x *exchange) otherMethod() error {
	get := x.r.Method == http.MethodGet
	if !get && x.r.Method != http.MethodDelete || !x.edge.hasSession(x.r.Header) {
		return &refusal{status: http.StatusMethodNotAllowed, class: "http_method", header: [2]string{"Allow", http.MethodPost}}
	}
	if err := x.open(); err != nil {
		return err
	}
	if get {
		return x.stream()
	}
	h, s := x.edge.handshakes, x.legacy
	err := h.states.update(x.r.Context(), s.id, s.expires, func(st *softState) error {
		*st = softState{deleted: true}
		return nil
	})
	if err == nil {
		err = h.states.signal(x.r.Context(), s.id, signal{kind: signalDeleted})
	}
	if err != nil {
		return err
	}
	x.empty(http.StatusNoContent)
	return nil
}

// legacyLabel gives the label of a method of the handshake era, from a closed set.
func legacyLabel(method string) string {
	switch method {
	case methodInitialize, methodPing, methodSetLevel, methodSubscribe, methodUnsubscribe:
		return method
	}
	if isShared(method) {
		return method
	}
	return methodOther
}

// isShared tells whether the method is one that both eras have.
func isShared(method string) bool {
	return known(method) && !ofTasks(method) && method != mcp.MethodDiscover && method != mcp.MethodListen
}
