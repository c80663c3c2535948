package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// pushes makes a peer acknowledge listen streams and push what the test sends.
type pushes struct {
	p      *peer
	mu     sync.Mutex
	open   map[int]chan string
	opened int
	filter string
	signal chan struct{} // one for each stream that was opened
}

// listens scripts subscriptions/listen: ack is the granted filter, or "" to
// grant what was asked.
func (p *peer) listens(ack string) *pushes {
	ps := &pushes{p: p, open: map[int]chan string{}, signal: make(chan struct{}, 100)}
	p.handle(mcp.MethodListen, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		ch := make(chan string, 100)
		ps.mu.Lock()
		ps.opened++
		n := ps.opened
		ps.open[n] = ch
		ps.filter = string(m.Notifications.In(m.Raw))
		grant := ack
		if grant == "" {
			grant = ps.filter
		}
		ps.mu.Unlock()
		defer func() {
			ps.mu.Lock()
			delete(ps.open, n)
			ps.mu.Unlock()
		}()
		id := m.ID.In(m.Raw)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s},\"notifications\":%s}}\n\n", id, grant)
		_ = http.NewResponseController(w).Flush()
		ps.signal <- struct{}{}
		for {
			select {
			case method := <-ch:
				if method == "hang up" {
					return
				}
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":%s,\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}}\n\n", method, id)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	return ps
}

// send pushes `"method","params":{…` on all streams; the closing `_meta` is
// added.
func (ps *pushes) send(methodAndParams string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, ch := range ps.open {
		ch <- methodAndParams
	}
}

const (
	toolsChanged = `"notifications/tools/list_changed","params":{"x":1`
	hangUp       = "hang up"
)

func updated(uri string) string {
	return fmt.Sprintf(`"notifications/resources/updated","params":{"uri":%q,"x":1e400`, uri)
}

// waitOpen waits until a stream was opened.
func (ps *pushes) waitOpen(t *testing.T) {
	t.Helper()
	select {
	case <-ps.signal:
	case <-time.After(10 * time.Second):
		t.Fatal("no listen stream was opened")
	}
}

func (r *rig) listen(alias, filter string) *Subscription {
	r.t.Helper()
	s, err := r.fed.Listen(context.Background(), r.callOf(alias, mcp.MethodListen, `"notifications":`+filter))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s
}

// waitNext waits for the next message of a subscription, until late gives a value. open is
// false at the subscription's end.
func waitNext(s *Subscription, late <-chan time.Time) (message string, open, came bool) {
	ready := make(chan struct{}, 1)
	s.Notify(func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	for {
		if msg, open := s.Next(); msg != nil || !open {
			return string(msg), open, true
		}
		select {
		case <-ready:
		case <-late:
			return "", true, false
		}
	}
}

// awaitNext is waitNext that fails when nothing comes.
func awaitNext(t *testing.T, s *Subscription) (message string, open bool) {
	t.Helper()
	message, open, came := waitNext(s, time.After(10*time.Second))
	if !came {
		t.Fatal("no notification came")
	}
	return message, open
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// next gives the next message of a subscription.
func next(t *testing.T, s *Subscription) string {
	t.Helper()
	message, open := awaitNext(t, s)
	if !open {
		t.Fatal("the subscription ended")
	}
	return message
}

// none fails if a message waits.
func none(t *testing.T, s *Subscription) {
	t.Helper()
	if msg, _ := s.Next(); msg != nil {
		t.Errorf("an unexpected message: %s", msg)
	}
}

const toolsChangedToClient = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"c-1"}}}`

func TestListenAcknowledgesAtOnce(t *testing.T) {
	silent := newPeer(t)
	for _, method := range []string{mcp.MethodListen, mcp.MethodDiscover, mcp.MethodToolsList} {
		silent.handle(method, func(_ http.ResponseWriter, r *http.Request, _ *mcp.Request) { <-r.Context().Done() })
	}
	r := newRig(t, nil, up("a", silent))
	s := r.listen("", `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a+doc://1","zz+doc://1","doc://2"],"taskIds":["a+t","x"],"future":true}`)
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"c-1"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"],"taskIds":["a+t"]}}}`
	if diff := cmp.Diff(want, string(s.Ack)); diff != "" {
		t.Errorf("ack (-want +got):\n%s", diff)
	}
	if want := `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"c-1"}}}`; string(s.End) != want {
		t.Errorf("end = %s", s.End)
	}
}

func TestListenRefusals(t *testing.T) {
	r := newRig(t, func(l *Limits) { l.ListenStreams, l.Watches = 1, 3 }, up("a", newPeer(t)))
	listen := func(c *Call) error {
		s, err := r.fed.Listen(context.Background(), c)
		if err == nil {
			t.Cleanup(s.Close)
		}
		return err
	}
	for _, params := range []string{``, `"notifications":7`, `"notifications":{"toolsListChanged":"yes"}`, `"notifications":{"resourceSubscriptions":"x"}`, `"notifications":{"resourceSubscriptions":[1]}`, `"notifications":{"resourceSubscriptions":["w:1","x:2","y:3","z:4"]}`} {
		wantCode(t, listen(r.callOf("", mcp.MethodListen, params)), mcp.CodeInvalidParams)
	}
	undeclared := r.callRaw("", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["zz"]},`+fmt.Sprintf(metaFields, "{}")+`}}`)
	wantCode(t, listen(undeclared), mcp.CodeMissingClientCapability)
	if err := listen(r.callOf("", mcp.MethodListen, `"notifications":{}`)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, listen(r.callOf("", mcp.MethodListen, `"notifications":{}`)), CodeOverQuota)
}

func TestListenTellsOnlyWhoseViewChanged(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.list(kindTools, tool("one"))
	push, other := a.listens(""), b.listens("")
	r := newRig(t, nil, up("a", a), up("b", b))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	merged, onlyB, prompts := r.listen("", `{"toolsListChanged":true}`), r.listen("b", `{"toolsListChanged":true}`), r.listen("", `{"promptsListChanged":true}`)
	onlyA := r.listen("a", `{"toolsListChanged":true}`)
	push.waitOpen(t)
	other.waitOpen(t)

	a.list(kindTools, tool("one"), tool("two"))
	for range 5 {
		push.send(toolsChanged)
	}
	if got := next(t, merged); got != toolsChangedToClient {
		t.Errorf("got %s", got)
	}
	if got := names(t, kindTools, r.do(r.callOf("", mcp.MethodToolsList, ""))); len(got) != 2 {
		t.Errorf("the list after the notification: %v", got)
	}
	next(t, onlyA)
	// The upstream says so, but nothing changed: that is news only where it is
	// shown alone.
	push.send(toolsChanged)
	if got := next(t, onlyA); got != toolsChangedToClient {
		t.Errorf("got %s", got)
	}
	a.list(kindTools, tool("three"))
	push.send(toolsChanged)
	if got := next(t, merged); got != toolsChangedToClient {
		t.Errorf("got %s", got)
	}
	none(t, merged)
	none(t, onlyB)
	none(t, prompts)
}

func TestListenSharesOneUpstreamStream(t *testing.T) {
	p := newPeer(t)
	push := p.listens("")
	r := newRig(t, nil, up("a", p))
	var subs []*Subscription
	for range 50 {
		subs = append(subs, r.listen("", `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`))
	}
	push.waitOpen(t)
	push.send(updated("doc://1"))
	want := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a+doc://1","x":1e400,"_meta":{"io.modelcontextprotocol/subscriptionId":"c-1"}}}`
	for _, s := range subs {
		if got := next(t, s); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	push.mu.Lock()
	defer push.mu.Unlock()
	if len(push.open) != 1 {
		t.Errorf("%d upstream streams are open for 50 clients", len(push.open))
	}
}

func TestListenResourceUpdates(t *testing.T) {
	p := newPeer(t)
	push := p.listens("")
	p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}`)
	r := newRig(t, nil, up("a", p))
	read := func(uri string) { r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+`+uri+`"`)) }
	read("doc://dir/1")
	read("doc://other")
	exact := r.listen("", `{"resourceSubscriptions":["a+doc://dir/1"]}`)
	push.waitOpen(t)
	parent := r.listen("a", `{"resourceSubscriptions":["doc://dir"]}`)
	push.waitOpen(t)
	if want := `"resourceSubscriptions":["doc://dir","doc://dir/1"]`; !strings.Contains(push.filter, want) {
		t.Errorf("the merged filter is %s", push.filter)
	}
	push.send(updated("doc://dir/1"))
	if got := next(t, exact); !strings.Contains(got, `"uri":"a+doc://dir/1"`) {
		t.Errorf("exact subscriber got %s", got)
	}
	none(t, parent)
	push.send(updated("doc://dir/2"))
	if got := next(t, parent); !strings.Contains(got, `"uri":"doc://dir/2"`) {
		t.Errorf("parent subscriber got %s", got)
	}
	none(t, exact)
	before := p.count(mcp.MethodResourcesRead)
	read("doc://dir/1")
	read("doc://other")
	if n := p.count(mcp.MethodResourcesRead) - before; n != 1 {
		t.Errorf("after the update the upstream was asked %d times, want once for the changed resource", n)
	}
}

func TestListenReopensAndReadsAgain(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("one"))
	push := p.listens("")
	r := newRig(t, nil, up("a", p))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	s := r.listen("", `{"toolsListChanged":true}`)
	push.waitOpen(t)
	// The change falls into the gap: nobody tells of it.
	p.list(kindTools, tool("two"))
	push.send(hangUp)
	push.waitOpen(t)
	if got := next(t, s); got != toolsChangedToClient {
		t.Errorf("got %s", got)
	}
}

func TestListenTellsOfWhatChangedInTheGap(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("write"))
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
	gate := make(chan struct{})
	push := p.listens("")
	open := p.on[mcp.MethodListen]
	p.handle(mcp.MethodListen, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		<-gate
		open(w, r, m)
	})
	r := newRig(t, nil, up("a", p))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	s := r.listen("", `{"resourceSubscriptions":["a+doc://1"]}`)
	// The client was acknowledged, and what it writes now the upstream does not
	// tell of, since our own stream is not there yet.
	r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_write"`))
	close(gate)
	push.waitOpen(t)
	if got := next(t, s); !strings.Contains(got, `"uri":"a+doc://1"`) {
		t.Errorf("got %s", got)
	}
	quiet := r.listen("", `{"resourceSubscriptions":["a+doc://1","a+doc://2"]}`)
	push.waitOpen(t)
	push.send(updated("doc://2"))
	if got := next(t, quiet); !strings.Contains(got, `"uri":"a+doc://2"`) {
		t.Errorf("an update without a reason: %s", got)
	}
	push.send(hangUp)
	push.waitOpen(t)
	if got := next(t, quiet) + next(t, quiet); !strings.Contains(got, "doc://1") || !strings.Contains(got, "doc://2") {
		t.Errorf("after a lost stream: %s", got)
	}
}

func TestListenPollsWhatIsNotPushed(t *testing.T) {
	tests := []struct {
		name  string
		setup func(*peer)
	}{
		{"no listen streams", func(p *peer) { p.handle(mcp.MethodListen, nil) }},
		{"granted nothing", func(p *peer) { p.listens(`{}`) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t)
			p.listTTL(kindTools, 10, tool("one"))
			contents := func(text string) {
				p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"uri":"doc://1","text":"`+text+`"}],"ttlMs":0,"cacheScope":"public"}`)
			}
			contents("one")
			tt.setup(p)
			r := newRig(t, func(l *Limits) { l.PollInterval = 10 * time.Millisecond }, up("a", p))
			r.do(r.callOf("", mcp.MethodToolsList, ""))
			tools, doc := r.listen("", `{"toolsListChanged":true}`), r.listen("", `{"resourceSubscriptions":["a+doc://1"]}`)
			p.listTTL(kindTools, 10, tool("two"))
			if got := next(t, tools); got != toolsChangedToClient {
				t.Errorf("got %s", got)
			}
			p.waitCount(mcp.MethodResourcesRead, 1)
			contents("two")
			if got := next(t, doc); !strings.Contains(got, `"uri":"a+doc://1"`) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestListenSlowReaderIsEndedAlone(t *testing.T) {
	p := newPeer(t)
	push := p.listens("")
	r := newRig(t, func(l *Limits) { l.ListenQueue = 2 }, up("a", p))
	slow, fast := r.listen("", `{"taskIds":["a+t"]}`), r.listen("", `{"taskIds":["a+t"]}`)
	push.waitOpen(t)
	task := `"notifications/tasks","params":{"taskId":"t","status":"working"`
	for range 3 {
		push.send(task)
		if got := next(t, fast); !strings.Contains(got, `"taskId":"a+t","status":"working"`) {
			t.Fatalf("got %s", got)
		}
	}
	// One reader may have the last message before it is the other one's turn.
	eventually(t, "the slow reader is ended", func() bool { return r.load(t).hub.streams.Load() == 1 })
	n := 0
	for _, open := awaitNext(t, slow); open; _, open = awaitNext(t, slow) {
		n++
	}
	if n != 2 {
		t.Errorf("the slow reader got %d messages before its end, want 2", n)
	}
}

func TestListenEndsStreamsWhoseTasksAreNotPushed(t *testing.T) {
	p := newPeer(t)
	p.listens(`{"toolsListChanged":true}`)
	r := newRig(t, nil, up("a", p))
	s := r.listen("", `{"taskIds":["a+t"]}`)
	if _, open := awaitNext(t, s); open {
		t.Error("a message instead of the end")
	}
	again := r.listen("", `{"toolsListChanged":true,"taskIds":["a+t"]}`)
	if strings.Contains(string(again.Ack), "taskIds") {
		t.Errorf("granted again: %s", again.Ack)
	}
}

func TestListenFollowsTheRegistry(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.list(kindTools, tool("one"))
	b.list(kindTools, tool("two"))
	a.listens("")
	push := b.listens("")
	r := newRig(t, nil, up("a", a))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	merged, alone := r.listen("", `{"toolsListChanged":true}`), r.listen("a", `{"toolsListChanged":true}`)
	r.reconfigure(up("a", a), up("b", b))
	push.waitOpen(t)
	if got := next(t, merged); got != toolsChangedToClient {
		t.Errorf("a new upstream: got %s", got)
	}
	none(t, alone)
	r.reconfigure(up("b", b))
	if got := next(t, merged); got != toolsChangedToClient {
		t.Errorf("an upstream that went: got %s", got)
	}
	if _, open := awaitNext(t, alone); open {
		t.Error("the stream of an upstream that went is still open")
	}
	if err := r.fed.Check(context.Background(), Endpoint{Tenant: "default", Alias: "a"}); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("check = %v", err)
	}
	r.store.Replace(nil)
	if _, open := awaitNext(t, merged); open {
		t.Error("the stream of a tenant that went is still open")
	}
}

func TestListenFirstLoadIsNoChange(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("one"))
	push := p.listens("")
	r := newRig(t, nil, up("a", p))
	s := r.listen("", `{"toolsListChanged":true}`)
	push.waitOpen(t)
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	p.list(kindTools, tool("two"))
	push.send(toolsChanged)
	if got := next(t, s); got != toolsChangedToClient {
		t.Errorf("got %s", got)
	}
	none(t, s)
}
