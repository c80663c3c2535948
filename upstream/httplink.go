package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// httpServer is what all sessions with one server over Streamable HTTP of the
// handshake revisions share.
type httpServer struct {
	conf   *Config
	url    *url.URL
	bad    error // why conf.URL cannot be used
	log    *slog.Logger
	budget *mcp.Budget

	calls, listens pool
	fixed          fixedHeader
	stream         []string  // the Accept header of a GET
	readers        sync.Pool // of *sse.Reader
	lingers        atomic.Int64
}

func newHTTPServer(conf *Config, calls, listens pool, deps Deps) *httpServer {
	s := &httpServer{
		conf: conf, log: deps.Logger, budget: deps.Budget, calls: calls, listens: listens,
		fixed: fixedHeader{
			contentType: []string{"application/json"},
			// 2025-11-25, basic/transports, Sending Messages to the Server, 2.
			accept:    []string{"application/json, text/event-stream"},
			userAgent: []string{"causeway"},
		},
		stream: []string{"text/event-stream"},
	}
	s.url, s.bad = parseURL(conf.URL)
	s.readers.New = func() any { return sse.NewReader(nil, int(conf.MaxMessage)) }
	return s
}

// open is a linkMaker.
func (s *httpServer) open(_ context.Context, in incoming, source CredentialSource) (link, error) {
	if s.bad != nil {
		return nil, linkFailure(ClassConnect, true, fmt.Errorf("configuration: %w", s.bad))
	}
	return &httpLink{server: s, in: in, source: source}, nil
}

// close gives the idle connections back.
func (s *httpServer) close() {
	s.calls.Close()
	s.listens.Close()
}

// httpLink is one session over Streamable HTTP (2025-11-25, basic/transports).
type httpLink struct {
	server *httpServer
	in     incoming
	source CredentialSource // may be nil

	// Both are set while initialize is the only message under way.
	session []string // the value of Mcp-Session-Id; nil when the server gave none
	version []string // that of MCP-Protocol-Version; nil before 2025-06-18
	batches bool     // the revision is the one that has them

	closing sync.Once
}

var _ link = (*httpLink)(nil)

// negotiated implements link. The header came with 2025-06-18; batches were part
// of 2025-03-26 only.
func (h *httpLink) negotiated(version string) {
	if version >= version20250618 {
		h.version = []string{version}
	}
	h.batches = version == version20250326
}

// request implements link.
func (h *httpLink) request(ctx context.Context, msg []byte, meta linkMeta, deliver func(*mcp.Buffer) error) error {
	resp, err := h.send(ctx, h.server.calls, httpMessage{method: http.MethodPost, body: msg, more: meta.header})
	if err != nil {
		return err
	}
	x := &httpExchange{link: h, ctx: ctx, pool: h.server.calls, resp: resp, id: meta.id, deliver: deliver}
	defer x.close()
	if meta.method == methodInitialize {
		if err := h.adopt(resp); err != nil {
			return err
		}
	}
	return x.read()
}

// adopt takes the session id that the answer to initialize carries. One with
// other than visible ASCII characters (2025-11-25, basic/transports, Session
// Management, 1) could not be sent back.
func (h *httpLink) adopt(resp *http.Response) error {
	id := resp.Header.Get(mcp.HeaderSessionID)
	if id == "" || resp.StatusCode >= 300 {
		return nil
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return linkFailure(ClassProtocol, false, errors.New("the session id is malformed"))
		}
	}
	h.session = []string{id}
	return nil
}

// post implements link.
func (h *httpLink) post(ctx context.Context, msg []byte, meta linkMeta) error {
	resp, err := h.send(ctx, h.server.calls, httpMessage{method: http.MethodPost, body: msg, more: meta.header})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return h.refusal(resp, nil)
	}
	// A rest that is short is read, so that the connection can be used again; what
	// it says does not matter.
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	return nil
}

// close implements link: it ends the session (2025-11-25, basic/transports,
// Session Management, 5). A server that does not allow that says so; either way
// we are through with it.
func (h *httpLink) close(ctx context.Context) {
	h.closing.Do(func() {
		if h.session == nil {
			return
		}
		resp, err := h.send(ctx, h.server.calls, httpMessage{method: http.MethodDelete})
		if err != nil {
			h.server.log.Debug("end a session", "error", err)
			return
		}
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		resp.Body.Close()
	})
}

// httpMessage is what one HTTP request is made of.
type httpMessage struct {
	method string
	body   []byte      // of a POST
	more   http.Header // other header lines; may be nil
	lastID string      // the last event id, of a GET; empty for none
}

// send makes one HTTP request, with what shows the server who calls.
func (h *httpLink) send(ctx context.Context, p pool, m httpMessage) (*http.Response, error) {
	return exchange(ctx, h.source, func(lines http.Header) (*http.Response, error) {
		return h.trip(ctx, p, m, lines)
	})
}

// trip makes one HTTP request with the lines of a source.
func (h *httpLink) trip(ctx context.Context, p pool, m httpMessage, lines http.Header) (*http.Response, error) {
	s := h.server
	header := make(http.Header, 7+len(m.more)+len(lines))
	passHeader(header, m.more, false)
	header["User-Agent"] = s.fixed.userAgent
	if h.session != nil {
		header[mcp.HeaderSessionID] = h.session
	}
	if h.version != nil {
		header[mcp.HeaderProtocolVersion] = h.version
	}
	template := http.Request{
		Method: m.method, URL: s.url, Host: s.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
	}
	switch m.method {
	case http.MethodPost:
		header["Content-Type"] = s.fixed.contentType
		header["Accept"] = s.fixed.accept
		template.Body = io.NopCloser(bytes.NewReader(m.body))
		template.ContentLength = int64(len(m.body))
		// net/http calls it only when nothing of the request went out.
		template.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(m.body)), nil }
	case http.MethodGet:
		header["Accept"] = s.stream
		if m.lastID != "" {
			header["Last-Event-Id"] = []string{m.lastID}
		}
	}
	injectTrace(ctx, header)
	showLines(header, lines)
	resp, err := p.RoundTrip(template.WithContext(ctx))
	if err != nil {
		return nil, unsentOr(ctx, err)
	}
	return resp, nil
}

// unsentOr makes the error of a failed round trip.
func unsentOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	f := &fault{Error: Error{Class: ClassConnect, Err: err}, unsent: egress.NotSent(err)}
	f.undialled(err)
	return &linkError{f}
}

// maxRefusal bounds what is read of an answer that only says no, in bytes.
const maxRefusal = 64 << 10

// refusal reads an answer whose status is no success. When it is a JSON-RPC error
// in answer to the request with that id, it is given to deliver.
func (h *httpLink) refusal(resp *http.Response, x *httpExchange) error {
	buf, err := mcp.ReadAll(io.LimitReader(resp.Body, maxRefusal), maxRefusal, -1, h.server.budget)
	var text []byte
	if err == nil {
		text = buf.B
	}
	// With a source, a 401 is about the gateway, whatever it says to whom.
	ours := h.source != nil && resp.StatusCode == http.StatusUnauthorized
	if x != nil && err == nil && !ours && x.answers(text) {
		if err := x.deliver(buf); err != io.EOF {
			return err
		}
		return nil
	}
	defer buf.Release()
	status := resp.StatusCode
	if h.session != nil && (status == http.StatusNotFound || status == http.StatusBadRequest && blamesSession(text)) {
		return errNoSession
	}
	f := &fault{status: status, Error: Error{
		Class: ClassStatus,
		Err:   &statusError{status, resp.Header.Get("Content-Type")},
	}}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Class = ClassUnauthorized
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		f.Retryable = true // RFC 6585, 4 and RFC 9110, 15.6.4: it was not carried out
	}
	return &linkError{f}
}

// blamesSession tells whether the text of a 400 says that the session is not
// known, or not initialized: what some SDKs answer where the specification wants
// 404. It is no answer to the request itself, so that was not carried out.
func blamesSession(text []byte) bool {
	text = bytes.ToLower(text)
	return bytes.Contains(text, []byte("session")) || bytes.Contains(text, []byte("not initialized"))
}
