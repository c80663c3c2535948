package upstream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	// tellTime bounds how long a notification or an answer to the server may take
	// that nobody waits for, and the end of a session.
	tellTime = 2 * time.Second
	// maxTells bounds how many of those are under way in one session.
	maxTells = 32
)

// errGone tells that what carried a session has broken.
var errGone = errors.New("the session's connection has broken")

// session is one session with a handshake server. Nobody but the holders of its
// key uses it.
type session struct {
	pool *Legacy
	key  sessionKey
	caps *clientCaps // what it declares
	// source shows the server whose session it is; nil where it is shown nobody.
	source *sessionSource

	ready  chan struct{} // closed when the rest is set
	link   link
	offers *offers
	failed error // why there is no session

	// Guarded by pool.mu.
	holds   int           // flights and listeners, and those that wait for ready
	place   *list.Element // among the pool's sessions
	since   time.Time     // of the latest end of use
	dropped bool          // not in the pool any more

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	tells  chan struct{} // a place for each message that nobody waits for

	mu      sync.Mutex
	lost    error              // the server knows the session no more
	flights map[string]*flight // by the raw id

	level  levelState
	stream streamState
}

// lose notes that the session is no more: the next request gets another one. It is out
// of the pool before anybody can know: who was refused in it would get it once more.
func (s *session) lose(why error) {
	s.pool.drop(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = why
	}
}

// check notes when an error says that the server knows the session no more.
func (s *session) check(err error) {
	if errors.Is(err, errNoSession) {
		s.lose(err)
	}
}

// enroll makes a flight known to the session.
func (s *session) enroll(f *flight) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		return s.lost
	}
	if s.flights[string(f.id)] != nil {
		return linkFailure(ClassOverloaded, true, errors.New("the request's id is in use"))
	}
	s.flights[string(f.id)] = f
	return nil
}

// leave takes a flight out that is over, with its hold on the session.
func (s *session) leave(f *flight) {
	s.mu.Lock()
	if s.flights[string(f.id)] == f {
		delete(s.flights, string(f.id))
	}
	s.mu.Unlock()
	s.pool.release(s)
}

// open makes the session: it is called once, and closes ready.
func (s *session) open() {
	defer close(s.ready)
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.pool.conf.CallTimeout, errDeadline)
	defer cancel()
	if err := s.initialize(ctx); err != nil {
		s.failed = err
		s.lose(err)
	}
}

// initialize opens the link and shakes hands (2025-11-25, basic/lifecycle).
func (s *session) initialize(ctx context.Context) error {
	var source CredentialSource
	if s.source != nil {
		source = s.source
	}
	l, err := s.pool.links(ctx, s, source)
	if err != nil {
		return fmt.Errorf("open the session: %w", err)
	}
	s.link = l
	params := append([]byte(`{"protocolVersion":"`+version20251125+`","capabilities":`), s.caps.declared...)
	params = append(append(append(params, `,"clientInfo":`...), s.pool.info...), '}')
	m, err := s.ask(ctx, methodInitialize, params)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if m.Kind == mcp.KindError {
		return linkFailure(ClassRejected, false, fmt.Errorf("initialize was answered with error %d", m.Code))
	}
	o := readOffers(m)
	switch {
	case o == nil:
		return linkFailure(ClassProtocol, false, errors.New("initialize was answered without a protocol version"))
	case !isHandshake(o.version):
		return linkFailure(ClassVersion, false, fmt.Errorf("the server wants version %.20q", o.version))
	}
	s.offers = o
	l.negotiated(o.version)
	if err := l.post(ctx, []byte(`{"jsonrpc":"2.0","method":"`+notificationInitialized+`"}`), linkMeta{method: notificationInitialized}); err != nil {
		return fmt.Errorf("confirm the session: %w", err)
	}
	return nil
}

// ask sends a request of the gateway's own and gives its response.
func (s *session) ask(ctx context.Context, method string, params []byte) (*mcp.Message, error) {
	f := &flight{method: method, own: true, id: s.pool.ownID()}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), f.id...)
	body = mcp.AppendQuote(append(body, `,"method":`...), method)
	body = append(append(append(body, `,"params":`...), params...), '}')
	s.pool.hold(s)
	s.start(ctx, f, body, nil)
	defer f.drop()
	for {
		it, err := f.take(ctx)
		if err != nil {
			f.abort(err)
			return nil, err
		}
		if it.msg.Kind != mcp.KindResult && it.msg.Kind != mcp.KindError {
			it.buf.Release()
			continue
		}
		kept := *it.msg
		kept.Raw = slices.Clone(it.msg.Raw)
		it.buf.Release()
		return &kept, nil
	}
}

// message implements incoming.
func (s *session) message(raw []byte) {
	m, err := mcp.ParseMessage(raw, s.pool.conf.MaxDepth)
	if err != nil {
		s.pool.log.Debug("skip a message that cannot be read", "error", err)
		return
	}
	buf := mcp.GetBuffer(len(raw) + spliceRoom)
	buf.B = append(buf.B, raw...)
	m.Raw = buf.B
	it := flightItem{buf, m}
	if m.Kind == mcp.KindResult || m.Kind == mcp.KindError {
		s.mu.Lock()
		f := s.flights[string(m.ID.In(m.Raw))]
		s.mu.Unlock()
		if f == nil {
			buf.Release() // it came late, or is an error about no request of ours
			return
		}
		f.respond(it)
		return
	}
	s.handle(it, nil)
}

// handle takes a notification or request of the server. f is the flight on whose
// stream it came; nil for none.
func (s *session) handle(it flightItem, f *flight) {
	m := it.msg
	switch {
	case m.Kind == mcp.KindRequest:
		s.requested(it, f)
		return
	case m.Method == mcp.NotificationProgress:
		f = s.flightWith(m, f)
	case m.Method == mcp.NotificationMessage:
		f = s.attributed(f)
	default:
		s.stream.publish(m)
		f = nil
	}
	if f == nil || !f.concerns(m) {
		it.buf.Release()
		return
	}
	f.note(it)
}

// attributed gives the flight that a message belongs to which came with none: the
// only one there is. The session's own requests do not count.
func (s *session) attributed(f *flight) *flight {
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.flights {
		if other.own {
			continue
		}
		if f != nil {
			return nil
		}
		f = other
	}
	return f
}

// flightWith gives the flight that progress is for.
func (s *session) flightWith(m *mcp.Message, f *flight) *flight {
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		if f.concerns(m) {
			return f
		}
	}
	return nil
}

// gone implements incoming.
func (s *session) gone(err error) {
	err = linkFailure(ClassInterrupted, false, fmt.Errorf("%w: %w", errGone, err))
	s.lose(err)
	s.mu.Lock()
	flights := make([]*flight, 0, len(s.flights))
	for _, f := range s.flights {
		flights = append(flights, f)
	}
	s.mu.Unlock()
	for _, f := range flights {
		f.end(err)
	}
	s.stream.end(err)
}

// tell sends a message that nobody waits for: an answer to the server, or a
// notification. When too many are under way it is dropped.
func (s *session) tell(msg []byte, method string) {
	select {
	case s.tells <- struct{}{}:
	default:
		s.pool.log.Debug("drop a message to the server, since too many are under way", "method", method)
		return
	}
	s.pool.hold(s) // the end of the session must not overtake it
	s.pool.background(func() {
		defer s.pool.release(s)
		defer func() { <-s.tells }()
		ctx, cancel := context.WithTimeout(context.Background(), tellTime)
		defer cancel()
		if err := s.link.post(ctx, msg, linkMeta{method: method}); err != nil {
			s.check(err)
			s.pool.log.Debug("tell the server", "method", method, "error", err)
		}
	})
}

// close ends the session at the server. Nobody uses it any more.
func (s *session) close() {
	s.cancel()
	s.mu.Lock()
	known := s.lost == nil || !errors.Is(s.lost, errNoSession)
	s.mu.Unlock()
	if s.link == nil || !known {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	s.link.close(ctx)
}

// isLost tells whether the session is no more.
func (s *session) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}
