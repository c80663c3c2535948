package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// upstreamOf gives a line of a configuration. more are further keys of the
// upstream, each with a comma before it.
func upstreamOf(alias, url string, more ...string) string {
	return fmt.Sprintf("      - {alias: %s, url: %q%s}\n", alias, url, strings.Join(more, ""))
}

// front starts a gateway. process and tenant are lines of the configuration, the
// latter indented by four; upstreams come from upstreamOf.
func front(tb testing.TB, process, tenant string, upstreams ...string) *gatewaytest.Gateway {
	tb.Helper()
	return gatewaytest.Start(tb, "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n"+process+
		"tenants:\n  - name: default\n    auth: {mode: none}\n"+tenant+"    upstreams:\n"+strings.Join(upstreams, ""))
}

// rawClient speaks HTTP with the gateway, on connections of its own.
type rawClient struct {
	tb        testing.TB
	transport *http.Transport
	url       string
}

// newRawClient makes a client for one endpoint.
func newRawClient(tb testing.TB, url string) *rawClient {
	tb.Helper()
	c := &rawClient{tb, &http.Transport{MaxIdleConnsPerHost: 64}, url}
	tb.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// at gives a client for another endpoint over the same connections.
func (c *rawClient) at(url string) *rawClient { return &rawClient{c.tb, c.transport, url} }

// reply is what a client got.
type reply struct {
	status   int
	header   http.Header
	messages []string
}

// last is the final message.
func (r reply) last() string {
	if len(r.messages) == 0 {
		return ""
	}
	return r.messages[len(r.messages)-1]
}

// request makes the HTTP request that goes with a message. header lines are
// "Name: value" and replace what would be sent; one without a value takes it
// away.
func (c *rawClient) request(body string, header ...string) *http.Request {
	c.tb.Helper()
	req, err := http.NewRequestWithContext(c.tb.Context(), http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		c.tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	var a asked
	if json.Unmarshal([]byte(body), &a) == nil {
		req.Header.Set("Mcp-Method", a.Method)
		if name := a.named(); name != "" {
			req.Header.Set("Mcp-Name", headerValue(name))
		}
	}
	for _, line := range header {
		switch name, value, ok := strings.Cut(line, ": "); {
		case !ok:
			req.Header.Del(name)
		case name == "Host":
			req.Host = value
		default:
			req.Header.Set(name, value)
		}
	}
	return req
}

// send sends a message and reads the whole answer.
func (c *rawClient) send(body string, header ...string) reply {
	c.tb.Helper()
	r, err := c.do(c.request(body, header...))
	if err != nil {
		c.tb.Fatal(err)
	}
	return r
}

// do sends a request and reads the whole answer.
func (c *rawClient) do(req *http.Request) (reply, error) {
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, fmt.Errorf("read the answer: %w", err)
	}
	r := reply{status: res.StatusCode, header: res.Header}
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind {
	case "application/json":
		r.messages = []string{string(body)}
	case "text/event-stream":
		r.messages = eventData(string(body))
	}
	return r, nil
}

// openStream is an answer that is read message by message.
type openStream struct {
	tb     testing.TB
	status int
	header http.Header
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Reader
}

// open sends a message and gives its answer, which must be an event stream. It is
// closed when the test ends.
func (c *rawClient) open(body string, header ...string) *openStream {
	c.tb.Helper()
	ctx, cancel := context.WithCancel(c.tb.Context())
	res, err := c.transport.RoundTrip(c.request(body, header...).WithContext(ctx))
	if err != nil {
		cancel()
		c.tb.Fatal(err)
	}
	s := &openStream{c.tb, res.StatusCode, res.Header, cancel, res.Body, bufio.NewReader(res.Body)}
	c.tb.Cleanup(s.close)
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		c.tb.Fatalf("status %d with type %q, want events", res.StatusCode, kind)
	}
	return s
}

// next gives the next message; empty at the end of the stream.
func (s *openStream) next() string {
	s.tb.Helper()
	var event strings.Builder
	for {
		line, err := s.lines.ReadString('\n')
		event.WriteString(line)
		if err != nil {
			if err != io.EOF {
				s.tb.Errorf("read an event: %v", err)
			}
			return ""
		}
		if line == "\n" {
			if data := eventData(event.String()); len(data) > 0 {
				return data[0]
			}
			event.Reset()
		}
	}
}

// close leaves, as a client does that is no longer interested.
func (s *openStream) close() {
	s.cancel()
	_ = s.body.Close() // what was not read is of no interest
}

// eventually waits until a condition holds. It asks again and again, and gives up
// after a time that no working program needs.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("it never came about that %s", what)
		}
	}
}

// eventData gives the data of the events of a whole stream.
func eventData(stream string) (list []string) {
	for event := range strings.SplitSeq(stream, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		if len(data) > 0 {
			list = append(list, strings.Join(data, "\n"))
		}
	}
	return list
}

// bareMeta is the `_meta` that every request must have.
const bareMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// tasksMeta is the same of a client that takes tasks.
const tasksMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// ask makes a message; params are members of its params, without `_meta`.
func ask(method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":"q-1","method":"` + method + `","params":{` + params + `"_meta":` + bareMeta + `}}`
}

// callOf makes a message that calls a tool without arguments.
func callOf(tool string) string { return ask("tools/call", `"name":"`+tool+`","arguments":{}`) }
