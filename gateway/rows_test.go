package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	capsTasks   = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	unsupported = `{"supported":["2026-07-28"],"requested":%q}`
	needsTasks  = `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
)

// withMeta is a message with a `_meta` of the test's own.
func withMeta(method, params, meta string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `}}}`
}

const (
	metaVersion = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	metaCaps    = `"io.modelcontextprotocol/clientCapabilities":`
)

// TestErrorRows holds the edge's rows of the design's table "Requests of the
// modern era, exactly", at the wire.
func TestErrorRows(t *testing.T) {
	discover := message("server/discover", "")
	call := message("tools/call", `"name":"weather_now"`)
	tests := []struct {
		name   string
		path   string // "/mcp" when empty
		body   string // of a valid request when empty
		header []string

		status int
		code   int    // 0: no JSON-RPC error
		id     string // "7" when empty; "-" for none
		data   string
		want   string // part of the body
	}{
		{name: "foreign origin", header: []string{"Origin: http://evil.example"}, status: 403, code: -32600, id: "-"},
		{name: "foreign host", header: []string{"Host: evil.example"}, status: 403, code: -32600, id: "-"},
		{name: "loopback origin", header: []string{"Origin: http://localhost:5173"}, status: 200},
		{name: "unknown tenant", path: "/t/nobody/mcp", status: 404, want: `{"error":"Not Found"}`},
		{name: "unknown alias", path: "/t/acme/u/nobody/mcp", status: 404, want: `{"error":"Not Found"}`},
		{name: "unknown tenant of an alias", path: "/t/nobody/u/weather/mcp", status: 404, want: `{"error":"Not Found"}`},
		{name: "unknown path", path: "/mcp/x", status: 404, want: `{"error":"Not Found"}`},
		{name: "a registry that fails", path: "/t/broken/mcp", status: 500, code: -32603, id: "-", want: `"Internal error"`},

		{name: "no content type", header: []string{"Content-Type"}, status: 415, code: -32600, id: "-"},
		{name: "text", header: []string{"Content-Type", "Content-Type: text/plain"}, status: 415, code: -32600, id: "-"},
		{name: "JSON with a charset", header: []string{"Content-Type", "Content-Type: Application/JSON; charset=utf-8"}, status: 200},
		{name: "a coding we do not decode", header: []string{"Content-Encoding: gzip"}, status: 415, code: -32600, id: "-"},
		{name: "nothing acceptable", header: []string{"Accept", "Accept: text/html"}, status: 406, code: -32600, id: "-"},
		{name: "refused by weight", header: []string{"Accept", "Accept: application/json;q=0, text/event-stream;q=0"}, status: 406, code: -32600, id: "-"},
		{name: "a wildcard", header: []string{"Accept", "Accept: */*"}, status: 200},
		{name: "no Accept", header: []string{"Accept"}, status: 200},

		{name: "not JSON", body: `{"jsonrpc":`, status: 400, code: -32700, id: "-"},
		{name: "empty", body: ` `, status: 400, code: -32700, id: "-"},
		{name: "trailing data", body: discover + `x`, status: 400, code: -32700, id: "-"},
		{name: "invalid UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"a\xff\"}", status: 400, code: -32700, id: "-"},
		{name: "a batch", body: `[` + discover + `]`, status: 400, code: -32600, id: "-"},
		{name: "no method", body: `{"jsonrpc":"2.0","id":7}`, status: 400, code: -32600},
		{name: "a response", body: `{"jsonrpc":"2.0","id":7,"result":{}}`, status: 400, code: -32600},
		{name: "null id", body: `{"jsonrpc":"2.0","id":null,"method":"server/discover"}`, status: 400, code: -32600, id: "-"},
		{name: "fractional id", body: `{"jsonrpc":"2.0","id":1.5,"method":"server/discover"}`, status: 400, code: -32600, id: "-"},
		{name: "a key that differs by case", body: strings.Replace(call, `"name"`, `"Name":"x","name"`, 1), status: 400, code: -32600},
		{name: "too deep", body: message("tools/call", `"name":"x","arguments":`+strings.Repeat("[", 300)+strings.Repeat("]", 300)), status: 400, code: -32600, id: "-"},

		{name: "no params", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, status: 400, code: -32602},
		{name: "no _meta", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{}}`, status: 400, code: -32602, want: "params._meta is missing"},
		{name: "_meta is no object", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":[]}}`, status: 400, code: -32602},
		{name: "no version", body: withMeta("server/discover", "", metaCaps+`{}`), status: 400, code: -32602, want: mcp.MetaProtocolVersion},
		{name: "version is no string", body: withMeta("server/discover", "", `"io.modelcontextprotocol/protocolVersion":20260728,`+metaCaps+`{}`), status: 400, code: -32602},
		{name: "no capabilities", body: withMeta("server/discover", "", metaVersion), status: 400, code: -32602, want: mcp.MetaClientCapabilities},
		{name: "capabilities are no object", body: withMeta("server/discover", "", metaVersion+`,`+metaCaps+`null`), status: 400, code: -32602},
		{name: "no clientInfo is fine", body: discover, status: 200},
		{name: "_meta before the header", body: withMeta("server/discover", "", metaVersion), header: []string{"Mcp-Method"}, status: 400, code: -32602},

		{name: "no version header", header: []string{"Mcp-Protocol-Version"}, status: 400, code: -32020},
		{name: "another version header", header: []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"}, status: 400, code: -32020},
		{name: "no method header", header: []string{"Mcp-Method"}, status: 400, code: -32020},
		{name: "another method header", header: []string{"Mcp-Method", "Mcp-Method: tools/list"}, status: 400, code: -32020},
		{name: "method header in upper case", header: []string{"Mcp-Method", "Mcp-Method: SERVER/DISCOVER"}, status: 400, code: -32020},
		{name: "no name header", body: call, header: []string{"Mcp-Name"}, status: 400, code: -32020},
		{name: "another name header", body: call, header: []string{"Mcp-Name", "Mcp-Name: weather_later"}, status: 400, code: -32020},
		{name: "malformed name header", body: call, header: []string{"Mcp-Name", "Mcp-Name: =?base64?%%?="}, status: 400, code: -32020},
		{name: "encoded name header", body: call, header: []string{"Mcp-Name", "Mcp-Name: =?base64?d2VhdGhlcl9ub3c=?="}, status: 200},
		{name: "name header of a task", body: withMeta("tasks/get", `"taskId":"weather+1"`, metaVersion+`,`+metaCaps+capsTasks), header: []string{"Mcp-Name"}, status: 400, code: -32020},
		{name: "headers before the version", body: strings.Replace(discover, "2026-07-28", "2031-01-01", 1), status: 400, code: -32020},

		{
			name: "unknown version", body: strings.Replace(discover, "2026-07-28", "v999.0.0", 1),
			header: []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: v999.0.0"},
			status: 400, code: -32022, data: sprintf(unsupported, "v999.0.0"),
		},
		{
			name: "a version of the handshake", body: strings.Replace(discover, "2026-07-28", "2025-11-25", 1),
			header: []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"},
			status: 400, code: -32022, data: sprintf(unsupported, "2025-11-25"),
		},
		{
			name: "version before the method", body: strings.Replace(message("ping", ""), "2026-07-28", "2031-01-01", 1),
			header: []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2031-01-01"},
			status: 400, code: -32022, data: sprintf(unsupported, "2031-01-01"),
		},

		{name: "unknown method", body: message("unknown/method", ""), status: 404, code: -32601},
		{name: "initialize", body: message("initialize", ""), status: 404, code: -32601, want: "2026-07-28"},
		{name: "ping", body: message("ping", ""), status: 404, code: -32601},
		{name: "logging/setLevel", body: message("logging/setLevel", ""), status: 404, code: -32601},
		{name: "resources/subscribe", body: message("resources/subscribe", `"uri":"a:b"`), status: 404, code: -32601},
		{name: "resources/unsubscribe", body: message("resources/unsubscribe", `"uri":"a:b"`), status: 404, code: -32601},
		{name: "a notification's method with an id", body: message("notifications/cancelled", ""), status: 404, code: -32601},
		{name: "a method of a server", body: message("sampling/createMessage", ""), status: 404, code: -32601},
		{name: "unknown method of one upstream", path: "/t/acme/u/weather/mcp", body: message("unknown/method", ""), status: 200},
		{name: "removed method of one upstream", path: "/t/acme/u/weather/mcp", body: message("initialize", ""), status: 404, code: -32601},

		{name: "log level", body: withMeta("tools/list", "", metaVersion+`,"io.modelcontextprotocol/logLevel":"loud",`+metaCaps+`{}`), status: 400, code: -32602},
		{name: "log level is no string", body: withMeta("tools/list", "", metaVersion+`,"io.modelcontextprotocol/logLevel":3,`+metaCaps+`{}`), status: 400, code: -32602},
		{name: "good log level", body: withMeta("tools/list", "", metaVersion+`,"io.modelcontextprotocol/logLevel":"warning",`+metaCaps+`{}`), status: 200},

		{name: "tasks/get without the extension", body: message("tasks/get", `"taskId":"nobody+1"`), status: 400, code: -32021, data: needsTasks},
		{name: "tasks/update without the extension", body: message("tasks/update", `"taskId":"nobody+1"`), status: 400, code: -32021, data: needsTasks},
		{name: "tasks/cancel without the extension", body: message("tasks/cancel", `"taskId":"nobody+1"`), status: 400, code: -32021, data: needsTasks},
		{name: "tasks/get with it", body: withMeta("tasks/get", `"taskId":"weather+1"`, metaVersion+`,`+metaCaps+capsTasks), status: 200},
		{name: "an extension that is no object", body: withMeta("tasks/get", `"taskId":"weather+1"`, metaVersion+`,`+metaCaps+`{"extensions":{"io.modelcontextprotocol/tasks":true}}`), status: 400, code: -32021, data: needsTasks},
		{name: "listen to tasks", body: message("subscriptions/listen", `"notifications":{"taskIds":["a+1"]}`), status: 400, code: -32021, data: needsTasks},
		{name: "listen with JSON only", body: message("subscriptions/listen", `"notifications":{}`), header: []string{"Accept", "Accept: application/json"}, status: 406, code: -32600},

		{name: "notification", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, header: []string{"Mcp-Method"}, status: 202},
		{name: "notification of the handshake", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header: []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"}, status: 202},

		{
			name: "neither era", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
			header: []string{"Mcp-Method", "Mcp-Protocol-Version", "Mcp-Protocol-Version: 2024-11-05"},
			status: 400, code: -32022, data: sprintf(unsupported, "2024-11-05"), want: "2026-07-28, or with initialize 2025-11-25",
		},
		{
			name: "initialize with a modern header and no _meta", body: `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
			status: 400, code: -32602, want: "2026-07-28",
		},
		{name: "session and resumption are ignored", header: []string{"Mcp-Session-Id: x", "Last-Event-ID: 3"}, status: 200},
		{name: "string id", body: strings.Replace(message("ping", ""), `"id":7`, `"id":"a\u0062"`, 1), status: 404, code: -32601, id: `"a\u0062"`},
	}
	_, url := start(t, &fakeRouter{}, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, text := tt.path, tt.body
			if path == "" {
				path = "/mcp"
			}
			if text == "" {
				text = discover
			}
			res := do(t, request(t, url+path, text, tt.header...))
			got := body(t, res)
			if res.StatusCode != tt.status {
				t.Fatalf("status %d, want %d: %s", res.StatusCode, tt.status, got)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("body %s, want %q in it", got, tt.want)
			}
			if typ := res.Header.Get("Content-Type"); tt.status != 202 && typ != "application/json" {
				t.Errorf("content type %q", typ)
			}
			if tt.status == 202 && (got != "" || res.ContentLength != 0) {
				t.Errorf("202 with the body %q", got)
			}
			if tt.code == 0 {
				if strings.Contains(got, `"code"`) {
					t.Errorf("an error: %s", got)
				}
				return
			}
			e := decodeError(t, got)
			id := tt.id
			switch id {
			case "":
				id = "7"
			case "-":
				id = ""
			}
			if e.Error.Code != tt.code || string(e.ID) != id {
				t.Errorf("code %d for id %s, want %d for %s: %s", e.Error.Code, e.ID, tt.code, id, got)
			}
			if string(e.Error.Data) != tt.data {
				t.Errorf("data %s, want %s", e.Error.Data, tt.data)
			}
		})
	}
}

func sprintf(format, value string) string { return strings.Replace(format, "%q", `"`+value+`"`, 1) }

func TestOtherHTTPMethods(t *testing.T) {
	_, url := start(t, &fakeRouter{}, nil)
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "BREW"} {
		for _, path := range []string{"/mcp", "/t/acme/mcp", "/t/acme/u/weather/mcp"} {
			req := request(t, url+path, "", "Mcp-Session-Id: x")
			req.Method = method
			res := do(t, req)
			if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: status %d, Allow %q", method, path, res.StatusCode, res.Header.Get("Allow"))
			}
		}
	}
	req := request(t, url+"/t/nobody/mcp", "")
	req.Method = http.MethodGet
	if res := do(t, req); res.StatusCode != http.StatusNotFound {
		t.Errorf("GET of an unknown tenant: status %d", res.StatusCode)
	}
}

// TestRouterErrors holds what becomes of the errors that the federation gives.
func TestRouterErrors(t *testing.T) {
	over := mcp.Errorf(federation.CodeOverQuota, "wait")
	over.Data = []byte(`{"retryAfterMs":2500}`)
	tests := []struct {
		name   string
		err    error
		status int
		code   int
		text   string
		data   string
		header string // Retry-After
	}{
		{name: "invalid params", err: mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: x"), status: 200, code: -32602, text: "Unknown tool: x"},
		{name: "parameter header", err: mcp.Errorf(mcp.CodeHeaderMismatch, "no"), status: 400, code: -32020, text: "no"},
		{name: "missing capability", err: &mcp.Error{Code: mcp.CodeMissingClientCapability, Message: "no", Data: []byte(`{"requiredCapabilities":{}}`)}, status: 400, code: -32021, text: "no", data: `{"requiredCapabilities":{}}`},
		{name: "method", err: mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"), status: 404, code: -32601, text: "Method not found"},
		{name: "quota", err: over, status: 200, code: federation.CodeOverQuota, text: "wait", data: `{"retryAfterMs":2500}`, header: "3"},
		{
			name:   "upstream",
			err:    &upstream.Error{Alias: "weather", Class: upstream.ClassTimeout, Retryable: true, Err: context.DeadlineExceeded},
			status: 200, code: -32603, text: `upstream "weather" did not answer in time`,
			data: `{"alias":"weather","reason":"timeout","retryable":true}`,
		},
		{name: "anything else", err: context.DeadlineExceeded, status: 500, code: -32603, text: "Internal error"},
	}
	var next error
	_, url := start(t, &fakeRouter{handle: func(context.Context, *federation.Call) (*federation.Reply, error) { return nil, next }}, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next = tt.err
			res := do(t, request(t, url+"/mcp", message("tools/list", "")))
			e := decodeError(t, body(t, res))
			got := []any{res.StatusCode, e.Error.Code, e.Error.Message, string(e.Error.Data), res.Header.Get("Retry-After"), string(e.ID)}
			want := []any{tt.status, tt.code, tt.text, tt.data, tt.header, "7"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no endpoint any more", func(t *testing.T) {
		next = federation.ErrNoEndpoint
		res := do(t, request(t, url+"/mcp", message("tools/list", "")))
		if got := body(t, res); res.StatusCode != 404 || got != `{"error":"Not Found"}`+"\n" {
			t.Errorf("status %d: %s", res.StatusCode, got)
		}
	})
}

// TestCall holds what the federation is given.
func TestCall(t *testing.T) {
	var got federation.Call
	var raw []byte
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got, raw = *c, bytes.Clone(c.Request.Raw)
		return result(c, `{}`), nil
	}}, nil)
	sent := message("tools/call", `"name":"now","arguments":{"city":"Köln"}`)
	body(t, do(t, request(t, url+"/t/acme/u/weather/mcp", sent, "Mcp-Param-City: x")))
	if diff := cmp.Diff(federation.Endpoint{Tenant: "acme", Alias: "weather"}, got.Endpoint); diff != "" {
		t.Errorf("endpoint:\n%s", diff)
	}
	if got.Principal.Tenant != "acme" || got.Principal.Subject != "" {
		t.Errorf("principal %+v", got.Principal)
	}
	if string(raw) != sent || got.Header.Get("Mcp-Param-City") != "x" || got.Notify == nil {
		t.Errorf("raw %s, header %v", raw, got.Header)
	}
	body(t, do(t, request(t, url+"/mcp", sent, "Accept", "Accept: application/json")))
	if got.Notify != nil {
		t.Error("a client that takes no events gets notifications")
	}
	if got.Endpoint.Tenant != "default" {
		t.Errorf("/mcp is the tenant %q", got.Endpoint.Tenant)
	}
}

func TestReplyIsRelayedByteForByte(t *testing.T) {
	raw := `{"content":[{"type":"text","text":"日本 \ud800 1e400"}],"n":12345678901234567890.0}`
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		r := result(c, raw)
		r.Status = http.StatusBadRequest // as a relayed -32021 has
		return r, nil
	}}, nil)
	res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`)))
	if got, want := body(t, res), `{"jsonrpc":"2.0","id":7,"result":`+raw+`}`; got != want || res.StatusCode != 400 {
		t.Errorf("status %d: %s", res.StatusCode, got)
	}
	if !json.Valid([]byte(raw)) {
		t.Error("the test's own answer is not JSON")
	}
}
