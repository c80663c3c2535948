package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// wallet is a source of numbered tokens. Each refusal that fresh allows leads to the
// next one.
type wallet struct {
	name  string // of whom, in the tokens
	fresh int    // how many refusals lead to another token
	err   error  // of Credential
	lost  error  // of Refused, when there is no other token

	mu       sync.Mutex
	number   int // of the token
	asked    int
	refusals []refusal
}

// refusal is what a source was told of.
type refusal struct {
	token      string
	status     int
	challenges []string
}

func (w *wallet) token() string { return fmt.Sprintf("Bearer %s-secret-%d", w.name, w.number) }

func (w *wallet) Credential(context.Context) (http.Header, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked++; w.err != nil {
		return nil, w.err
	}
	return http.Header{"Authorization": {w.token()}, "x-team": {w.name}}, nil
}

func (w *wallet) Refused(_ context.Context, sent http.Header, status int, challenges []string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, refusal{sent.Get("Authorization"), status, challenges})
	if w.fresh == 0 {
		return false, w.lost
	}
	w.fresh--
	w.number++
	return true, nil
}

// told gives the refusals so far.
func (w *wallet) told() []refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refusals)
}

// consent is an error as the broker's.
type consent struct{}

func (consent) Error() string { return "the user has to sign in" }
func (consent) ConsentURL() (string, string) {
	return "https://gateway.example/link-of-ann", "Sign in at the ledger"
}

// wantConsent checks that an error leads a user to the page.
func wantConsent(t *testing.T, err error) {
	t.Helper()
	wantClass(t, err, ClassUnauthorized, false)
	var c interface{ ConsentURL() (string, string) }
	if !errors.As(err, &c) {
		t.Errorf("no page is found through %v", err)
	} else if url, _ := c.ConsentURL(); url != "https://gateway.example/link-of-ann" {
		t.Errorf("the page is %s", url)
	}
	if strings.Contains(err.Error(), "link-of-ann") {
		t.Errorf("the error shows the link: %v", err)
	}
}

// recorder is a server behind a note of all that it was sent.
type recorder struct {
	mu   sync.Mutex
	seen []recorded
	next http.Handler
}

// recorded is one HTTP request.
type recorded struct {
	kind   string // HTTP method, JSON-RPC method or "response", and what else is of interest
	header http.Header
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string
		Result json.RawMessage
	}
	kind := req.Method
	if json.Unmarshal(body, &m) == nil {
		kind += " " + m.Method
		if m.Result != nil {
			kind += "response"
		}
	}
	if req.Header.Get("Last-Event-Id") != "" {
		kind += " again"
	}
	r.mu.Lock()
	r.seen = append(r.seen, recorded{kind, req.Header})
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

// requests gives what has come so far.
func (r *recorder) requests() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// kinds gives the kinds of what has come so far, in order.
func (r *recorder) kinds() []string {
	var kinds []string
	for _, seen := range r.requests() {
		kinds = append(kinds, seen.kind)
	}
	return kinds
}

// bouncer lets those through whose token is the wanted one, and refuses others.
type bouncer struct {
	want   string
	refuse func(http.ResponseWriter)
	next   http.Handler
}

func (b *bouncer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == b.want {
		b.next.ServeHTTP(w, r)
		return
	}
	w.Header().Add("WWW-Authenticate", `Bearer error="invalid_token"`)
	w.Header().Add("WWW-Authenticate", "Basic")
	if b.refuse != nil {
		b.refuse(w)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// modernServer answers each request of the modern era, and lists nothing.
func modernServer(w http.ResponseWriter, r *http.Request) {
	var m scriptedMessage
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch m.Method {
	case mcp.MethodDiscover:
		answerJSON(w, 200, m.result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`))
	case mcp.MethodListen:
		events(w)(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{}}}`)
		<-r.Context().Done()
	default:
		answerJSON(w, 200, m.result(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`))
	}
}

// eraServer is a server of one era, and where it is.
type eraServer struct {
	name, path string
	make       func() http.Handler
}

// eraServers are servers of all eras. Each is found by the probe.
func eraServers() []eraServer {
	return []eraServer{
		{"modern", "/", func() http.Handler { return http.HandlerFunc(modernServer) }},
		{"handshake", "/", func() http.Handler {
			h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
				if m.Method == mcp.MethodDiscover {
					answerJSON(w, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session"}}`)
					return
				}
				done(w, m)
			})
			h.capabilities = `{"tools":{"listChanged":true}}`
			h.get = func(w http.ResponseWriter, r *http.Request) {
				events(w)(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				<-r.Context().Done()
			}
			return h
		}},
		{"HTTP+SSE", "/sse", sseEcho},
	}
}

// sseEcho is a server over HTTP+SSE that answers each request.
func sseEcho() http.Handler {
	var mu sync.Mutex
	streams, made := map[string]chan string{}, 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		told := make(chan string, 100)
		mu.Lock()
		made++
		name := fmt.Sprint(made)
		streams[name] = told
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: /messages?session=%s\n\n", name)
		http.NewResponseController(w).Flush()
		for {
			select {
			case data := <-told:
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		told := streams[r.URL.Query().Get("session")]
		mu.Unlock()
		var m scriptedMessage
		if told == nil || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		switch {
		case m.Method == methodInitialize:
			told <- m.result(`{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`)
		case len(m.ID) > 0 && m.Method != "":
			told <- m.result(fmt.Sprintf(`{"content":[{"type":"text","text":"session-%s"}]}`, r.URL.Query().Get("session")))
		}
	})
	return mux
}

// employ connects to a server behind a recorder, with a leak check.
func employ(t *testing.T, h http.Handler, path string, change ...func(*Config, *Deps)) (Doer, *recorder) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	seen := &recorder{next: h}
	s := serve(t, seen)
	conf, deps := Config{Tenant: "acme", Alias: "ledger", URL: s.URL + path}, Deps{Metrics: NewMetrics(prometheus.NewRegistry())}
	for _, c := range change {
		c(&conf, &deps)
	}
	d := Connect(conf, egress.New(egress.Options{}), deps)
	t.Cleanup(func() {
		d.(closer).Close()
		waitFor(t, "all sessions to be closed", func() bool { return s.open() == 0 })
		s.CloseClientConnections()
		s.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return d, seen
}

// as makes a call for a source.
func as(source CredentialSource) *Request {
	req := modern{method: mcp.MethodToolsCall, name: "transfer"}.request()
	req.Credentials = source
	return req
}

// callAs makes a call for a source and gives its result.
func callAs(ctx context.Context, d Doer, source CredentialSource) (string, error) {
	m, _, err := ask(ctx, d, as(source))
	if err != nil {
		return "", err
	}
	return string(m.Raw), nil
}
