package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// listening is subscriptions/listen for all lists and some resources.
func listening(uris ...string) modern {
	list := ""
	for i, uri := range uris {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf("%q", uri)
	}
	return modern{method: mcp.MethodListen, id: 9, params: fmt.Sprintf(`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[%s]},`, list)}
}

// next gives the next message of an answer.
func next(t *testing.T, a Answer) string {
	t.Helper()
	m, err := a.Next()
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Raw)
}

// A real server's list changes and resource updates come on a listen stream, which
// a call does not need.
func TestListenToHandshakeServer(t *testing.T) {
	impl := fixture()
	l, seen := shake(t, stateful(impl))
	a, err := l.Do(t.Context(), listening("test://a", "test://b").request())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":9},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://a","test://b"]}}}`
	if got := next(t, a); got != want {
		t.Errorf("acknowledgement = %s\nwant %s", got, want)
	}
	impl.RemoveTools("echo")
	if got := next(t, a); !strings.Contains(got, mcp.NotificationToolsChanged) {
		t.Errorf("got %s", got)
	}
	if err := impl.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: "test://a"}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, a); !strings.Contains(got, mcp.NotificationResourceUpdated) || !strings.Contains(got, "test://a") {
		t.Errorf("got %s", got)
	}
	seen.lines()

	// Another filter opens the new stream before it closes the old one: only the
	// differences are told to the server.
	b, err := l.Do(t.Context(), listening("test://b", "test://c").request())
	if err != nil {
		t.Fatal(err)
	}
	next(t, b)
	a.Close()
	waitFor(t, "the old subscription to end", func() bool { return seen.times("POST resources/unsubscribe") == 1 })
	if subscribed, streams := seen.times("POST resources/subscribe"), seen.times("GET"); subscribed != 1 || streams != 0 {
		t.Errorf("%d subscriptions and %d streams were added, want 1 and 0", subscribed, streams)
	}
	b.Close()
	waitFor(t, "all subscriptions to end", func() bool { return seen.times("POST resources/unsubscribe") == 3 })
}

// A server that pushes nothing is acknowledged with nothing, and stays quiet.
func TestListenToQuietServer(t *testing.T) {
	noGet := scripted(done)
	noGet.capabilities = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
	notFound := scripted(done)
	notFound.capabilities = noGet.capabilities
	notFound.get = http.NotFound
	for name, h := range map[string]*scriptedServer{"no changes": scripted(done), "405": noGet, "404": notFound} {
		t.Run(name, func(t *testing.T) {
			if h == notFound {
				h.handle = func(w http.ResponseWriter, m scriptedMessage) { answerJSON(w, 200, m.result("{}")) }
			}
			l, _ := shake(t, h)
			ctx, cancel := context.WithCancel(t.Context())
			a, err := l.Do(ctx, listening("test://a").request())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if got := next(t, a); !strings.HasSuffix(got, `"notifications":{}}}`) {
				t.Errorf("acknowledgement = %s", got)
			}
			cancel()
			_, err = a.Next()
			wantClass(t, err, ClassCanceled, false)
			mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x"})
		})
	}
}

// A listen stream that breaks ends the answer, and no call.
func TestListenStreamBreaks(t *testing.T) {
	h := scripted(done)
	h.capabilities = `{"tools":{"listChanged":true}}`
	broken := make(chan struct{})
	h.get = func(w http.ResponseWriter, _ *http.Request) {
		send := events(w)
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		<-broken
	}
	l, seen := shake(t, h)
	a, err := l.Do(t.Context(), listening().request())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	next(t, a)
	next(t, a)
	close(broken)
	_, err = a.Next()
	wantClass(t, err, ClassInterrupted, false)
	mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", id: 10})
	if n := seen.times("POST initialize"); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
}

// A listen stream of a server that was restarted ends, so that it is opened again
// in a new session.
func TestListenSessionLost(t *testing.T) {
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) { answerJSON(w, 200, m.result("{}")) })
	h.capabilities = `{"tools":{"listChanged":true}}`
	stop := make(chan struct{})
	h.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}
	l, seen := shake(t, h)
	a, err := l.Do(t.Context(), listening().request())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	h.forget()
	close(stop)
	for err == nil {
		_, err = a.Next()
	}
	wantClass(t, err, ClassInterrupted, false)
	// The first attempt finds out that the session is gone.
	for range 2 {
		b, err := l.Do(t.Context(), listening().request())
		if err == nil {
			next(t, b)
			b.Close()
		}
	}
	if n := seen.times("POST initialize"); n != 2 {
		t.Errorf("%d handshakes, want 2", n)
	}
}

// A server may ask on the session's own stream. What cannot belong to a call is
// refused, and a ping is answered.
func TestRequestsOnOwnStream(t *testing.T) {
	answers := make(chan string, 8)
	release := make(chan struct{}, 1)
	asked := make(chan string, 8)
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		if m.Method == mcp.MethodToolsList {
			answerJSON(w, 200, m.result(`{"tools":[]}`))
			return
		}
		asked <- `{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}`
		<-release
		done(w, m)
	})
	h.note = func(m scriptedMessage) {
		if m.Method == "" {
			answers <- string(m.ID) + " " + string(m.Result)
			if string(m.ID) == `"q1"` {
				release <- struct{}{}
			}
		}
	}
	h.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		send(`{"jsonrpc":"2.0","id":"p1","method":"ping"}`)
		send(`{"jsonrpc":"2.0","id":"e1","method":"roots/list"}`)
		for {
			select {
			case msg := <-asked:
				send(msg)
			case <-r.Context().Done():
				return
			}
		}
	}
	l, _ := shake(t, h)
	mustSend(t, l, modern{method: mcp.MethodToolsList, caps: allCaps, principal: "ann"})
	got := map[string]bool{<-answers: true, <-answers: true}
	if !got[`"p1" {}`] || !got[`"e1" `] {
		t.Errorf("the server was answered %v", got)
	}
	q := modern{method: mcp.MethodToolsCall, name: "x", caps: allCaps, principal: "ann"}
	r := mustSend(t, l, q)
	if len(r.Result.InputRequests) != 1 {
		t.Fatalf("got %s", r.raw)
	}
	if r = mustSend(t, l, q.retry(r, `{"action":"accept"}`)); r.text() != "session-1" {
		t.Errorf("got %s", r.raw)
	}
	if got := <-answers; got != `"q1" {"action":"accept"}` {
		t.Errorf("the server was answered %s", got)
	}
}

// A request that two calls in a session could have caused goes to neither.
func TestAmbiguousRequest(t *testing.T) {
	answers := make(chan string, 1)
	release := make(chan struct{})
	var calls atomic.Int32
	ask := make(chan struct{})
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		if calls.Add(1) == 2 {
			close(ask)
		}
		<-release
		done(w, m)
	})
	h.note = func(m scriptedMessage) {
		if m.Method == "" {
			answers <- string(m.ID) + string(m.Result)
		}
	}
	h.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`)
		<-ask
		send(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
		<-r.Context().Done()
	}
	l, _ := shake(t, h)
	results := make(chan *reply, 2)
	for i := range 2 {
		go func() {
			r, _ := send(context.Background(), l, modern{method: mcp.MethodToolsCall, name: "x", caps: allCaps, id: 20 + i})
			results <- r
		}()
	}
	if got := <-answers; got != "1" {
		t.Errorf("the server was answered %s, want an error", got)
	}
	close(release)
	for range 2 {
		if r := <-results; r.text() != "session-1" {
			t.Errorf("got %s", r.raw)
		}
	}
}

// A stream that ends early after an event id is taken up again, after the time
// that the server asks for; and so is the session's own.
func TestStreamIsResumed(t *testing.T) {
	var resumed atomic.Int32
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: a1\nretry: 5\ndata:\n\n")
	})
	h.get = func(w http.ResponseWriter, r *http.Request) {
		n := resumed.Add(1)
		if id := r.Header.Get("Last-Event-Id"); id != fmt.Sprintf("a%d", n) {
			t.Errorf("resumed from %q the %d. time", id, n)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if n == 1 {
			fmt.Fprintf(w, "id: a2\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
			return
		}
		fmt.Fprintf(w, "id: a3\ndata: %s\n\n", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"late"}]}}`)
	}
	l, _ := shake(t, h)
	r := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "x", token: true})
	if r.text() != "late" || len(r.notes) != 1 {
		t.Errorf("got %s after %q", r.raw, r.notes)
	}
}

// A stream that cannot be taken up again is a failure, and so is one without an
// event id; a call may have been carried out, a list is asked for again.
func TestStreamIsCut(t *testing.T) {
	var lists atomic.Int32
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		if m.Method == mcp.MethodToolsList && lists.Add(1) == 2 {
			answerJSON(w, 200, m.result(`{"tools":[]}`))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.Contains(string(m.Params), "resumable") {
			_, _ = io.WriteString(w, "id: a1\nretry: 1\ndata:\n\n")
		}
	})
	l, seen := shake(t, h)
	for _, name := range []string{"plain", "resumable"} {
		_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: name})
		wantClass(t, err, ClassInterrupted, false)
	}
	if n := seen.times("POST tools/call"); n != 2 {
		t.Errorf("%d calls were made, want 2", n)
	}
	if r := mustSend(t, l, modern{method: mcp.MethodToolsList}); r.Result.ResultType != "complete" {
		t.Errorf("got %s", r.raw)
	}
}

// Batches come from servers of 2025-03-26, and are nonsense from others.
func TestBatchedAnswers(t *testing.T) {
	batch := func(id string) string {
		return fmt.Sprintf(`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}, {"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"both"}]}}]`, id)
	}
	for _, version := range []string{version20250326, version20250618} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(version, stream), func(t *testing.T) {
				h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
					if stream {
						events(w)(batch(string(m.ID)))
						return
					}
					answerJSON(w, 200, batch(string(m.ID)))
				})
				h.version = version
				l, _ := shake(t, h)
				r, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", token: true})
				if version != version20250326 {
					wantClass(t, err, ClassProtocol, false)
					return
				}
				if err != nil || r.text() != "both" || len(r.notes) != 1 {
					t.Errorf("got %v after %q: %v", r.raw, r.notes, err)
				}
			})
		}
	}
}

// A client that reads slowly holds the server's stream back, and loses nothing.
func TestSlowReader(t *testing.T) {
	const many = 3 * maxHeldMessages
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		send := events(w)
		for i := range many {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d}}`, i))
		}
		send(m.result("{}"))
	})
	l, _ := shake(t, h)
	// A session without capabilities is read only as fast as its client reads.
	a, err := l.Do(t.Context(), modern{method: mcp.MethodToolsCall, name: "x", token: true, caps: allCaps}.request())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	f := a.(*legacyAnswer).flight
	waitFor(t, "the stream to be held back", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.notes == maxHeldMessages
	})
	for i := range many {
		if got := next(t, a); !strings.Contains(got, fmt.Sprintf(`"progress":%d}`, i)) {
			t.Fatalf("message %d is %s", i, got)
		}
	}
	next(t, a)
}
