package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// maxQueued is how many messages of one answer wait for their reader. The process
// is not kept waiting, since what it writes is for others, too.
const maxQueued = 1024

var errSlow = errors.New("too many messages wait to be read")

// stdioCall is one request and its answer, which is read as the body of a
// response. What it shares with the connection is guarded by conn.mu.
type stdioCall struct {
	conn      *stdioConn
	id, token string
	listen    bool
	logs      bool   // the request asked for log messages
	closed    func() // is told that the answer is closed
	closing   sync.Once

	line    *outLine
	detach  func() bool // from the request's context
	queue   []*mcp.Buffer
	status  int // of an answer that begins with its final message; 0 otherwise
	dropped int
	err     error         // what follows the queue; nil while more may come
	ready   chan struct{} // has room for one: something has changed

	event, rest []byte // the event that is being read
}

// send sends the request and waits until the answer begins. An error means that
// there is none, and that the request did not go out unless ctx has ended.
func (c *stdioCall) send(ctx context.Context, line []byte) error {
	conn := c.conn
	conn.mu.Lock()
	c.line = conn.process.in.put(line)
	c.detach = context.AfterFunc(ctx, func() { conn.cancel(c) })
	conn.mu.Unlock()
	select {
	case <-c.line.written:
		if err := c.line.err; err != nil {
			return &egress.DialError{Err: fmt.Errorf("write to the process: %w", err)}
		}
	case <-c.ready: // it can be answered or have ended before that is noticed
	}
	c.wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// wait returns when there is something to read.
func (c *stdioCall) wait() {
	for c.empty() {
		<-c.ready
	}
}

func (c *stdioCall) empty() bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return len(c.queue) == 0 && c.err == nil
}

// take takes one message of the answer and owns its buffer. conn.mu is held.
func (c *stdioCall) take(m *mcp.Message, buf *mcp.Buffer) {
	final := m.Kind != mcp.KindNotification
	switch {
	case len(c.queue) < maxQueued || final:
	case c.listen:
		buf.Release()
		c.fail(errSlow)
		return
	default: // progress and logs: a later one says more
		buf.Release()
		c.dropped++
		return
	}
	if final && len(c.queue) == 0 {
		c.status = statusOf(m)
	} else {
		c.status = 0
	}
	c.queue = append(c.queue, buf)
	if final || m.Method == mcp.NotificationCancelled {
		c.fail(io.EOF)
		return
	}
	c.wake()
}

// statusOf gives the status that a final message would have over HTTP
// (2026-07-28, basic/transports/streamable-http).
func statusOf(m *mcp.Message) int {
	if m.Kind == mcp.KindError {
		switch m.Code {
		case mcp.CodeMethodNotFound:
			return http.StatusNotFound
		case mcp.CodeHeaderMismatch, mcp.CodeMissingClientCapability, mcp.CodeUnsupportedProtocol:
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// fail ends the answer. conn.mu is held.
func (c *stdioCall) fail(err error) {
	if c.remove() {
		c.err = err
	}
	if c.dropped > 0 {
		c.conn.log.Debug("notifications were not read in time", "dropped", c.dropped)
		c.dropped = 0
	}
	c.wake()
}

func (c *stdioCall) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// remove takes the call away from the connection. It tells whether it was there.
// conn.mu is held.
func (c *stdioCall) remove() bool {
	if c.conn.calls[c.id] != c {
		return false
	}
	delete(c.conn.calls, c.id)
	if c.token != "" {
		delete(c.conn.tokens, c.token)
	}
	if c.detach != nil {
		c.detach()
	}
	return true
}

// discard drops the messages that nobody will read. conn.mu is held.
func (c *stdioCall) discard() {
	for _, buf := range c.queue {
		buf.Release()
	}
	c.queue = nil
}

// next waits for the next message. The caller owns it.
func (c *stdioCall) next() (*mcp.Buffer, error) {
	c.wait()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, c.err
	}
	buf := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return buf, nil
}

// response gives the answer the form of HTTP: JSON when there is nothing but the
// final message, else an event stream.
func (c *stdioCall) response() *http.Response {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	resp := &http.Response{
		StatusCode:    http.StatusOK,
		Header:        http.Header{"Content-Type": {"text/event-stream"}},
		ContentLength: -1,
		Body:          c,
	}
	if c.status != 0 {
		resp.StatusCode = c.status
		resp.Header["Content-Type"] = []string{"application/json"}
		resp.ContentLength = int64(len(c.queue[0].B))
		resp.Body = &stdioJSON{call: c}
	}
	return resp
}

// Read implements io.Reader: it gives the messages as events.
func (c *stdioCall) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		buf, err := c.next()
		if err != nil {
			return 0, err
		}
		c.event = sse.AppendEvent(c.event[:0], buf.B)
		c.rest = c.event
		buf.Release()
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Close implements io.Closer. It cancels the request unless its answer is
// complete, and may be called twice.
func (c *stdioCall) Close() error {
	c.closing.Do(func() {
		c.conn.cancel(c)
		c.conn.mu.Lock()
		c.discard()
		c.conn.mu.Unlock()
		c.closed()
	})
	return nil
}

// stdioJSON is the body of an answer that is its final message alone.
type stdioJSON struct {
	call *stdioCall
	buf  *mcp.Buffer
	rest []byte
}

// Read implements io.Reader.
func (j *stdioJSON) Read(b []byte) (int, error) {
	if j.buf == nil {
		buf, err := j.call.next()
		if err != nil {
			return 0, err
		}
		j.buf, j.rest = buf, buf.B
	}
	if len(j.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, j.rest)
	j.rest = j.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (j *stdioJSON) Close() error {
	j.buf.Release()
	j.rest = nil
	return j.call.Close()
}
