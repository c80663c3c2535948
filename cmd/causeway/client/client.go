// Package client is a small MCP client for the command line. It speaks revision
// 2026-07-28 over Streamable HTTP and keeps what it sends and receives byte for
// byte, so that a big integer in an argument or a result stays what it is. It
// imports upstream/mcp and upstream/sse.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// Bounds on what a server may send.
const (
	maxMessage = 64 << 20 // bytes of one message
	maxDepth   = 1000     // of JSON nesting
	maxPages   = 1000     // of one list
)

// errQuiet ends an exchange in which nothing came for Options.Wait.
var errQuiet = errors.New("no answer")

// Options say what to talk to. URL is needed.
type Options struct {
	URL     string
	Header  http.Header   // more request headers, such as Authorization; may be nil
	Wait    time.Duration // the longest time in which nothing comes; 0 waits forever
	Version string        // of this program
}

// Client talks to one MCP endpoint. It is not for concurrent use.
type Client struct {
	opts      Options
	url       *url.URL
	transport *http.Transport
	lastID    int64
}

// New makes a client; it fails when the URL is not one of HTTP.
func New(opts Options) (*Client, error) {
	u, err := url.Parse(opts.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL", u.Redacted())
	}
	return &Client{opts: opts, url: u, transport: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		ForceAttemptHTTP2: true,
		// A connection that waited while somebody answered a question is likely
		// closed by the server when it is used next.
		IdleConnTimeout: 4 * time.Second,
	}}, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is one JSON-RPC request.
type Request struct {
	Method string
	// Name is the value of the header Mcp-Name; HasName tells whether it is due.
	Name    string
	HasName bool
	// Params are the raw members of params, without `_meta`; may be empty.
	Params []byte
	// Headers are the Mcp-Param-* headers: full name and encoded value.
	Headers [][2]string
	// Elicitation declares that the user can be asked.
	Elicitation bool
	// Progress asks for progress notifications.
	Progress bool
}

// Do sends one request and gives its result. Each notification that comes before
// goes to notify, which may be nil; the message is valid during that call only.
// Cancelling ctx closes the stream, which cancels the request at the server
// (basic/transports/streamable-http, Cancellation). Errors are *Error for what
// the server says, *Failure for all else that went wrong.
func (c *Client) Do(ctx context.Context, r *Request, notify func(*mcp.Message)) (*mcp.Message, error) {
	c.lastID++
	id := strconv.AppendInt(nil, c.lastID, 10)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heard := c.watch(cancel)
	defer heard.stop()

	m, err := c.exchange(ctx, r, id, func(m *mcp.Message) {
		heard.reset()
		if notify != nil {
			notify(m)
		}
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err == nil && m.Kind == mcp.KindError:
		return nil, &Error{Code: m.Code, Message: m.ErrorText, Data: m.ErrorData.In(m.Raw)}
	case errors.Is(err, errQuiet):
		return nil, &Failure{fmt.Errorf("nothing came from %s for %s", c.host(), c.opts.Wait), "--timeout sets how long to wait"}
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, c.explain(err)
	}
	return m, nil
}

// exchange posts the request and reads its answer up to the final message.
func (c *Client) exchange(ctx context.Context, r *Request, id []byte, notify func(*mcp.Message)) (*mcp.Message, error) {
	res, err := c.post(ctx, r, id)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	switch {
	case kind == "text/event-stream" && res.StatusCode == http.StatusOK:
		return readStream(res.Body, id, notify)
	case kind == "application/json":
		m, err := readJSON(res, id)
		if err != nil && res.StatusCode != http.StatusOK {
			return nil, &statusError{res.StatusCode, res.Header}
		}
		return m, err
	case res.StatusCode != http.StatusOK:
		return nil, &statusError{res.StatusCode, res.Header}
	}
	return nil, fmt.Errorf("the answer has the content type %q, which is not one of MCP", res.Header.Get("Content-Type"))
}

// post sends the request with the headers that the transport wants
// (basic/transports/streamable-http, Request Metadata).
func (c *Client) post(ctx context.Context, r *Request, id []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.opts.URL, bytes.NewReader(c.body(r, id)))
	if err != nil {
		return nil, err
	}
	for name, values := range c.opts.Header {
		req.Header[name] = values
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "causeway/"+c.opts.Version)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(mcp.HeaderProtocolVersion, mcp.VersionModern)
	req.Header.Set(mcp.HeaderMethod, r.Method)
	if r.HasName {
		req.Header.Set(mcp.HeaderName, mcp.EncodeHeader(r.Name))
	}
	for _, h := range r.Headers {
		req.Header.Set(h[0], h[1])
	}
	hc := &http.Client{
		Transport: c.transport,
		// Following would send the headers, and what they authorise, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return hc.Do(req)
}

// body writes the message.
func (c *Client) body(r *Request, id []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"method":`...)
	b = mcp.AppendQuote(b, r.Method)
	b = append(b, `,"params":{`...)
	if len(r.Params) > 0 {
		b = append(b, r.Params...)
		b = append(b, ',')
	}
	b = append(b, `"_meta":{"`+mcp.MetaProtocolVersion+`":"`+mcp.VersionModern+`","`+mcp.MetaClientInfo+`":{"name":"causeway","version":`...)
	b = mcp.AppendQuote(b, c.opts.Version)
	b = append(b, `},"`+mcp.MetaClientCapabilities+`":`...)
	if r.Elicitation {
		b = append(b, `{"elicitation":{"form":{},"url":{}}}`...)
	} else {
		b = append(b, `{}`...)
	}
	if r.Progress {
		b = append(b, `,"`+mcp.MetaProgressToken+`":`...)
		b = append(b, id...) // no two requests have the same id, so it is good as a token
	}
	return append(b, "}}}"...)
}

// readJSON reads an answer that is one message.
func readJSON(res *http.Response, id []byte) (*mcp.Message, error) {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxMessage+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(raw) > maxMessage {
		return nil, fmt.Errorf("the answer is larger than %d MiB", maxMessage>>20)
	}
	m, err := mcp.ParseMessage(raw, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("the answer is not MCP: %w", err)
	}
	return m, final(m, id)
}

// readStream reads an answer that is a stream of notifications and then the
// final message.
func readStream(body io.Reader, id []byte, notify func(*mcp.Message)) (*mcp.Message, error) {
	for event, err := range sse.NewReader(body, maxMessage).Events() {
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		m, err := mcp.ParseMessage(event.Data, maxDepth)
		if err != nil {
			return nil, fmt.Errorf("an event of the stream is not MCP: %w", err)
		}
		if m.Kind == mcp.KindNotification {
			notify(m)
			continue
		}
		if err := final(m, id); err != nil {
			return nil, err
		}
		// The event's bytes are good only until the next one is read.
		raw := append([]byte(nil), m.Raw...)
		return mcp.ParseMessage(raw, maxDepth)
	}
	return nil, errors.New("the stream ended before the answer came")
}

// final holds that a message is the response to the request with that id.
func final(m *mcp.Message, id []byte) error {
	switch {
	case m.Kind == mcp.KindRequest:
		// Revision 2026-07-28 has no requests from servers.
		return fmt.Errorf("the server sent the request %q, as only older protocol versions allow", m.Method)
	case m.Kind == mcp.KindNotification:
		return errors.New("the answer is a notification")
	case m.Kind == mcp.KindError && !m.ID.Ok():
		return nil
	case string(m.ID.In(m.Raw)) != string(id):
		return errors.New("the answer belongs to another request")
	}
	return nil
}

// watch calls cancel with errQuiet when nothing is heard for the client's wait.
func (c *Client) watch(cancel context.CancelCauseFunc) *quiet {
	if c.opts.Wait <= 0 {
		return &quiet{}
	}
	return &quiet{c.opts.Wait, time.AfterFunc(c.opts.Wait, func() { cancel(errQuiet) })}
}

// quiet is a running watch; the zero value watches nothing.
type quiet struct {
	wait  time.Duration
	timer *time.Timer
}

// reset tells that something was heard.
func (q *quiet) reset() {
	if q.timer != nil && q.timer.Stop() {
		q.timer.Reset(q.wait)
	}
}

func (q *quiet) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}
