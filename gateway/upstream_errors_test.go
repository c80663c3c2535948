package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUpstreamErrorsAreRelayed holds what becomes of an upstream's own JSON-RPC
// error: it passes unchanged, whatever its HTTP status, but for those that are
// about the way between the upstream and the gateway.
func TestUpstreamErrorsAreRelayed(t *testing.T) {
	const failed = `{"alias":"a","reason":"rejected","retryable":false}`
	tests := []struct {
		name   string
		status int    // of the upstream
		answer string // of the upstream; $ID is the id
		want   int    // the client's status
		code   int    // of the gateway's own error; 0 when the upstream's passes
		data   string // of the same
	}{
		{name: "invalid params", status: 400, answer: `"id":$ID,"error":{"code":-32602,"message":"bad city","data":[1.0]}`, want: 200},
		{name: "invalid params with 200", status: 200, answer: `"id":$ID,"error":{"code":-32602,"message":"bad city"}`, want: 200},
		{name: "internal error", status: 500, answer: `"id":$ID,"error":{"code":-32603,"message":"out of rooms"}`, want: 200},
		{name: "a code of its own", status: 404, answer: `"id":$ID,"error":{"code":12,"message":"m"}`, want: 200},
		{name: "a code of the implementation", status: 503, answer: `"id":$ID,"error":{"code":-32000,"message":"m"}`, want: 200},
		{name: "the older resource not found", status: 200, answer: `"id":$ID,"error":{"code":-32002,"message":"m","data":{"x":1e400}}`, want: 200},
		{name: "invalid request", status: 400, answer: `"id":$ID,"error":{"code":-32600,"message":"m"}`, want: 200},
		{name: "a missing capability", status: 400, answer: `"id":$ID,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"elicitation":{}}}}`, want: 400},
		{name: "a missing capability with 200", status: 200, answer: `"id":$ID,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{"x":1.0}}}}`, want: 400},
		{name: "no method with 404", status: 404, answer: `"id":$ID,"error":{"code":-32601,"message":"Method not found"}`, want: 404},
		{name: "no such thing with 200", status: 200, answer: `"id":$ID,"error":{"code":-32601,"message":"no tool of that name"}`, want: 200, code: -32603, data: failed},
		{name: "headers that never match", status: 400, answer: `"id":$ID,"error":{"code":-32020,"message":"m"}`, want: 200, code: -32603, data: strings.Replace(failed, "false", "true", 1)},
		{name: "no version in common", status: 400, answer: `"id":$ID,"error":{"code":-32022,"message":"m","data":{"supported":["2031-01-01"],"requested":"2026-07-28"}}`, want: 200, code: -32603, data: `{"alias":"a","reason":"version","retryable":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newScripted(t)
			up.tools("echo")
			up.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, a *asked) {
				answerJSON(w, tt.status, `{"jsonrpc":"2.0",`+strings.ReplaceAll(tt.answer, "$ID", string(a.ID))+`}`)
			})
			gw := front(t, lenient, "", upstreamOf("a", up.URL))
			got := newRawClient(t, gw.URL+"/mcp").send(callOf("a_echo"))
			if got.status != tt.want {
				t.Errorf("status %d: %.500q, want %d", got.status, got.messages, tt.want)
			}
			if tt.code == 0 {
				equalBytes(t, "the client received", got.last(), `{"jsonrpc":"2.0",`+strings.ReplaceAll(tt.answer, "$ID", `"q-1"`)+`}`)
				return
			}
			if f := readFailure(t, got.last()); f.Error.Code != tt.code || string(f.Error.Data) != tt.data {
				t.Errorf("%.500s, want code %d and data %s", got.last(), tt.code, tt.data)
			}
		})
	}
}

// TestUpstreamErrorsWithoutAnID holds that an error whose sender could not read
// the id gets the client's.
func TestUpstreamErrorsWithoutAnID(t *testing.T) {
	up := newScripted(t)
	up.tools("echo")
	gw := front(t, lenient, "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	for _, id := range []string{`"id":null,`, ``} {
		up.handle("tools/call", page(400, "application/json", `{"jsonrpc":"2.0",`+id+`"error":{"code":-32600,"message":"m"}}`))
		got := client.send(callOf("a_echo"))
		if f := readFailure(t, got.last()); got.status != 200 || string(f.ID) != `"q-1"` || f.Error.Code != -32600 || f.Error.Message != "m" {
			t.Errorf("status %d: %.500q", got.status, got.messages)
		}
	}
}

// TestUpstreamThatLacksTheMethod holds that -32601 passes where the upstream has
// no such capability.
func TestUpstreamThatLacksTheMethod(t *testing.T) {
	up := newScripted(t)
	up.result("server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}`)
	up.handle("resources/read", answerError(200, `{"code":-32601,"message":"Method not found"}`))
	gw := front(t, lenient, "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	client.send(ask("server/discover", ""))
	got := client.send(ask("resources/read", `"uri":"a+doc://a"`))
	if f := readFailure(t, got.last()); got.status != 404 || f.Error.Code != -32601 {
		t.Errorf("status %d: %.500q, want 404 and -32601", got.status, got.messages)
	}
}

// TestUpstreamThatChangesItsHeaders has a tool's parameter header change: after
// the upstream's -32020 the list is read again, and the call succeeds.
func TestUpstreamThatChangesItsHeaders(t *testing.T) {
	up := newScripted(t)
	schema := func(header string) string {
		return `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}}`
	}
	up.list("tools/list", schema("Region"))
	gw := front(t, lenient, "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	client.send(ask("tools/list", ""))
	up.list("tools/list", schema("Zone"))
	up.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
		if a.header.Get("Mcp-Param-Zone") != "eu" {
			answerError(400, `{"code":-32020,"message":"no zone"}`)(w, r, a)
			return
		}
		answerResult(`{"resultType":"complete","content":[]}`)(w, r, a)
	})
	got := client.send(ask("tools/call", `"name":"a_q","arguments":{"region":"eu"}`), "Mcp-Param-Region: eu")
	if want := `{"jsonrpc":"2.0","id":"q-1","result":{"resultType":"complete","content":[]}}`; got.status != 200 || got.last() != want {
		t.Errorf("status %d: %.500q", got.status, got.messages)
	}
	if lists, calls := len(up.requests("tools/list")), len(up.requests("tools/call")); lists != 2 || calls != 2 {
		t.Errorf("%d lists and %d calls, want two of each", lists, calls)
	}
}

// dead gives the URL of a server that is gone.
func dead() string {
	s := httptest.NewServer(nil)
	s.Close()
	return s.URL
}

// TestUpstreamDown holds that an outage is marked, never an empty list, and names
// the upstream.
func TestUpstreamDown(t *testing.T) {
	good := newGood(t)
	gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", dead()))
	client := newRawClient(t, gw.URL+"/mcp")
	for method, key := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"} {
		list := client.send(ask(method, "")).last()
		readPage(t, list, key)
		if diff := cmp.Diff([]string{"bad:connect"}, partialOf(t, list)); diff != "" {
			t.Errorf("%s: partial (-want +got):\n%s", method, diff)
		}
		alone := client.at(gw.URL + "/t/default/u/bad/mcp").send(ask(method, ""))
		f := readFailure(t, alone.last())
		const data = `{"alias":"bad","reason":"connect","retryable":true,"upstreams":[{"alias":"bad","reason":"connect"}]}`
		if alone.status != 200 || f.Error.Code != -32603 || string(f.Error.Data) != data {
			t.Errorf("%s of the upstream alone: status %d: %q", method, alone.status, alone.messages)
		}
	}
	checkFailure(t, client.send(callOf("bad_any")), "connect", true)
	checkFailure(t, client.send(ask("prompts/get", `"name":"bad_any"`)), "connect", true)
	checkFailure(t, client.send(ask("resources/read", `"uri":"bad+doc://a"`)), "connect", true)
	checkFailure(t, client.send(ask("completion/complete", `"ref":{"type":"ref/resource","uri":"bad+doc://{a}"},"argument":{"name":"a","value":""}`)), "connect", true)
	checkGood(t, client)
}

// TestUpstreamThatGoesDown holds that what was listed is served on, marked, when
// its upstream is gone, and that calls say so.
func TestUpstreamThatGoesDown(t *testing.T) {
	good, bad := newGood(t), newScripted(t)
	bad.list("tools/list", `{"name":"any","inputSchema":{"type":"object"}}`)
	bad.result("tools/list", `{"resultType":"complete","tools":[{"name":"any","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public"}`)
	gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	both := []string{"bad_any", "good_ping"}
	if list := client.send(ask("tools/list", "")).last(); !slices.Equal(toolNames(t, list), both) || partialOf(t, list) != nil {
		t.Fatalf("the list before the outage: %s", list)
	}
	bad.Close()
	eventually(t, "the outage is seen", func() bool {
		list := client.send(ask("tools/list", "")).last()
		if got := toolNames(t, list); !slices.Equal(got, both) {
			t.Fatalf("tools %q, want the last known", got)
		}
		return slices.Equal(partialOf(t, list), []string{"bad:connect"})
	})
	checkFailure(t, client.send(callOf("bad_any")), "connect", true)
	checkGood(t, client)
}
