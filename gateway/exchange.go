package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// phase is how far a response has come.
type phase uint8

const (
	phaseBody    phase = iota // the request is being read
	phaseWaiting              // nothing was sent, and it is not known what will be
	phaseStream               // event stream headers were sent
	phaseDone                 // nothing more may be written
)

// exchange is one request and its response. Its methods belong to the handler's
// goroutine, but for tick and notify.
type exchange struct {
	place
	edge   *edge
	r      *http.Request
	start  time.Time
	id     string // of the request, for logs
	client string // address, where it is logged
	caller tenant.Principal
	// who is the caller as it was authenticated; nil where anybody may call, and for
	// what another replica passed on.
	who     *auth.Caller
	asked   auth.Request  // what who was found by
	address func() string // of the client
	// passed is what another replica says of a request that it passed on; nil for one
	// that a client sent here.
	passed *passedHead

	accept accepted
	legacy *session  // of a client of the handshake era; nil for others
	state  softState // of that session
	req    *mcp.Request
	body   *mcp.Buffer // that req lives in
	call   federation.Call
	span   trace.Span // nil where nothing is traced

	// For metrics, the span and the access log.
	method    string
	tenant    string // "" until it is known to be registered
	upstream  string
	errorType string
	waited    time.Duration
	taken     time.Duration // total, where that is not the handler's whole time
	listening bool          // the registry of streams waits for the handler
	counted   bool          // its parts were counted
	elsewhere bool          // another replica has answered, and counts it

	mu     sync.Mutex // guards what follows: the timer and Notify write too
	w      http.ResponseWriter
	rc     *http.ResponseController
	phase  phase
	status int
	timer  *time.Timer
	late   bool // the body did not come in time
	away   bool // another replica answers: it keeps the stream alive
}

// errDone tells a late notification that its response has ended.
var errDone = errors.New("the response has ended")

// finish ends the exchange whatever happened: it answers a panic, gives memory
// back and counts.
func (x *exchange) finish() {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		defer panic(p) // it cuts the connection off
	default:
		x.fail(panicked(p))
	}
	x.mu.Lock()
	x.phase = phaseDone
	if x.timer != nil {
		x.timer.Stop()
	}
	x.mu.Unlock()
	x.body.Release()
	total := x.taken
	if total == 0 {
		total = time.Since(x.start)
	}
	e := x.edge
	if x.listening {
		defer e.streams.work.Done()
	}
	e.metrics.InFlight.Dec()
	if !x.counted {
		x.count(total)
	}
}

// panicked makes an error of what a panic gave.
func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// count counts the request, ends its span and logs it.
func (x *exchange) count(total time.Duration) {
	e := x.edge
	if !x.elsewhere {
		e.metrics.Observe(telemetry.Observation{
			Method: x.method, Tenant: x.tenant, Upstream: x.upstream, ErrorType: x.errorType,
			Total: total, Waited: x.waited,
		})
	}
	x.endSpan()
	if e.log.Enabled(x.r.Context(), slog.LevelDebug) {
		e.log.LogAttrs(x.r.Context(), slog.LevelDebug, "request",
			slog.String("request_id", x.id),
			slog.String("client", x.client),
			slog.String("http_method", x.r.Method),
			slog.String("tenant", x.tenant),
			slog.String("alias", x.at.Alias),
			slog.String("toolset", x.at.Toolset),
			slog.String("method", x.method),
			slog.Int("status", x.status),
			slog.String("error_type", x.errorType),
			slog.String("upstream", x.upstream),
			slog.Duration("total", total),
			slog.Duration("waited", x.waited),
		)
	}
}

// await arms the timer for the body, or for a response that does not come.
func (x *exchange) await(p phase, d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.phase = p
	if x.timer == nil {
		x.timer = time.AfterFunc(d, x.tick)
	} else {
		x.timer.Reset(d)
	}
}

// disarm stops the timer where nothing has to be sent while the client waits.
func (x *exchange) disarm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.phase, x.late = phaseWaiting, false
	x.timer.Stop()
}

// tick runs when the timer fires: a body that is late is given up, and a response
// that is late becomes an event stream and gets a comment, so that nobody on the
// way takes the connection for dead.
func (x *exchange) tick() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.away {
		return
	}
	switch x.phase {
	case phaseBody:
		x.late = true
		// Any time that has passed ends the read.
		_ = x.rc.SetReadDeadline(time.Unix(1, 0)) // where it cannot be set, the server's own bounds hold
	case phaseWaiting, phaseStream:
		x.beginStream()
		if x.write(x.edge.comment, true) == nil {
			x.timer.Reset(x.edge.limits.KeepAlive)
		}
	case phaseDone:
	}
}

// notify sends one notification as an event; federation.Call.Notify.
func (x *exchange) notify(raw []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != phaseWaiting && x.phase != phaseStream {
		return errDone
	}
	x.beginStream()
	err := x.event(raw, true)
	if err == nil {
		x.timer.Reset(x.edge.limits.KeepAlive)
	}
	return err
}

// gone tells whether the client has left. A read that was given up ends the
// request's context too, but its client is still there.
func (x *exchange) gone() bool { return x.r.Context().Err() != nil && !x.isLate() }

func (x *exchange) isLate() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.late
}

// failure tells what becomes of an error, and notes it.
func (x *exchange) failure(err error) failure {
	f := mapError(err)
	if f.needed != nil {
		if challenge := x.lacking(f.needed); challenge != "" {
			f.header = [2]string{"WWW-Authenticate", challenge}
		}
	}
	x.errorType = f.errorType
	if f.upstream != "" {
		x.upstream = f.upstream
	}
	if f.internal {
		x.edge.log.Error("serve a request", "request_id", x.id, "method", x.method, "error", err)
	}
	if x.legacy != nil && f.ofRPC {
		// Before 2026-07-28 an error goes with 200 like any other answer, and 404
		// means that the session is over.
		f.status = http.StatusOK
	}
	return f
}

// fail answers an error.
func (x *exchange) fail(err error) {
	if x.gone() && !errors.Is(err, errGone) {
		err = errGone
	}
	f := x.failure(err)
	x.mu.Lock()
	defer x.mu.Unlock()
	if f.status == statusClientGone {
		x.status, x.phase = statusClientGone, phaseDone
		return
	}
	if x.phase == phaseDone {
		return
	}
	if f.header[0] != "" && x.phase != phaseStream {
		x.w.Header().Set(f.header[0], f.header[1])
	}
	if f.rpc == nil {
		if x.phase != phaseStream {
			x.json(f.status, plainError(f.status))
			return
		}
		f.rpc = &mcp.Error{Code: mcp.CodeInternal, Message: http.StatusText(f.status)}
	}
	var id []byte
	if x.req != nil && !f.noID {
		id = x.req.ID.In(x.req.Raw)
	}
	buf := mcp.GetBuffer(256 + len(id) + len(f.rpc.Message) + len(f.rpc.Data))
	defer buf.Release()
	buf.B = mcp.AppendErrorResponse(buf.B, id, f.rpc)
	x.last(f.status, buf.B)
}

// reply sends the final message.
func (x *exchange) reply(status int, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == phaseDone {
		return
	}
	x.last(status, body)
}
