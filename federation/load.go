package federation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// enter gives what an endpoint's tenant consists of, loading it on first use. It
// is not dropped as idle before leave.
func (f *Federation) enter(ctx context.Context, e Endpoint) (*roster, error) {
	f.mu.RLock()
	d := f.hold(e.Tenant)
	f.mu.RUnlock()
	if d == nil {
		var err error
		if d, err = f.load(ctx, e.Tenant); err != nil {
			return nil, err
		}
	}
	now := d.current()
	if err := now.checkEndpoint(e); err != nil {
		d.leave()
		return nil, err
	}
	return now, nil
}

// enterAs is enter for who sends a call: what an endpoint's tenant consists of for
// them.
func (f *Federation) enterAs(ctx context.Context, c *Call) (*roster, error) {
	d, err := f.enter(ctx, c.Endpoint)
	if err != nil {
		return nil, err
	}
	seen := d.seenBy(callerOf(c))
	if c.Endpoint.Alias != "" && seen.byAlias[c.Endpoint.Alias] == nil {
		d.leave()
		return nil, ErrNoEndpoint // nothing there is for the caller
	}
	seen.take(c)
	return seen, nil
}

// take shows a caller's token to those members that exchange it.
func (d *roster) take(c *Call) {
	if !d.perUser || c.Token == "" {
		return
	}
	for _, m := range d.members {
		if m.lane == nil {
			continue
		}
		if taker, ok := m.lane.source.(TokenTaker); ok {
			taker.Take(c.Token, c.TokenExpires)
		}
	}
}

// checkEndpoint gives an error when the tenant has no such endpoint.
func (d *roster) checkEndpoint(e Endpoint) error {
	if e.Alias != "" && (e.Toolset != "" || d.byAlias[e.Alias] == nil) || !d.hasToolset(e.Toolset) {
		return ErrNoEndpoint
	}
	return d.checkMode(e)
}

// hold gives the tenant's domain, held, or nil. The caller holds the lock.
func (f *Federation) hold(name string) *domain {
	d := f.domains[name]
	if d != nil {
		d.held.Add(1)
	}
	return d
}

// leave ends what enter began.
func (d *domain) leave() {
	d.used.Store(d.fed.now().UnixNano())
	d.held.Add(-1)
}

// loading is a tenant that is being loaded.
type loading struct {
	done    chan struct{}
	err     error // set before done is closed; nil when the loader left
	changed bool  // the registration changed meanwhile; guarded by the Federation
}

// load gives the tenant's domain, held. Of several callers one loads it.
func (f *Federation) load(ctx context.Context, name string) (*domain, error) {
	for {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, ErrNoEndpoint
		}
		if d := f.hold(name); d != nil {
			f.mu.Unlock()
			return d, nil
		}
		l, wait := f.loading[name]
		if !wait {
			l = &loading{done: make(chan struct{})}
			f.loading[name] = l
		}
		f.mu.Unlock()
		if !wait {
			d, err := f.fill(ctx, name, l)
			if ctx.Err() == nil {
				l.err = err
			}
			f.loaded(name, l)
			return d, err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if l.err != nil {
			return nil, l.err
		}
	}
}

// fill makes the tenant's domain from the registry, and once more when it changed
// in between, which nobody would tell.
func (f *Federation) fill(ctx context.Context, name string, l *loading) (*domain, error) {
	var d *domain
	for {
		t, program, err := f.registration(ctx, name, nil)
		switch {
		case err != nil && d != nil:
			d.close()
			fallthrough
		case err != nil:
			if errors.Is(err, tenant.ErrNotFound) {
				return nil, ErrNoEndpoint
			}
			return nil, fmt.Errorf("load tenant %s: %w", name, err)
		case d == nil:
			d = newDomain(f, t, program)
		default:
			d.configure(t, program)
		}
		switch ok, err := f.admit(name, d, l); {
		case err != nil:
			d.close()
			return nil, err
		case ok:
			return d, nil
		}
	}
}

// errUnenforced tells of a registration that wants to be protected in a way that does
// not compile. A tenant that cannot be guarded as its owner wants is not served at all.
var errUnenforced = errors.New("its policy cannot be enforced")

// registration reads a tenant that can be served, and compiles its policy; nil where it
// has none. The program of before, which may be nil, stays if it is still the policy.
func (f *Federation) registration(ctx context.Context, name string, before *policy.Program) (*tenant.Tenant, *policy.Program, error) {
	t, err := f.opts.Store.Tenant(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if t.Policy == nil && len(t.Toolsets) == 0 {
		return t, nil, nil
	}
	if before != nil && before.Same(t) {
		return t, before, nil
	}
	program, err := policy.Compile(t)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnenforced, err)
	}
	return t, program, nil
}

// loaded ends a loading.
func (f *Federation) loaded(name string, l *loading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.loading, name)
	close(l.done)
}

// admit makes the domain known, and holds it; false when the registration changed
// while it was made.
func (f *Federation) admit(name string, d *domain, l *loading) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, ErrNoEndpoint
	}
	if l.changed {
		l.changed = false
		return false, nil
	}
	d.held.Add(1)
	f.domains[name] = d
	return true, nil
}

// changed is told by the store that a tenant's registration changed.
func (f *Federation) changed(name string) {
	f.mu.Lock()
	d := f.domains[name]
	if l := f.loading[name]; l != nil {
		l.changed = true
	}
	f.mu.Unlock()
	if d == nil {
		return
	}
	t, program, err := f.registration(f.ctx, name, d.current().policy)
	switch {
	case errors.Is(err, errUnenforced):
		f.log.Error("stop serving a tenant", "tenant", name, "error", err)
		f.drop(name, d)
	case errors.Is(err, tenant.ErrNotFound):
		forgetAll(append(d.keepLanes(&roster{}), d.current().members...))
		f.drop(name, d)
	case err != nil:
		f.log.Error("load changed tenant", "tenant", name, "error", err)
	default:
		d.configure(t, program)
	}
}

// drop ends a tenant in this process.
func (f *Federation) drop(name string, d *domain) {
	f.mu.Lock()
	f.takeOut(name, d)
	f.mu.Unlock()
	f.end(d)
}

// end closes a domain that was taken out.
func (f *Federation) end(d *domain) {
	f.metrics.forgetTenant(d.name)
	if f.opts.Unloaded != nil {
		f.opts.Unloaded(d.name)
	}
	d.close()
}

// takeOut makes the domain unknown, and drops its series before another one of
// the tenant can be made. The caller holds the lock.
func (f *Federation) takeOut(name string, d *domain) {
	if f.domains[name] != d {
		return
	}
	delete(f.domains, name)
	for _, m := range d.current().members {
		m.retire()
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
		f.dropIdle(f.now().Add(-idle))
		f.prune(f.now().Add(-idle))
	}
}

// prune has the tenants that are in use drop what they keep for callers who did
// nothing since the time.
func (f *Federation) prune(before time.Time) {
	f.mu.RLock()
	domains := slices.Collect(maps.Values(f.domains))
	f.mu.RUnlock()
	for _, d := range domains {
		d.prune(before)
	}
}

// maxEnding bounds how many idle tenants end at the same time.
const maxEnding = 16

// dropIdle drops the tenants that were last used before the time and serve
// nobody. Whoever enters one holds it under the same lock.
func (f *Federation) dropIdle(before time.Time) {
	var idle []*domain
	f.mu.Lock()
	for name, d := range f.domains {
		if d.held.Load() == 0 && d.hub.streams.Load() == 0 && d.used.Load() < before.UnixNano() {
			f.takeOut(name, d)
			idle = append(idle, d)
		}
	}
	f.mu.Unlock()
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxEnding)
	for _, d := range idle {
		slots <- struct{}{}
		wg.Go(func() {
			f.end(d)
			<-slots
		})
	}
	wg.Wait()
}
