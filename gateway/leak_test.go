package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// What the leak test does.
const (
	leakCalls     = 1000
	leakListens   = 200
	leakCancelled = 200
	leakWorkers   = 16 // calls at the same time
)

// busy is an upstream whose tools answer at once, after a notification, or never.
type busy struct {
	*scripted

	mu   sync.Mutex
	hung map[string]*hungCall // by the argument that names the call
}

// hungCall is a call that is not answered.
type hungCall struct {
	reached chan struct{} // closed when it has come
	left    chan struct{} // and when its request's context has ended
}

func newBusy(tb testing.TB) *busy {
	tb.Helper()
	b := &busy{scripted: newScripted(tb), hung: map[string]*hungCall{}}
	b.tools("quick", "told", "hang", "stream")
	b.handle("tools/call", b.call)
	b.handle("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, a *asked) {
		answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
			string(a.ID)+`},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["doc://a"]}}}`)
		<-r.Context().Done()
	})
	return b
}

func (b *busy) call(w http.ResponseWriter, r *http.Request, a *asked) {
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	switch a.Params.Name {
	case "quick":
		answerResult(`{"resultType":"complete","content":[]}`)(w, r, a)
	case "told":
		answerEvents(w, note, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"resultType":"complete","content":[]}}`)
	case "stream":
		answerEvents(w, note)
		fallthrough
	case "hang":
		h := b.find(a)
		close(h.reached)
		<-r.Context().Done()
		close(h.left)
	}
}

// find gives what the test waits for with a call.
func (b *busy) find(a *asked) *hungCall {
	var m struct {
		Params struct{ Arguments struct{ Call string } }
	}
	_ = json.Unmarshal([]byte(a.body), &m) // it was read before
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hung[m.Params.Arguments.Call]
}

// hang makes a message that calls a tool which does not answer.
func (b *busy) hang(tool string) (message string, h *hungCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	call := strconv.Itoa(len(b.hung))
	h = &hungCall{make(chan struct{}), make(chan struct{})}
	b.hung[call] = h
	return ask("tools/call", `"name":"`+tool+`","arguments":{"call":"`+call+`"}`), h
}

// load makes many calls, listen streams and calls that are cancelled, and ends
// when the client has seen the end of them all.
func (b *busy) load(t *testing.T, client *rawClient, calls, listens, cancelled int) {
	t.Helper()
	var work sync.WaitGroup
	todo := make(chan string)
	for range leakWorkers {
		work.Go(func() {
			for tool := range todo {
				if got := client.send(callOf(tool)); !strings.HasSuffix(got.last(), `"result":{"resultType":"complete","content":[]}}`) {
					t.Errorf("%s: status %d: %.300q", tool, got.status, got.messages)
				}
			}
		})
	}
	for i := range calls {
		todo <- []string{"b_quick", "b_told"}[i%2]
	}
	close(todo)

	filters := []string{`"toolsListChanged":true`, `"resourcesListChanged":true,"resourceSubscriptions":["b+doc://a"]`}
	streams := make([]*openStream, 0, listens)
	for i := range listens {
		s := client.open(ask("subscriptions/listen", `"notifications":{`+filters[i%2]+`}`))
		if ack := s.next(); !strings.Contains(ack, "notifications/subscriptions/acknowledged") {
			t.Errorf("a listen stream begins with %q", ack)
		}
		streams = append(streams, s)
	}
	for i := range cancelled {
		work.Go(func() { b.cancelled(t, client, []string{"b_hang", "b_stream"}[i%2]) })
	}
	for _, s := range streams {
		s.close()
	}
	work.Wait()
}

// cancelled makes a call, leaves when it has reached the upstream, and waits until
// the upstream's request has ended.
func (b *busy) cancelled(t *testing.T, client *rawClient, tool string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	message, h := b.hang(tool)
	gone := make(chan error, 1)
	go func() {
		_, err := client.do(client.request(message).WithContext(ctx))
		gone <- err
	}()
	<-h.reached
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ended with %v", err)
	}
	<-h.left
}

// TestNothingIsLeft holds that calls, listen streams and cancelled calls leave
// neither goroutines nor connections to the upstream behind, once all is quiet and
// after the gateway's end.
func TestNothingIsLeft(t *testing.T) {
	// The garbage collector closes connections that were forgotten; here that must
	// not hide them.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	start := gatewaytest.CountRunning()
	t.Run("", func(t *testing.T) {
		b := newBusy(t)
		gw := front(t, "timeouts: {idle: 100ms}\n", "", upstreamOf("b", b.URL))
		client := newRawClient(t, gw.URL+"/mcp")
		idle := func() {
			client.transport.CloseIdleConnections()
			eventually(t, "no connection to the upstream is open", func() bool { return b.open() == 0 })
		}
		// What lives as long as the gateway is there after the first use.
		b.load(t, client, 2, 2, 2)
		idle()
		before := gatewaytest.CountRunning()
		b.load(t, client, leakCalls, leakListens, leakCancelled)
		idle()
		gatewaytest.AwaitNoMore(t, before)
		gw.Stop(t)
	})
	gatewaytest.AwaitNoMore(t, start)
}

// TestStopClosesConnections holds that the gateway's end closes the connections to
// upstreams which are kept for further calls, and ends what is listened to.
func TestStopClosesConnections(t *testing.T) {
	b := newBusy(t)
	gw := front(t, "timeouts: {idle: 1h}\n", "", upstreamOf("b", b.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	s := client.open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	if ack := s.next(); ack == "" {
		t.Fatal("no acknowledgement")
	}
	eventually(t, "the upstream is listened to", func() bool { return len(b.requests("subscriptions/listen")) == 1 })
	client.send(callOf("b_quick"))
	if n := b.open(); n < 2 {
		t.Errorf("%d connections to the upstream are open, want those of the stream and of the call", n)
	}
	gw.Stop(t)
	if end := s.next(); !strings.Contains(end, `"resultType":"complete"`) || !strings.Contains(end, `"q-1"`) {
		t.Errorf("the stream ends with %q, want the completion result", end)
	}
	if more := s.next(); more != "" {
		t.Errorf("more after the end: %q", more)
	}
	eventually(t, "no connection to the upstream is open", func() bool { return b.open() == 0 })
}

// TestLeavingCancels holds that the upstream's request ends when the client of it
// leaves, however far the answer has come, and with whatever the client leaves.
func TestLeavingCancels(t *testing.T) {
	b := newBusy(t)
	gw := front(t, "", "", upstreamOf("b", b.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	for _, tool := range []string{"b_hang", "b_stream"} {
		t.Run(tool, func(t *testing.T) { b.cancelled(t, client, tool) })
	}
	t.Run("other clients go on", func(t *testing.T) {
		message, h := b.hang("b_hang")
		ctx, cancel := context.WithCancel(t.Context())
		stays := make(chan error, 1)
		go func() {
			_, err := client.do(client.request(message).WithContext(ctx))
			stays <- err
		}()
		<-h.reached
		b.cancelled(t, client, "b_hang")
		select {
		case <-h.left:
			t.Error("another client's call ended too")
		default:
		}
		cancel()
		<-h.left
		<-stays
	})
	t.Run("the last one who listens", func(t *testing.T) {
		ended := make(chan struct{})
		b.handle("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, a *asked) {
			answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`)
			<-r.Context().Done()
			close(ended)
		})
		first := client.open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
		second := client.open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
		first.next()
		second.next()
		eventually(t, "the upstream is listened to", func() bool { return len(b.requests("subscriptions/listen")) == 1 })
		first.close()
		if got := client.send(callOf("b_quick")); got.status != 200 {
			t.Errorf("a call meanwhile: status %d", got.status)
		}
		select {
		case <-ended:
			t.Error("the upstream's stream ended while somebody listened")
		default:
		}
		second.close()
		<-ended
	})
}
