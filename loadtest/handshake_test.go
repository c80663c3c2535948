package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func startHandshakeUpstream(t *testing.T) string {
	t.Helper()
	u, err := newHandshakeUpstream(madeUpCatalogue().first(smallList))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(u)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// say sends one request of a handshake client and gives the answer and its body.
func say(t *testing.T, addr, method, session, version, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Mcp-Session-Id": session, "MCP-Protocol-Version": version} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestHandshakeUpstream(t *testing.T) {
	const (
		call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_000"}}`
		post = http.MethodPost
	)
	addr := startHandshakeUpstream(t)
	resp, text := say(t, addr, post, "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" || !strings.Contains(text, `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("initialize: session %q, %s", id, text)
	}
	tests := []struct {
		name, method, session, version, body string
		want                                 int
		text                                 string // part of the answer
	}{
		{"notification", post, id, handshakeVersion, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ""},
		{"call", post, id, handshakeVersion, call, 200, answerText},
		{"list", post, id, handshakeVersion, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, 200, `"name":"tool_019"`},
		{"unknown tool", post, id, handshakeVersion, strings.Replace(call, "tool_000", "x", 1), 200, "-32602"},
		{"unknown method", post, id, handshakeVersion, `{"jsonrpc":"2.0","id":3,"method":"x"}`, 200, "-32601"},
		{"no message", post, id, handshakeVersion, "x", 400, ""},
		{"no session", post, "", handshakeVersion, call, 400, ""},
		{"modern client", post, "", "2026-07-28", `{"jsonrpc":"2.0","id":3,"method":"server/discover"}`, 400, "unsupported"},
		{"another session", post, "x", handshakeVersion, call, 404, ""},
		{"stream", http.MethodGet, id, handshakeVersion, "", 405, ""},
		{"end", http.MethodDelete, id, handshakeVersion, "", 204, ""},
		{"ended", post, id, handshakeVersion, call, 404, ""},
		{"end again", http.MethodDelete, id, handshakeVersion, "", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, text := say(t, addr, tt.method, tt.session, tt.version, tt.body)
			if resp.StatusCode != tt.want || !strings.Contains(text, tt.text) {
				t.Errorf("status %d, want %d with %q: %s", resp.StatusCode, tt.want, tt.text, text)
			}
			if tt.want == 400 && strings.Contains(text, "{") {
				t.Errorf("a refusal in JSON: %s", text)
			}
		})
	}
	for path, want := range map[string]int64{countPath: int64(len(tests)) + 1, callsPath: 2} {
		if got, err := askCount(t.Context(), addr, path); err != nil || got != want {
			t.Errorf("%s = %d (%v), want %d", path, got, err, want)
		}
	}
}

// The upstream is a server of the handshake era that an independent client
// understands.
func TestHandshakeUpstreamWithGoSDK(t *testing.T) {
	addr := startHandshakeUpstream(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != handshakeVersion {
		t.Errorf("version %s, want %s", got, handshakeVersion)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != smallList {
		t.Errorf("%d tools, want %d", len(list.Tools), smallList)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: list.Tools[0].Name, Arguments: map[string]any{"query": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != answerText {
		t.Errorf("result %+v", result.Content)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil {
		t.Error("an unknown tool was called")
	}
}

// Only calls that come to the handshake upstream while it is measured count as
// such.
func TestCountAround(t *testing.T) {
	addr := startHandshakeUpstream(t)
	b := &bench{handshakeAddr: addr}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call := func() {
		t.Helper()
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "tool_000"}); err != nil {
			t.Fatal(err)
		}
	}
	call()
	for _, m := range measurements() {
		if m.name == callHandshake {
			counted, err := b.countAround(t.Context(), m, &system{name: sysCauseway})
			if err != nil {
				t.Fatal(err)
			}
			call()
			call()
			if err := counted(2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.countOther(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := b.handshake; h.sent != 2 || h.calls != 2 || h.other < 2 || h.other > 10 {
		t.Errorf("counted %+v, want 2 calls and the few requests of the handshake", h)
	}
}
