package federation

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
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
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// fake is an upstream without a network, for tests in a bubble of synctest and
// for benchmarks.
type fake struct {
	tb testing.TB
	mu sync.Mutex
	on map[string]func(ctx context.Context, m *mcp.Request) (*answer, error)
	// asked are the requests by method.
	asked  map[string]int
	pushes []*answer // open listen streams
	filter string    // of the latest one
	closed bool
}

// answer is what a fake answers: messages, then the error (io.EOF for none).
type answer struct {
	ctx    context.Context
	status int
	msgs   chan string
	err    error
}

func newFake(tb testing.TB) *fake {
	f := &fake{tb: tb, on: map[string]func(context.Context, *mcp.Request) (*answer, error){}, asked: map[string]int{}}
	for k := range kindDiscover {
		f.list(k)
	}
	f.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":60000,"cacheScope":"public"}`)
	return f
}

// Do implements upstream.Doer.
func (f *fake) Do(ctx context.Context, req *upstream.Request) (upstream.Answer, error) {
	raw := append([]byte(nil), req.Body.B...)
	req.Body.Release()
	m, perr := mcp.ParseRequest(raw, 256)
	if perr != nil {
		f.tb.Errorf("upstream got a bad request: %v: %s", perr, raw)
		return nil, perr
	}
	f.mu.Lock()
	f.asked[m.Method]++
	h := f.on[m.Method]
	f.mu.Unlock()
	if h == nil {
		h = func(_ context.Context, m *mcp.Request) (*answer, error) {
			return says(http.StatusNotFound, string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")))), nil
		}
	}
	a, err := h(ctx, m)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.ctx = ctx
	return a, nil
}

// Close notes that the client was let go.
func (f *fake) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// says is an answer of these messages.
func says(status int, msgs ...string) *answer {
	a := &answer{status: status, msgs: make(chan string, max(len(msgs), 100)), err: io.EOF}
	for _, m := range msgs {
		a.msgs <- m
	}
	return a
}

// Next implements upstream.Answer.
func (a *answer) Next() (*mcp.Message, error) {
	select {
	case raw, ok := <-a.msgs:
		if !ok {
			return nil, a.err
		}
		return mcp.ParseMessage([]byte(raw), 256)
	case <-a.ctx.Done():
		return nil, &upstream.Error{Alias: "fake", Class: upstream.ClassCanceled, Err: context.Cause(a.ctx)}
	}
}

// isOpen tells whether a listen stream is open.
func (a *answer) isOpen() bool { return a.ctx != nil && a.ctx.Err() == nil }

// Status implements upstream.Answer.
func (a *answer) Status() int { return a.status }

// Waited implements upstream.Answer.
func (a *answer) Waited() time.Duration { return 0 }

// Close implements upstream.Answer.
func (a *answer) Close() {}

func (f *fake) handle(method string, h func(ctx context.Context, m *mcp.Request) (*answer, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on[method] = h
}

// result answers a method with a raw result.
func (f *fake) result(method, raw string) {
	f.handle(method, func(_ context.Context, m *mcp.Request) (*answer, error) {
		return says(http.StatusOK, resultFor(m, raw)), nil
	})
}

// resultFor is the response to m with a raw result.
func resultFor(m *mcp.Request, raw string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID.In(m.Raw), raw)
}

// errorFor is the response to m with an error.
func errorFor(m *mcp.Request, code int) string {
	return string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(code, "no")))
}

// list answers a list method with raw items.
func (f *fake) list(k kind, items ...string) { f.result(k.method(), listResult(k, 60000, items...)) }

func listResult(k kind, ttlMs int, items ...string) string {
	return fmt.Sprintf(`{"resultType":"complete","%s":[%s],"ttlMs":%d,"cacheScope":"public"}`, k.items(), strings.Join(items, ","), ttlMs)
}

// fails answers a method with an upstream failure.
func (f *fake) fails(method string, class upstream.Class) {
	f.handle(method, func(context.Context, *mcp.Request) (*answer, error) {
		return nil, &upstream.Error{Alias: "fake", Class: class, Err: fmt.Errorf("scripted failure")}
	})
}

// hangs answers a method after d with the failure of a request that timed out.
func (f *fake) hangs(method string, d time.Duration, class upstream.Class) {
	f.handle(method, func(ctx context.Context, _ *mcp.Request) (*answer, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			class = upstream.ClassCanceled
		}
		return nil, &upstream.Error{Alias: "fake", Class: class, Err: fmt.Errorf("scripted failure")}
	})
}

// listens acknowledges listen streams with grant, or what was asked when it is
// empty, and keeps them open.
func (f *fake) listens(grant string) {
	f.handle(mcp.MethodListen, func(_ context.Context, m *mcp.Request) (*answer, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.filter = string(m.Notifications.In(m.Raw))
		given := grant
		if given == "" {
			given = f.filter
		}
		a := says(http.StatusOK, ackOf(m, given))
		f.pushes = append(f.pushes, a)
		return a, nil
	})
}

func ackOf(m *mcp.Request, grant string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, m.ID.In(m.Raw), grant)
}

// push sends a notification on all listen streams that are open.
func (f *fake) push(method, params string) {
	f.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params))
}

// say sends a message on all listen streams that are open.
func (f *fake) say(raw string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.pushes {
		if a.isOpen() {
			a.msgs <- raw
		}
	}
}

// wanted is the filter of the latest listen stream.
func (f *fake) wanted() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.filter
}

// handler gives the handler of a method.
func (f *fake) handler(method string) func(ctx context.Context, m *mcp.Request) (*answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on[method]
}

// hangUp ends all listen streams.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.pushes {
		if a.isOpen() {
			close(a.msgs)
		}
	}
	f.pushes = nil
}

// count is how often a method was asked.
func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[method]
}

// open is how many listen streams are open.
func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.pushes {
		if a.isOpen() {
			n++
		}
	}
	return n
}

// newFakeRig starts a Federation in front of fakes, by alias. Its clock is that
// of the package time. In a bubble the test ends it with stop.
func newFakeRig(tb testing.TB, fakes map[string]upstream.Doer, change func(*Options)) (r *rig, stop func()) {
	tb.Helper()
	r = &rig{log: &lockedBuffer{}}
	r.t, _ = tb.(*testing.T)
	r.conf = tenant.Tenant{Name: "default", Revision: 1, Separator: "_"}
	for _, alias := range slices.Sorted(maps.Keys(fakes)) {
		r.conf.Upstreams = append(r.conf.Upstreams, fakeUp(alias))
	}
	r.store = tenant.NewMemory([]*tenant.Tenant{&r.conf})
	opts := Options{
		Store: r.store, Cache: cache.NewMemory(0), Ring: seal.NewRandom(),
		Connect: func(c upstream.Config) upstream.Doer { return fakes[c.Alias] },
		Logger:  slog.New(slog.NewTextHandler(r.log, nil)), Tracer: noop.NewTracerProvider().Tracer(""),
		Metrics: prometheus.NewRegistry(), Limits: DefaultLimits(), Version: "test",
	}
	if change != nil {
		change(&opts)
	}
	fed, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	r.fed = fed
	return r, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := fed.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	}
}

func fakeUp(alias string) tenant.Upstream {
	return tenant.Upstream{Alias: alias, URL: "http://" + alias + ".invalid/", Prefix: tenant.PrefixAlias, Version: "1"}
}

// registryOf gives the registry of a rig's metrics.
func registryOf(f *Federation) prometheus.Gatherer {
	return f.opts.Metrics.(prometheus.Gatherer) //nolint:forcetypeassert // a rig's is a *prometheus.Registry
}

// member gives the tenant's member with that alias, or nil.
func (d *domain) member(alias string) *member { return d.current().byAlias[alias] }

// slowly answers as another handler does, after a time.
func slowly(d time.Duration, inner func(context.Context, *mcp.Request) (*answer, error)) func(context.Context, *mcp.Request) (*answer, error) {
	return func(ctx context.Context, m *mcp.Request) (*answer, error) {
		select {
		case <-time.After(d):
			return inner(ctx, m)
		case <-ctx.Done():
			return nil, &upstream.Error{Alias: "fake", Class: upstream.ClassCanceled, Err: context.Cause(ctx)}
		}
	}
}
