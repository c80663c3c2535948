package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/federation/search"
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
	language   *search.Language
	counting   *counting

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	sweeper   sync.WaitGroup
	stopWatch func()

	mu      sync.RWMutex
	closed  bool
	domains map[string]*domain
	loading map[string]*loading
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

		language: search.NewLanguage(),
		loading:  map[string]*loading{},

		counting: newCounting(&opts),
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

// Close ends all listen streams gracefully, then all that runs in the
// background. The error is that of ctx when it ended before.
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
		wg.Go(d.close)
	}
	wg.Wait()
	f.cancel()
	f.sweeper.Wait()
	return ctx.Err()
}

// Check gives an error, which is ErrNoEndpoint, when nothing is registered for
// the endpoint.
func (f *Federation) Check(ctx context.Context, e Endpoint) error {
	d, err := f.enter(ctx, e)
	if err != nil {
		return err
	}
	d.leave()
	return nil
}

// Tenant gives the registration that an endpoint is served with; errors are those of
// Check. It must not be changed.
func (f *Federation) Tenant(ctx context.Context, e Endpoint) (*tenant.Tenant, error) {
	d, err := f.enter(ctx, e)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	return d.snap, nil
}

// Handle answers one request (not subscriptions/listen). The error is an
// *mcp.Error, an *upstream.Error, an *Elsewhere, ErrNoEndpoint or that of a
// cancelled ctx.
func (f *Federation) Handle(ctx context.Context, c *Call) (*Reply, error) {
	if err := f.elsewhere(c); err != nil {
		return nil, err // nothing was sent or counted, which the holder does
	}
	c, err := f.resume(c)
	if err != nil {
		return nil, err
	}
	d, err := f.enterAs(ctx, c)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	a, err := d.admit(ctx, c)
	if err != nil {
		return nil, err
	}
	defer a.leave(c)
	reply, err := d.handle(ctx, c)
	if err != nil && d.perUser {
		return d.ask(ctx, c, err)
	}
	return reply, err
}

// handle dispatches a request: merge, route by name, or answer here.
func (d *roster) handle(ctx context.Context, c *Call) (*Reply, error) {
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
	if d.audience.hidden {
		// Policy cannot tell what it would do.
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
	}
	return d.relay(ctx, c, &target{member: d.byAlias[c.Endpoint.Alias]})
}

// Listen opens a listen stream. Errors are those of Handle.
func (f *Federation) Listen(ctx context.Context, c *Call) (*Subscription, error) {
	d, err := f.enterAs(ctx, c)
	if err != nil {
		return nil, err
	}
	defer d.leave()
	return d.hub.subscribe(ctx, c)
}

// CodeOverQuota is the JSON-RPC error code of refusals for quota or rate,
// outside the range that JSON-RPC reserves (2026-07-28, basic/index, Error
// Codes).
const CodeOverQuota = -31029

// overQuota makes the error for a caller that must wait.
func overQuota(message string, after time.Duration) *mcp.Error {
	e := mcp.Errorf(CodeOverQuota, "%s", message)
	e.Data = fmt.Appendf(nil, `{"retryAfterMs":%d}`, (after + time.Millisecond - 1).Milliseconds())
	return e
}

// unavailable makes the failure of an upstream for a reason other than one of
// its own answers.
func unavailable(alias string, class upstream.Class, cause string) *upstream.Error {
	return &upstream.Error{Alias: alias, Class: class, Retryable: true, Err: errors.New(cause)}
}
