package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// membersOf reads a JSON object.
func membersOf(tb testing.TB, raw json.RawMessage) map[string]json.RawMessage {
	tb.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	return object
}

const accepted = `{"action":"accept","content":{"name":"Ana"}}`

// parkedAt has a call wait for its user at a replica, and gives what its retry holds.
func parkedAt(t *testing.T, r *replica) string {
	t.Helper()
	first := newRawClient(t, r.url+"/mcp").send(greeting(""))
	if first.status != 200 {
		t.Fatalf("the call: %d %q", first.status, first.messages)
	}
	return retryOf(t, first.last(), accepted)
}

// TestRetryElsewhere has the retry of a parked call arrive at another replica than
// the one that holds it.
func TestRetryElsewhere(t *testing.T) {
	up := newAsker(t)
	s := newSeveral(t, nil, upstreamAt("a", up.URL))
	a, b := s.start(), s.start()

	t.Run("the answer comes as it is made", func(t *testing.T) {
		retry := parkedAt(t, a)
		stream := newRawClient(t, b.url+"/mcp").open(greeting(retry), "X-Request-Id: r-7")
		if got := stream.header.Get("X-Request-Id"); got != "r-7" {
			t.Errorf("X-Request-Id %q", got)
		}
		progress := stream.next()
		if !strings.Contains(progress, `"progressToken":"p"`) || !strings.Contains(progress, `"progress":1`) {
			t.Errorf("first came %s", progress)
		}
		up.proceed <- struct{}{}
		if progress = stream.next(); !strings.Contains(progress, `"progress":2`) {
			t.Errorf("then came %s", progress)
		}
		last := stream.next()
		if !strings.Contains(last, `"text":"Hello Ana"`) || string(memberOf(t, last, "id")) != `"q-1"` {
			t.Errorf("at last came %s", last)
		}
		if more := stream.next(); more != "" {
			t.Errorf("after the end came %s", more)
		}
		again := newRawClient(t, b.url+"/mcp").send(greeting(retry))
		if f := readFailure(t, again.last()); f.Error.Code != -32602 || !strings.Contains(f.Error.Message, "no call waits") || again.status != 200 {
			t.Errorf("the same again: %d %s", again.status, again.last())
		}
	})
	t.Run("the client's leaving ends the call", func(t *testing.T) {
		stream := newRawClient(t, b.url+"/mcp").open(greeting(parkedAt(t, a)))
		stream.next()
		stream.close()
		<-up.cancelled
	})
	t.Run("a question is asked again", func(t *testing.T) {
		retry := parkedAt(t, a)
		_, state, _ := strings.Cut(retry, "},")
		client := newRawClient(t, b.url+"/mcp")
		asked := client.send(greeting(`"inputResponses":{},` + state))
		stream := client.open(greeting(retryOf(t, asked.last(), accepted)))
		stream.next()
		up.proceed <- struct{}{}
		stream.next()
		if last := stream.next(); !strings.Contains(last, "Hello Ana") {
			t.Errorf("got %s", last)
		}
	})
	t.Run("for JSON alone", func(t *testing.T) {
		retry := parkedAt(t, a)
		go func() { up.proceed <- struct{}{} }()
		got := newRawClient(t, b.url+"/mcp").send(greeting(retry), "Accept: application/json")
		if got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.last(), "Hello Ana") {
			t.Errorf("%d %v %q", got.status, got.header, got.messages)
		}
	})
	t.Run("through the endpoint of the upstream alone", func(t *testing.T) {
		body := strings.Replace(greeting(parkedAt(t, a)), "a_greet", "greet", 1)
		stream := newRawClient(t, b.url+"/t/default/u/a/mcp").open(body)
		stream.next()
		up.proceed <- struct{}{}
		stream.next()
		if last := stream.next(); !strings.Contains(last, "Hello Ana") {
			t.Errorf("got %s", last)
		}
	})
	t.Run("what was not asked is not answered", func(t *testing.T) {
		body := strings.Replace(greeting(parkedAt(t, a)), `"arguments":{}`, `"arguments":{"x":1}`, 1)
		got := newRawClient(t, b.url+"/mcp").send(body)
		if f := readFailure(t, got.last()); f.Error.Code != -32602 {
			t.Errorf("with other arguments: %s", got.last())
		}
	})
}

// TestHolderIsGone holds that a client is told at once, and in words, when the
// replica that held its call is not there any more.
func TestHolderIsGone(t *testing.T) {
	up := newAsker(t)
	s := newSeveral(t, nil, upstreamAt("a", up.URL))
	a, b := s.start(), s.start()
	retry := parkedAt(t, a)
	running := parkedAt(t, a)
	stream := newRawClient(t, b.url+"/mcp").open(greeting(running))
	stream.next()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.stop(t)
	}()
	// What is under way is served to its end, within the grace.
	up.proceed <- struct{}{}
	stream.next()
	if last := stream.next(); !strings.Contains(last, "Hello Ana") {
		t.Errorf("the call under way got %s", last)
	}
	<-stopped
	<-up.cancelled // the parked one
	got := newRawClient(t, b.url+"/mcp").send(greeting(retry))
	f := readFailure(t, got.last())
	if got.status != 200 || f.Error.Code != -32603 || f.Error.Message != "The replica of the gateway that held the call is gone" ||
		string(f.Error.Data) != `{"alias":"a","reason":"interrupted","retryable":false}` || string(f.ID) != `"q-1"` {
		t.Errorf("%d %s", got.status, got.last())
	}
	if n := b.log.count("pass a request on to another replica"); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
}

// TestOwnStatesStayOwn holds that what a server of the modern era makes up for its
// requestState comes back to it, and sends no request anywhere.
func TestOwnStatesStayOwn(t *testing.T) {
	up := newScripted(t)
	up.tools("ask")
	const state = "park:AbCdEfGh.127.0.0.1:1"
	rounds(up, inputRequired(`{"n":`+elicitName+`}`, state), booked)
	s := newSeveral(t, nil, upstreamAt("a", up.URL))
	a, b := s.start(), s.start()
	body := func(more string) string {
		return strings.Replace(greeting(more), "a_greet", "a_ask", 1)
	}
	first := newRawClient(t, a.url+"/mcp").send(body(""))
	got := newRawClient(t, b.url+"/mcp").send(body(retryOf(t, first.last(), accepted)))
	if !strings.Contains(got.last(), `"text":"ok"`) {
		t.Fatalf("%d %q", got.status, got.messages)
	}
	calls := up.requests("tools/call")
	if len(calls) != 2 || inputsOf(t, calls[1]).State != state {
		t.Errorf("%d calls, the last one with %q", len(calls), inputsOf(t, calls[len(calls)-1]).State)
	}
}
