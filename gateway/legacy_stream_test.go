package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pusher is an upstream whose listen streams say what the test wants.
type pusher struct {
	*scripted

	mu     sync.Mutex
	open   map[chan string]string // the streams, with their filters
	opened chan string            // the filter of each that was opened
}

func newPusher(tb testing.TB) *pusher {
	tb.Helper()
	p := &pusher{scripted: newScripted(tb), open: map[chan string]string{}, opened: make(chan string, 64)}
	p.handle("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, a *asked) {
		filter := string(memberOf(tb, a.body, "params", "notifications"))
		meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(a.ID) + `}`
		c := make(chan string, 16)
		p.mu.Lock()
		p.open[c] = filter
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, c)
		}()
		answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+meta+`,"notifications":`+filter+`}}`)
		p.opened <- filter
		for {
			select {
			case m := <-c:
				answerEvents(w, strings.Replace(m, "META", meta, 1))
			case <-r.Context().Done():
				return
			}
		}
	})
	return p
}

// push sends a notification on all streams. META in it stands for its `_meta`.
func (p *pusher) push(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c <- message
	}
}

// until waits for a stream whose filter holds text.
func (p *pusher) until(text string) {
	p.tb.Helper()
	for filter := range p.opened {
		if strings.Contains(filter, text) {
			return
		}
	}
}

const updatedDoc = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{META,"uri":"doc://1"}}`

// TestGetStream holds that the GET stream carries list changes and the updates of
// what the session subscribed to, before and after it was opened.
func TestGetStream(t *testing.T) {
	p := newPusher(t)
	p.tools("a")
	c := newOldClient(t, oldFront(t, p.scripted, ""), "2025-11-25", `{}`)
	if got := c.ask("resources/subscribe", `"uri":"doc://1"`); got != finished(1, `{}`) {
		t.Fatalf("subscribe: %s", got)
	}
	stream := c.listen()
	p.until("doc://1")
	p.push(updatedDoc)
	stream.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://1"}}`)

	c.ask("resources/subscribe", `"uri":"doc://2"`)
	p.until("doc://2")
	p.push(strings.Replace(updatedDoc, "doc://1", "doc://2", 1))
	stream.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://2"}}`)

	// When the server knows of the third, the stream has forgotten the first.
	c.ask("resources/unsubscribe", `"uri":"doc://1"`)
	c.ask("resources/subscribe", `"uri":"doc://3"`)
	p.until("doc://3")
	p.push(updatedDoc)
	p.tools("a", "b")
	p.push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{META}}`)
	stream.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
	if got := c.ask("tools/list", ""); !strings.Contains(got, `"name":"b"`) {
		t.Errorf("the list after its change: %s", got)
	}
}

// TestGetStreamEnds holds that a session has one GET stream, and none after its
// end.
func TestGetStreamEnds(t *testing.T) {
	p := newPusher(t)
	c := newOldClient(t, oldFront(t, p.scripted, ""), "2025-06-18", `{}`)
	other := c.again(`{}`)
	first, foreign := c.listen(), other.listen()
	second := c.listen()
	first.end()
	p.until("toolsListChanged")
	p.push(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{META}}`)
	for _, stream := range []*events{second, foreign} {
		stream.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
	}
	res := c.do(c.request(http.MethodDelete, ""))
	_ = res.Body.Close()
	second.end()
	res = c.do(c.request(http.MethodGet, ""))
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("GET after DELETE: %d", res.StatusCode)
	}
}

func TestGetStreamRefused(t *testing.T) {
	c := newOldClient(t, oldFront(t, newScripted(t), "limits: {streams: 1}\n"), "2025-11-25", `{}`)
	tests := []struct {
		name, accept, session, version string
		status                         int
	}{
		{"JSON alone", "application/json", c.session, c.version, 406},
		{"no session", "text/event-stream", "", c.version, 405},
		{"another era", "text/event-stream", c.session, "2026-07-28", 405},
		{"a session that is none", "text/event-stream", "x", c.version, 404},
		{"unsupported version", "text/event-stream", c.session, "2024-11-05", 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := c.request(http.MethodGet, "")
			req.Header = http.Header{"Accept": {tt.accept}, "Mcp-Protocol-Version": {tt.version}}
			if tt.session != "" {
				req.Header.Set("Mcp-Session-Id", tt.session)
			}
			res := c.do(req)
			defer res.Body.Close()
			if res.StatusCode != tt.status || tt.status == 405 && res.Header.Get("Allow") != "POST" {
				t.Errorf("%d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		c.listen()
		res := c.do(c.again(`{}`).request(http.MethodGet, ""))
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(text), `"code":-31029`) {
			t.Errorf("%d %s %v", res.StatusCode, text, err)
		}
	})
}

// TestCallStream holds that a call's progress and logs go on its own stream: logs
// as the session wants them.
func TestCallStream(t *testing.T) {
	s := newScripted(t)
	s.tools("work")
	s.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, a *asked) {
		token := string(a.Params.Meta.ProgressToken)
		answerEvents(w,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"i"}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"e"}}`,
			`{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":`+booked+`}`)
	})
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", `{}`)
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p\u0031","progress":1}}`
	quiet := c.call(1, "work", `,"_meta":{"progressToken":"p\u0031"}`)
	quiet.expect(progress)
	quiet.expect(finished(1, bookedOld))
	c.ask("logging/setLevel", `"level":"warning"`)
	loud := c.call(2, "work", `,"_meta":{"progressToken":"p\u0031"}`)
	loud.expect(progress)
	loud.expect(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"e"}}`)
	loud.expect(finished(2, bookedOld))
	loud.end()
	var levels []string
	for _, a := range s.requests("tools/call") {
		levels = append(levels, string(memberOf(t, a.body, "params", "_meta", "io.modelcontextprotocol/logLevel")))
	}
	if diff := cmp.Diff([]string{"", `"warning"`}, levels); diff != "" {
		t.Errorf("levels (-want +got):\n%s", diff)
	}
}

// TestHandshakeClientsOweNoHeaders holds that headers from a tool's parameters are
// derived for them.
func TestHandshakeClientsOweNoHeaders(t *testing.T) {
	s := newScripted(t)
	s.list("tools/list", `{"name":"find","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`)
	s.result("tools/call", booked)
	c := newOldClient(t, oldFront(t, s, ""), "2025-11-25", `{}`)
	if got := c.ask("tools/call", `"name":"find","arguments":{"region":"eu"}`); got != finished(1, bookedOld) {
		t.Errorf("got %s", got)
	}
	if got := s.requests("tools/call")[0].header.Get("Mcp-Param-Region"); got != "eu" {
		t.Errorf("the server got the header %q", got)
	}
}

// TestInitializeAnswersForTheEndpoint holds whose server information a client
// gets.
func TestInitializeAnswersForTheEndpoint(t *testing.T) {
	s := newScripted(t)
	s.result("server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"x/y":{}}},"instructions":"Ask.","ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"theirs","version":"3","x":1}}}`)
	gw := front(t, "", "", upstreamOf("s", s.URL))
	alone := newOldClient(t, gw.URL+"/t/default/u/s/mcp", "2025-11-25", `{}`)
	if want := `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"theirs","version":"3","x":1},"instructions":"Ask."}`; alone.server != want {
		t.Errorf("alone: %s", alone.server)
	}
	merged := newOldClient(t, gw.URL+"/mcp", "2025-11-25", `{}`)
	var got struct {
		Capabilities map[string]map[string]bool
		ServerInfo   struct{ Name, Version string }
		Instructions string
	}
	if err := json.Unmarshal([]byte(merged.server), &got); err != nil {
		t.Fatal(err)
	}
	changes := map[string]bool{"listChanged": true}
	if diff := cmp.Diff(map[string]map[string]bool{"tools": changes, "prompts": changes, "resources": changes}, got.Capabilities); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	if got.ServerInfo.Name != "causeway" || got.ServerInfo.Version != "test" || !strings.Contains(got.Instructions, "Ask.") {
		t.Errorf("merged: %s", merged.server)
	}
}
