package gateway_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// blocking is an upstream whose tool wait answers when it is released.
type blocking struct {
	*scripted
	reached, release chan struct{}
}

func newBlocking(tb testing.TB) *blocking {
	tb.Helper()
	b := &blocking{newScripted(tb), make(chan struct{}, 8), make(chan struct{})}
	b.tools("wait")
	b.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
		b.reached <- struct{}{}
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
		answerResult(`{"resultType":"complete","content":[]}`)(w, r, a)
	})
	return b
}

// occupy calls the tool and gives the answer's channel when the call has arrived.
func (b *blocking) occupy(client *rawClient, tool string) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- client.send(callOf(tool)) }()
	<-b.reached
	return answer
}

// checkQuota holds that a request was refused for a while, in a way that clients
// do not take for the end of the connection.
func checkQuota(t *testing.T, got reply, retryAfter, data string) {
	t.Helper()
	f := readFailure(t, got.last())
	if got.status != 200 || got.header.Get("Retry-After") != retryAfter || string(f.Error.Data) != data || string(f.ID) != `"q-1"` {
		t.Errorf("status %d, Retry-After %q: %q", got.status, got.header.Get("Retry-After"), got.messages)
	}
	if -32768 <= f.Error.Code && f.Error.Code <= -32000 {
		t.Errorf("the code %d is reserved by JSON-RPC", f.Error.Code)
	}
}

func TestOverQuota(t *testing.T) {
	up := newBlocking(t)
	gw := front(t, "", "    limits: {inFlight: 1, listenStreams: 1}\n", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	t.Run("requests of the tenant", func(t *testing.T) {
		first := up.occupy(client, "a_wait")
		for _, body := range []string{callOf("a_wait"), ask("tools/list", ""), ask("server/discover", "")} {
			checkQuota(t, client.send(body), "1", `{"retryAfterMs":1000}`)
		}
		close(up.release)
		if got := <-first; got.status != 200 || readFailure(t, got.last()).Error.Code != 0 {
			t.Errorf("the first call: %d %q", got.status, got.messages)
		}
		eventually(t, "there is room again", func() bool {
			return readFailure(t, client.send(callOf("a_wait")).last()).Error.Code == 0
		})
	})
	t.Run("listen streams of the tenant", func(t *testing.T) {
		listen := ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		s := client.open(listen)
		if s.next() == "" {
			t.Fatal("no acknowledgement")
		}
		checkQuota(t, client.send(listen), "60", `{"retryAfterMs":60000}`)
		s.close()
		eventually(t, "there is room again", func() bool {
			res, err := client.transport.RoundTrip(client.request(listen))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			return res.Header.Get("Content-Type") == "text/event-stream"
		})
	})
}

// TestUpstreamOverloaded holds that an upstream gets no more requests at a time
// than it may, and that another one is served meanwhile.
func TestUpstreamOverloaded(t *testing.T) {
	good, bad := newGood(t), newBlocking(t)
	gw := front(t, "", "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL, ", inFlight: 1, timeouts: {connect: 200ms}"))
	client := newRawClient(t, gw.URL+"/mcp")
	first := bad.occupy(client, "bad_wait")
	checkFailure(t, client.send(callOf("bad_wait")), "overloaded", true)
	checkGood(t, client)
	close(bad.release)
	if got := <-first; got.status != 200 || readFailure(t, got.last()).Error.Code != 0 {
		t.Errorf("the first call: %d %q", got.status, got.messages)
	}
	if n := len(bad.requests("tools/call")); n != 1 {
		t.Errorf("%d calls reached the upstream, want one", n)
	}
}

// TestUpstreamThatFailsRepeatedly holds that an upstream which failed again and
// again is left alone, and the others are not.
func TestUpstreamThatFailsRepeatedly(t *testing.T) {
	good, bad := newGood(t), newScripted(t)
	bad.tools("any")
	bad.handle("tools/call", page(500, "text/plain", marker))
	gw := front(t, "breaker: {failures: 3, open: 1h}\n", "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	for range 3 {
		checkFailure(t, client.send(callOf("bad_any")), "http_status", false)
	}
	for range 3 {
		checkFailure(t, client.send(callOf("bad_any")), "breaker_open", true)
		checkGood(t, client)
	}
	if n := len(bad.requests("tools/call")); n != 3 {
		t.Errorf("%d calls reached the upstream, want 3", n)
	}
}

// TestBuffersAreBounded holds that large answers which do not fit into memory
// together are refused, and that the memory is given back.
func TestBuffersAreBounded(t *testing.T) {
	good, bad := newGood(t), newScripted(t)
	bad.tools("any")
	bad.handle("tools/call", said(`{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"`+strings.Repeat("x", 12<<20)+`"}]}}`))
	gw := front(t, "breaker: {failures: 1000}\nlimits: {body: 1048576, bufferedBytes: 8388608}\n", "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 3 {
				checkFailure(t, client.send(callOf("bad_any")), "overloaded", false)
			}
		})
	}
	calls.Wait()
	for range 3 {
		checkGood(t, client)
	}
}
