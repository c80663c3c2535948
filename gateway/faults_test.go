package gateway_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lenient keeps the circuit breaker out of tests that fail on purpose, bounds
// messages by 24 MiB, and leaves good upstreams time on a busy machine.
const lenient = "breaker: {failures: 1000}\nlimits: {message: 25165824}\ntimeouts: {list: 30s}\n"

// Keys of an upstream whose lists, or calls, are not to be waited for.
const (
	shortList = ", timeouts: {list: 50ms, call: 500ms, callMax: 500ms}"
	shortCall = ", timeouts: {list: 30s, call: 500ms, callMax: 500ms}"
)

// rpcFailure is what a test looks at of a JSON-RPC error.
type rpcFailure struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func readFailure(t *testing.T, message string) (f rpcFailure) {
	t.Helper()
	if err := json.Unmarshal([]byte(message), &f); err != nil {
		t.Fatalf("%.500q: %v", message, err)
	}
	return f
}

// checkFailure holds that a call failed over the upstream bad, and that the client
// learns nothing of its internals.
func checkFailure(t *testing.T, got reply, reason string, retryable bool) {
	t.Helper()
	f := readFailure(t, got.last())
	want := fmt.Sprintf(`{"alias":"bad","reason":%q,"retryable":%v}`, reason, retryable)
	if got.status != 200 || f.Error.Code != -32603 || string(f.Error.Data) != want || string(f.ID) != `"q-1"` {
		t.Errorf("status %d: %.500s, want 200, -32603 and %s", got.status, got.last(), want)
	}
	if !strings.HasPrefix(f.Error.Message, `upstream "bad" `) {
		t.Errorf("the message %q does not name the upstream", f.Error.Message)
	}
}

// checkNoInternals holds that nothing of what a client got comes from the inside
// of an upstream or of the gateway.
func checkNoInternals(t *testing.T, up *scripted, got reply) {
	t.Helper()
	for _, secret := range []string{marker, strings.TrimPrefix(up.URL, "http://"), "127.0.0.1", "goroutine ", ".go:", "dial ", "EOF", "net/http", "json:"} {
		if all := strings.Join(got.messages, "\n"); strings.Contains(all, secret) {
			t.Errorf("the client learned %q: %.500s", secret, all)
		}
		for name, values := range got.header {
			if strings.Contains(strings.Join(values, "\n"), secret) {
				t.Errorf("the client learned %q from the header %s: %q", secret, name, values)
			}
		}
	}
}

// partialOf gives what `_meta` of a list says about missing parts, as alias:reason.
func partialOf(t *testing.T, message string) (partial []string) {
	t.Helper()
	var m struct {
		Result struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatalf("%.500s: %v", message, err)
	}
	raw, ok := m.Result.Meta["io.github.causeway-mcp/partial"]
	if !ok {
		return nil
	}
	var parts []struct{ Alias, Reason string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, p := range parts {
		partial = append(partial, p.Alias+":"+p.Reason)
	}
	return partial
}

// toolNames gives the names in a list of tools.
func toolNames(t *testing.T, message string) (names []string) {
	t.Helper()
	for _, item := range readPage(t, message, "tools").items {
		var tool struct{ Name string }
		if err := json.Unmarshal([]byte(item), &tool); err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// newGood starts an upstream that answers well: with the text "pong".
func newGood(tb testing.TB) *scripted {
	tb.Helper()
	up := newScripted(tb)
	up.tools("ping")
	up.result("tools/call", `{"resultType":"complete","content":[{"type":"text","text":"pong"}]}`)
	return up
}

func checkGood(t *testing.T, client *rawClient) {
	t.Helper()
	const want = `{"jsonrpc":"2.0","id":"q-1","result":{"resultType":"complete","content":[{"type":"text","text":"pong"}]}}`
	if got := client.send(callOf("good_ping")); got.status != 200 || got.last() != want {
		t.Errorf("the call to the good upstream: status %d: %.500q", got.status, got.messages)
	}
}

// TestLiesHarmNobodyElse puts a good upstream beside one that lies from the start:
// the good one's tools are listed and called, and the other is named.
func TestLiesHarmNobodyElse(t *testing.T) {
	for _, tt := range lies() {
		t.Run(tt.name, func(t *testing.T) {
			good, bad := newGood(t), newScripted(t)
			bad.setAny(tt.answer)
			keys := ""
			if tt.hangs {
				keys = shortList
			}
			gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL, keys))
			client := newRawClient(t, gw.URL+"/mcp")

			list := client.send(ask("tools/list", ""))
			if got := toolNames(t, list.last()); !slices.Equal(got, []string{"good_ping"}) {
				t.Errorf("tools %q, want those of the good upstream", got)
			}
			if diff := cmp.Diff([]string{"bad:" + tt.reason}, partialOf(t, list.last())); diff != "" {
				t.Errorf("partial (-want +got):\n%s", diff)
			}
			if ttl := string(readPage(t, list.last(), "tools").result["ttlMs"]); ttl != "0" {
				t.Errorf("ttlMs of a partial list is %s, want 0", ttl)
			}
			alone := client.at(gw.URL + "/t/default/u/bad/mcp").send(ask("tools/list", ""))
			if f := readFailure(t, alone.last()); alone.status != 200 || f.Error.Code != -32603 || !strings.Contains(string(f.Error.Data), `"alias":"bad"`) {
				t.Errorf("the list of the bad upstream alone: status %d: %.500q", alone.status, alone.messages)
			}

			call := make(chan reply, 1)
			go func() { call <- client.send(callOf("bad_any")) }()
			checkGood(t, client)
			got := <-call
			// It was never sent, so a retry makes sense.
			checkFailure(t, got, tt.reason, true)
			for _, r := range []reply{list, alone, got} {
				checkNoInternals(t, bad, r)
			}
		})
	}
}

// TestLiesAreErrors has an upstream that lists its tools well lie when one is
// called.
func TestLiesAreErrors(t *testing.T) {
	for _, tt := range lies() {
		t.Run(tt.name, func(t *testing.T) {
			good, bad := newGood(t), newScripted(t)
			bad.tools("any")
			bad.handle("tools/call", tt.answer)
			keys := ""
			if tt.hangs {
				keys = shortCall
			}
			gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL, keys))
			client := newRawClient(t, gw.URL+"/mcp")
			call := make(chan reply, 1)
			go func() { call <- client.send(callOf("bad_any")) }()
			checkGood(t, client)
			got := <-call
			checkFailure(t, got, tt.reason, tt.retryable)
			checkNoInternals(t, bad, got)
			if n := len(bad.requests("tools/call")); n != 1 {
				t.Errorf("the call was sent %d times, want once", n)
			}
			checkGood(t, client)
		})
	}
}

// TestResetWithinAStream has an upstream reset its connection when the client has
// got a part of the answer.
func TestResetWithinAStream(t *testing.T) {
	good, bad := newGood(t), newScripted(t)
	bad.tools("any")
	arrived := make(chan struct{})
	bad.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, a *asked) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		const note = `data: {"jsonrpc":"2.0","method":"notifications/x"}` + "\n\n"
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n%s", note)
		<-arrived
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	})
	gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	s := client.open(callOf("bad_any"))
	if got := s.next(); got != `{"jsonrpc":"2.0","method":"notifications/x"}` {
		t.Fatalf("the first message is %q", got)
	}
	checkGood(t, client)
	close(arrived)
	got := reply{status: s.status, header: s.header, messages: []string{s.next()}}
	checkFailure(t, got, "interrupted", false)
	checkNoInternals(t, bad, got)
	checkGood(t, client)
}

// TestLateLists has an upstream answer when the client has long got its list.
func TestLateLists(t *testing.T) {
	good, bad := newGood(t), newScripted(t)
	release := make(chan struct{})
	bad.handle("tools/list", func(w http.ResponseWriter, r *http.Request, a *asked) {
		<-release
		answerResult(`{"resultType":"complete","tools":[{"name":"any","inputSchema":{"type":"object"}}],"ttlMs":3600000,"cacheScope":"public"}`)(w, r, a)
	})
	gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL, ", timeouts: {list: 50ms}"))
	client := newRawClient(t, gw.URL+"/mcp")
	for range 3 { // later lists do not wait for it again
		list := client.send(ask("tools/list", "")).last()
		if got := toolNames(t, list); !slices.Equal(got, []string{"good_ping"}) {
			t.Errorf("tools %q before the answer", got)
		}
		if got := partialOf(t, list); !slices.Equal(got, []string{"bad:timeout"}) {
			t.Errorf("partial %q before the answer", got)
		}
	}
	checkFailure(t, client.send(callOf("bad_any")), "timeout", true)
	checkGood(t, client)
	close(release)
	eventually(t, "the late tools are listed", func() bool {
		list := client.send(ask("tools/list", "")).last()
		return slices.Equal(toolNames(t, list), []string{"bad_any", "good_ping"}) && partialOf(t, list) == nil
	})
	if n := len(bad.requests("tools/list")); n != 1 {
		t.Errorf("the list was asked for %d times, want once", n)
	}
}
