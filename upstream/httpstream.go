package upstream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

const (
	// defaultReconnect is what a broken stream is reopened after when the server
	// has not said how long to wait.
	defaultReconnect = time.Second
	// maxReconnects is how often in a row reopening may fail.
	maxReconnects = 3
)

// httpExchange is the answer to one POST.
type httpExchange struct {
	link    *httpLink
	ctx     context.Context
	pool    pool
	resp    *http.Response // nil when it is closed
	id      []byte         // of the request
	deliver func(*mcp.Buffer) error
}

func (x *httpExchange) close() {
	if x.resp != nil {
		x.resp.Body.Close()
		x.resp = nil
	}
}

// read gives the answer's messages to deliver.
func (x *httpExchange) read() error {
	kind := mediaType(x.resp.Header.Get("Content-Type"))
	coding := x.resp.Header.Get("Content-Encoding") // net/http has taken a gzip away that it decodes
	switch {
	case x.resp.StatusCode/100 != 2:
		return x.link.refusal(x.resp, x)
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return linkFailure(ClassProtocol, false, fmt.Errorf("content encoding %q was not asked for", coding))
	case kind == "application/json":
		return x.readJSON()
	case kind == "text/event-stream":
		return x.readEvents()
	}
	return linkFailure(ClassProtocol, false, fmt.Errorf("status %d with content type %q", x.resp.StatusCode, kind))
}

// answers tells whether the body of a refusal is a JSON-RPC error in answer to
// our request: it has our id. One without is about the HTTP request.
func (x *httpExchange) answers(body []byte) bool {
	m, err := mcp.ParseMessage(body, x.link.server.conf.MaxDepth)
	return err == nil && m.Kind == mcp.KindError && len(x.id) > 0 && bytes.Equal(m.ID.In(m.Raw), x.id)
}

func (x *httpExchange) readJSON() error {
	s := x.link.server
	buf, err := mcp.ReadAll(x.resp.Body, s.conf.MaxMessage, x.resp.ContentLength, s.budget)
	if err != nil {
		return unreadable(x.ctx, err)
	}
	err = x.link.give(buf, x.deliver)
	switch err {
	case nil:
		return linkFailure(ClassProtocol, false, errors.New("the answer is no response"))
	case io.EOF:
		return nil
	}
	return err
}

// give gives a message to deliver, or each message of a batch.
func (h *httpLink) give(buf *mcp.Buffer, deliver func(*mcp.Buffer) error) error {
	if !h.batches || !isBatch(buf.B) {
		return deliver(buf)
	}
	defer buf.Release()
	return eachOf(buf.B, func(raw []byte) error {
		one := mcp.GetBuffer(len(raw) + spliceRoom)
		one.B = append(one.B, raw...)
		return deliver(one)
	})
}

// readEvents reads an event stream. One that ends before the response, but after
// an event id, is taken up again (2025-11-25, basic/transports, Sending Messages
// to the Server, 6).
func (x *httpExchange) readEvents() error {
	s := x.link.server
	reader := s.readers.Get().(*sse.Reader)
	defer func() {
		reader.Reset(nil)
		s.readers.Put(reader)
	}()
	lastID, retry := "", defaultReconnect
	for {
		reader.Reset(x.resp.Body)
		fromServer, err := x.pump(reader)
		if err == nil {
			x.drain()
			return nil
		}
		if id := reader.LastID(); id != "" {
			lastID = id
		}
		if d := reader.Retry(); d > 0 {
			retry = d
		}
		x.close()
		if lastID == "" || !fromServer {
			return err
		}
		if x.reopen(lastID, retry) != nil {
			return err // that tells more than why it could not be taken up again
		}
	}
}

// pump gives the messages of one connection to deliver. A nil error means that
// the response was among them; fromServer that the connection broke or ended.
func (x *httpExchange) pump(reader *sse.Reader) (fromServer bool, _ error) {
	for {
		event, err := reader.Next()
		if err != nil {
			err = unreadable(x.ctx, err)
			var le *linkError
			return errors.As(err, &le) && le.fault.Class == ClassInterrupted, err
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		buf := mcp.GetBuffer(len(event.Data) + spliceRoom)
		buf.B = append(buf.B, event.Data...)
		switch err := x.link.give(buf, x.deliver); err {
		case nil:
		case io.EOF:
			return false, nil
		default:
			return false, err
		}
	}
}

// reopen takes the stream up where it broke.
func (x *httpExchange) reopen(lastID string, retry time.Duration) error {
	for failures := 0; ; {
		if err := sleep(x.ctx, retry); err != nil {
			return err
		}
		resp, err := x.link.get(x.ctx, x.pool, lastID)
		if err == nil {
			x.resp = resp
			return nil
		}
		var le *linkError
		if failures++; failures == maxReconnects || !errors.As(err, &le) || le.fault.Class == ClassStatus && le.fault.status < 500 {
			return err
		}
		if le.fault.Class == ClassUnauthorized && x.link.source != nil {
			return err // the source has nothing else to show
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain gives the server a moment to end the stream after its response, so that
// the connection can be used again.
func (x *httpExchange) drain() {
	now, lingers := time.Now(), &x.link.server.lingers
	if now.UnixNano() < lingers.Load() {
		return
	}
	body := x.resp.Body
	timer := time.AfterFunc(drainTime, func() { body.Close() })
	n, _ := io.CopyN(io.Discard, body, drainBytes)
	if !timer.Stop() || n == drainBytes {
		lingers.Store(now.Add(lingerMemory).UnixNano())
	}
}

// get opens an event stream with a GET.
func (h *httpLink) get(ctx context.Context, p pool, lastID string) (*http.Response, error) {
	resp, err := h.send(ctx, p, httpMessage{method: http.MethodGet, lastID: lastID})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && mediaType(resp.Header.Get("Content-Type")) == "text/event-stream" {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil, errNoStream
	}
	return nil, h.refusal(resp, nil)
}

// listen implements link. A stream that gave an event id is taken up again when
// its connection ends, since then nothing is lost; others end.
func (h *httpLink) listen(ctx context.Context, opened func()) error {
	resp, err := h.get(ctx, h.server.listens, "")
	if err != nil {
		return noStream(err)
	}
	reader := sse.NewReader(nil, int(h.server.conf.MaxMessage))
	x := &httpExchange{link: h, ctx: ctx, pool: h.server.listens, resp: resp}
	defer x.close()
	opened()
	lastID, retry := "", defaultReconnect
	for {
		reader.Reset(x.resp.Body)
		err := h.relay(ctx, reader)
		if id := reader.LastID(); id != "" {
			lastID = id
		}
		if d := reader.Retry(); d > 0 {
			retry = d
		}
		x.close()
		if lastID == "" || ctx.Err() != nil || x.reopen(lastID, retry) != nil {
			return err
		}
	}
}

// noStream tells what a refused GET means: 405 says that there is no such stream
// (2025-11-25, basic/transports, Listening for Messages from the Server, 3), and
// other refusals of servers that know the session are read the same way.
func noStream(err error) error {
	var le *linkError
	if errors.As(err, &le) && le.fault.Class == ClassStatus && le.fault.status < 500 && le.fault.status != http.StatusTooManyRequests ||
		errors.As(err, &le) && le.fault.status == http.StatusNotImplemented {
		return errNoStream
	}
	return err
}

// relay gives the messages of a stream of the server's own to incoming.
func (h *httpLink) relay(ctx context.Context, reader *sse.Reader) error {
	for {
		event, err := reader.Next()
		if err != nil {
			return unreadable(ctx, err)
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		if h.batches && isBatch(event.Data) {
			_ = eachOf(event.Data, func(raw []byte) error { // it fails for what is not JSON, which nobody waits for
				h.in.message(raw)
				return nil
			})
			continue
		}
		h.in.message(event.Data)
	}
}

// unreadable makes the error of an answer that could not be read to its end.
func unreadable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, mcp.ErrTooLarge), errors.Is(err, sse.ErrTooLarge):
		return linkFailure(ClassTooLarge, false, err)
	case errors.Is(err, mcp.ErrOverBudget):
		return linkFailure(ClassOverloaded, false, err)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return linkFailure(ClassProtocol, false, err)
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return linkFailure(ClassInterrupted, false, fmt.Errorf("read the answer: %w", err))
}
