package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// lateLogs is how long a call that was given up may still cause log messages.
const lateLogs = 10 * time.Second

// stdioConn sorts what one process writes into the answers of its requests.
type stdioConn struct {
	pool    *stdioPool
	log     *slog.Logger
	pace    pacer
	ready   chan struct{} // closed when process is set
	process *process

	mu     sync.Mutex
	calls  map[string]*stdioCall // by the raw JSON of their ids
	tokens map[string]*stdioCall // by that of their progress tokens
	late   map[string]time.Time  // since when calls are given up that were not answered
	err    error                 // why it ended
}

var _ receiver = (*stdioConn)(nil)

func newStdioConn(p *stdioPool) *stdioConn {
	return &stdioConn{
		pool:   p,
		log:    p.launcher.log,
		ready:  make(chan struct{}),
		calls:  map[string]*stdioCall{},
		tokens: map[string]*stdioCall{},
		late:   map[string]time.Time{},
	}
}

func (c *stdioConn) begin(p *process) {
	c.process = p
	close(c.ready)
}

// open makes the call of a request, so that its answer finds it. closed is called
// when the answer is closed.
func (c *stdioConn) open(r *mcp.Request, closed func()) (*stdioCall, error) {
	call := &stdioCall{
		conn:   c,
		id:     string(r.ID.In(r.Raw)),
		token:  string(r.Meta.ProgressToken.In(r.Raw)),
		listen: r.Method == mcp.MethodListen,
		logs:   r.Meta.LogLevel.Ok(),
		closed: closed,
		ready:  make(chan struct{}, 1),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, &egress.DialError{Err: c.err}
	}
	if c.calls[call.id] != nil || call.token != "" && c.tokens[call.token] != nil {
		return nil, errors.New("another request has the same id or progress token")
	}
	c.calls[call.id] = call
	if call.token != "" {
		c.tokens[call.token] = call
	}
	return call, nil
}

// line implements receiver.
func (c *stdioConn) line(buf *mcp.Buffer) {
	m, err := mcp.ParseMessage(buf.B, c.pool.depth)
	if err != nil {
		notMessage(&c.pace, c.log, len(buf.B), err)
		buf.Release()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.receiver(m)
	if call == nil {
		c.log.Debug("skip a message for no request under way", "method", m.Method)
		buf.Release()
		return
	}
	call.take(m, buf)
}

// receiver finds the call that a message is for. c.mu is held.
func (c *stdioConn) receiver(m *mcp.Message) *stdioCall {
	switch m.Kind {
	case mcp.KindResult, mcp.KindError:
		id := m.ID.In(m.Raw)
		if m.Kind == mcp.KindError && (id == nil || string(id) == "null") {
			return c.only() // its sender could not read the id
		}
		delete(c.late, string(id))
		return c.calls[string(id)]
	case mcp.KindNotification:
		return c.notified(m)
	}
	return nil // the server must not send requests (2026-07-28, basic/transports/stdio)
}

// notified finds the call that a notification is for. c.mu is held.
func (c *stdioConn) notified(m *mcp.Message) *stdioCall {
	switch m.Method {
	case mcp.NotificationProgress:
		return c.tokens[string(m.ProgressToken.In(m.Raw))]
	case mcp.NotificationMessage:
		// Nothing in it says which request it belongs to, and it must not reach
		// another user than that one's.
		if call := c.only(); call != nil && call.logs && c.settled(time.Now()) {
			return call
		}
		return nil
	}
	id := m.SubscriptionID.In(m.Raw)
	if m.Method == mcp.NotificationCancelled {
		id = mcp.Find(m.Raw, m.Params, "requestId").In(m.Raw)
	}
	if call := c.calls[string(id)]; call != nil && call.listen {
		return call
	}
	return nil
}

// only gives the call that is under way, unless there are several. Listen streams
// do not count. c.mu is held.
func (c *stdioConn) only() *stdioCall {
	var only *stdioCall
	for _, call := range c.calls {
		switch {
		case call.listen:
		case only != nil:
			return nil
		default:
			only = call
		}
	}
	return only
}

// settled tells whether no call that was given up may still be worked on. c.mu is
// held.
func (c *stdioConn) settled(now time.Time) bool {
	for id, since := range c.late {
		if now.Sub(since) > lateLogs {
			delete(c.late, id)
		}
	}
	return len(c.late) == 0
}

// lost implements receiver.
func (c *stdioConn) lost(id []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call := c.calls[string(id)]; call != nil {
		call.fail(err)
	}
}

// ended implements receiver.
func (c *stdioConn) ended(err error) {
	<-c.ready
	if err != nil {
		c.pool.launcher.failed(time.Since(c.process.began))
	} else {
		err = errEnded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, call := range c.calls {
		call.fail(fmt.Errorf("the answer is not complete: %w", err))
	}
}

// cancel gives a call up. The server is told when it knows of the request and may
// still be working on it.
func (c *stdioConn) cancel(call *stdioCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.id] != call {
		return // it is answered
	}
	call.discard()
	call.fail(errGivenUp)
	if call.line != nil && !c.process.in.withdraw(call.line) {
		now := time.Now()
		c.settled(now) // forget the old ones
		c.late[call.id] = now
		c.process.in.put(cancellation(call.id))
	}
}

var errGivenUp = errors.New("the request was given up")

// cancellation is the notification that cancels a request
// (2026-07-28, basic/patterns/cancellation).
func cancellation(id string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"jsonrpc":"2.0","method":"` + mcp.NotificationCancelled + `","params":{"requestId":`)
	b.WriteString(id)
	b.WriteString("}}\n")
	return b.Bytes()
}
