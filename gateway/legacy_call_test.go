package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// TestTranslation holds how results and errors reach handshake clients.
func TestTranslation(t *testing.T) {
	const info = `"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}`
	tests := []struct{ name, method, result, want string }{
		{"a list", "tools/list", `{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"},"x":1e400}],"ttlMs":5,"cacheScope":"public","nextCursor":"c"}`,
			`{"tools":[{"name":"a","inputSchema":{"type":"object"},"x":1e400}],"nextCursor":"c"}`},
		{"output schemas", "tools/list", `{"tools":[{"name":"a","outputSchema":{"type":"object"}},{"name":"b","outputSchema":{"type":"array"},"y":2},{"outputSchema":{"$ref":"#/x"},"name":"c"},{"name":"d","outputSchema":{"type":["object","null"]}}]}`,
			`{"tools":[{"name":"a","outputSchema":{"type":"object"}},{"name":"b","y":2},{"name":"c"},{"name":"d"}]}`},
		{"prompts", "prompts/list", `{"prompts":[],"cacheScope":"private","ttlMs":0,"resultType":"complete"}`, `{"prompts":[]}`},
		{"a resource", "resources/read", `{"resultType":"complete","contents":[{"uri":"a:1","text":"","ttlMs":4}],"ttlMs":0}`, `{"contents":[{"uri":"a:1","text":"","ttlMs":4}]}`},
		{"our own server", "prompts/get", `{"messages":[],"_meta":{` + info + `}}`, `{"messages":[]}`},
		{"other _meta", "prompts/get", `{"messages":[],"_meta":{"a/b":1,` + info + `,"io.github.causeway-mcp/partial":[]}}`, `{"messages":[],"_meta":{"a/b":1,"io.github.causeway-mcp/partial":[]}}`},
		{"no hints of a call", "tools/call", `{"resultType":"complete","content":[],"ttlMs":5}`, `{"content":[],"ttlMs":5}`},
		{"structured object", "tools/call", `{"content":[],"structuredContent":{"n":12345678901234567890}}`, `{"content":[],"structuredContent":{"n":12345678901234567890}}`},
		{"structured array", "tools/call", `{"content":[],"structuredContent":[1, "ä"]}`, `{"content":[{"type":"text","text":"[1, \"ä\"]"}]}`},
		{"beside other content", "tools/call", `{"structuredContent":[1],"content":[{"type":"text","text":"one"} ]}`, `{"content":[{"type":"text","text":"one"},{"type":"text","text":"[1]"} ]}`},
		{"said already", "tools/call", `{"content":[{"type":"text","text":"[ 1 ]"}],"structuredContent":[1]}`, `{"content":[{"type":"text","text":"[ 1 ]"}]}`},
		{"a string said already", "tools/call", `{"content":[{"type":"text","text":"hello"}],"structuredContent":"hello"}`, `{"content":[{"type":"text","text":"hello"}]}`},
		{"without content", "tools/call", `{"structuredContent":null,"isError":true}`, `{"isError":true,"content":[{"type":"text","text":"null"}]}`},
	}
	var answer string
	_, url := start(t, handler(func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return result(c, answer), nil
	}), nil)
	h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.t = t
			answer = tt.result
			h.expect(`{"jsonrpc":"2.0","id":"q","method":"`+tt.method+`","params":{"name":"x","uri":"a:1"}}`, 200, `{"jsonrpc":"2.0","id":"q","result":`+tt.want+`}`)
		})
	}
}

func TestTranslationOfErrors(t *testing.T) {
	notFound := &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Resource not found", Data: []byte(`{"uri":"a:1"}`)}
	relayed := func(status int, raw string) func(c *federation.Call) (*federation.Reply, error) {
		return func(c *federation.Call) (*federation.Reply, error) {
			r := result(c, `{}`)
			r.Status, r.ErrorType = status, "-32602"
			r.Body.B = append(r.Body.B[:0], `{"jsonrpc":"2.0","id":1,"error":`+raw+`}`...)
			return r, nil
		}
	}
	own := func(err error) func(c *federation.Call) (*federation.Reply, error) {
		return func(*federation.Call) (*federation.Reply, error) { return nil, err }
	}
	tests := []struct {
		name, method string
		answer       func(c *federation.Call) (*federation.Reply, error)
		want         string
	}{
		{"not found", "resources/read", own(notFound), `{"code":-32002,"message":"Resource not found","data":{"uri":"a:1"}}`},
		{"no tool", "tools/call", own(mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: x")), `{"code":-32602,"message":"Unknown tool: x"}`},
		{"bad cursor", "resources/list", own(mcp.Errorf(mcp.CodeInvalidParams, "cursor not found")), `{"code":-32602,"message":"cursor not found"}`},
		{"method", "tools/call", own(mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")), `{"code":-32601,"message":"Method not found"}`},
		{"upstream", "tools/call", own(&upstream.Error{Alias: "w", Class: upstream.ClassTimeout, Err: errors.New("x")}),
			`{"code":-32603,"message":"upstream \"w\" did not answer in time","data":{"alias":"w","reason":"timeout","retryable":false}}`},
		{"relayed not found", "resources/read", relayed(200, `{"message":"No such thing","code": -32602 ,"data":{"uri":"a:1"}}`), `{"message":"No such thing","code": -32002 ,"data":{"uri":"a:1"}}`},
		{"relayed not found by its text", "resources/read", relayed(200, `{"code":-32602,"message":"Resource a:1 Not Found"}`), `{"code":-32002,"message":"Resource a:1 Not Found"}`},
		{"relayed invalid params", "resources/read", relayed(200, `{"code":-32602,"message":"bad"}`), `{"code":-32602,"message":"bad"}`},
		{"relayed missing capability", "tools/call", relayed(400, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`), `{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`},
		{"relayed method", "tools/call", relayed(404, `{"code":-32601,"message":"m"}`), `{"code":-32601,"message":"m"}`},
	}
	var next func(c *federation.Call) (*federation.Reply, error)
	_, url := start(t, handler(func(_ context.Context, c *federation.Call) (*federation.Reply, error) { return next(c) }), nil)
	h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.t, next = t, tt.answer
			h.expect(`{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`","params":{"name":"x","uri":"a:1"}}`, 200, `{"jsonrpc":"2.0","id":1,"error":`+tt.want+`}`)
		})
	}
}

// held is a router whose calls wait until their context ends or the test lets
// them go.
type held struct {
	entered chan string // the ids of calls
	release chan struct{}
	ended   chan error // the causes of contexts that ended
}

func newHeld() *held {
	return &held{entered: make(chan string, 16), release: make(chan struct{}), ended: make(chan error, 16)}
}

func (h *held) handle(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
	h.entered <- string(c.Request.ID.In(c.Request.Raw))
	select {
	case <-h.release:
		return result(c, `{"resultType":"complete"}`), nil
	case <-ctx.Done():
		h.ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}
}

func cancelOf(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

func TestCancelled(t *testing.T) {
	tests := []struct {
		name, accept string
		status       int
	}{
		{"a stream", "application/json, text/event-stream", 200},
		{"JSON", "application/json", 204},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newHeld()
			_, url := start(t, handler(r.handle), nil)
			h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
			other := initialized(t, url+"/mcp", "2025-11-25", `{}`)
			type answer struct {
				status int
				body   string
			}
			got := make(chan answer, 1)
			req := h.request(`{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"x"}}`, "Accept", "Accept: "+tt.accept)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					got <- answer{0, err.Error()}
					return
				}
				defer res.Body.Close()
				next := events(res.Body)
				text, _ := next()
				got <- answer{res.StatusCode, text}
			}()
			<-r.entered
			other.expect(cancelOf(`"ab"`), 202, "") // of another session
			h.expect(cancelOf(`7`), 202, "")        // another request
			select {
			case err := <-r.ended:
				t.Fatalf("the call ended: %v", err)
			default:
			}
			h.expect(cancelOf(`"ab"`), 202, "")
			if err := <-r.ended; !errors.Is(err, errCancelled) {
				t.Errorf("the call ended with %v", err)
			}
			if a := <-got; a.status != tt.status || a.body != "" {
				t.Errorf("answered %d %q, want nothing", a.status, a.body)
			}
		})
	}
}

// TestDisconnectDoesNotCancel holds that a call goes on when its client's
// connection ends, and that the gateway's end ends it.
func TestDisconnectDoesNotCancel(t *testing.T) {
	r := newHeld()
	g, url := start(t, handler(r.handle), nil)
	h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	leave := func(id string) {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		req := h.request(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x"}}`).WithContext(ctx)
		go func() {
			defer close(left)
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		<-r.entered
		cancel()
		<-left
	}
	leave("1")
	h.expect(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	select {
	case err := <-r.ended:
		t.Fatalf("the call ended: %v", err)
	default:
	}
	h.expect(cancelOf("1"), 202, "")
	if err := <-r.ended; !errors.Is(err, errCancelled) {
		t.Errorf("cancelled from elsewhere, the call ended with %v", err)
	}
	leave("3")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no grace
	if err := g.Stop(ctx); err == nil {
		t.Error("nothing was cut off")
	}
	if err := <-r.ended; !errors.Is(err, errCutOff) {
		t.Errorf("stopped, the call ended with %v", err)
	}
}

func TestDeleteEndsCalls(t *testing.T) {
	r := newHeld()
	_, url := start(t, handler(r.handle), nil)
	h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	done := make(chan struct{})
	req := h.request(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	go func() {
		defer close(done)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-r.entered
	h.method(http.MethodDelete)
	if err := <-r.ended; !errors.Is(err, errCancelled) {
		t.Errorf("the call ended with %v", err)
	}
	<-done
}

func TestBatch(t *testing.T) {
	r := handler(func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		switch c.Request.Name.Value {
		case "fail":
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: fail")
		case "panic":
			panic("at the disco")
		case "tell":
			_ = c.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/x"}`))
		}
		return result(c, `{"resultType":"complete"}`), nil
	})
	_, url := start(t, r, nil)
	call := func(id, name string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"}}`
	}
	done := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	const note, reply = `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":9,"result":{}}`
	many := "[" + strings.Repeat(note+",", maxBatch) + note + "]"
	tests := []struct {
		name, revision, body string
		status               int
		want                 []string // in any order
	}{
		{"requests", "2025-03-26", `[` + call("1", "a") + ` , ` + call(`"2"`, "b") + `]`, 200, []string{done("1"), done(`"2"`)}},
		{"one", "2025-03-26", ` [` + call("1", "a") + `]`, 200, []string{done("1")}},
		{"everything", "2025-03-26", `[` + note + `,` + call("1", "a") + `,` + reply + `,` + call("3", "fail") + `,{"jsonrpc":"2.0","id":4,"method":"initialize","params":{}},{"jsonrpc":"2.0","id":5,"method":"ping"},7]`, 200, []string{
			done("1"), `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool: fail"}}`,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"initialize must not be part of a batch"}}`, done("5"),
			`{"jsonrpc":"2.0","error":{"code":-32600,"message":"message is not an object"}}`,
		}},
		{"a panic", "2025-03-26", `[` + call("1", "panic") + `,` + call("2", "a") + `]`, 200, []string{
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}`, done("2"),
		}},
		{"notifications", "2025-03-26", `[` + note + `,` + reply + `]`, 202, nil},
		{"nothing", "2025-03-26", `[]`, 400, nil},
		{"too many", "2025-03-26", many, 400, nil},
		{"data after it", "2025-03-26", `[` + call("1", "a") + `],"x":[]`, 400, nil},
		{"broken", "2025-03-26", `[` + call("1", "a"), 400, nil},
		{"2025-06-18", "2025-06-18", `[` + call("1", "a") + `]`, 400, nil},
		{"2025-11-25", "2025-11-25", `[` + call("1", "a") + `]`, 400, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := initialized(t, url+"/mcp", tt.revision, `{}`)
			res := h.send(tt.body)
			got := h.read(res)
			if res.StatusCode != tt.status {
				t.Fatalf("%d %s", res.StatusCode, got)
			}
			if tt.want == nil {
				if tt.status == 400 && !strings.Contains(got, `"code":-32600`) && !strings.Contains(got, `"code":-32700`) {
					t.Errorf("refused with %s", got)
				}
				return
			}
			raw := []byte(got)
			var list []string
			for at := range mcp.Elements(raw, mcp.Span{End: len(raw)}) {
				list = append(list, string(at.In(raw)))
			}
			slices.Sort(list)
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, list); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("without a session", func(t *testing.T) {
		h := &handshake{t: t, url: url + "/mcp"}
		if res := h.send(`[` + call("1", "a") + `]`); res.StatusCode != 400 {
			t.Errorf("%d %s", res.StatusCode, h.read(res))
		}
	})
	t.Run("as events", func(t *testing.T) {
		h := initialized(t, url+"/mcp", "2025-03-26", `{}`)
		res := h.send(`[` + call("1", "tell") + `,` + call("2", "tell") + `]`)
		next := events(res.Body)
		seen := map[string]int{}
		for range 4 {
			e, err := next()
			if err != nil {
				t.Fatal(err)
			}
			seen[e]++
		}
		want := map[string]int{`{"jsonrpc":"2.0","method":"notifications/x"}`: 2, done("1"): 1, done("2"): 1}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestHandshakeRequestsAreCounted holds the labels, and that a batch counts as the
// requests in it.
func TestHandshakeRequestsAreCounted(t *testing.T) {
	opts := testOptions()
	g, url := start(t, handler(func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		r := result(c, `{"resultType":"complete"}`)
		r.ErrorType = map[string]string{"bad": "tool_error"}[c.Request.Name.Value]
		return r, nil
	}), func(o *Options) { o.Registerer, o.Gatherer = opts.Registerer, opts.Gatherer })
	h := initialized(t, url+"/mcp", "2025-03-26", `{}`)
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"unknown"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bad"}}]`,
	} {
		h.read(h.send(body))
	}
	(&handshake{t: t, url: url + "/mcp", session: "x"}).send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	line := func(method, upstream, errorType string, n int) string {
		return fmt.Sprintf("causeway_requests_total{error_type=%q,mcp_method_name=%q,tenant=\"default\",upstream=%q} %d\n", errorType, method, upstream, n)
	}
	want := "# HELP causeway_requests_total Requests by what answered them and how: error_type is empty for success, a JSON-RPC code, tool_error or a transport class.\n" +
		"# TYPE causeway_requests_total counter\n" +
		line("initialize", "weather", "", 1) + line("logging/setLevel", "", "", 1) + line("other", "", "", 1) + line("ping", "", "", 2) +
		line("other", "", "-32601", 1) + line("other", "", "session", 1) + line("tools/call", "weather", "tool_error", 1)
	if err := testutil.GatherAndCompare(opts.Gatherer, strings.NewReader(want), "causeway_requests_total"); err != nil {
		t.Error(err)
	}
}
