package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"sync"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Bounds of what a flight keeps until somebody reads it.
const (
	maxHeld         = 1 << 20 // bytes of notifications
	maxHeldMessages = 256     // notifications
	maxHeldRequests = 32      // requests of the server
)

// flight is one request that is under way at a handshake server. Whoever asked
// may leave it while a user answers, and somebody else come back to it.
type flight struct {
	session *session
	id      []byte   // raw JSON, as the server knows it
	token   []byte   // of progress, likewise
	ids     [32]byte // what they are usually kept in
	tokens  [32]byte
	method  string
	own     bool   // the session's own request, which nothing is attributed to
	task    []byte // raw JSON: the id of the task whose result is awaited; nil for none
	ctx     context.Context
	cancel  context.CancelCauseFunc // nil for one that is pulled

	// Of a flight that is pulled: nobody can come back to it, so it needs no
	// goroutine of its own. Reading it reads its stream.
	pulled bool
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool

	mu      sync.Mutex
	items   []flightItem
	held    int   // bytes of the notifications among them
	notes   int   // how many those are
	asks    int   // how many are requests
	over    bool  // nothing more counts
	told    bool  // the response was added
	dropped bool  // nobody will read what comes
	err     error // how it ended, unless with a response
	alone   bool  // nobody reads
	wake    chan struct{}
	room    chan struct{}

	// Those that the client has been asked and has not answered. They belong to
	// who reads.
	asked []askedRequest
}

// flightItem is one message of the server.
type flightItem struct {
	buf *mcp.Buffer
	msg *mcp.Message
}

// start sends a request on a session that the caller holds; the flight takes the
// hold over.
func (s *session) start(ctx context.Context, f *flight, body []byte, header http.Header) {
	f.session = s
	f.wake = make(chan struct{}, 1)
	// A call goes on when who asked has left to ask its user.
	if f.pulled = f.own || !s.caps.asks(); f.pulled {
		f.ctx = ctx
	} else {
		f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	}
	if err := s.enroll(f); err != nil {
		f.end(err)
		return
	}
	if !f.pulled {
		go f.run(body, header) // ends with the flight, which whoever reads it ends
		return
	}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		f.yield = yield
		f.run(body, header)
	})
}

// run sends the request and reads what comes.
func (f *flight) run(body []byte, header http.Header) {
	err := f.session.link.request(f.ctx, body, linkMeta{method: f.method, id: f.id, header: header}, f.deliver)
	if err != nil {
		f.session.check(err)
		f.end(err)
	}
	// Without an error it has had its response, or that comes through incoming.
}

// deliver takes a message of the flight's own stream.
func (f *flight) deliver(buf *mcp.Buffer) error {
	m, err := mcp.ParseMessage(buf.B, f.session.pool.conf.MaxDepth)
	if err != nil {
		buf.Release()
		return linkFailure(ClassProtocol, false, fmt.Errorf("read a message: %w", err))
	}
	if m.Kind == mcp.KindResult || m.Kind == mcp.KindError {
		if id := m.ID.In(m.Raw); !bytes.Equal(id, f.id) && (m.Kind == mcp.KindResult || len(id) > 0) {
			buf.Release()
			return linkFailure(ClassProtocol, false, errors.New("the response has another request's id"))
		}
		f.respond(flightItem{buf, m})
		if f.pulled {
			f.yield(struct{}{}) // whatever it says, the rest of the stream is short
		}
		return io.EOF
	}
	if !f.pulled && m.Kind == mcp.KindNotification && f.concerns(m) {
		f.waitForRoom()
	}
	f.session.handle(flightItem{buf, m}, f)
	if f.pulled && !f.yield(struct{}{}) {
		return errDone
	}
	return nil
}

// concerns tells whether a notification is for who reads the flight.
func (f *flight) concerns(m *mcp.Message) bool {
	switch m.Method {
	case mcp.NotificationProgress:
		return len(f.token) > 0 && bytes.Equal(m.ProgressToken.In(m.Raw), f.token)
	case mcp.NotificationMessage:
		return true
	}
	return false
}

// waitForRoom holds the stream back while too much waits to be read. It does not
// for a flight that nobody reads: that drops what is too much.
func (f *flight) waitForRoom() {
	for {
		f.mu.Lock()
		full := !f.alone && !f.over && (f.held > maxHeld || f.notes >= maxHeldMessages)
		if full && f.room == nil {
			f.room = make(chan struct{}, 1)
		}
		room := f.room
		f.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-room:
		case <-f.ctx.Done():
			return
		}
	}
}

// note adds a notification. When there are too many the oldest one goes.
func (f *flight) note(it flightItem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		it.buf.Release()
		return
	}
	f.items = append(f.items, it)
	f.held += len(it.msg.Raw)
	f.notes++
	for i := 0; f.notes > 1 && i < len(f.items) && (f.held > 2*maxHeld || f.notes > 2*maxHeldMessages); {
		if f.items[i].msg.Kind != mcp.KindNotification {
			i++
			continue
		}
		f.forget(f.items[i])
		f.items[i].buf.Release()
		f.items = append(f.items[:i], f.items[i+1:]...)
	}
	signal(f.wake)
}

// forget takes an item out of the count.
func (f *flight) forget(it flightItem) {
	switch it.msg.Kind {
	case mcp.KindNotification:
		f.held -= len(it.msg.Raw)
		f.notes--
	case mcp.KindRequest:
		f.asks--
	}
}

// ask adds a request of the server; false when there are too many.
func (f *flight) ask(it flightItem) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.asks >= maxHeldRequests {
		return false
	}
	f.items = append(f.items, it)
	f.asks++
	signal(f.wake)
	return true
}

// respond adds the response, which ends the flight.
func (f *flight) respond(it flightItem) {
	if !f.close() {
		it.buf.Release()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told = true; f.dropped {
		it.buf.Release()
		return
	}
	f.items = append(f.items, it)
	signal(f.wake)
}

// end ends the flight without a response; later words do not count.
func (f *flight) end(err error) {
	if !f.close() {
		return
	}
	if f.cancel != nil {
		f.cancel(err)
	}
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	signal(f.wake)
}

// close takes the flight out of its session, before anybody is told that it has
// ended: its id may be used again then. False means that this was done before.
func (f *flight) close() bool {
	f.mu.Lock()
	was := f.over
	f.over = true
	f.mu.Unlock()
	if !was {
		f.session.leave(f)
	}
	return !was
}

// abort ends the flight since nobody wants it any more, and tells a server that
// may still be at it (2025-11-25, basic/utilities/cancellation).
func (f *flight) abort(cause error) {
	s := f.session
	s.pool.hold(s)
	defer s.pool.release(s)
	f.end(cause)
	f.mu.Lock()
	tell := !f.told && !f.dropped && f.method != methodInitialize && mayBeAtIt(f.err)
	f.mu.Unlock()
	switch {
	case tell && f.task != nil:
		s.tell(s.pool.cancelTask(f.task), "tasks/cancel")
	case tell:
		msg := append([]byte(`{"jsonrpc":"2.0","method":"`+mcp.NotificationCancelled+`","params":{"requestId":`), f.id...)
		s.tell(append(msg, "}}"...), mcp.NotificationCancelled)
	}
	f.drop()
}

// mayBeAtIt tells whether a request that ended so may still be carried out.
func mayBeAtIt(err error) bool {
	var le *linkError
	switch {
	case errors.Is(err, errNoSession), errors.Is(err, errGone):
		return false
	case errors.As(err, &le):
		return !le.fault.unsent && le.fault.Class != ClassStatus && le.fault.Class != ClassUnauthorized
	}
	return true
}

// drop gives back the memory of all that was not read, and the connection.
func (f *flight) drop() {
	if f.stop != nil {
		f.stop()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, it := range f.items {
		it.buf.Release()
	}
	f.items, f.dropped = nil, true
}

// take gives the next message, waiting until ctx ends. A flight that ended
// without a response gives why.
func (f *flight) take(ctx context.Context) (flightItem, error) {
	for {
		it, ok, err := f.poll()
		if ok || err != nil {
			return it, err
		}
		if f.next != nil {
			if _, more := f.next(); !more {
				f.next = nil // what is still to come does not come on the stream
			}
			continue
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return flightItem{}, context.Cause(ctx)
		}
	}
}

// poll gives the next message if there is one.
func (f *flight) poll() (it flightItem, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items) == 0 {
		if f.told {
			return it, false, linkFailure(ClassInterrupted, false, errors.New("the response was read already"))
		}
		return it, false, f.err // none yet, or why there will be none
	}
	it = f.items[0]
	f.items = f.items[1:]
	f.forget(it)
	signal(f.room)
	return it, true, nil
}

// pollRequest gives the next request of the server if there is one. Notifications
// before it stay.
func (f *flight) pollRequest() (it flightItem, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, it := range f.items {
		if it.msg.Kind == mcp.KindRequest {
			f.items = slices.Delete(f.items, i, i+1)
			f.forget(it)
			return it, true
		}
	}
	return it, false
}

// leaveAlone says whether somebody reads.
func (f *flight) leaveAlone(alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = alone
	signal(f.room)
}

// isOver tells whether the server has no more to say.
func (f *flight) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
