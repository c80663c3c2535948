package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Everything that a session sends is shown: its own requests, answers to the server's,
// streams that are taken up again, and its end.
func TestCredentialsInASession(t *testing.T) {
	answered, pinged := make(chan struct{}), make(chan struct{})
	var id atomic.Value
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		switch {
		case m.Method == methodSetLevel:
			answerJSON(w, 200, m.result("{}"))
		case strings.Contains(string(m.Params), `"hang"`):
			events(w)(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}`)
			<-m.request.Context().Done()
		default:
			id.Store(string(m.ID))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: a1\nretry: 1\ndata:\n\n") // and breaks
		}
	})
	h.capabilities = `{"logging":{}}`
	h.note = func(m scriptedMessage) {
		switch string(m.ID) {
		case `"q1"`:
			close(answered)
		case `"p1"`:
			close(pinged)
		}
	}
	h.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		if r.Header.Get("Last-Event-Id") == "" {
			send(`{"jsonrpc":"2.0","id":"p1","method":"ping"}`)
			<-r.Context().Done()
			return
		}
		send(`{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`)
		select {
		case <-answered:
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}`, id.Load()))
		case <-r.Context().Done():
		}
	}
	d, seen := employ(t, h, "/", func(c *Config, _ *Deps) { c.Era = EraHandshake })
	ann := &wallet{name: "ann"}
	do := func(q modern) *reply {
		t.Helper()
		return mustSend(t, withSource{d, ann}, q)
	}
	q := modern{method: mcp.MethodToolsCall, name: "ask", params: `"arguments":{},`, caps: allCaps, principal: "ann", meta: `,"io.modelcontextprotocol/logLevel":"debug"`}
	first := do(q)
	if first.Result.ResultType != "input_required" {
		t.Fatalf("got %s, want a question", first.raw)
	}
	<-pinged
	if r := do(q.retry(first, `{"action":"decline"}`)); r.text() != "done" {
		t.Fatalf("got %s", r.raw)
	}
	ctx, cancel := context.WithCancel(t.Context())
	q.name, q.params = "hang", ""
	req := q.request()
	req.Credentials = ann
	a, err := d.Do(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	next(t, a)
	cancel()
	a.Close()
	waitFor(t, "the call to be cancelled", func() bool { return slices.Contains(seen.kinds(), "POST notifications/cancelled") })
	d.(closer).Close()
	wantLines(t, seen, ann.token())
	kinds := seen.kinds()
	for _, kind := range []string{
		"POST initialize", "POST notifications/initialized", "POST logging/setLevel", "POST tools/call", "POST response",
		"GET", "GET again", "POST notifications/cancelled", "DELETE",
	} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%q lacks %s", kinds, kind)
		}
	}
}

// withSource sends all requests for one source.
type withSource struct {
	Doer
	source CredentialSource
}

func (w withSource) Do(ctx context.Context, req *Request) (Answer, error) {
	req.Credentials = w.source
	return w.Doer.Do(ctx, req)
}

// No two sources share a session, whoever they are for; under one source users share
// one only where that is configured.
func TestSessionsAreOfOneSource(t *testing.T) {
	for _, era := range eraServers()[1:] {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %v", era.name, shared), func(t *testing.T) {
				first, second, own := &wallet{name: "ann"}, &wallet{name: "ann"}, &wallet{name: "upstream"}
				d, seen := employ(t, era.make(), era.path, func(c *Config, _ *Deps) {
					c.Era, c.Sessions.Shared, c.Credentials = EraHandshake, shared, own
				})
				used := map[string][]string{}
				for range 2 {
					for i, source := range []CredentialSource{first, second, nil} {
						for _, who := range []string{"ann", "bob"} {
							q := modern{method: mcp.MethodToolsCall, name: "x", principal: who}
							name := mustSend(t, withSource{d, source}, q).text()
							if by := fmt.Sprint(i, who); !slices.Contains(used[name], by) {
								used[name] = append(used[name], by)
							}
						}
					}
				}
				want := map[bool]int{false: 6, true: 3}[shared]
				if len(used) != want {
					t.Errorf("%d sessions were used, want %d: %v", len(used), want, used)
				}
				for name, by := range used {
					if len(by) != 6/want {
						t.Errorf("%s was used by %q", name, by)
					}
				}
				d.(closer).Close()
				tokens := map[string]map[string]bool{}
				for _, r := range seen.requests() {
					if id := r.header.Get("Mcp-Session-Id"); id != "" {
						if tokens[id] == nil {
							tokens[id] = map[string]bool{}
						}
						tokens[id][r.header.Get("Authorization")] = true
					}
				}
				for id, shown := range tokens {
					if len(shown) != 1 {
						t.Errorf("%s was shown %v", id, shown)
					}
				}
			})
		}
	}
}

// The sessions of a source that nobody uses any more end as all idle ones do.
func TestSessionsOfGoneSourcesEnd(t *testing.T) {
	h := scripted(done)
	l, _ := shake(t, h, func(c *Config) { c.Sessions.Idle = 10 * time.Millisecond })
	for range 3 {
		if _, err := callAs(t.Context(), l, &wallet{name: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the idle sessions to end", func() bool { return h.known() == 0 })
	waitFor(t, "the pool to be empty", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.sessions) == 0
	})
}

// A session outlives the token that it began with. A server that binds it to that says
// so, and gets another one.
func TestSessionKeepsNewToken(t *testing.T) {
	h := scripted(done)
	gate := &bouncer{want: "Bearer ann-secret-0", next: h}
	l, seen := shake(t, gate)
	ann := &wallet{name: "ann"}
	for _, binds := range []bool{false, true} {
		raw, err := callAs(t.Context(), l, ann)
		if err != nil || !strings.Contains(raw, "session-1") {
			t.Fatalf("got %s, %v", raw, err)
		}
		seen.lines()
		ann.fresh = 1
		gate.want = fmt.Sprintf("Bearer ann-secret-%d", ann.number+1)
		want, session := []string{"POST tools/call", "POST tools/call"}, "session-1"
		if binds {
			h.forget()
			want, session = append(want, "POST initialize", "POST notifications/initialized", "POST tools/call"), "session-2"
		}
		raw, err = callAs(t.Context(), l, ann)
		if got := seen.lines(); err != nil || !strings.Contains(raw, session) || !slices.Equal(got, want) {
			t.Errorf("binds %v: got %s, %v after %q, want %s after %q", binds, raw, err, got, session, want)
		}
	}
}

// sulking is a source that does not say what it makes of a refusal before it is over.
type sulking struct {
	wallet
	asked chan struct{}
	over  atomic.Bool
}

func (s *sulking) Refused(ctx context.Context, _ http.Header, _ int, _ []string) (bool, error) {
	if s.over.Load() {
		return false, nil
	}
	s.asked <- struct{}{}
	<-ctx.Done()
	return false, ctx.Err()
}

// A deadline that passes while the source thinks about a refusal says nothing about the
// server, also for a call that may be left alone.
func TestSlowRefusalIsNotTheServers(t *testing.T) {
	for _, era := range eraServers() {
		for _, caps := range []string{"{}", allCaps} {
			t.Run(era.name+" "+caps, func(t *testing.T) {
				gate := &bouncer{want: "Bearer ann-secret-0", next: era.make()}
				d, _ := employ(t, gate, era.path, func(c *Config, _ *Deps) { c.BreakerFailures = 1 })
				slow := &sulking{wallet: wallet{name: "ann"}, asked: make(chan struct{}, 100)}
				q := modern{method: mcp.MethodToolsCall, name: "x", caps: caps}
				mustSend(t, withSource{d, slow}, q)
				gate.want = "Bearer bob-secret-0"
				req := q.request()
				req.Credentials, req.Timeout = slow, 50*time.Millisecond
				_, err := d.Do(t.Context(), req)
				wantClass(t, err, ClassUnauthorized, false)
				<-slow.asked
				slow.over.Store(true)
				mustSend(t, withSource{d, &wallet{name: "bob"}}, q)
			})
		}
	}
}

// oddly is a source that fails each second time.
type oddly struct{ wallet }

func (o *oddly) Credential(ctx context.Context) (http.Header, error) {
	lines, err := o.wallet.Credential(ctx)
	if err == nil && o.asked%2 == 0 {
		return nil, consent{}
	}
	return lines, err
}

// A source that fails when the message is about to be sent is no success of the server:
// what the breaker counts stays as it is.
func TestFailedSourceIsNoSuccess(t *testing.T) {
	var broken atomic.Bool
	h := scripted(done)
	l, seen := shake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() && seenCall(r) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	}), func(c *Config) { c.BreakerFailures = 2 })
	ann, odd := &wallet{name: "ann"}, &oddly{wallet{name: "odd", number: 1}}
	if _, err := callAs(t.Context(), l, ann); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	_, err := callAs(t.Context(), l, ann)
	wantClass(t, err, ClassStatus, false)
	seen.lines()
	_, err = callAs(t.Context(), l, odd)
	wantConsent(t, err)
	if got := seen.lines(); got != nil {
		t.Errorf("the server was sent %q", got)
	}
	_, err = callAs(t.Context(), l, ann)
	wantClass(t, err, ClassStatus, false)
	asked := ann.asked
	_, err = callAs(t.Context(), l, ann)
	wantClass(t, err, ClassBreakerOpen, true)
	if ann.asked != asked {
		t.Error("the source was asked though the breaker is open")
	}
}

// A session that is not there in time since its source thinks about a refusal fails as
// the source, and who waits for it as well.
func TestSlowRefusalOfASession(t *testing.T) {
	gate := &bouncer{want: "Bearer bob-secret-0", next: scripted(done)}
	l, _ := shake(t, gate, func(c *Config) { c.BreakerFailures, c.CallTimeout = 1, 200*time.Millisecond })
	slow := &sulking{wallet: wallet{name: "ann"}, asked: make(chan struct{}, 100)}
	for _, wait := range []time.Duration{20 * time.Millisecond, time.Second} {
		req := as(slow)
		req.Timeout = wait
		_, err := l.Do(t.Context(), req)
		wantClass(t, err, ClassUnauthorized, false)
	}
	if _, err := callAs(t.Context(), l, &wallet{name: "bob"}); err != nil {
		t.Error(err)
	}
}

// Nobody goes on asking a source that has failed for the sake of a stream: the next
// request does.
func TestFailedSourceIsLeftAlone(t *testing.T) {
	opened := make(chan struct{}, 10)
	h := scripted(done)
	cut := make(chan struct{})
	h.get = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		opened <- struct{}{}
		select {
		case <-cut:
		case <-r.Context().Done():
		}
	}
	l, _ := shake(t, h)
	ann := &wallet{name: "ann"}
	q := modern{method: mcp.MethodToolsCall, name: "x", caps: allCaps}
	mustSend(t, withSource{l, ann}, q)
	<-opened
	stream := &l.sessions[sessionOf(t, l)].stream
	ann.mu.Lock()
	ann.err = consent{}
	ann.mu.Unlock()
	close(cut)
	waitFor(t, "the stream to be given up", func() bool {
		stream.mu.Lock()
		defer stream.mu.Unlock()
		return !stream.running && !stream.none
	})
	_, err := send(t.Context(), withSource{l, ann}, q)
	wantConsent(t, err)
	ann.mu.Lock()
	ann.err = nil
	ann.mu.Unlock()
	cut = make(chan struct{})
	mustSend(t, withSource{l, ann}, q)
	<-opened
}

// sessionOf gives the key of the only session.
func sessionOf(t *testing.T, l *Legacy) (key sessionKey) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sessions) != 1 {
		t.Fatalf("%d sessions, want 1", len(l.sessions))
	}
	for key = range l.sessions {
	}
	return key
}
