package gateway

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// takeOver takes an HTTP/1 connection from net/http and leaves the stream to the
// registry, to one goroutine or two of its own, so that an open stream holds neither a
// request nor the buffers and the deep stack of a handler. It tells whether the stream
// is theirs now.
func (s *streams) takeOver(x *exchange, st *stream) (handed bool, err error) {
	x.mu.Lock()
	x.phase, x.status = phaseDone, http.StatusOK
	x.mu.Unlock()
	// What the client sent after its request stays in the buffered reader: the
	// response ends the connection, so nothing after it is answered (RFC 9112, 9.6).
	conn, _, err := x.rc.Hijack()
	if err != nil {
		return false, err
	}
	out := &connection{
		conn:    conn,
		chunked: x.r.ProtoAtLeast(1, 1),
		timeout: s.limits.WriteTimeout,
		quiet:   x.edge.comment,
	}
	st.out = out
	s.mu.Lock()
	st.conn = conn
	s.mu.Unlock()
	head, ack := x.streamHead(out.chunked), st.sub.Ack
	st.sub.Ack = nil
	work := s.follow
	if st.feed != nil {
		gone := make(chan struct{})
		st.gone = gone
		s.work.Go(func() { watch(conn, gone) })
		work = s.run
	}
	s.work.Go(func() {
		defer s.remove(st)
		if out.begin(head, ack) == nil {
			work(st)
		}
	})
	return true, nil
}

// streamHead gives status line and headers of an event stream over HTTP/1.
func (x *exchange) streamHead(chunked bool) []byte {
	h := x.w.Header()
	x.edge.streamHeaders(h)
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	var head bytes.Buffer
	if chunked {
		h.Set("Transfer-Encoding", "chunked")
		head.WriteString("HTTP/1.1 200 OK\r\n")
	} else {
		head.WriteString("HTTP/1.0 200 OK\r\n")
	}
	_ = h.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	return head.Bytes()
}

// watch reads until the client closes its end. A client has nothing to say after
// its request; what it says is dropped.
func watch(conn net.Conn, gone chan<- struct{}) {
	defer close(gone)
	buf := make([]byte, 64)
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}

// connection is the sink of a stream over HTTP/1.
type connection struct {
	conn    net.Conn
	chunked bool // with the chunked coding, else the end of the connection ends the response
	timeout time.Duration
	quiet   []byte // a comment
}

var _ sink = (*connection)(nil)

// begin sends the head of the response with the first message.
func (c *connection) begin(head, message []byte) error {
	return c.write(head, message, "")
}

func (c *connection) send(message []byte) error { return c.write(nil, message, "") }

func (c *connection) comment() error { return c.write(nil, nil, "") }

func (c *connection) end(message []byte) {
	last := ""
	if c.chunked {
		last = "0\r\n\r\n" // the last chunk (RFC 9112, 7.1)
	}
	_ = c.write(nil, message, last) // a client that left is no error
}

// write sends head, one event with the message (or a comment when it is nil) and
// tail in one go.
func (c *connection) write(head, message []byte, tail string) error {
	out := c.frame(head, message, tail)
	err := c.conn.SetWriteDeadline(writeDeadline(c.timeout, len(out.B)))
	if err == nil {
		_, err = c.conn.Write(out.B)
	}
	out.Release()
	return err
}

// frame puts together what write sends. It is on no stack any more when that is
// sent.
//
//go:noinline
func (c *connection) frame(head, message []byte, tail string) *mcp.Buffer {
	event := mcp.GetBuffer(len(message) + eventOverhead)
	defer event.Release()
	if message == nil {
		event.B = append(event.B, c.quiet...)
	} else {
		event.B = sse.AppendEvent(event.B, message)
	}
	out := mcp.GetBuffer(len(head) + len(event.B) + 32)
	out.B = append(out.B, head...)
	if c.chunked {
		out.B = append(strconv.AppendInt(out.B, int64(len(event.B)), 16), "\r\n"...)
	}
	out.B = append(out.B, event.B...)
	if c.chunked {
		out.B = append(out.B, "\r\n"...)
	}
	out.B = append(out.B, tail...)
	return out
}

// response is the sink of a stream over HTTP/2: an ordinary handler writes it.
type response struct{ x *exchange }

var _ sink = (*response)(nil)

func (r *response) send(message []byte) error {
	if message == nil {
		return r.comment()
	}
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	r.x.beginStream()
	return r.x.event(message, true)
}

func (r *response) comment() error {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	r.x.beginStream()
	return r.x.write(r.x.edge.comment, true)
}

func (r *response) end(message []byte) {
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	if message == nil {
		r.x.phase = phaseDone
		return
	}
	r.x.last(http.StatusOK, message)
}
