package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// oldClient is a client of the handshake era that writes its own bytes.
type oldClient struct {
	tb        testing.TB
	transport *http.Transport
	url       string
	version   string
	session   string
	token     string // that it shows; empty for none
	server    string // the result of initialize
}

// newOldClient initializes a session with the endpoint at url.
func newOldClient(tb testing.TB, url, version, capabilities string) *oldClient {
	tb.Helper()
	return newOldUser(tb, url, version, capabilities, "")
}

// newOldUser is newOldClient with a token.
func newOldUser(tb testing.TB, url, version, capabilities, token string) *oldClient {
	tb.Helper()
	c := &oldClient{tb: tb, transport: &http.Transport{MaxIdleConnsPerHost: 16}, url: url, version: version, token: token}
	tb.Cleanup(c.transport.CloseIdleConnections)
	res := c.post(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + capabilities + `,"clientInfo":{"name":"old","version":"1"}}}`)
	defer res.Body.Close()
	c.session = res.Header.Get("Mcp-Session-Id")
	c.server = string(memberOf(tb, c.whole(res), "result"))
	if c.session == "" {
		tb.Fatalf("no session: %d %s", res.StatusCode, c.server)
	}
	c.accepted(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// again is another session of such a client.
func (c *oldClient) again(capabilities string) *oldClient {
	c.tb.Helper()
	return newOldClient(c.tb, c.url, c.version, capabilities)
}

func (c *oldClient) request(method, body string) *http.Request {
	c.tb.Helper()
	req, err := http.NewRequestWithContext(c.tb.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.tb.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
	return req
}

func (c *oldClient) do(req *http.Request) *http.Response {
	c.tb.Helper()
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		c.tb.Fatal(err)
	}
	return res
}

func (c *oldClient) post(body string) *http.Response {
	c.tb.Helper()
	return c.do(c.request(http.MethodPost, body))
}

// whole reads an answer that is one JSON message.
func (c *oldClient) whole(res *http.Response) string {
	c.tb.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.tb.Fatal(err)
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "application/json" {
		c.tb.Fatalf("answered %d %s %s", res.StatusCode, kind, body)
	}
	return string(body)
}

// ask sends a request and gives its answer, which is one JSON message.
func (c *oldClient) ask(method, params string) string {
	c.tb.Helper()
	res := c.post(oldRequest(1, method, params))
	defer res.Body.Close()
	return c.whole(res)
}

func oldRequest(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params)
}

// accepted sends a notification or response.
func (c *oldClient) accepted(body string) {
	c.tb.Helper()
	res := c.post(body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusAccepted || len(text) > 0 || err != nil {
		c.tb.Fatalf("%s: answered %d %s, %v", body, res.StatusCode, text, err)
	}
}

// events is an event stream that is being read.
type events struct {
	tb     testing.TB
	cancel context.CancelFunc
	c      chan string // the data of its messages; closed at its end
}

// open sends a request and reads its answer as a stream.
func (c *oldClient) open(req *http.Request) *events {
	c.tb.Helper()
	ctx, cancel := context.WithCancel(req.Context())
	res := c.do(req.WithContext(ctx))
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		c.tb.Fatalf("answered %d %s %s", res.StatusCode, kind, text)
	}
	e := &events{tb: c.tb, cancel: cancel, c: make(chan string, 64)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(e.c)
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				e.c <- data
			}
		}
	}()
	c.tb.Cleanup(func() {
		cancel()
		<-ended
	})
	return e
}

// call calls a tool of the server, with params besides its name, and reads the
// answer as a stream.
func (c *oldClient) call(id int, tool, params string) *events {
	c.tb.Helper()
	return c.open(c.request(http.MethodPost, oldRequest(id, "tools/call", `"name":"`+tool+`"`+params)))
}

// listen opens the GET stream.
func (c *oldClient) listen() *events {
	c.tb.Helper()
	return c.open(c.request(http.MethodGet, ""))
}

// next gives the next message.
func (e *events) next() string {
	e.tb.Helper()
	select {
	case data, ok := <-e.c:
		if !ok {
			e.tb.Fatal("the stream has ended")
		}
		return data
	case <-e.tb.Context().Done():
		e.tb.Fatal("no message came")
	}
	return ""
}

// end holds that nothing more comes.
func (e *events) end() {
	e.tb.Helper()
	if data, ok := <-e.c; ok {
		e.tb.Errorf("after the end came %s", data)
	}
}

// expect holds what the next message is.
func (e *events) expect(want string) {
	e.tb.Helper()
	if got := e.next(); got != want {
		e.tb.Errorf("got  %s\nwant %s", got, want)
	}
}

// question reads a request of the server for the client, which must be the method
// with those params, and gives its id.
func (e *events) question(method, params string) string {
	e.tb.Helper()
	got := e.next()
	id := string(memberOf(e.tb, got, "id"))
	if want := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`; got != want || id == "" {
		e.tb.Fatalf("got  %s\nwant %s", got, want)
	}
	return id
}

// memberOf gives a member of a message as raw JSON.
func memberOf(tb testing.TB, message string, path ...string) json.RawMessage {
	tb.Helper()
	raw := json.RawMessage(message)
	for _, key := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			tb.Fatalf("%s: %v", message, err)
		}
		raw = object[key]
	}
	return raw
}

// answers makes the client's response.
func answers(id, result string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

// refuses makes the client's response that is an error.
func refuses(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"User rejected"}}`
}

// finished is the final message of a call.
func finished(id int, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result)
}

// failed is the final message of a call that failed.
func failed(id, code int, message, data string) string {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":%q%s}}`, id, code, message, data)
}

// inputRequired is a result that asks for input.
func inputRequired(requests, state string) string {
	out := `{"resultType":"input_required"`
	if requests != "" {
		out += `,"inputRequests":` + requests
	}
	if state != "" {
		out += `,"requestState":"` + state + `"`
	}
	return out + "}"
}

// oldFront starts a gateway in front of one upstream and gives the URL of the
// endpoint that shows it alone. process are lines of the configuration.
func oldFront(tb testing.TB, s *scripted, process string) string {
	tb.Helper()
	return front(tb, process, "", upstreamOf("s", s.URL)).URL + "/t/default/u/s/mcp"
}
