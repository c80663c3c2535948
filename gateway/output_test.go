package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	progress1 = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	progress2 = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}`
	complete  = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}`
)

// readAll gives all events of a stream.
func readAll(t *testing.T, r io.Reader) []string {
	t.Helper()
	next, all := events(r), []string{}
	for {
		e, err := next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func TestNotificationsMakeAnEventStream(t *testing.T) {
	first := make(chan struct{})
	_, url := start(t, &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
		if err := c.Notify([]byte(progress1)); err != nil {
			return nil, err
		}
		select {
		case <-first: // the client has the first before there is a second
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// Line breaks are no part of an event's line, but may be part of a message.
		return result(c, `{"resultType":"complete"}`), c.Notify([]byte(strings.Replace(progress2, ",", ",\n", 1)))
	}}, nil)
	res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
	got := map[string]string{}
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", "Content-Encoding"} {
		got[name] = res.Header.Get(name)
	}
	want := map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	next := events(res.Body)
	e, err := next()
	if err != nil || e != progress1 {
		t.Fatalf("first event %q, %v", e, err)
	}
	close(first)
	if diff := cmp.Diff([]string{progress2, complete}, readAll(t, res.Body)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestJSONWithoutNotifications(t *testing.T) {
	for _, size := range []int{1, 5000, 3 << 20} {
		text := strings.Repeat("x", size)
		_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
			return result(c, `"`+text+`"`), nil
		}}, nil)
		res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
		got := body(t, res)
		if res.Header.Get("Content-Type") != "application/json" || res.ContentLength != int64(len(got)) || !strings.Contains(got, text) {
			t.Errorf("size %d: content type %q, length %d of %d", size, res.Header.Get("Content-Type"), res.ContentLength, len(got))
		}
	}
}

func TestClientThatTakesEventsOnly(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		status  int
		typ     string
		message string
	}{
		{"result", nil, 200, "text/event-stream", complete},
		{"error with 200", mcp.Errorf(mcp.CodeInvalidParams, "no"), 200, "text/event-stream", `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`},
		{"error with a status", mcp.Errorf(mcp.CodeHeaderMismatch, "no"), 400, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"no"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
				if tt.err != nil {
					return nil, tt.err
				}
				return result(c, `{"resultType":"complete"}`), nil
			}}, nil)
			res := do(t, request(t, url+"/mcp", message("tools/list", ""), "Accept", "Accept: text/event-stream"))
			got := body(t, res)
			if tt.typ == "text/event-stream" {
				got = strings.Join(readAll(t, strings.NewReader(got)), "|")
			}
			if res.StatusCode != tt.status || res.Header.Get("Content-Type") != tt.typ || got != tt.message {
				t.Errorf("status %d, %s: %s", res.StatusCode, res.Header.Get("Content-Type"), got)
			}
		})
	}
}

func TestErrorAfterTheStreamBegan(t *testing.T) {
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		if err := c.Notify([]byte(progress1)); err != nil {
			return nil, err
		}
		return nil, &upstream.Error{Alias: "weather", Class: upstream.ClassInterrupted, Err: io.ErrUnexpectedEOF}
	}}, nil)
	res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
	got := readAll(t, res.Body)
	want := []string{progress1, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"upstream \"weather\" broke off its answer","data":{"alias":"weather","reason":"interrupted","retryable":false}}}`}
	if diff := cmp.Diff(want, got); diff != "" || res.StatusCode != 200 {
		t.Errorf("status %d (-want +got):\n%s", res.StatusCode, diff)
	}
}

// TestDisconnectCancels holds that a client that closes its connection ends the
// work for it, whether or not the response has begun.
func TestDisconnectCancels(t *testing.T) {
	for _, began := range []bool{false, true} {
		name := "before the response"
		if began {
			name = "within the stream"
		}
		t.Run(name, func(t *testing.T) {
			entered, ended := make(chan struct{}), make(chan error, 1)
			_, url := start(t, &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
				if began {
					if err := c.Notify([]byte(progress1)); err != nil {
						return nil, err
					}
				}
				close(entered)
				<-ctx.Done()
				ended <- ctx.Err()
				return nil, &upstream.Error{Alias: "weather", Class: upstream.ClassCanceled, Err: ctx.Err()}
			}}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			req := request(t, url+"/mcp", message("tools/call", `"name":"x"`)).WithContext(ctx)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				gone <- err
			}()
			<-entered
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the work ended with %v", err)
			}
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Errorf("the client got %v", err)
			}
		})
	}
}

func TestPanicIsAnswered(t *testing.T) {
	var log bytes.Buffer
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		if c.Request.Name.Value == "bad" {
			panic("secret detail")
		}
		return result(c, `{}`), nil
	}}, func(o *Options) { o.Logger = testLogger(&log) })
	res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"bad"`)))
	text := body(t, res)
	if e := decodeError(t, text); res.StatusCode != 500 || e.Error.Code != -32603 || string(e.ID) != "7" || strings.Contains(text, "secret") {
		t.Errorf("status %d: %s", res.StatusCode, text)
	}
	if got := body(t, do(t, request(t, url+"/mcp", message("tools/call", `"name":"good"`)))); !strings.Contains(got, "result") {
		t.Errorf("the next request: %s", got)
	}
	if !strings.Contains(log.String(), "secret detail") {
		t.Errorf("the panic is not logged: %s", &log)
	}
}

func TestLateNotificationGoesNowhere(t *testing.T) {
	late := make(chan func([]byte) error, 1)
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		late <- c.Notify
		return result(c, `{"resultType":"complete"}`), nil
	}}, nil)
	if got := body(t, do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))); got != complete {
		t.Errorf("got %s", got)
	}
	notify := <-late
	if err := notify([]byte(progress1)); !errors.Is(err, errDone) {
		t.Errorf("got %v", err)
	}
}

// TestBodyBounds holds that what is too large gets a clear answer, and that the
// connection stays usable.
func TestBodyBounds(t *testing.T) {
	pad := func(n int) string {
		return message("tools/call", `"name":"x","arguments":"`+strings.Repeat("y", n)+`"`)
	}
	tests := []struct {
		name    string
		body    string
		chunked bool
		status  int
		reused  bool
	}{
		{"just fits", pad(4096 - len(pad(0))), false, 200, true},
		{"one byte too many", pad(4097 - len(pad(0))), false, 413, true},
		{"one byte too many, of unknown length", pad(4097 - len(pad(0))), true, 413, true},
		{"far too large", pad(8 << 20), false, 413, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, url := start(t, &fakeRouter{}, func(o *Options) { o.Limits.MaxBody = 4096 })
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			req := request(t, url+"/mcp", tt.body)
			if tt.chunked {
				req.ContentLength = -1
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text := body(t, res)
			_ = res.Body.Close()
			if res.StatusCode != tt.status {
				t.Fatalf("status %d: %s", res.StatusCode, text)
			}
			if tt.status == 413 {
				if e := decodeError(t, text); e.Error.Code != -32600 {
					t.Errorf("code %d", e.Error.Code)
				}
			}
			reused := false
			req = request(t, url+"/mcp", message("tools/list", ""))
			req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
			}))
			if res, err = client.Do(req); err != nil {
				t.Fatal(err)
			}
			body(t, res)
			_ = res.Body.Close()
			if reused != tt.reused {
				t.Errorf("connection reused: %v, want %v", reused, tt.reused)
			}
		})
	}
}

func TestBodiesShareABudget(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		if c.Request.Name.Value == "hold" {
			close(held)
			<-hold
		}
		return result(c, `{}`), nil
	}}, func(o *Options) { o.Limits.MaxBuffered = 300 })
	done := make(chan string, 1)
	holding := request(t, url+"/mcp", message("tools/call", `"name":"hold"`))
	go func() { done <- body(t, do(t, holding)) }()
	<-held
	res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
	if e := decodeError(t, body(t, res)); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || e.Error.Code != -32603 {
		t.Errorf("status %d, Retry-After %q, code %d", res.StatusCode, res.Header.Get("Retry-After"), e.Error.Code)
	}
	close(hold)
	<-done
	if res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`))); res.StatusCode != 200 {
		t.Errorf("afterwards: status %d", res.StatusCode)
	}
}

func TestResponseHeaders(t *testing.T) {
	_, url := start(t, &fakeRouter{}, nil)
	tests := []struct {
		name string
		sent []string
		kept bool
	}{
		{"none", nil, false},
		{"sane", []string{"X-Request-Id: 4f1c-9:a/b_c.d+e="}, true},
		{"spaces", []string{"X-Request-Id: a b"}, false},
		{"too long", []string{"X-Request-Id: " + strings.Repeat("a", 129)}, false},
		{"two", []string{"X-Request-Id: a", "X-Request-Id: b"}, false},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := do(t, request(t, url+"/mcp", message("tools/list", ""), tt.sent...))
			id := res.Header.Get("X-Request-Id")
			if tt.kept && "X-Request-Id: "+id != tt.sent[0] || !tt.kept && len(id) != 32 || seen[id] {
				t.Errorf("id %q", id)
			}
			seen[id] = true
			if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
}

func TestUnencryptedHTTP2(t *testing.T) {
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return result(c, `{"resultType":"complete"}`), c.Notify([]byte(progress1))
	}}, nil)
	client := http2Client(t)
	res, err := client.Do(request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if diff := cmp.Diff([]string{progress1, complete}, readAll(t, res.Body)); diff != "" || res.ProtoMajor != 2 {
		t.Errorf("HTTP/%d (-want +got):\n%s", res.ProtoMajor, diff)
	}
}

// http2Client is a client that speaks HTTP/2 without TLS.
func http2Client(t *testing.T) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
