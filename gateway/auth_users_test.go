package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestSessionsOfUsers holds that nobody uses or ends the session of somebody else, and
// that its own user goes on with another token.
func TestSessionsOfUsers(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	a, b := g.start(), g.start()
	ann := newOldUser(t, a.url+"/t/default/mcp", "2025-11-25", "{}", g.issuer.token("ann", "/t/default/mcp", nil))
	bob := ann.through(b)
	bob.token = g.issuer.token("bob", "/t/default/mcp", nil)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = oldRequest(1, "tools/list", "")
		}
		if status, text := bob.status(method, body); status != http.StatusNotFound {
			t.Errorf("%s with another user's session: %d %s", method, status, text)
		}
	}
	nobody := ann.through(b)
	nobody.token = ""
	if status, _ := nobody.status(http.MethodDelete, ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	ann.token = g.issuer.token("ann", "/t/default/mcp", map[string]any{"jti": "another"})
	if got := ann.through(b).ask("tools/list", ""); !strings.Contains(got, "a_x") {
		t.Errorf("her own, elsewhere: %s", got)
	}
	if status, _ := ann.status(http.MethodDelete, ""); status != http.StatusNoContent {
		t.Errorf("her own DELETE: %d", status)
	}
}

// TestParkedCallsOfUsers holds that a call which waits for a user is answered by nobody
// else, wherever the answer arrives, and that the attempt costs the user nothing.
func TestParkedCallsOfUsers(t *testing.T) {
	up := newAsker(t)
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	a, b := g.start(), g.start()
	ann, bob := g.as("ann", "/mcp"), g.as("bob", "/mcp")
	first := newRawClient(t, a.url+"/mcp").send(greeting(""), ann)
	if first.status != 200 {
		t.Fatalf("the call: %d %q", first.status, first.messages)
	}
	retry := greeting(retryOf(t, first.last(), accepted))
	for _, r := range []*replica{a, b} {
		got := newRawClient(t, r.url+"/mcp").send(retry, bob)
		if f := readFailure(t, got.last()); f.Error.Code != -32602 {
			t.Errorf("another user's answer: %d %s", got.status, got.last())
		}
		if got := newRawClient(t, r.url+"/mcp").send(retry); got.status != 401 {
			t.Errorf("an answer without a token: %d", got.status)
		}
		expired := "Authorization: Bearer " + g.issuer.token("ann", "/mcp", map[string]any{"exp": 1})
		if got := newRawClient(t, r.url+"/mcp").send(retry, expired); got.status != 401 {
			t.Errorf("an answer with an expired token: %d", got.status)
		}
	}
	stream := newRawClient(t, b.url+"/mcp").open(retry, ann)
	stream.next()
	up.proceed <- struct{}{}
	stream.next()
	if last := stream.next(); !strings.Contains(last, "Hello Ana") {
		t.Errorf("her own answer: %s", last)
	}
}

// TestStateOfUsers holds the same for the requestState of a modern upstream.
func TestStateOfUsers(t *testing.T) {
	up := newScripted(t)
	up.tools("book")
	rounds(up, inputRequired(`{"n":`+elicitName+`}`, "s"), booked)
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	client := newRawClient(t, g.start().url+"/mcp")
	call := func(more string) string {
		return strings.Replace(greeting(more), "a_greet", "a_book", 1)
	}
	first := client.send(call(""), g.as("ann", "/mcp"))
	retry := call(retryOf(t, first.last(), accepted))
	if f := readFailure(t, client.send(retry, g.as("bob", "/mcp")).last()); f.Error.Code != -32602 {
		t.Errorf("another user's answer: %+v", f)
	}
	if got := client.send(retry, g.as("ann", "/mcp")); got.status != 200 || !strings.Contains(got.last(), `"text":"ok"`) {
		t.Errorf("her own answer: %d %q", got.status, got.messages)
	}
}
