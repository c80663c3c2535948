package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// handshake is a client of that era at the wire.
type handshake struct {
	t       *testing.T
	url     string
	version string // of the header; empty for none
	session string // of the header; empty for none
}

// send posts a body. header lines are those of request.
func (h *handshake) send(body string, header ...string) *http.Response {
	h.t.Helper()
	return do(h.t, h.request(body, header...))
}

func (h *handshake) request(body string, header ...string) *http.Request {
	h.t.Helper()
	req := request(h.t, h.url, body, append([]string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}, header...)...)
	if h.version != "" {
		req.Header.Set(mcp.HeaderProtocolVersion, h.version)
	}
	if h.session != "" {
		req.Header.Set(mcp.HeaderSessionID, h.session)
	}
	return req
}

// method sends a request of another method than POST.
func (h *handshake) method(method string, header ...string) *http.Response {
	h.t.Helper()
	req := h.request("", append([]string{"Content-Type", "Accept", "Accept: text/event-stream"}, header...)...)
	req.Method = method
	return do(h.t, req)
}

// expect sends a body and holds what comes back.
func (h *handshake) expect(body string, status int, want string, header ...string) {
	h.t.Helper()
	res := h.send(body, header...)
	if got := h.read(res); res.StatusCode != status || got != want {
		h.t.Errorf("%s\ngot  %d %s\nwant %d %s", body, res.StatusCode, got, status, want)
	}
}

func (h *handshake) read(res *http.Response) string {
	h.t.Helper()
	return body(h.t, res)
}

// initialized is a client with a session of that revision and capabilities.
func initialized(t *testing.T, url, revision, capabilities string) *handshake {
	t.Helper()
	h := &handshake{t: t, url: url}
	res := h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1","title":"C"}}}`)
	got := h.read(res)
	h.version, h.session = revision, res.Header.Get(mcp.HeaderSessionID)
	if res.StatusCode != 200 || h.session == "" || !strings.Contains(got, `"protocolVersion":"`+revision+`"`) {
		t.Fatalf("initialize: %d %q %s", res.StatusCode, h.session, got)
	}
	return h
}

// discovered answers server/discover as an endpoint would.
const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},` +
	`"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}},"tasks":{}},` +
	`"instructions":"Be \u006bind","ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"weather","version":"9"}}}`

// handler makes a router that answers server/discover and leaves the rest to
// handle, which may be nil.
func handler(handle func(ctx context.Context, c *federation.Call) (*federation.Reply, error)) *fakeRouter {
	return &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
		if c.Request.Method == mcp.MethodDiscover {
			return result(c, discovered), nil
		}
		if handle == nil {
			return result(c, `{"resultType":"complete","n":1}`), nil
		}
		return handle(ctx, c)
	}}
}

func TestInitialize(t *testing.T) {
	var asked string
	r := &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		asked = string(c.Request.Params.In(c.Request.Raw))
		if c.Endpoint.Tenant == "acme" {
			return result(c, `{"resultType":"complete","capabilities":{}}`), nil
		}
		return result(c, discovered), nil
	}}
	_, url := start(t, r, func(o *Options) { o.Version = "7" })
	init := func(version, capabilities string) string {
		return `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":` + version + `,"capabilities":` + capabilities + `,"clientInfo":{"name":"c","version":"1","title":"C"}}}`
	}
	answer := func(version string) string {
		return `{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"` + version + `","capabilities":{"tools":{"listChanged":true},"prompts":{},` +
			`"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}},"serverInfo":{"name":"weather","version":"9"},"instructions":"Be \u006bind"}}`
	}
	failure := func(text string) string {
		return `{"jsonrpc":"2.0","id":"i","error":{"code":-32602,"message":"` + text + `"}}`
	}
	tests := []struct {
		name, path, body string
		header           []string
		want             string
		session          bool
	}{
		{"2025-11-25", "/mcp", init(`"2025-11-25"`, `{}`), nil, answer("2025-11-25"), true},
		{"2025-06-18", "/mcp", init(`"2025-06-18"`, `{}`), nil, answer("2025-06-18"), true},
		{"2025-03-26", "/mcp", init(`"2025-03-26"`, `{}`), nil, answer("2025-03-26"), true},
		{"too old", "/mcp", init(`"2024-11-05"`, `{}`), []string{"Mcp-Protocol-Version: 2024-11-05"}, answer("2025-11-25"), true},
		{"too new", "/mcp", init(`"2026-07-28"`, `{}`), nil, answer("2025-11-25"), true},
		{"with an old session", "/mcp", init(`"2025-11-25"`, `{}`), []string{"Mcp-Session-Id: stale"}, answer("2025-11-25"), true},
		{"an upstream that says little", "/t/acme/mcp", init(`"2025-11-25"`, `{}`), nil,
			`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"causeway","title":"Causeway","version":"7"}}}`, true},
		{"no version", "/mcp", init(`1`, `{}`), nil, failure("params.protocolVersion must be a string"), false},
		{"no capabilities", "/mcp", init(`"2025-11-25"`, `[]`), nil, failure("params.capabilities must be an object"), false},
		{"too large", "/mcp", strings.Replace(init(`"2025-11-25"`, `{}`), `"name":"c"`, `"name":"`+strings.Repeat("c", 4000)+`"`, 1), nil,
			failure("The client's name and capabilities are too large: a session id may have 4000 bytes"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &handshake{t: t, url: url + tt.path}
			res := h.send(tt.body, tt.header...)
			if got := h.read(res); res.StatusCode != 200 || got != tt.want {
				t.Errorf("%d %s\nwant %s", res.StatusCode, got, tt.want)
			}
			if got := res.Header.Get(mcp.HeaderSessionID) != ""; got != tt.session {
				t.Errorf("a session: %t", got)
			}
		})
	}
	want := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}`
	initialized(t, url+"/mcp", "2025-11-25", `{"elicitation":{}}`)
	if asked != want {
		t.Errorf("the federation was asked with %s", asked)
	}
}

const sessionMissing = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}`

// TestHandshakeRows holds what becomes of requests of the handshake era that the
// edge answers itself.
func TestHandshakeRows(t *testing.T) {
	r := handler(nil)
	r.watch = func(c *federation.Call) error {
		if strings.HasPrefix(c.Request.URI.Value, "a:") {
			return nil
		}
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Resource not found", Data: []byte(`{"uri":"b:1"}`)}
	}
	_, url := start(t, r, nil)
	session := initialized(t, url+"/mcp", "2025-11-25", `{}`).session
	elsewhere := initialized(t, url+"/t/acme/mcp", "2025-11-25", `{}`).session
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
	}
	fails := func(code int, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":%q}}`, code, text)
	}
	const ok, one = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`
	const none = "This needs a session: initialize, and send Mcp-Session-Id"
	tests := []struct {
		name, path, session, version, body string

		status int
		want   string
	}{
		{name: "ping", session: session, version: "2025-11-25", body: rpc("ping", ""), status: 200, want: ok},
		{name: "ping without params", session: session, body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 200, want: ok},
		{name: "ping without a session", body: rpc("ping", ""), status: 200, want: ok},
		{name: "another supported version", session: session, version: "2025-06-18", body: rpc("ping", ""), status: 200, want: ok},
		{name: "unsupported version", session: session, version: "2024-11-05", body: rpc("ping", ""), status: 400,
			want: `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version; supported: 2026-07-28, or with initialize 2025-11-25, 2025-06-18, 2025-03-26","data":{"supported":["2026-07-28"],"requested":"2024-11-05"}}}`},
		{name: "a session that is none", session: "x", body: rpc("ping", ""), status: 404, want: sessionMissing},
		{name: "a session of another endpoint", session: elsewhere, body: rpc("ping", ""), status: 404, want: sessionMissing},
		{name: "and at its own", path: "/t/acme/mcp", session: elsewhere, body: rpc("ping", ""), status: 200, want: ok},

		{name: "level", session: session, body: rpc("logging/setLevel", `"level":"warning"`), status: 200, want: ok},
		{name: "unknown level", session: session, body: rpc("logging/setLevel", `"level":"loud"`), status: 200, want: fails(-32602, "params.level is not a log level")},
		{name: "level without a session", body: rpc("logging/setLevel", `"level":"warning"`), status: 400, want: fails(-32600, none)},
		{name: "subscribe", session: session, body: rpc("resources/subscribe", `"uri":"a:1"`), status: 200, want: ok},
		{name: "subscribe twice", session: session, body: rpc("resources/subscribe", `"uri":"a:1"`), status: 200, want: ok},
		{name: "subscribe to what is not there", session: session, body: rpc("resources/subscribe", `"uri":"b:1"`), status: 200,
			want: `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"Resource not found","data":{"uri":"b:1"}}}`},
		{name: "subscribe without a session", body: rpc("resources/subscribe", `"uri":"a:1"`), status: 400, want: fails(-32600, none)},
		{name: "unsubscribe", session: session, body: rpc("resources/unsubscribe", `"uri":"a:1"`), status: 200, want: ok},
		{name: "unsubscribe from nothing", session: session, body: rpc("resources/unsubscribe", `"uri":"z:1"`), status: 200, want: ok},
		{name: "unsubscribe without a URI", session: session, body: rpc("resources/unsubscribe", ``), status: 200, want: fails(-32602, "params.uri must be a string")},
		{name: "unsubscribe without a session", body: rpc("resources/unsubscribe", `"uri":"a:1"`), status: 400, want: fails(-32600, none)},

		{name: "a list", session: session, body: rpc("tools/list", ""), status: 200, want: one},
		{name: "a list without a session", body: rpc("tools/list", ""), status: 200, want: one},
		{name: "a call without a session", version: "2025-11-25", body: rpc("tools/call", `"name":"x"`), status: 200, want: one},
		{name: "_meta is no object", session: session, body: rpc("tools/list", `"_meta":null`), status: 200, want: fails(-32602, "params._meta must be an object")},
		{name: "unknown method", session: session, body: rpc("unknown/method", ""), status: 200, want: fails(-32601, "Method not found")},
		{name: "a method of the other era", session: session, body: rpc("server/discover", ""), status: 200, want: fails(-32601, "Method not found")},
		{name: "tasks", session: session, body: rpc("tasks/get", `"taskId":"1"`), status: 200, want: fails(-32601, "Method not found")},
		{name: "unknown method of one upstream", path: "/t/acme/u/weather/mcp", body: rpc("unknown/method", ""), status: 200, want: one},
		{name: "of the other era at one upstream", path: "/t/acme/u/weather/mcp", body: rpc("subscriptions/listen", ""), status: 200, want: fails(-32601, "Method not found")},

		{name: "initialized", session: session, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 202},
		{name: "roots changed", session: session, body: `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, status: 202},
		{name: "cancelled", session: session, body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, status: 202},
		{name: "malformed cancelled", session: session, body: `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, status: 202},
		{name: "notification without a session", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 202},
		{name: "notification of a session that is none", session: "x", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 404, want: sessionMissing},
		{name: "an answer to nothing", session: session, body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 202},
		{name: "an error without an id", session: session, body: `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, status: 202},
		{name: "an answer without a session", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 400, want: fails(-32600, "message is a response")},
		{name: "an answer of a session that is none", session: "x", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 404, want: sessionMissing},
		{name: "not JSON", session: session, body: `{`, status: 400, want: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"message is not valid JSON: error at byte 1"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path
			if path == "" {
				path = "/mcp"
			}
			h := &handshake{t: t, url: url + path, version: tt.version, session: tt.session}
			h.expect(tt.body, tt.status, tt.want)
		})
	}
}

func TestSessionEnds(t *testing.T) {
	_, url := start(t, handler(nil), nil)
	h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	other := initialized(t, url+"/mcp", "2025-11-25", `{}`)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	h.expect(ping, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if res := h.method(http.MethodDelete); res.StatusCode != 204 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	h.expect(ping, 404, sessionMissing)
	for _, method := range []string{http.MethodDelete, http.MethodGet} {
		if res := h.method(method); res.StatusCode != 404 {
			t.Errorf("%s after DELETE: %d", method, res.StatusCode)
		}
	}
	other.expect(ping, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	foreign := &handshake{t: t, url: url + "/t/acme/mcp", session: other.session}
	if res := foreign.method(http.MethodDelete); res.StatusCode != 404 {
		t.Errorf("DELETE at another endpoint: %d", res.StatusCode)
	}
	other.expect(ping, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// TestSessionsSurviveARestart holds that another process with the same keys serves
// the session.
func TestSessionsSurviveARestart(t *testing.T) {
	ring := testOptions().Ring
	same := func(o *Options) { o.Ring = ring }
	_, first := start(t, handler(nil), same)
	_, second := start(t, handler(nil), same)
	h := initialized(t, first+"/mcp", "2025-06-18", `{}`)
	h.url = second + "/mcp"
	h.expect(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// TestModernize holds what the federation is given for a request of the handshake
// era.
func TestModernize(t *testing.T) {
	var got federation.Call
	var raw string
	_, url := start(t, handler(func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got, raw = *c, string(c.Request.Params.In(c.Request.Raw))
		return result(c, `{"resultType":"complete"}`), nil
	}), nil)
	const version, caps = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{"roots":{}}`
	const info, level = `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`, `"io.modelcontextprotocol/logLevel":"error"`
	plain := initialized(t, url+"/mcp", "2025-11-25", `{"roots":{"listChanged":true}}`)
	logs := initialized(t, url+"/mcp", "2025-11-25", `{"roots":{}}`)
	logs.expect(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	stateless := &handshake{t: t, url: url + "/mcp"}
	tests := []struct {
		name   string
		client *handshake
		params string // with a comma before it
		want   string
	}{
		{"no params", plain, ``, `{"_meta":{` + version + `,` + caps + `,` + info + `}}`},
		{"empty params", plain, `,"params":{}`, `{"_meta":{` + version + `,` + caps + `,` + info + `}}`},
		{"params", plain, `,"params":{"name":"x", "arguments":{"n":1e400}}`, `{"name":"x", "arguments":{"n":1e400},"_meta":{` + version + `,` + caps + `,` + info + `}}`},
		{"_meta", plain, `,"params":{"_meta":{ "progressToken":"p" , "own/key":[1]},"name":"x"}`,
			`{"_meta":{ "progressToken":"p" , "own/key":[1],` + version + `,` + caps + `,` + info + `},"name":"x"}`},
		{"_meta that says otherwise", plain, `,"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"debug"}}`,
			`{"_meta":{` + caps + `,` + version + `,` + info + `}}`},
		{"level", logs, `,"params":{}`, `{"_meta":{` + version + `,` + caps + `,` + info + `,` + level + `}}`},
		{"no session", stateless, ``, `{"_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":{}}}`},
		{"members of the other eras", plain, `,"params":{"task":{"ttl":1},"name":"x","requestState":"s","inputResponses":{}}`,
			`{"name":"x","_meta":{` + version + `,` + caps + `,` + info + `}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.client.expect(`{"jsonrpc":"2.0","id":5,"method":"tools/call"`+tt.params+`}`, 200, `{"jsonrpc":"2.0","id":5,"result":{}}`)
			if diff := cmp.Diff(tt.want, raw); diff != "" {
				t.Errorf("params (-want +got):\n%s", diff)
			}
			if !got.NoHeaders || (got.Session == "") != (tt.client.session == "") {
				t.Errorf("NoHeaders %t, session %q", got.NoHeaders, got.Session)
			}
		})
	}
}
