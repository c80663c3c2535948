package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// Client sends requests to one upstream server over Streamable HTTP. It is safe
// for use by several goroutines.
type Client struct {
	conf   Config
	url    *url.URL
	bad    error // why conf.URL cannot be used
	log    *slog.Logger
	tracer trace.Tracer // may be nil
	budget *mcp.Budget

	calls, listens pool
	guard          *guard
	era            *era
	series         *series
	fixed          fixedHeader
	readers        sync.Pool // of *sse.Reader
	closed         atomic.Bool
	// lingers is the time in Unix nanoseconds until which this upstream is known
	// to leave streams open after their final message.
	lingers atomic.Int64
}

var _ Doer = (*Client)(nil)

// pool is what a Client needs of a transport; *egress.Pool is one.
type pool interface {
	http.RoundTripper
	Close()
}

// fixedHeader holds the header lines that are the same for all requests, so that
// they are not allocated for each.
type fixedHeader struct{ contentType, accept, userAgent []string }

// New makes a client with transports of its own. A URL that cannot be used makes
// every request fail with ClassConnect.
func New(conf Config, transports *egress.Transports, deps Deps) *Client {
	conf.fill()
	settings := conf.egress()
	return newClient(conf, transports.Calls(settings), transports.Listens(settings), deps)
}

func newClient(conf Config, calls, listens pool, deps Deps) *Client {
	conf.fill()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		conf:    conf,
		log:     deps.Logger.With("tenant", conf.Tenant, "upstream", conf.Alias),
		tracer:  deps.Tracer,
		budget:  deps.Budget,
		calls:   calls,
		listens: listens,
		era:     newEra(mcp.ModernVersions()),
		series:  deps.Metrics.acquire(conf.Tenant, conf.Alias),
		fixed: fixedHeader{
			contentType: []string{"application/json"},
			// 2026-07-28, basic/transports/streamable-http, Sending Messages, 2.
			accept:    []string{"application/json, text/event-stream"},
			userAgent: []string{"causeway"},
		},
	}
	c.url, c.bad = parseURL(conf.URL)
	c.readers.New = func() any { return sse.NewReader(nil, int(conf.MaxMessage)) }
	c.guard = newGuard(&c.conf, c.log, c.series)
	return c
}

// fill puts the defaults where nothing is set.
func (conf *Config) fill() {
	fill(&conf.ConnectTimeout, DefaultConnectTimeout)
	fill(&conf.CallTimeout, DefaultCallTimeout)
	fill(&conf.CallMax, DefaultCallMax)
	fill(&conf.IdleTimeout, DefaultIdleTimeout)
	fill(&conf.MaxInFlight, DefaultMaxInFlight)
	fill(&conf.BreakerFailures, DefaultBreakerFailures)
	fill(&conf.BreakerOpen, DefaultBreakerOpen)
	fill(&conf.MaxMessage, DefaultMaxMessage)
	fill(&conf.MaxDepth, DefaultMaxDepth)
	conf.Sessions.fill(conf.Process != nil)
	if conf.Era == "" {
		conf.Era = EraAuto
	}
}

// egress says how the server is dialled.
func (conf *Config) egress() egress.Settings {
	return egress.Settings{Checked: conf.Checked, ConnectTimeout: conf.ConnectTimeout, IdleTimeout: conf.IdleTimeout}
}

func fill[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the upstream's URL is malformed") // the cause would quote it, with what it may hold
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the upstream's URL is not an http or https URL")
	case u.User != nil:
		return nil, errors.New("the upstream's URL holds credentials")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Close makes further requests fail with ClassConnect and gives idle connections
// and metrics back. Requests under way end normally; cancel their contexts to end
// them at once. It may be called twice.
func (c *Client) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.calls.Close()
	c.listens.Close()
	c.series.release()
}

// Do implements Doer. The message in req.Body must name mcp.VersionModern; req
// itself may be reused when Do has returned.
//
// A request is sent once more, after a short pause and within its deadline, when
// nothing of it went out, or when its method only reads and its answer did not
// begin. What went out on a connection that then broke may have been carried out,
// so a tools/call is not repeated then.
func (c *Client) Do(ctx context.Context, req *Request) (Answer, error) {
	r := &Response{client: c, req: *req, start: time.Now()}
	// Both may be part of Body, which is given back before they are last needed.
	r.req.ID = append(r.ids[:0], req.ID...)
	r.req.ProgressToken = append(r.tokens[:0], req.ProgressToken...)
	r.payload.init(req.Body)
	r.req.Body = nil
	if f := r.begin(ctx); f != nil {
		r.Close()
		return nil, &f.Error
	}
	return r, nil
}

// request makes the HTTP request for one attempt.
func (c *Client) request(ctx context.Context, r *Response) *http.Request {
	template := http.Request{
		Method: http.MethodPost, URL: c.url, Host: c.url.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        c.header(ctx, &r.req, r.version, r.lines),
		Body:          r.payload.reader(),
		ContentLength: int64(len(r.payload.data)),
	}
	// net/http calls it only when nothing of the request went out.
	template.GetBody = r.payload.again
	return template.WithContext(ctx)
}

// header makes the header of a request
// (2026-07-28, basic/transports/streamable-http, Request Metadata). lines are those of
// the request's source.
func (c *Client) header(ctx context.Context, req *Request, version string, lines http.Header) http.Header {
	h := make(http.Header, 8+len(req.Params)+len(req.Header)+len(lines))
	passHeader(h, req.Header, true)
	for _, p := range req.Params {
		h.Set(p.Name, p.Value)
	}
	line := make([]string, 0, 3)
	h["Content-Type"] = c.fixed.contentType
	h["Accept"] = c.fixed.accept
	h["User-Agent"] = c.fixed.userAgent
	line = append(line, version)
	h[mcp.HeaderProtocolVersion] = line[0:1:1]
	line = append(line, req.Method)
	h[mcp.HeaderMethod] = line[1:2:2]
	if req.HasName {
		line = append(line, mcp.EncodeHeader(req.Name))
		h[mcp.HeaderName] = line[2:3:3]
	}
	injectTrace(ctx, h)
	showLines(h, lines)
	return h
}

// usable tells why no request can be sent at all.
func (c *Client) usable() error {
	if c.closed.Load() {
		return errClosed
	}
	if c.bad != nil {
		return fmt.Errorf("configuration: %w", c.bad)
	}
	return nil
}

var errClosed = errors.New("the client is closed")
