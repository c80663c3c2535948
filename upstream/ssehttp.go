package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// sseServer is what all sessions with one server over the deprecated HTTP+SSE
// transport share (2024-11-05, basic/transports, HTTP with SSE). The transport
// itself is the one of the official SDK, of which only the raw level is used: it
// keeps params, results and the data of errors as they are.
type sseServer struct {
	conf           *Config
	url            *url.URL
	bad            error // why conf.URL cannot be used
	log            *slog.Logger
	calls, listens pool
	userAgent      []string
}

func newSSEServer(conf *Config, calls, listens pool, deps Deps) *sseServer {
	s := &sseServer{conf: conf, log: deps.Logger, calls: calls, listens: listens, userAgent: []string{"causeway"}}
	s.url, s.bad = parseURL(conf.URL)
	return s
}

// close gives the idle connections back.
func (s *sseServer) close() {
	s.calls.Close()
	s.listens.Close()
}

// open is a linkMaker: it opens the stream that carries all messages of the
// server, and waits for the event that says where ours go.
func (s *sseServer) open(ctx context.Context, in incoming, source CredentialSource) (link, error) {
	if s.bad != nil {
		return nil, linkFailure(ClassConnect, true, fmt.Errorf("configuration: %w", s.bad))
	}
	transport := sdk.SSEClientTransport{
		Endpoint:     s.url.String(),
		HTTPClient:   &http.Client{Transport: &sseTrips{s, source}},
		MaxEventSize: int(s.conf.MaxMessage) + 1<<10, // with the names of its fields
	}
	stream, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	conn, err := transport.Connect(stream)
	if !detach() {
		cancel()
		if err == nil {
			conn.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, sseFailure(ctx, err)
	}
	l := &sseLink{server: s, in: in, conn: conn, cancel: cancel, done: make(chan struct{})}
	go l.read(stream) // close waits for it
	return l, nil
}

// sseFailure makes the error of a link from one of the transport's.
func sseFailure(ctx context.Context, err error) error {
	if le, ok := errors.AsType[*linkError](err); ok && le.fault.unshown {
		return le // also when the deadline has passed meanwhile
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var known *linkError
	if errors.As(err, &known) {
		return known
	}
	if err == io.EOF {
		return linkFailure(ClassConnect, true, errors.New("the session's stream has ended"))
	}
	if where, ok := errors.AsType[*url.Error](err); ok {
		err = where.Err // the address is the server's, with what it may hold
	}
	return linkFailure(ClassProtocol, false, err)
}

// sseTrips makes the HTTP requests of one session.
type sseTrips struct {
	*sseServer
	source CredentialSource // may be nil
}

// RoundTrip implements http.RoundTripper for the transport: it chooses the
// connection and sets the header, and makes an error of each answer that is none
// of the transport's.
func (s *sseTrips) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if req.URL.Scheme != s.url.Scheme || req.URL.Host != s.url.Host {
		// The server says where messages go. They carry credentials, which are for
		// the server that is configured.
		return nil, linkFailure(ClassProtocol, true, errors.New("the endpoint for messages is on another server"))
	}
	resp, err := exchange(req.Context(), s.source, func(lines http.Header) (*http.Response, error) {
		return s.trip(req, lines)
	})
	switch {
	case err != nil:
		return nil, err
	case req.Method == http.MethodGet:
		return streamOf(resp)
	}
	return accepted(resp)
}

// trip makes one HTTP request with the lines of a source.
func (s *sseTrips) trip(req *http.Request, lines http.Header) (*http.Response, error) {
	ctx := req.Context()
	more, _ := ctx.Value(sseHeader{}).(http.Header)
	header := make(http.Header, 4+len(more)+len(lines))
	passHeader(header, more, false)
	maps.Copy(header, req.Header)
	header["User-Agent"] = s.userAgent
	injectTrace(ctx, header)
	showLines(header, lines)
	out := req.WithContext(ctx)
	out.Header = header
	if req.GetBody != nil {
		var err error
		if out.Body, err = req.GetBody(); err != nil {
			return nil, linkFailure(ClassConnect, true, err)
		}
	}
	p := s.calls
	if req.Method == http.MethodGet {
		p = s.listens
	}
	resp, err := p.RoundTrip(out)
	if err != nil {
		return nil, unsentOr(ctx, err)
	}
	return resp, nil
}

// sseHeader is the context key of the header lines that go with one message: the
// transport has no other way to hand them through.
type sseHeader struct{}

// streamOf judges the answer to the GET of a session's stream.
func streamOf(resp *http.Response) (*http.Response, error) {
	kind := resp.Header.Get("Content-Type")
	if resp.StatusCode == http.StatusOK && mediaType(kind) == "text/event-stream" {
		return resp, nil
	}
	resp.Body.Close()
	return nil, sseRefusal(resp)
}

// accepted judges the answer to the POST of one message.
func accepted(resp *http.Response) (*http.Response, error) {
	// The rest is read, so that the connection can be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	resp.Body.Close()
	resp.Body = http.NoBody
	switch resp.StatusCode / 100 {
	case 2:
		return resp, nil
	case 4:
		if resp.StatusCode == http.StatusNotFound {
			return nil, linkFailure(ClassStatus, true, errNoSession)
		}
	}
	return nil, sseRefusal(resp)
}

// sseRefusal makes the error of a status or content type that is none of the
// transport's.
func sseRefusal(resp *http.Response) error {
	err := &statusError{resp.StatusCode, resp.Header.Get("Content-Type")}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return linkFailure(ClassUnauthorized, false, err)
	case status < 300:
		return linkFailure(ClassProtocol, false, err)
	default:
		f := &fault{status: status, Error: Error{Class: ClassStatus, Err: err}}
		// RFC 6585, 4 and RFC 9110, 15.6.4: it was not carried out.
		f.Retryable = status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
		return &linkError{f}
	}
}

// sseLink is one session over HTTP+SSE.
type sseLink struct {
	server *sseServer
	in     incoming
	conn   sdk.Connection
	cancel context.CancelFunc // ends the stream
	done   chan struct{}      // closed when nothing more comes
}

var _ link = (*sseLink)(nil)

// request implements link.
func (l *sseLink) request(ctx context.Context, msg []byte, meta linkMeta, _ func(*mcp.Buffer) error) error {
	return l.post(ctx, msg, meta)
}

// post implements link.
func (l *sseLink) post(ctx context.Context, msg []byte, meta linkMeta) error {
	m, err := jsonrpc.DecodeMessage(msg)
	if err != nil {
		return fmt.Errorf("read the message to be sent: %w", err)
	}
	if err := l.conn.Write(context.WithValue(ctx, sseHeader{}, meta.header), m); err != nil {
		return sseFailure(ctx, err)
	}
	return nil
}

// negotiated implements link: the transport is older than the header that says
// the version.
func (l *sseLink) negotiated(string) {}

// listen implements link: the stream is open already.
func (l *sseLink) listen(_ context.Context, opened func()) error {
	opened()
	return nil
}

// close implements link: the session is its stream.
func (l *sseLink) close(ctx context.Context) {
	l.cancel()
	l.conn.Close()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

// read gives what comes on the stream to the session.
func (l *sseLink) read(stream context.Context) {
	defer close(l.done)
	defer l.cancel()
	for {
		m, err := l.conn.Read(stream)
		if stream.Err() != nil {
			return
		}
		if err == io.EOF {
			l.in.gone(linkFailure(ClassInterrupted, false, errors.New("the session's stream has ended")))
			return
		}
		var raw []byte
		if err == nil {
			raw, err = jsonrpc.EncodeMessage(m)
		}
		if err != nil {
			l.server.log.Debug("skip an event that is not a message", "error", err)
			continue
		}
		l.in.message(raw)
	}
}
