package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// streams is the registry of the open listen streams: it bounds them, keeps them
// alive, and ends them.
type streams struct {
	limits  Limits
	metrics *telemetry.Metrics
	log     *slog.Logger

	ctx    context.Context // of all streams
	cancel context.CancelFunc
	quit   chan struct{}  // closed when the streams have to end
	work   sync.WaitGroup // goroutines of streams, and handlers that open one

	mu           sync.Mutex
	draining     bool
	live         map[*stream]struct{}
	perPrincipal map[principal]int
	empty        chan struct{} // closed when draining and no stream is left
}

// principal is who is counted together.
type principal struct{ tenant, issuer, subject string }

// stream is one client's open subscriptions/listen.
type stream struct {
	who  principal
	born time.Time
	sub  *federation.Subscription
	out  sink
	conn net.Conn        // taken over from net/http; nil on HTTP/2; guarded by the registry until it works for the stream
	gone <-chan struct{} // closed when the client left
	stop context.CancelFunc
	// ready has a value when sub may have something to send. A stream that follow works
	// for has woken instead.
	ready chan struct{}
	woken atomic.Bool
	grant grant
	// feed is what a GET stream of the handshake era has besides; nil for others.
	feed *feed
}

// sink is where a stream's messages go. Instead of a message that is nil a
// comment goes out, or nothing at the end.
type sink interface {
	send(message []byte) error
	comment() error
	// end sends the last message and ends the response.
	end(message []byte)
}

func newStreams(limits Limits, metrics *telemetry.Metrics, log *slog.Logger) *streams {
	s := &streams{
		limits: limits, metrics: metrics, log: log,
		quit: make(chan struct{}), empty: make(chan struct{}),
		live: map[*stream]struct{}{}, perPrincipal: map[principal]int{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// add takes a place for a stream, or tells why there is none. The caller ends with
// work.Done.
func (s *streams) add(p tenant.Principal, g grant) (*stream, error) {
	st := &stream{who: principal{p.Tenant, p.Issuer, p.Subject}, born: time.Now(), grant: g}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return nil, &refusal{
			status: http.StatusServiceUnavailable, class: "draining", header: retryAfter(time.Second),
			rpc: mcp.Errorf(mcp.CodeInternal, "The gateway is shutting down"),
		}
	case len(s.live) >= s.limits.Streams, s.perPrincipal[st.who] >= s.limits.StreamsPerPrincipal:
		e := mcp.Errorf(federation.CodeOverQuota, "Too many listen streams are open")
		e.Data = []byte(`{"retryAfterMs":1000}`)
		return nil, e
	}
	s.live[st] = struct{}{}
	s.perPrincipal[st.who]++
	s.work.Add(1)
	return st, nil
}

// remove gives the stream's place back and ends what belongs to it.
func (s *streams) remove(st *stream) {
	if st.stop != nil {
		st.stop()
	}
	if st.sub != nil {
		s.metrics.StreamClosed(st.who.tenant)
		st.sub.Close()
	}
	st.feed.close()
	if st.conn != nil {
		_ = st.conn.Close() // the peer may have closed it first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, st)
	if s.perPrincipal[st.who]--; s.perPrincipal[st.who] == 0 {
		delete(s.perPrincipal, st.who)
	}
	if s.draining && len(s.live) == 0 {
		close(s.empty)
	}
}

// drain ends all streams gracefully and refuses new ones; streams that do not end
// with ctx are cut off.
func (s *streams) drain(ctx context.Context) error {
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		close(s.quit)
		for st := range s.live {
			st.nudge()
		}
		if len(s.live) == 0 {
			close(s.empty)
		}
	}
	s.mu.Unlock()
	defer s.cancel()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.live {
		if st.conn != nil {
			_ = st.conn.Close() // ends its goroutines
		}
	}
	return errors.New("some listen streams had to be cut off")
}

// join waits for all that works for streams. It comes after drain, and after the
// connections of HTTP/2 were closed.
func (s *streams) join(context.Context) error {
	s.work.Wait()
	return nil
}

// run sends a stream's messages until the client leaves, the federation or the
// gateway ends it, or its time is over. Thousands of streams each have the stack of
// this: what it calls is kept flat, so that a stack need not grow when a message is
// written.
func (s *streams) run(st *stream) {
	timer := time.NewTimer(s.silence(st))
	defer timer.Stop()
	st.ready = make(chan struct{}, 1)
	st.sub.Notify(st.signal)
	for {
		message, what := s.next(st, timer.C)
		var err error
		switch what {
		case stepMessage:
			err = st.out.send(st.feed.translate(message))
		case stepSilence:
			err = st.out.comment()
		case stepRenew:
			err = st.renew()
		case stepEnd:
			st.out.end(st.sub.End)
			return
		case stepGone:
			return
		case stepNothing:
			continue
		}
		if err != nil {
			return // the client left, or takes nothing
		}
		timer.Reset(s.silence(st))
	}
}

// step is what a stream does next.
type step int

const (
	stepMessage step = iota // sends one
	stepSilence             // says that it is alive
	stepRenew               // subscribes anew
	stepEnd                 // ends the response
	stepGone                // ends, as the client left
	stepNothing             // waits on
)

// next waits for what a stream is to do. silent gives a value when it has been silent
// for long enough.
//
//go:noinline
func (s *streams) next(st *stream, silent <-chan time.Time) ([]byte, step) {
	select {
	case <-st.ready:
		return st.take()
	case <-st.feed.changed():
		return nil, stepRenew
	case <-silent:
		if s.left(st) <= 0 {
			return nil, stepEnd
		}
		return nil, stepSilence
	case <-st.feed.over():
		return nil, stepEnd
	case <-st.grant.revoked:
		return nil, stepEnd
	case <-s.quit:
		return nil, stepEnd
	case <-st.gone:
		return nil, stepGone
	}
}

// take takes what a stream is to send next.
func (st *stream) take() ([]byte, step) {
	message, open := st.sub.Next()
	switch {
	case message != nil:
		st.signal() // there may be more
		return message, stepMessage
	case !open:
		return nil, stepEnd
	}
	return nil, stepNothing
}

// signal says that there may be something to send.
func (st *stream) signal() {
	select {
	case st.ready <- struct{}{}:
	default: // it was said already
	}
}

// silence is how long the stream may be silent from here on.
func (s *streams) silence(st *stream) time.Duration {
	return min(s.limits.KeepAlive, s.left(st))
}

// left is how long the stream may last from here on.
func (s *streams) left(st *stream) time.Duration {
	return min(s.limits.StreamLifetime-time.Since(st.born), st.feed.left(), st.grant.left())
}

// listen opens a listen stream and hands it over to the registry.
func (x *exchange) listen(ctx context.Context) error {
	if !x.accept.sse {
		return refuse(http.StatusNotAcceptable, "not_acceptable", "Accept must allow text/event-stream")
	}
	return x.hold(ctx, func(life context.Context, st *stream) (err error) {
		st.sub, err = x.edge.router.Listen(life, &x.call)
		return err
	})
}

// hold makes the response a stream of the registry. open sets what the stream
// subscribes to, for as long as life lasts.
func (x *exchange) hold(ctx context.Context, open func(life context.Context, st *stream) error) error {
	s := x.edge.streams
	st, err := s.add(x.caller, newGrant(x.who, x.host))
	if err != nil {
		return err
	}
	x.listening = true
	handed := false
	defer func() {
		if !handed {
			s.remove(st)
		}
	}()
	if err := x.stillAllowed(ctx); err != nil {
		return err
	}
	// The stream outlives the handler and the request's context.
	life := s.ctx
	if x.span != nil {
		life = trace.ContextWithSpanContext(life, trace.SpanContextFromContext(ctx))
	}
	life, st.stop = context.WithCancel(life)
	leave := context.AfterFunc(x.r.Context(), st.stop)
	err = open(life, st)
	leave()
	if err != nil {
		return err
	}
	s.metrics.StreamOpened(st.who.tenant)
	x.taken = time.Since(x.start)
	if x.r.ProtoMajor == 1 {
		handed, err = s.takeOver(x, st)
		return err
	}
	st.out, st.gone = &response{x}, x.r.Context().Done()
	if st.out.send(st.sub.Ack) == nil {
		s.run(st)
	}
	return nil
}
