package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// counted is a handshake server behind a note of all that it was sent.
type counted struct {
	mu   sync.Mutex
	seen []string // HTTP method, JSON-RPC method and session
	next http.Handler
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var msg struct{ Method string }
	_ = json.Unmarshal(body, &msg)
	line := strings.TrimSpace(r.Method + " " + msg.Method)
	c.mu.Lock()
	c.seen = append(c.seen, line)
	next := c.next
	c.mu.Unlock()
	next.ServeHTTP(w, r)
}

// lines gives what was sent so far, and forgets it.
func (c *counted) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// times is how often a line has come since the last call of lines.
func (c *counted) times(line string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.seen), func(s string) bool { return s != line }))
}

// shake makes a Legacy of a handshake server, with a leak check.
func shake(t *testing.T, h http.Handler, change ...func(*Config)) (*Legacy, *counted) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	seen := &counted{next: h}
	s := serve(t, seen)
	conf := Config{Tenant: "acme", Alias: "ledger", URL: s.URL}
	for _, c := range change {
		c(&conf)
	}
	l := NewLegacyHTTP(conf, egress.New(egress.Options{}), Deps{Metrics: NewMetrics(prometheus.NewRegistry()), Budget: mcp.NewBudget(64 << 20)})
	t.Cleanup(func() {
		l.Close()
		waitFor(t, "all sessions to be closed", func() bool { return s.open() == 0 })
		s.CloseClientConnections()
		s.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return l, seen
}

// stateful is go-sdk's handler of handshake sessions.
func stateful(impl *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl }, &sdk.StreamableHTTPOptions{})
}

// modern is what a modern request is made of.
type modern struct {
	method, name string
	params       string // members of params, each followed by a comma
	caps         string // "{}"
	meta         string // members of _meta, each preceded by a comma
	id           int    // 7
	principal    string
	session      string
	token        bool
}

func (q modern) request() *Request {
	if q.caps == "" {
		q.caps = "{}"
	}
	if q.id == 0 {
		q.id = 7
	}
	if q.name != "" && q.method == mcp.MethodToolsCall {
		q.params = fmt.Sprintf(`"name":%q,%s`, q.name, q.params)
	}
	id := fmt.Append(nil, q.id)
	r := &Request{
		Method: q.method, Name: q.name, HasName: q.name != "", ID: id, Body: mcp.GetBuffer(512),
		Principal: q.principal, Session: q.session, Listen: q.method == mcp.MethodListen,
	}
	if q.token {
		r.ProgressToken = id
		q.meta += `,"progressToken":` + string(id)
	}
	r.Body.B = fmt.Appendf(r.Body.B, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s%s}}}`, q.id, q.method, q.params, q.caps, q.meta)
	return r
}

// reply is the final message of an answer, and the methods of the notifications
// before it.
type reply struct {
	notes  []string
	raw    string
	status int
	ID     json.RawMessage
	Result struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Method string
			Params map[string]any
		}
		Content []struct{ Text string }
		IsError bool
	}
	Error struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// text is that of the first content.
func (r *reply) text() string {
	if len(r.Result.Content) == 0 {
		return ""
	}
	return r.Result.Content[0].Text
}

// send sends a request and gives the answer.
func send(ctx context.Context, d Doer, q modern) (*reply, error) {
	a, err := d.Do(ctx, q.request())
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r := &reply{}
	for {
		m, err := a.Next()
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		if m.Kind == mcp.KindNotification {
			r.notes = append(r.notes, string(m.Raw))
			continue
		}
		r.raw, r.status = string(m.Raw), a.Status()
		if err := json.Unmarshal(m.Raw, r); err != nil {
			return r, err
		}
		again, err := mcp.ParseMessage(m.Raw, 0)
		if err != nil || again.Result != m.Result || again.ResultType != m.ResultType || again.ID != m.ID || again.Meta != m.Meta || again.Items != m.Items {
			return r, fmt.Errorf("the places in %s are wrong: %w", m.Raw, err)
		}
	}
}

// mustSend is send for what must not fail.
func mustSend(t *testing.T, d Doer, q modern) *reply {
	t.Helper()
	r, err := send(t.Context(), d, q)
	if err != nil {
		t.Fatalf("%s %s: %v", q.method, q.name, err)
	}
	return r
}
