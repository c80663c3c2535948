package federation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// peer is an upstream over real HTTP whose answers a test scripts, for what real
// servers cannot be made to show.
type peer struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// came is told of each request.
	came sync.Cond
	on   map[string]func(w http.ResponseWriter, r *http.Request, m *mcp.Request)
	// seen are the bodies received, by method.
	seen map[string][]string
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	p := &peer{t: t, on: map[string]func(http.ResponseWriter, *http.Request, *mcp.Request){}, seen: map[string][]string{}}
	p.came.L = &p.mu
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	for _, k := range []kind{kindTools, kindPrompts, kindResources, kindTemplates} {
		p.result(k.method(), `{"resultType":"complete","`+k.items()+`":[],"ttlMs":60000,"cacheScope":"public"}`)
	}
	p.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":60000,"cacheScope":"public"}`)
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, perr := mcp.ParseRequest(body, 256)
	if perr != nil {
		p.t.Errorf("upstream got a bad request: %v: %s", perr, body)
		return
	}
	if herr := mcp.CheckHeaders(r.Header, m); herr != nil {
		p.t.Errorf("upstream got bad headers: %v", herr)
	}
	p.mu.Lock()
	p.seen[m.Method] = append(p.seen[m.Method], string(body))
	h := p.on[m.Method]
	p.came.Broadcast()
	p.mu.Unlock()
	if h == nil {
		writeJSON(w, http.StatusNotFound, string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(mcp.CodeMethodNotFound, "Method not found"))))
		return
	}
	h(w, r, m)
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// handle sets the handler of a method.
func (p *peer) handle(method string, h func(w http.ResponseWriter, r *http.Request, m *mcp.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on[method] = h
}

// result answers a method with a raw result.
func (p *peer) result(method, raw string) {
	p.handle(method, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		writeJSON(w, http.StatusOK, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID.In(m.Raw), raw))
	})
}

// list answers a list method with raw items.
func (p *peer) list(k kind, items ...string) { p.listTTL(k, 60000, items...) }

func (p *peer) listTTL(k kind, ttlMs int, items ...string) {
	p.result(k.method(), fmt.Sprintf(`{"resultType":"complete","%s":[%s],"ttlMs":%d,"cacheScope":"public"}`, k.items(), strings.Join(items, ","), ttlMs))
}

// count is how often a method was asked.
func (p *peer) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen[method])
}

// waitCount waits until a method was asked n times.
func (p *peer) waitCount(method string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.seen[method]) < n {
		p.came.Wait()
	}
}

// last is the latest body of a method.
func (p *peer) last(method string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.seen[method]); n > 0 {
		return p.seen[method][n-1]
	}
	return ""
}

// tool is a minimal tool definition.
func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

// rig is a Federation with one tenant in front of peers.
type rig struct {
	t     *testing.T
	fed   *Federation
	store *tenant.Memory
	conf  tenant.Tenant
	log   *lockedBuffer
	mu    sync.Mutex
	clock time.Time
}

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// up makes an upstream's registration.
func up(alias string, p *peer) tenant.Upstream {
	return tenant.Upstream{Alias: alias, URL: p.URL, Prefix: tenant.PrefixAlias, Version: "1", ManagedBy: tenant.ManagedByFile}
}

// newRig starts a Federation whose clock stands still until the test moves it.
// change may be nil.
func newRig(t *testing.T, change func(*Limits), ups ...tenant.Upstream) *rig {
	t.Helper()
	r := &rig{t: t, clock: time.Now(), log: &lockedBuffer{}}
	r.conf = tenant.Tenant{Name: "default", Revision: 1, Separator: "_", Upstreams: ups}
	r.store = tenant.NewMemory([]*tenant.Tenant{&r.conf})
	limits := DefaultLimits()
	limits.Coalesce = time.Millisecond
	if change != nil {
		change(&limits)
	}
	reg := prometheus.NewRegistry()
	deps := upstream.Deps{Logger: slog.New(slog.NewTextHandler(r.log, nil)), Tracer: noop.NewTracerProvider().Tracer(""), Metrics: upstream.NewMetrics(reg)}
	transports := egress.New(egress.Options{})
	fed, err := New(Options{
		Store: r.store, Cache: cache.NewMemory(0), Ring: seal.NewRandom(),
		Connect: func(c upstream.Config) upstream.Doer { return upstream.New(c, transports, deps) },
		Logger:  deps.Logger, Tracer: deps.Tracer, Metrics: reg, Limits: limits, Version: "test", Now: r.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.fed = fed
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := fed.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

// pass moves the clock.
func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
}

// reconfigure replaces the tenant's upstreams.
func (r *rig) reconfigure(ups ...tenant.Upstream) {
	conf := r.conf
	conf.Upstreams = ups
	r.store.Replace([]*tenant.Tenant{&conf})
}

const metaFields = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}`

// callOf makes a Call. params are the members of params besides `_meta`.
func (r *rig) callOf(alias, method, params string) *Call {
	r.t.Helper()
	meta := fmt.Sprintf(metaFields, `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	if params != "" {
		params += ","
	}
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":"c-1","method":%q,"params":{%s%s}}`, method, params, meta)
	return r.callRaw(alias, raw)
}

func (r *rig) callRaw(alias, raw string) *Call {
	r.t.Helper()
	m, perr := mcp.ParseRequest([]byte(raw), 256)
	if perr != nil {
		r.t.Fatalf("test request: %v: %s", perr, raw)
	}
	return &Call{Endpoint: Endpoint{Tenant: "default", Alias: alias}, Request: m, Header: http.Header{}}
}

// do handles a call and gives the reply's body, or fails the test.
func (r *rig) do(c *Call) string {
	r.t.Helper()
	body, err := r.try(c)
	if err != nil {
		r.t.Fatalf("%s: %v", c.Request.Method, err)
	}
	return body
}

func (r *rig) try(c *Call) (string, error) {
	reply, err := r.fed.Handle(context.Background(), c)
	if err != nil {
		return "", err
	}
	defer reply.Body.Release()
	body := string(reply.Body.B)
	if !json.Valid(reply.Body.B) {
		r.t.Errorf("reply is no JSON: %s", body)
	}
	return body, nil
}

// names lists the exposed names, or URIs, of a list reply.
func names(t *testing.T, k kind, body string) []string {
	t.Helper()
	raw := []byte(body)
	msg, err := mcp.ParseMessage(raw, 256)
	if err != nil {
		t.Fatal(err)
	}
	list := mcp.Find(raw, msg.Result, k.items())
	if !list.Ok() || raw[list.Start] != '[' {
		t.Fatalf("no array %s in %s", k.items(), body)
	}
	out := []string{}
	for at := range mcp.Elements(raw, list) {
		s, _ := mcp.String(raw, mcp.Find(raw, at, itemKey(k)))
		out = append(out, s)
	}
	return out
}

// field gives a member of the result as raw JSON.
func field(t *testing.T, body string, path ...string) string {
	t.Helper()
	raw := []byte(body)
	at := mcp.Span{Start: 0, End: len(raw)}
	for _, key := range path {
		at = mcp.Find(raw, at, key)
	}
	return string(at.In(raw))
}
