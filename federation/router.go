package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Federation serves all tenants of this process.
type Federation struct {
	opts       Options
	log        *slog.Logger
	metrics    *metrics
	now        func() time.Time
	clientInfo []byte // raw Implementation: who we are, towards both sides
	lastID     atomic.Int64

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	sweeper   sync.WaitGroup
	stopWatch func()

	mu      sync.RWMutex
	closed  bool
	domains map[string]*domain
}

// New makes a Federation. Close ends it.
func New(opts Options) (*Federation, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	f := &Federation{
		opts:    opts,
		log:     opts.Logger,
		metrics: newMetrics(opts.Metrics),
		now:     opts.Now,
		domains: map[string]*domain{},
	}
	f.clientInfo = append(f.clientInfo, `{"name":"causeway","title":"Causeway","version":`...)
	f.clientInfo = append(mcp.AppendQuote(f.clientInfo, opts.Version), '}')
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.stopWatch = opts.Store.Watch(f.ctx, f.changed)
	f.sweeper.Go(f.sweep)
	return f, nil
}

// nextID gives an id that no other request of this process has.
func (f *Federation) nextID() int64 { return f.lastID.Add(1) }

// Check gives an error, which is ErrNoEndpoint, when nothing is registered for
// the endpoint.
func (f *Federation) Check(ctx context.Context, e Endpoint) error {
	_, err := f.domain(ctx, e)
	return err
}

// domain gives the endpoint's tenant, loading it on first use.
func (f *Federation) domain(ctx context.Context, e Endpoint) (*domain, error) {
	f.mu.RLock()
	d := f.domains[e.Tenant]
	f.mu.RUnlock()
	if d == nil {
		var err error
		if d, err = f.loadDomain(ctx, e.Tenant); err != nil {
			return nil, err
		}
	}
	d.used.Store(f.now().UnixNano())
	if e.Alias != "" && d.member(e.Alias) == nil {
		return nil, ErrNoEndpoint
	}
	return d, nil
}

func (f *Federation) loadDomain(ctx context.Context, name string) (*domain, error) {
	t, err := f.opts.Store.Tenant(ctx, name)
	if errors.Is(err, tenant.ErrNotFound) {
		return nil, ErrNoEndpoint
	}
	if err != nil {
		return nil, fmt.Errorf("load tenant %s: %w", name, err)
	}
	d, fresh := f.admit(name, t)
	if d == nil {
		return nil, ErrNoEndpoint
	}
	if fresh {
		// What changed between reading and admitting the tenant told nobody.
		if now, err := f.opts.Store.Tenant(ctx, name); err == nil && now.Revision != t.Revision {
			d.configure(now)
		} else if errors.Is(err, tenant.ErrNotFound) {
			f.drop(name, d)
			return nil, ErrNoEndpoint
		}
	}
	return d, nil
}

// admit makes the tenant's domain unless there is one; nil once closed.
func (f *Federation) admit(name string, t *tenant.Tenant) (d *domain, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false
	}
	if d := f.domains[name]; d != nil {
		return d, false
	}
	d = newDomain(f, t)
	f.domains[name] = d
	return d, true
}

// changed is told by the store that a tenant's registration changed.
func (f *Federation) changed(name string) {
	f.mu.RLock()
	d := f.domains[name]
	f.mu.RUnlock()
	if d == nil {
		return
	}
	t, err := f.opts.Store.Tenant(f.ctx, name)
	switch {
	case errors.Is(err, tenant.ErrNotFound):
		f.drop(name, d)
	case err != nil:
		f.log.Error("load changed tenant", "tenant", name, "error", err)
	default:
		d.configure(t)
	}
}

// drop ends a tenant in this process.
func (f *Federation) drop(name string, d *domain) {
	f.mu.Lock()
	if f.domains[name] == d {
		delete(f.domains, name)
	}
	f.mu.Unlock()
	d.close(f.ctx)
	if f.opts.Unloaded != nil {
		f.opts.Unloaded(name)
	}
}

// sweep drops tenants that nobody uses.
func (f *Federation) sweep() {
	idle := f.opts.Limits.Idle
	if idle <= 0 {
		return
	}
	tick := time.NewTicker(max(idle/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
		}
		for name, d := range f.idle(f.now().Add(-idle)) {
			f.drop(name, d)
		}
	}
}

// idle gives the tenants that were last used before the time and serve nobody.
func (f *Federation) idle(before time.Time) map[string]*domain {
	f.mu.RLock()
	defer f.mu.RUnlock()
	found := map[string]*domain{}
	for name, d := range f.domains {
		if d.busy.Load() == 0 && d.hub.streams() == 0 && d.used.Load() < before.UnixNano() {
			found[name] = d
		}
	}
	return found
}

// Close ends all listen streams gracefully, then all that runs in the
// background, within ctx.
func (f *Federation) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	domains := f.domains
	f.domains = map[string]*domain{}
	f.mu.Unlock()
	f.stopWatch()
	var wg sync.WaitGroup
	for _, d := range domains {
		wg.Go(func() { d.close(ctx) })
	}
	wg.Wait()
	f.cancel()
	f.sweeper.Wait()
	return ctx.Err()
}

// Handle answers one request (not subscriptions/listen). The error is an
// *mcp.Error, an *upstream.Error, ErrNoEndpoint or that of a cancelled ctx.
func (f *Federation) Handle(ctx context.Context, c *Call) (*Reply, error) {
	d, err := f.domain(ctx, c.Endpoint)
	if err != nil {
		return nil, err
	}
	limit := int64(d.tenant().Limits.InFlight)
	if limit <= 0 {
		limit = int64(f.opts.Limits.InFlight)
	}
	defer d.busy.Add(-1)
	if d.busy.Add(1) > limit {
		f.metrics.rejected(d.name, "in_flight")
		return nil, overQuota("too many requests of this tenant are under way", time.Second)
	}
	return d.handle(ctx, c)
}

// handle dispatches a request: merge, route by name, or answer here.
func (d *domain) handle(ctx context.Context, c *Call) (*Reply, error) {
	switch c.Request.Method {
	case mcp.MethodDiscover:
		return d.discover(ctx, c)
	case mcp.MethodToolsList:
		return d.list(ctx, c, kindTools)
	case mcp.MethodPromptsList:
		return d.list(ctx, c, kindPrompts)
	case mcp.MethodResourcesList:
		return d.list(ctx, c, kindResources)
	case mcp.MethodTemplatesList:
		return d.list(ctx, c, kindTemplates)
	case mcp.MethodToolsCall:
		return d.call(ctx, c, kindTools)
	case mcp.MethodPromptsGet:
		return d.call(ctx, c, kindPrompts)
	case mcp.MethodResourcesRead:
		return d.read(ctx, c)
	case mcp.MethodComplete:
		return d.complete(ctx, c)
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return d.task(ctx, c)
	}
	if c.Endpoint.Alias == "" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
	}
	// What the gateway does not know passes to the one upstream.
	return d.relay(ctx, c, &target{member: d.member(c.Endpoint.Alias)})
}

// Listen opens a listen stream. Errors are those of Handle.
func (f *Federation) Listen(ctx context.Context, c *Call) (*Subscription, error) {
	d, err := f.domain(ctx, c.Endpoint)
	if err != nil {
		return nil, err
	}
	return d.hub.subscribe(ctx, c)
}

// CodeOverQuota is the JSON-RPC error code of refusals for quota or rate,
// outside the range that JSON-RPC reserves (2026-07-28, basic/index, Error
// Codes).
const CodeOverQuota = -31029

// overQuota makes the error for a caller that must wait.
func overQuota(message string, after time.Duration) *mcp.Error {
	e := mcp.Errorf(CodeOverQuota, "%s", message)
	e.Data = fmt.Appendf(nil, `{"retryAfterMs":%d}`, after.Milliseconds())
	return e
}

// unavailable makes the failure of an upstream for a reason other than one of
// its own answers.
func unavailable(alias string, class upstream.Class, cause string) *upstream.Error {
	return &upstream.Error{Alias: alias, Class: class, Retryable: true, Err: errors.New(cause)}
}
