package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// server is an MCP server that sends what a test tells it to, and keeps what it
// was sent.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
}

// serve answers the n-th request with the n-th of the answers, and all further
// ones with the last.
func serve(t *testing.T, answers ...http.HandlerFunc) (*server, *Client) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.bodies, s.heads = append(s.bodies, string(body)), append(s.heads, r.Header)
		n := min(len(s.bodies), len(answers)) - 1
		s.mu.Unlock()
		answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer x"}}, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

// sent gives the bodies of the requests so far.
func (s *server) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

// asJSON answers with one message.
func asJSON(body string) http.HandlerFunc { return asStatus(http.StatusOK, "application/json", body) }

func asStatus(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// asStream answers with one event for each message.
func asStream(messages ...string) http.HandlerFunc {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(": comment\n\nevent: message\ndata: " + m + "\n\n")
	}
	return asStatus(http.StatusOK, "text/event-stream; charset=utf-8", b.String())
}

func result(id int, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{%s}}`, id, members)
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"causeway","version":"1.2.3"},"io.modelcontextprotocol/clientCapabilities":`

func TestDoSendsWhatTheTransportWants(t *testing.T) {
	s, c := serve(t, asJSON(result(1, `"resultType":"complete","x":1`)))
	_, err := c.Do(t.Context(), &Request{
		Method: "tools/call", Name: "übung", HasName: true, Params: []byte(`"name":"übung"`),
		Headers: [][2]string{{"Mcp-Param-City", "Paris"}}, Elicitation: true, Progress: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"übung",` + meta +
		`{"elicitation":{"form":{},"url":{}}},"progressToken":1}}}`
	if diff := cmp.Diff([]string{want}, s.sent()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?w7xidW5n?=",
		"Mcp-Param-City": "Paris", "Authorization": "Bearer x", "User-Agent": "causeway/1.2.3",
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	} {
		if got := s.heads[0].Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
}

func TestDoReadsAnswers(t *testing.T) {
	const big = `"resultType":"complete","structuredContent":{"n":12345678901234567890,"d":1e400,"b":1.0,"b":-0.0}`
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string // the raw result
		heard  int
	}{
		{"JSON", asJSON(result(1, big)), "{" + big + "}", 0},
		{"a stream", asStream(progress, progress, result(1, big)), "{" + big + "}", 2},
		{"a stream that stays open", func(w http.ResponseWriter, r *http.Request) {
			asStream(result(1, big))(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "{" + big + "}", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, c := serve(t, test.answer)
			heard := 0
			m, err := c.Do(t.Context(), &Request{Method: "tools/list"}, func(*mcp.Message) { heard++ })
			if err != nil {
				t.Fatal(err)
			}
			if got := string(m.Result.In(m.Raw)); got != test.want || heard != test.heard {
				t.Errorf("got %s and %d notifications, want %s and %d", got, heard, test.want, test.heard)
			}
		})
	}
}

func TestDoExplainsFailures(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   []string
	}{
		{"a JSON-RPC error", asJSON(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool"}}`), []string{"Unknown tool", "-32602"}},
		{"a JSON-RPC error with a status", asStatus(404, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"No such method"}}`), []string{"No such method"}},
		{"an error without an id", asStatus(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`), []string{"Parse error"}},
		{"another version", asStatus(400, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported"}}`), []string{"this client speaks 2026-07-28"}},
		{"nothing at that path", asStatus(404, "text/plain", "404 page not found"), []string{"HTTP 404", "/mcp"}},
		{"a JSON body that is not MCP", asStatus(503, "application/json", `{"status":"down"}`), []string{"HTTP 503"}},
		{"no token", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, []string{"401", "Authorization", `Bearer realm="r"`}},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/mcp", http.StatusTemporaryRedirect)
		}, []string{"307", "https://elsewhere.example/mcp", "not followed"}},
		{"a web page", asStatus(200, "text/html", "<html>"), []string{`"text/html"`}},
		{"truncated JSON", asJSON(`{"jsonrpc":"2.0","id":1,"resu`), []string{"not MCP"}},
		{"an answer to another request", asJSON(result(7, "")), []string{"another request"}},
		{"a request from the server", asStream(`{"jsonrpc":"2.0","id":5,"method":"roots/list"}`), []string{"roots/list", "older protocol"}},
		{"a stream that ends early", asStream(), []string{"before the answer"}},
		{"a stream that is cut", func(w http.ResponseWriter, r *http.Request) {
			asStatus(200, "text/event-stream", "data: {\"json")(w, r)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, []string{"closed the connection"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, c := serve(t, test.answer)
			_, err := c.Do(t.Context(), &Request{Method: "tools/list"}, nil)
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestDoNamesWhatIsNotThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	c, err := New(Options{URL: "http://user:secret@" + addr + "/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), &Request{Method: "tools/list"}, nil)
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "is the gateway running?") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want the address, a hint and no password", err)
	}
}

func TestNewRefusesOtherURLs(t *testing.T) {
	for _, raw := range []string{"", "127.0.0.1:8080/mcp", "ftp://x/", "http://", "http://[::1/"} {
		if _, err := New(Options{URL: raw}); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}

func TestDoWaitsForSignsOfLife(t *testing.T) {
	// Two notifications come, each sooner than the wait, and then nothing.
	gone := make(chan struct{})
	_, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for range 2 {
			asStream(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)(w, r)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	c.opts.Wait = 50 * time.Millisecond
	_, err := c.Do(t.Context(), &Request{Method: "tools/list"}, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing came") || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("got %v, want an error that tells of the timeout", err)
	}
	<-gone
}

func TestCancellingClosesTheStream(t *testing.T) {
	gone := make(chan struct{})
	_, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		asStream(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Do(ctx, &Request{Method: "tools/list"}, func(*mcp.Message) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	<-gone
}

// asAnyID answers each request with the same result, under the request's id.
func asAnyID(members string) http.HandlerFunc {
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		n++ // requests of one client come one after the other
		asJSON(result(n, members))(w, r)
	}
}
