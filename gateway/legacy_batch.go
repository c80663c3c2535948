package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// maxBatch bounds the messages of one batch.
const maxBatch = 100

// isBatch tells whether a body is a JSON array.
func isBatch(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// batch serves the messages of a batch at the same time (2025-03-26,
// basic/transports, Sending Messages to the Server). Its responses come as one
// array, or as events where a message had to be sent earlier.
func (x *exchange) batch() error {
	messages, bad := splitBatch(x.body.B, x.edge.limits.MaxDepth)
	if bad != nil {
		return malformed(bad)
	}
	if x.accept.sse {
		x.await(phaseWaiting, x.edge.limits.KeepAlive)
	}
	b := &batch{x: x}
	var work sync.WaitGroup
	var failed []error
	for _, raw := range messages {
		if err := b.serve(raw, &work); err != nil {
			failed = append(failed, err)
		}
	}
	work.Wait()
	if err := errors.Join(failed...); err != nil && !b.started {
		return err // else it would take the place of the responses
	}
	x.counted = b.started // by its requests
	b.finish()
	return nil
}

// splitBatch gives the messages of a batch.
func splitBatch(body []byte, maxDepth int) ([][]byte, *mcp.Error) {
	// Wrapped into a request, the array is checked like any other JSON.
	wrapped := append(append([]byte(`{"jsonrpc":"2.0","method":"batch","params":{"batch":`), body...), "}}"...)
	req, bad := mcp.ParseRequest(wrapped, maxDepth+3)
	if bad != nil {
		return nil, bad
	}
	array := mcp.Find(wrapped, req.Params, "batch")
	if len(bytes.TrimRight(wrapped[array.End:], " \t\r\n")) != len("}}") {
		return nil, mcp.Errorf(mcp.CodeParse, "Parse error: data after the batch")
	}
	var list [][]byte
	for at := range mcp.Elements(wrapped, array) {
		if list = append(list, at.In(wrapped)); len(list) > maxBatch {
			return nil, mcp.Errorf(mcp.CodeInvalidRequest, "A batch may have %d messages", maxBatch)
		}
	}
	if len(list) == 0 {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "The batch is empty")
	}
	return list, nil
}

// batch is one batch that is being served.
type batch struct {
	x       *exchange
	started bool // there is a request, so that there will be responses

	mu        sync.Mutex
	responses [][]byte // that were not sent as events
}

// serve serves one message; requests run on, counted by work.
func (b *batch) serve(raw []byte, work *sync.WaitGroup) error {
	x, h := b.x, b.x.edge.handshakes
	req, bad := mcp.ParseRequest(raw, x.edge.limits.MaxDepth)
	if bad != nil {
		if msg, err := mcp.ParseMessage(raw, x.edge.limits.MaxDepth); err == nil && isResponse(msg) {
			return h.answered(x.r.Context(), x.legacy, msg)
		}
		b.started = true
		b.respond(mcp.AppendErrorResponse(nil, req.ID.In(raw), bad))
		return nil
	}
	if req.IsNotification() {
		return h.notified(x.r.Context(), x.legacy, req)
	}
	b.started = true
	work.Go(func() { b.request(req) })
	return nil
}

// request answers one request of the batch.
func (b *batch) request(req *mcp.Request) {
	x := &exchange{
		edge: b.x.edge, r: b.x.r, place: b.x.place, id: b.x.id, client: b.x.client, start: time.Now(),
		caller: b.x.caller, who: b.x.who, asked: b.x.asked,
		tenant: b.x.tenant, method: legacyLabel(req.Method), legacy: b.x.legacy, accept: b.x.accept, req: req,
	}
	defer func() {
		if p := recover(); p != nil {
			b.fail(x, panicked(p))
		}
		x.count(time.Since(x.start))
	}()
	ctx := x.startSpan()
	t := &turn{x: x, out: b.x, session: x.legacy, state: b.x.state, req: req}
	body, err := t.runInBatch(ctx)
	switch {
	case err != nil:
		b.fail(x, err)
	case !t.cancelled:
		b.respond(append([]byte(nil), body.B...))
		body.Release()
	}
}

// fail answers one request with an error.
func (b *batch) fail(x *exchange, err error) {
	f := x.failure(err)
	if f.rpc == nil {
		f.rpc = mcp.Errorf(mcp.CodeInternal, "%s", http.StatusText(f.status))
	}
	b.respond(mcp.AppendErrorResponse(nil, x.req.ID.In(x.req.Raw), f.rpc))
}

// runInBatch is run for a request of a batch, which must not hold initialize.
func (t *turn) runInBatch(ctx context.Context) (*mcp.Buffer, error) {
	if t.req.Method == methodInitialize {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "initialize must not be part of a batch")
	}
	return t.run(ctx)
}

// respond sends a response as an event if the response is a stream already, else
// keeps it.
func (b *batch) respond(raw []byte) {
	b.x.mu.Lock()
	streaming := b.x.phase == phaseStream
	if streaming {
		_ = b.x.event(raw, true) // a client that left is no error
	}
	b.x.mu.Unlock()
	if !streaming {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.responses = append(b.responses, raw)
	}
}

// finish ends the response.
func (b *batch) finish() {
	x := b.x
	if !b.started {
		x.acknowledge()
		return
	}
	if len(b.responses) == 0 {
		x.silence()
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == phaseStream {
		for _, raw := range b.responses {
			_ = x.event(raw, false) // a client that left is no error
		}
		x.phase = phaseDone
		return
	}
	x.last(http.StatusOK, append(append([]byte{'['}, bytes.Join(b.responses, []byte{','})...), ']'))
}
