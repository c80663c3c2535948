package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// done answers any call with the session that it came in.
func done(w http.ResponseWriter, m scriptedMessage) {
	answerJSON(w, 200, m.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, m.session)))
}

// No two users, no two client sessions and no two sets of capabilities share a
// session; a shared one declares no capabilities.
func TestSessionsAreOfOneUser(t *testing.T) {
	var mu sync.Mutex
	declared := map[string]bool{}
	h := scripted(done)
	h.note = func(m scriptedMessage) {
		if m.Method == methodInitialize {
			mu.Lock()
			defer mu.Unlock()
			_, rest, _ := strings.Cut(string(m.Params), `"capabilities":`)
			caps, _, _ := strings.Cut(rest, `,"clientInfo"`)
			declared[caps] = true
		}
	}
	users := []modern{
		{}, {principal: "ann"}, {principal: "bob"}, {principal: "ann", session: "s1"}, {principal: "ann", session: "s2"},
		{principal: "ann", caps: `{"roots":{"listChanged":true},"tasks":{}}`}, {principal: "ann", caps: `{"elicitation":{}}`},
	}
	for _, shared := range []bool{false, true} {
		clear(declared)
		l, _ := shake(t, h, func(c *Config) { c.Sessions.Shared = shared })
		used := map[string]bool{}
		for range 2 {
			for _, q := range users {
				q.method, q.name = mcp.MethodToolsCall, "x"
				used[mustSend(t, l, q).text()] = true
			}
		}
		// The server of the first round has other sessions than that of the second.
		if want := map[bool]int{false: len(users), true: 1}[shared]; len(used) != want {
			t.Errorf("shared %v: %d sessions were used, want %d", shared, len(used), want)
		}
		var got []string
		for caps := range declared {
			got = append(got, caps)
		}
		slices.Sort(got)
		want := []string{"{}"}
		if !shared {
			want = []string{`{"elicitation":{}}`, `{"roots":{}}`, "{}"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("shared %v: declared %q, want %q", shared, got, want)
		}
	}
}

// Concurrent first calls of a user shake hands once.
func TestHandshakeIsFolded(t *testing.T) {
	h := scripted(done)
	l, seen := shake(t, h)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", id: 100 + i}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := seen.times("POST initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
}

// Sessions that nobody uses are ended, and there are never more than allowed.
func TestSessionsEnd(t *testing.T) {
	h := scripted(done)
	l, seen := shake(t, h, func(c *Config) { c.Sessions.Idle, c.Sessions.Max = time.Hour, 2 })
	for _, who := range []string{"ann", "bob", "ann", "cid"} {
		mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", principal: who})
	}
	waitFor(t, "bob's session to end", func() bool { return h.known() == 2 })
	seen.lines()
	mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", principal: "ann"})
	if got := seen.lines(); !slices.Equal(got, []string{"POST tools/call"}) {
		t.Errorf("ann's call took %q, want her session still there", got)
	}

	h = scripted(done)
	l, _ = shake(t, h, func(c *Config) { c.Sessions.Idle = 10 * time.Millisecond })
	mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", principal: "ann"})
	waitFor(t, "the idle session to end", func() bool { return h.known() == 0 })
	mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", principal: "ann"})
}

// A session in use is not ended for another one.
func TestTooManySessions(t *testing.T) {
	release := make(chan struct{})
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		<-release
		done(w, m)
	})
	l, seen := shake(t, h, func(c *Config) { c.Sessions.Max = 1 })
	first := make(chan error, 1)
	go func() {
		_, err := send(context.Background(), l, modern{method: mcp.MethodToolsCall, name: "x", principal: "ann"})
		first <- err
	}()
	waitFor(t, "the call to arrive", func() bool { return seen.times("POST tools/call") == 1 })
	_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", principal: "bob"})
	wantClass(t, err, ClassOverloaded, true)
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// A server that has forgotten the session gets a new one, and the request again:
// it has not looked at it.
func TestSessionLost(t *testing.T) {
	tests := []struct {
		name   string
		refuse http.HandlerFunc
	}{
		{"404", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "session not found", http.StatusNotFound) }},
		{"400 as text", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Bad Request: No valid session ID provided", http.StatusBadRequest)
		}},
		{"400 as JSON-RPC", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := scripted(done)
			lost := atomic.Bool{}
			l, seen := shake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if lost.Load() && r.Header.Get("Mcp-Session-Id") == "session-1" {
					tt.refuse(w, r)
					return
				}
				h.ServeHTTP(w, r)
			}))
			q := modern{method: mcp.MethodToolsCall, name: "x"}
			mustSend(t, l, q)
			lost.Store(true)
			seen.lines()
			if r := mustSend(t, l, q); r.text() != "session-2" {
				t.Errorf("got %s", r.raw)
			}
			if got, want := seen.lines(), []string{"POST tools/call", "POST initialize", "POST notifications/initialized", "POST tools/call"}; !slices.Equal(got, want) {
				t.Errorf("it took %q, want %q", got, want)
			}
		})
	}
}

// A server that forgets each session at once is not asked for ever.
func TestSessionLostAgain(t *testing.T) {
	h := scripted(done)
	l, seen := shake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") != "" && r.Header.Get("Content-Length") != "" && seenCall(r) {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	}))
	_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x"})
	wantClass(t, err, ClassStatus, true)
	if n := seen.times("POST initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

// seenCall tells whether a request is a tools/call, and leaves its body readable.
func seenCall(r *http.Request) bool { return seenMethod(r, mcp.MethodToolsCall) }

// seenMethod tells whether a request is one with that method, and leaves its body
// readable.
func seenMethod(r *http.Request, method string) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return strings.Contains(string(body), strconv.Quote(method))
}

// A handshake that cannot succeed fails the requests that wait for it.
func TestHandshakeFails(t *testing.T) {
	tests := []struct {
		name      string
		h         http.HandlerFunc
		class     Class
		retryable bool
	}{
		{"version", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":"s1","result":{"protocolVersion":"2099-01-01","capabilities":{}}}`)
		}, ClassVersion, false},
		{"no version", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":"s1","result":{}}`)
		}, ClassProtocol, false},
		{"error", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":"s1","error":{"code":-32602,"message":"no"}}`)
		}, ClassRejected, false},
		{"other id", func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":"zz","result":{"protocolVersion":"2025-11-25"}}`)
		}, ClassProtocol, false},
		{"unauthorized", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, ClassUnauthorized, false},
		{"busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, ClassStatus, true},
		{"html", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		}, ClassProtocol, false},
		{"session id", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Mcp-Session-Id", "a b")
			answerJSON(w, 200, `{"jsonrpc":"2.0","id":"s1","result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
		}, ClassProtocol, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := shake(t, tt.h)
			_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x"})
			wantClass(t, err, tt.class, tt.retryable)
		})
	}
}

// What each revision's transport wants is in the headers, and nothing else.
func TestHandshakeHeaders(t *testing.T) {
	for _, version := range []string{version20251125, version20250618, version20250326, version20241105} {
		t.Run(version, func(t *testing.T) {
			h := scripted(done)
			h.version = version
			var headers []http.Header
			h.note = func(m scriptedMessage) { headers = append(headers, m.request.Header) }
			l, _ := shake(t, h)
			q := modern{method: mcp.MethodToolsCall, name: "x"}.request()
			q.Params = []Header{{"Mcp-Param-A", "1"}}
			q.Header = http.Header{"X-Tenant": {"7"}, "Authorization": {"Bearer secret"}, "Mcp-Param-B": {"1"}}
			a, err := l.Do(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			a.Close()
			for i, h := range headers {
				want := ""
				if i > 0 && version >= version20250618 {
					want = version
				}
				if got := h.Get("Mcp-Protocol-Version"); got != want {
					t.Errorf("message %d has version %q, want %q", i, got, want)
				}
				if got := h.Get("Mcp-Session-Id"); (got != "") != (i > 0) {
					t.Errorf("message %d has session %q", i, got)
				}
				if h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != "application/json" {
					t.Errorf("message %d has %v", i, h)
				}
				for _, name := range []string{"Mcp-Method", "Mcp-Name", "Mcp-Param-A", "Mcp-Param-B", "Authorization"} {
					if h.Get(name) != "" {
						t.Errorf("message %d has a header %s", i, name)
					}
				}
				if got := h.Get("X-Tenant"); (got != "") != (i == 2) {
					t.Errorf("message %d has X-Tenant %q", i, got)
				}
			}
		})
	}
}
