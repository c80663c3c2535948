package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// minRate is the least speed, in bytes per second, at which a client must take a
// large response.
const minRate = 64 << 10

// eventOverhead is room for what an event has around its data, in bytes.
const eventOverhead = 32

// sniffed is from which size on net/http does not find out the length of a
// response by itself.
const sniffed = 2048

// beginStream sends the head of an event stream, once. x.mu is held.
func (x *exchange) beginStream() {
	if x.phase == phaseStream {
		return
	}
	x.phase, x.status = phaseStream, http.StatusOK
	x.edge.streamHeaders(x.w.Header())
	x.w.WriteHeader(http.StatusOK)
}

// event writes one message as an event: one write, and one flush where more will
// follow. x.mu is held.
func (x *exchange) event(raw []byte, flush bool) error {
	buf := mcp.GetBuffer(len(raw) + eventOverhead)
	defer buf.Release()
	buf.B = sse.AppendEvent(buf.B, raw)
	return x.write(buf.B, flush)
}

// last sends the final message, in the form that was begun or that the client
// takes. Only JSON can carry another status than 200. x.mu is held.
func (x *exchange) last(status int, body []byte) {
	if x.phase != phaseStream && (x.accept.json || !x.accept.sse || status != http.StatusOK) {
		x.json(status, body)
		return
	}
	x.beginStream()
	// No flush: what is buffered goes out together with the end of the response.
	// A client that does not take it is no error: the connection ends with it.
	_ = x.event(body, false)
	x.phase = phaseDone
}

// json writes the whole response. x.mu is held.
func (x *exchange) json(status int, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = x.edge.typeJSON
	if len(body) >= sniffed {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.phase, x.status = phaseDone, status
	x.expect(len(body))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // a client that left is no error
}

// plainError is the body of an error that is not of MCP.
func plainError(status int) []byte {
	return []byte(`{"error":` + strconv.Quote(http.StatusText(status)) + "}\n")
}

// acknowledge answers a notification: 202 and no body.
func (x *exchange) acknowledge() { x.empty(http.StatusAccepted) }

// empty answers without a body.
func (x *exchange) empty(status int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.phase, x.status = phaseDone, status
	x.expect(0)
	x.w.WriteHeader(status)
}

// silence ends the response to a request that is not answered: an event stream
// without a final message, where the client takes one.
func (x *exchange) silence() {
	if !x.accept.sse {
		x.empty(http.StatusNoContent)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expect(0)
	x.beginStream()
	x.phase = phaseDone
}

// write writes to the client within its deadline. x.mu is held.
func (x *exchange) write(p []byte, flush bool) error {
	x.expect(len(p))
	if _, err := x.w.Write(p); err != nil {
		return err
	}
	if !flush {
		return nil
	}
	return x.rc.Flush()
}

// expect sets until when the client must have taken n more bytes. net/http keeps
// the deadline of an HTTP/1 connection from one request to the next, so every
// response sets its own.
func (x *exchange) expect(n int) {
	_ = x.rc.SetWriteDeadline(writeDeadline(x.edge.limits.WriteTimeout, n)) // a writer without deadlines has no peer that is slow
}

// writeDeadline is until when n bytes must have been taken.
func writeDeadline(timeout time.Duration, n int) time.Time {
	return time.Now().Add(timeout + time.Duration(n)*time.Second/minRate)
}

// streamHeaders sets the headers of an event stream.
func (e *edge) streamHeaders(h http.Header) {
	h["Content-Type"] = e.typeSSE
	h["Cache-Control"] = e.noCache
	// Asks reverse proxies to pass events on at once (basic/transports/
	// streamable-http, Receiving Messages).
	h["X-Accel-Buffering"] = e.noBuffering
}
