package federation

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

// member is one upstream of a tenant under one version of its configuration,
// with what is known of it.
type member struct {
	domain *domain
	conf   tenant.Upstream
	doer   upstream.Doer
	slots  [kinds]slot
	calls  atomic.Int64 // requests that may change something, counted when they begin and end
}

// newMember makes the member and its client.
func newMember(d *domain, conf tenant.Upstream) *member {
	m := &member{domain: d, conf: conf}
	for k := range m.slots {
		m.slots[k] = slot{member: m, kind: kind(k)}
	}
	m.doer = d.fed.opts.Connect(upstream.Config{
		Tenant:         d.name,
		Alias:          conf.Alias,
		URL:            conf.URL,
		Process:        process(&conf),
		Era:            upstream.Era(conf.Era),
		ConnectTimeout: conf.Timeouts.Connect,
		CallTimeout:    conf.Timeouts.Call,
		CallMax:        conf.Timeouts.CallMax,
		MaxInFlight:    conf.InFlight,
		Sessions: upstream.Sessions{
			Shared:                conf.Sessions.Shared,
			Max:                   conf.Sessions.Max,
			Idle:                  conf.Sessions.Idle,
			ParkMax:               conf.Sessions.ParkMax,
			MaxParked:             conf.Sessions.Parked,
			MaxParkedPerPrincipal: conf.Sessions.ParkedPerPrincipal,
		},
	})
	return m
}

// process gives the program that an upstream is, or nil. Only the configuration
// file may name one: whoever can register upstreams must not choose what runs on
// the gateway's machine.
func process(conf *tenant.Upstream) *upstream.Process {
	if conf.Process == nil || conf.ManagedBy != "file" {
		return nil
	}
	p := &upstream.Process{Command: conf.Process.Command, Dir: conf.Process.Dir}
	for _, v := range conf.Process.Env {
		p.Env = append(p.Env, upstream.Variable(v))
	}
	return p
}

// topic names what the cache holds of one method of the member.
func (m *member) topic(method string) cache.Topic {
	return cache.Topic{Tenant: m.domain.name, Upstream: m.conf.Alias, Version: m.conf.Version, Method: method}
}

// listWait is how long a caller waits for one of the member's lists.
func (m *member) listWait() time.Duration {
	if m.conf.Timeouts.List > 0 {
		return m.conf.Timeouts.List
	}
	return m.domain.fed.opts.Limits.ListWait
}

// close lets the client go; requests under way end by themselves.
func (m *member) close() {
	if c, ok := m.doer.(interface{ Close() }); ok {
		c.Close()
	}
	m.domain.fed.metrics.forget(m)
}

// domain is one tenant at run time.
type domain struct {
	fed  *Federation
	name string
	log  *slog.Logger
	hub  *hub

	used atomic.Int64 // when it was last used, in Unix nanoseconds
	busy atomic.Int64 // requests under way

	ctx    context.Context // ends when the domain is closed
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	snap    *tenant.Tenant
	members []*member // in the order of registration
	byAlias map[string]*member
	views   map[viewKey]*view
}

// newDomain loads a tenant.
func newDomain(f *Federation, t *tenant.Tenant) *domain {
	d := &domain{fed: f, name: t.Name, log: f.log.With("tenant", t.Name)}
	//nolint:gosec // the cancel function is kept and called by close
	d.ctx, d.cancel = context.WithCancel(f.ctx)
	d.hub = newHub(d)
	d.configure(t)
	return d
}

// configure takes a new snapshot: members whose configuration did not change
// stay with all that is known of them.
func (d *domain) configure(t *tenant.Tenant) {
	d.mu.Lock()
	old := d.byAlias
	d.snap = t
	d.members = make([]*member, 0, len(t.Upstreams))
	d.byAlias = make(map[string]*member, len(t.Upstreams))
	d.views = map[viewKey]*view{}
	for _, conf := range t.Upstreams {
		m := old[conf.Alias]
		if m == nil || m.conf.Version != conf.Version {
			m = newMember(d, conf)
		}
		d.members = append(d.members, m)
		d.byAlias[conf.Alias] = m
	}
	var gone []*member
	for alias, m := range old {
		if d.byAlias[alias] != m {
			gone = append(gone, m)
		}
	}
	d.mu.Unlock()
	for _, m := range gone {
		m.close()
	}
	d.hub.reconfigured()
}

// run starts work that outlives a request; close waits for it. It does nothing
// once the domain is closed, and says so.
func (d *domain) run(work func(ctx context.Context)) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	d.work.Go(func() { work(d.ctx) })
	return true
}

// close ends all that the domain does, and waits for it within ctx.
func (d *domain) close(ctx context.Context) {
	d.hub.close(ctx)
	d.mu.Lock()
	d.closed = true
	members := d.members
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
	for _, m := range members {
		m.close()
	}
}

// member gives the member with that alias, or nil.
func (d *domain) member(alias string) *member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byAlias[alias]
}

// all gives the members in the order of their registration. The slice is not to
// be changed.
func (d *domain) all() []*member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.members
}

// at gives the members behind an endpoint's alias: one, or all when it is empty.
func (d *domain) at(alias string) []*member {
	if alias == "" {
		return d.all()
	}
	if m := d.member(alias); m != nil {
		return []*member{m}
	}
	return nil
}

// tenant gives the current snapshot.
func (d *domain) tenant() *tenant.Tenant {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.snap
}
