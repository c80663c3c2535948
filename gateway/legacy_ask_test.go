package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inputs are the members of a call's params that make it a retry.
type inputs struct {
	Responses map[string]json.RawMessage `json:"inputResponses"`
	State     string                     `json:"requestState"`
}

func inputsOf(tb testing.TB, a *asked) (in inputs) {
	tb.Helper()
	if err := json.Unmarshal(memberOf(tb, a.body, "params"), &in); err != nil {
		tb.Fatal(err)
	}
	return in
}

// rounds answers the first calls with what is to be asked, and then with a result.
func rounds(s *scripted, results ...string) {
	n := 0
	s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
		s.mu.Lock()
		raw := results[min(n, len(results)-1)]
		n++
		s.mu.Unlock()
		answerResult(raw)(w, r, a)
	})
}

const (
	booked      = `{"resultType":"complete","content":[{"type":"text","text":"ok"}]}`
	bookedOld   = `{"content":[{"type":"text","text":"ok"}]}`
	elicitName  = `{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}`
	paramsName  = `,"params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}`
	paramsOld   = `,"params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`
	sampleCity  = `{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":10}}`
	paramsCity  = `,"params":{"messages":[],"maxTokens":10}`
	elicitURL   = `{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://example.com/"}}`
	allDeclared = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`
)

// TestServersAskHandshakeClients walks through a call whose server asks twice: two
// things at once, then another.
func TestServersAskHandshakeClients(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	rounds(s,
		inputRequired(`{"n":`+elicitName+`,"c":`+sampleCity+`}`, "first"),
		inputRequired(`{"r":{"method":"roots/list"}}`, ""),
		booked)
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", allDeclared)
	other := c.again(allDeclared)
	call := c.call(5, "book", `,"arguments":{"n":12345678901234567890},"_meta":{"progressToken":0}`)
	name := call.question("elicitation/create", paramsName)
	city := call.question("sampling/createMessage", paramsCity)
	if name == city {
		t.Errorf("both questions have the id %s", name)
	}
	other.accepted(answers(name, `{"action":"accept","content":{"name":"Mallory"}}`)) // not its question
	c.accepted(answers(`"unknown"`, `{}`))
	c.accepted(answers(city, `{"role":"assistant","content":{"type":"text","text":"Bern"},"model":"m","x":1e400}`))
	c.accepted(answers(name, `{"action":"accept","content":{"name":"Ana"}}`))
	c.accepted(answers(name, `{"action":"decline"}`)) // too late
	roots := call.question("roots/list", "")
	c.accepted(answers(roots, `{"roots":[]}`))
	call.expect(finished(5, bookedOld))
	call.end()

	calls := s.requests("tools/call")
	if len(calls) != 3 {
		t.Fatalf("%d calls", len(calls))
	}
	want := []inputs{{}, {
		Responses: map[string]json.RawMessage{
			"n": json.RawMessage(`{"action":"accept","content":{"name":"Ana"}}`),
			"c": json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"Bern"},"model":"m","x":1e400}`),
		},
		State: "first",
	}, {Responses: map[string]json.RawMessage{"r": json.RawMessage(`{"roots":[]}`)}}}
	ids := map[string]bool{}
	for i, a := range calls {
		if diff := cmp.Diff(want[i], inputsOf(t, a)); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
		if got := string(memberOf(t, a.body, "params", "arguments", "n")); got != "12345678901234567890" {
			t.Errorf("call %d has the argument %s", i, got)
		}
		if got := string(memberOf(t, a.body, "params", "_meta", "io.modelcontextprotocol/clientCapabilities")); got != `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}` {
			t.Errorf("call %d declares %s", i, got)
		}
		ids[string(a.ID)] = true
	}
	if len(ids) != 3 {
		t.Errorf("the calls have the ids %v", ids)
	}
}

// TestAnswersThatAreErrors holds what becomes of a user's refusal.
func TestAnswersThatAreErrors(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", allDeclared)
	rounds(s, inputRequired(`{"n":`+elicitName+`}`, ""), booked)
	call := c.call(1, "book", "")
	c.accepted(refuses(call.question("elicitation/create", paramsName)))
	call.expect(finished(1, bookedOld))
	calls := s.requests("tools/call")
	if got := string(inputsOf(t, calls[1]).Responses["n"]); got != `{"action":"cancel"}` {
		t.Errorf("the server is told %s", got)
	}
	rounds(s, inputRequired(`{"n":`+sampleCity+`}`, ""), booked)
	call = c.call(2, "book", "")
	c.accepted(refuses(call.question("sampling/createMessage", paramsCity)))
	call.expect(failed(2, -32603, "The client answered sampling/createMessage with an error: User rejected (-1)", ""))
	if n := len(s.requests("tools/call")); n != 3 {
		t.Errorf("%d calls, want none after the refusal", n-2)
	}
}

// TestUndeclaredIsNotAsked holds that a client is asked only what it declared.
func TestUndeclaredIsNotAsked(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	url := oldFront(t, s, "")
	tests := []struct{ name, version, declared, ask, missing string }{
		{"nothing", "2025-11-25", `{}`, elicitName, `{"elicitation":{"form":{}}}`},
		{"no form", "2025-11-25", `{"elicitation":{"url":{}}}`, elicitName, `{"elicitation":{"form":{}}}`},
		{"no URL", "2025-11-25", `{"elicitation":{}}`, elicitURL, `{"elicitation":{"url":{}}}`},
		{"URLs are newer", "2025-06-18", `{"elicitation":{"url":{}}}`, elicitURL, `{"elicitation":{"url":{}}}`},
		{"elicitation is newer", "2025-03-26", `{"elicitation":{}}`, elicitName, `{"elicitation":{"form":{}}}`},
		{"no sampling", "2025-11-25", `{"elicitation":{}}`, sampleCity, `{"sampling":{}}`},
		{"no tools", "2025-11-25", `{"sampling":{}}`, `{"method":"sampling/createMessage","params":{"tools":[]}}`, `{"sampling":{"tools":{}}}`},
		{"no roots", "2025-11-25", `{}`, `{"method":"roots/list"}`, `{"roots":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rounds(s, inputRequired(`{"q":`+tt.ask+`}`, "x"), booked)
			c := newOldClient(t, url, tt.version, tt.declared)
			got := c.ask("tools/call", `"name":"book"`)
			if want := failed(1, -32021, "Missing required client capability", `{"requiredCapabilities":`+tt.missing+`}`); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	t.Run("no session", func(t *testing.T) {
		rounds(s, inputRequired(`{"q":`+elicitName+`}`, "x"), booked)
		c := newOldClient(t, url, "2025-11-25", allDeclared)
		c.session = ""
		if got := c.ask("tools/call", `"name":"book"`); !strings.Contains(got, `"code":-32021`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("JSON only", func(t *testing.T) {
		rounds(s, inputRequired(`{"q":`+elicitName+`}`, "x"), booked)
		c := newOldClient(t, url, "2025-11-25", allDeclared)
		req := c.request(http.MethodPost, oldRequest(1, "tools/call", `"name":"book"`))
		req.Header.Set("Accept", "application/json")
		res := c.do(req)
		defer res.Body.Close()
		if got := c.whole(res); !strings.Contains(got, `"code":-32600`) || !strings.Contains(got, "text/event-stream") {
			t.Errorf("got %s", got)
		}
	})
}

// TestQuestionsOfOtherRevisions holds how the questions are translated.
func TestQuestionsOfOtherRevisions(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	url := oldFront(t, s, "")
	t.Run("a form in 2025-06-18", func(t *testing.T) {
		rounds(s, inputRequired(`{"n":`+elicitName+`}`, ""), booked)
		c := newOldClient(t, url, "2025-06-18", `{"elicitation":{}}`)
		call := c.call(1, "book", "")
		c.accepted(answers(call.question("elicitation/create", paramsOld), `{"action":"decline"}`))
		call.expect(finished(1, bookedOld))
	})
	t.Run("a URL in 2025-11-25", func(t *testing.T) {
		rounds(s, inputRequired(`{"u":`+elicitURL+`}`, ""), booked)
		c := newOldClient(t, url, "2025-11-25", allDeclared)
		call := c.call(1, "book", "")
		question := call.next()
		id := string(memberOf(t, question, "params", "elicitationId"))
		if len(id) < 20 || string(memberOf(t, question, "params", "url")) != `"https://example.com/"` {
			t.Errorf("asked %s", question)
		}
		c.accepted(answers(string(memberOf(t, question, "id")), `{"action":"accept"}`))
		call.expect(finished(1, bookedOld))
	})
}

// TestWaitsWithoutAQuestion holds that input_required without a question is
// retried, a few times.
func TestWaitsWithoutAQuestion(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", `{}`)
	rounds(s, inputRequired("", "one"), inputRequired("{}", "two"), booked)
	if got := c.ask("tools/call", `"name":"book"`); got != finished(1, bookedOld) {
		t.Errorf("got %s", got)
	}
	var states []string
	for _, a := range s.requests("tools/call") {
		states = append(states, inputsOf(t, a).State)
	}
	if diff := cmp.Diff([]string{"", "one", "two"}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestRoundsAreBounded holds that a server cannot ask for ever.
func TestRoundsAreBounded(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	rounds(s, inputRequired(`{"r":{"method":"roots/list"}}`, "x"))
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", allDeclared)
	call := c.call(1, "book", "")
	for range 20 {
		c.accepted(answers(call.question("roots/list", ""), `{"roots":[]}`))
	}
	call.expect(failed(1, -32603, `upstream "s" gave an answer that is not valid MCP`, `{"alias":"s","reason":"protocol","retryable":false}`))
	if n := len(s.requests("tools/call")); n != 20 {
		t.Errorf("%d calls", n)
	}
}

// TestBadQuestions holds what becomes of questions that no client can answer.
func TestBadQuestions(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", allDeclared)
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`"%d":{"method":"roots/list"}`, i))
	}
	for name, requests := range map[string]string{
		"another method": `{"q":{"method":"tools/call","params":{}}}`,
		"no request":     `{"q":7}`,
		"too many":       `{` + strings.Join(many, ",") + `}`,
	} {
		rounds(s, inputRequired(requests, "x"), booked)
		if got := c.ask("tools/call", `"name":"book"`); !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"reason":"protocol"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestQuestionsEnd holds what becomes of a question that nobody answers.
func TestQuestionsEnd(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	t.Run("in time", func(t *testing.T) {
		rounds(s, inputRequired(`{"r":{"method":"roots/list"}}`, "x"))
		c := newOldClient(t, oldFront(t, s, "limits: {parkMax: 50ms}\n"), "2025-11-25", allDeclared)
		call := c.call(1, "book", "")
		id := call.question("roots/list", "")
		call.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		call.expect(failed(1, -32603, "The client did not answer the server's question within 50ms", ""))
		call.end()
	})
	t.Run("cancelled", func(t *testing.T) {
		rounds(s, inputRequired(`{"r":{"method":"roots/list"}}`, "x"))
		c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", allDeclared)
		call := c.call(7, "book", "")
		id := call.question("roots/list", "")
		c.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		call.expect(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		call.end()
	})
	t.Run("too many", func(t *testing.T) {
		rounds(s, inputRequired(`{"r":{"method":"roots/list"}}`, "x"))
		c := newOldClient(t, oldFront(t, s, "limits: {askingPerPrincipal: 1}\n"), "2025-11-25", allDeclared)
		call := c.call(1, "book", "")
		call.question("roots/list", "")
		if got := c.ask("tools/call", `"name":"book"`); !strings.Contains(got, `"code":-31029`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("shutdown", func(t *testing.T) {
		rounds(s, inputRequired(`{"r":{"method":"roots/list"}}`, "x"))
		gw := front(t, "", "", upstreamOf("s", s.URL))
		c := newOldClient(t, gw.URL+"/mcp", "2025-11-25", allDeclared)
		call := c.call(1, "s_book", "")
		call.question("roots/list", "")
		gw.Stop(t)
		call.expect(failed(1, -32603, "The gateway is shutting down", ""))
	})
}
