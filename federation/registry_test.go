package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// hooked is a store that calls a function before it answers with what it had
// read.
type hooked struct {
	*tenant.Memory
	hook atomic.Pointer[func()]
}

func (h *hooked) Tenant(ctx context.Context, name string) (*tenant.Tenant, error) {
	t, err := h.Memory.Tenant(ctx, name)
	if f := h.hook.Swap(nil); f != nil {
		(*f)()
	}
	return t, err
}

func (h *hooked) before(f func()) { h.hook.Store(&f) }

// registered is a tenant with these upstreams.
func registered(ups ...tenant.Upstream) []*tenant.Tenant {
	return []*tenant.Tenant{{Name: "default", Separator: "_", Upstreams: ups}}
}

// A request for an upstream that goes at the same moment is answered or refused,
// and nothing else.
func TestRequestsWhileTheirUpstreamComesAndGoes(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	p.listens("")
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
	p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}`)
	p.result(mcp.MethodTasksGet, `{"resultType":"complete","taskId":"t","status":"working"}`)
	p.result("example/odd", `{"resultType":"complete"}`)
	r, stop := newFakeRig(t, map[string]upstream.Doer{"a": p}, nil)
	defer stop()
	calls := []func() *Call{
		func() *Call { return r.callOf("a", mcp.MethodToolsList, "") },
		func() *Call { return r.callOf("a", mcp.MethodToolsCall, `"name":"x"`) },
		func() *Call { return r.callOf("a", mcp.MethodResourcesRead, `"uri":"doc://1"`) },
		func() *Call { return r.callOf("a", mcp.MethodTasksGet, `"taskId":"t"`) },
		func() *Call { return r.callOf("a", mcp.MethodDiscover, "") },
		func() *Call { return r.callOf("a", "example/odd", "") },
		func() *Call { return r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`) },
		func() *Call { return r.callOf("", mcp.MethodToolsList, "") },
	}
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for i := range 500 {
			conf := r.conf
			conf.PageSize = i
			if i%2 == 0 {
				conf.Upstreams = nil
			}
			r.store.Replace([]*tenant.Tenant{&conf})
		}
		close(over)
	})
	for _, call := range calls {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_, err := r.try(call())
				var pe *mcp.Error
				if err != nil && !errors.Is(err, ErrNoEndpoint) && classOf(err) == "" && !errors.As(err, &pe) {
					t.Errorf("error = %v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			s, err := r.fed.Listen(context.Background(), r.callOf("a", mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["doc://1"]}`))
			if err == nil {
				s.Close()
			}
		}
	})
	wg.Wait()
}

// A registration that changes while the tenant is loaded is not lost.
func TestChangeWhileATenantIsLoaded(t *testing.T) {
	tests := []struct {
		name string
		then []*tenant.Tenant
		want []string
	}{
		{"an upstream comes", registered(fakeUp("a"), fakeUp("b")), []string{"a_x", "b_x"}},
		{"the tenant goes", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := newFake(t), newFake(t)
			a.list(kindTools, tool("x"))
			b.list(kindTools, tool("x"))
			store := &hooked{Memory: tenant.NewMemory(registered(fakeUp("a")))}
			r, stop := newFakeRig(t, map[string]upstream.Doer{"a": a, "b": b}, func(o *Options) { o.Store = store })
			defer stop()
			store.before(func() { store.Replace(tt.then) })
			body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
			if tt.want == nil {
				if !errors.Is(err, ErrNoEndpoint) {
					t.Errorf("error = %v, want %v", err, ErrNoEndpoint)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := names(t, kindTools, body); strings.Join(got, " ") != strings.Join(tt.want, " ") {
				t.Errorf("names = %v, want %v", got, tt.want)
			}
		})
	}
}

// connects counts the clients that were made and let go.
type connects struct{ made, closed atomic.Int32 }

func (c *connects) connect(up upstream.Doer) func(upstream.Config) upstream.Doer {
	return func(upstream.Config) upstream.Doer {
		c.made.Add(1)
		return &counted{Doer: up, all: c}
	}
}

type counted struct {
	upstream.Doer
	all  *connects
	once sync.Once
}

func (c *counted) Close() { c.once.Do(func() { c.all.closed.Add(1) }) }

// A change that meets the end of its tenant leaves no client behind.
func TestChangeWhileATenantIsDropped(t *testing.T) {
	var c connects
	store := &hooked{Memory: tenant.NewMemory(registered(fakeUp("a")))}
	r, stop := newFakeRig(t, nil, func(o *Options) { o.Store, o.Connect = store, c.connect(newFake(t)) })
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	store.before(func() { r.fed.drop("default", r.fed.domains["default"]) })
	store.Replace(registered(fakeUp("a"), fakeUp("b"), fakeUp("c")))
	stop()
	if made, closed := c.made.Load(), c.closed.Load(); made != closed {
		t.Errorf("%d clients were made and %d closed", made, closed)
	}
}

// Concurrent first requests of a tenant make its clients once.
func TestManyFirstRequestsLoadATenantOnce(t *testing.T) {
	var c connects
	store := &hooked{Memory: tenant.NewMemory(registered(fakeUp("a")))}
	r, stop := newFakeRig(t, nil, func(o *Options) { o.Store, o.Connect = store, c.connect(newFake(t)) })
	defer stop()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := r.fed.Check(context.Background(), Endpoint{Tenant: "default"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := c.made.Load(); n != 1 {
		t.Errorf("%d clients were made for one upstream", n)
	}
}

// failing is a registry that cannot be reached, which it takes a second to find
// out.
type failing struct {
	*tenant.Memory
	asked atomic.Int32
}

func (f *failing) Tenant(ctx context.Context, _ string) (*tenant.Tenant, error) {
	f.asked.Add(1)
	select {
	case <-time.After(time.Second):
		return nil, errors.New("no registry")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Those who wait for a tenant that cannot be loaded do not try it one after the
// other, and one who leaves takes nobody along.
func TestATenantThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Memory: tenant.NewMemory(nil)}
		r, stop := newFakeRig(t, nil, func(o *Options) { o.Store = store })
		defer stop()
		impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		var wg sync.WaitGroup
		check := func(ctx context.Context, want time.Duration) {
			wg.Go(func() {
				err := r.fed.Check(ctx, Endpoint{Tenant: "default"})
				if err == nil || errors.Is(err, ErrNoEndpoint) || time.Since(start) != want {
					t.Errorf("after %v: %v, want a failure after %v", time.Since(start), err, want)
				}
			})
		}
		check(impatient, 500*time.Millisecond)
		synctest.Wait()
		for range 20 {
			check(t.Context(), 1500*time.Millisecond)
		}
		wg.Wait()
		if n := store.asked.Load(); n != 2 {
			t.Errorf("the registry was asked %d times, want 2", n)
		}
	})
}

// What an upstream's registration leaves behind when it goes: nothing in the
// metrics, whatever of it is still under way, and nothing in the cache.
func TestNothingStaysOfAnUpstreamThatWent(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}`)
	r, stop := newFakeRig(t, map[string]upstream.Doer{"a": p}, nil)
	defer stop()
	read := func() { r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)) }
	read()
	gate, asked := make(chan struct{}), make(chan struct{})
	p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
		close(asked)
		<-gate
		return says(200, resultFor(m, listResult(kindTools, 1000, tool("late")))), nil
	})
	m := r.fed.domains["default"].member("a")
	done := make(chan error, 1)
	go func() {
		_, err := m.refresh(context.Background(), kindTools)
		done <- err
	}()
	<-asked
	conf := r.conf
	conf.Upstreams = nil
	r.store.Replace([]*tenant.Tenant{&conf})
	close(gate)
	<-done
	if got := gathered(t, r.fed, "causeway_catalog_items"); got != "" {
		t.Errorf("series of an upstream that went: %s", got)
	}
	r.store.Replace([]*tenant.Tenant{&r.conf})
	read()
	if n := p.count(mcp.MethodResourcesRead); n != 2 {
		t.Errorf("after the upstream came back it was asked %d times, want 2: the old answer is not its own", n)
	}
}

// gathered gives the series of a metric as text.
func gathered(t *testing.T, f *Federation, name string) string {
	t.Helper()
	families, err := registryOf(f).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, mf := range families {
		if mf.GetName() == name {
			for _, m := range mf.GetMetric() {
				out = append(out, fmt.Sprint(m.GetLabel()))
			}
		}
	}
	return strings.Join(out, "\n")
}

// A tenant is not dropped under a request that comes when it has been idle for
// long.
func TestIdleTenantsAreDroppedOnlyWhenNobodyUsesThem(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	p.listens("")
	var c connects
	var clock atomic.Int64
	r, stop := newFakeRig(t, nil, func(o *Options) {
		o.Connect = c.connect(p)
		o.Store = tenant.NewMemory(registered(fakeUp("a")))
		o.Now = func() time.Time { return time.Unix(0, clock.Load()) }
	})
	defer stop()
	sweep := func() { r.fed.dropIdle(r.fed.now().Add(-time.Hour)) }
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	clock.Add(int64(2 * time.Hour))
	// The sweep comes in the middle of a request.
	p.handle(mcp.MethodToolsCall, func(_ context.Context, m *mcp.Request) (*answer, error) {
		sweep()
		return says(200, resultFor(m, `{"resultType":"complete","content":[]}`)), nil
	})
	r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
	if c.closed.Load() != 0 {
		t.Error("the tenant was dropped under a request")
	}
	s, err := r.fed.Listen(context.Background(), r.callOf("", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
	if err != nil {
		t.Fatal(err)
	}
	clock.Add(int64(2 * time.Hour))
	sweep()
	if c.closed.Load() != 0 {
		t.Error("the tenant was dropped under a listen stream")
	}
	s.Close()
	sweep()
	if c.closed.Load() != 0 {
		t.Error("the tenant was dropped as soon as its last stream had ended")
	}
	clock.Add(int64(2 * time.Hour))
	sweep()
	if made, closed := c.made.Load(), c.closed.Load(); made != 1 || closed != 1 {
		t.Errorf("%d clients were made and %d closed, want the one to be closed", made, closed)
	}
	if got := gathered(t, r.fed, "causeway_catalog_items"); got != "" {
		t.Errorf("series of an idle tenant: %s", got)
	}
	r.do(r.callOf("", mcp.MethodToolsList, ""))
}

// Upstreams that take long to let go do not do so one after the other.
func TestUpstreamsEndSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tenants []*tenant.Tenant
		for i := range 20 {
			tenants = append(tenants, &tenant.Tenant{Name: fmt.Sprint("t", i), Separator: "_", Upstreams: []tenant.Upstream{fakeUp("a"), fakeUp("b"), fakeUp("c")}})
		}
		store := tenant.NewMemory(tenants)
		p := newFake(t)
		r, stop := newFakeRig(t, nil, func(o *Options) {
			o.Store = store
			o.Connect = func(upstream.Config) upstream.Doer {
				return &closing{fake: p, then: func() { time.Sleep(time.Second) }}
			}
		})
		defer stop()
		for _, tn := range tenants {
			if err := r.fed.Check(t.Context(), Endpoint{Tenant: tn.Name}); err != nil {
				t.Fatal(err)
			}
		}
		took := func(what string, do func(), want time.Duration) {
			start := time.Now()
			if do(); time.Since(start) > want {
				t.Errorf("%s took %v, want at most %v", what, time.Since(start), want)
			}
		}
		took("a new registration", func() {
			changed := *tenants[0]
			changed.Upstreams = nil
			store.Replace(append([]*tenant.Tenant{&changed}, tenants[1:]...))
		}, time.Second)
		took("the end of idle tenants", func() { r.fed.dropIdle(time.Now().Add(time.Hour)) }, 2*time.Second)
	})
}

func TestRequestsWhileTheirTenantIsSwept(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	p.listens("")
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
	var c connects
	r, stop := newFakeRig(t, nil, func(o *Options) {
		o.Connect, o.Store = c.connect(p), tenant.NewMemory(registered(fakeUp("a")))
	})
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				r.fed.dropIdle(time.Now().Add(time.Hour))
			}
		}
	})
	for range 300 {
		if _, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`)); err != nil {
			t.Errorf("call: %v", err)
			break
		}
		s, err := r.fed.Listen(context.Background(), r.callOf("a", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		if err != nil {
			t.Errorf("listen: %v", err)
			break
		}
		s.Close()
	}
	close(over)
	wg.Wait()
	stop()
	if made, closed := c.made.Load(), c.closed.Load(); made != closed {
		t.Errorf("%d clients were made and %d closed", made, closed)
	}
}
