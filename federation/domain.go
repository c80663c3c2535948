package federation

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/policy"
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
	alone  [1]*member   // the member itself
	lane   *lane        // of a member for one user; nil for those that all share
	calls  atomic.Int64 // requests that may change something, counted when they begin and end

	refusals refusals
	quota    *quota // nil where it has no limits

	life    sync.Mutex
	retired bool // has no series any more
}

// begin makes the member ready.
func (m *member) begin() {
	m.alone[0] = m
	for k := range m.slots {
		m.slots[k] = slot{member: m, kind: kind(k)}
	}
}

// newMember makes the member and its client.
func newMember(d *domain, t *tenant.Tenant, conf tenant.Upstream) *member {
	m := &member{domain: d, conf: conf}
	m.begin()
	if conf.Limits != (tenant.Quota{}) {
		m.quota = newQuota(d, ofUpstream, cache.Scope{Tenant: d.name, Upstream: conf.Alias}, "upstream")
	}
	m.doer = d.fed.opts.Connect(upstream.Config{
		Tenant:         d.name,
		Alias:          conf.Alias,
		URL:            conf.URL,
		Process:        process(&conf),
		Checked:        conf.ManagedBy != tenant.ManagedByFile,
		Era:            upstream.Era(conf.Era),
		ConnectTimeout: conf.Timeouts.Connect,
		CallTimeout:    conf.Timeouts.Call,
		CallMax:        conf.Timeouts.CallMax,
		MaxInFlight:    conf.InFlight,
		Credentials:    d.fed.credentials(t, &conf, nil),
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
	return cache.Topic{Tenant: m.domain.name, Upstream: m.scope(), Version: m.conf.Version, Method: method}
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
}

// retire drops the member's series, and sees to it that what is still under way
// does not bring them back. It comes before another member of its alias is made.
func (m *member) retire() {
	m.life.Lock()
	defer m.life.Unlock()
	m.retired = true
	m.domain.fed.metrics.forget(m)
}

// counted notes the size of one of the member's lists.
func (m *member) counted(seg *segment) {
	if m.lane != nil {
		return // it is the size of one user's list
	}
	m.life.Lock()
	defer m.life.Unlock()
	if m.retired {
		return
	}
	m.domain.fed.metrics.items(m, seg.kind, len(seg.items))
	if seg.kind == kindTools {
		tokens := 0
		for _, it := range seg.items {
			tokens += estimateTokens(it.raw)
		}
		m.domain.fed.metrics.defined(m, tokens)
	}
}

// domain is one tenant at run time.
type domain struct {
	fed  *Federation
	name string
	log  *slog.Logger
	hub  *hub

	tools toolIndex
	lanes lanes

	faults faults
	used   atomic.Int64 // when it was last used, in Unix nanoseconds
	held   atomic.Int64 // who uses it now: it is not idle
	busy   atomic.Int64 // requests under way, where the tenant has no limit of its own

	quota      *quota
	quotas     toolsetQuotas
	principals principals

	roster   atomic.Pointer[roster]
	unfollow func() // ends what follow began

	ctx    context.Context // ends when the domain is closed
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.RWMutex
	closed bool // no work begins any more
}

// newDomain loads a tenant.
func newDomain(f *Federation, t *tenant.Tenant, program *policy.Program) *domain {
	d := &domain{fed: f, name: t.Name, log: f.log.With("tenant", t.Name)}
	//nolint:gosec // the cancel function is kept and called by close
	d.ctx, d.cancel = context.WithCancel(f.ctx)
	d.quota = newQuota(d, ofTenant, cache.Scope{Tenant: d.name}, "tenant")
	d.hub = newHub(d)
	d.tools.domain, d.tools.of = d, d.current
	d.roster.Store(newRoster(d, t, program, nil))
	d.follow()
	return d
}

// current gives what the tenant consists of now.
func (d *domain) current() *roster { return d.roster.Load() }

// configure takes a new snapshot. Calls come one after the other.
func (d *domain) configure(t *tenant.Tenant, program *policy.Program) {
	old := d.current()
	next := newRoster(d, t, program, old)
	gone := old.without(next)
	for _, m := range gone {
		m.retire()
	}
	if !d.hub.reconfigure(next) {
		gone = next.without(old) // the domain is closed
	}
	lanes := d.keepLanes(d.current())
	closeAll(gone)
	forgetAll(append(gone, lanes...))
}

// closeAll lets the clients of members go side by side, since a stubborn program
// takes seconds to end.
func closeAll(members []*member) {
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(m.close)
	}
	wg.Wait()
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

// close ends all that the domain does, and waits for it.
func (d *domain) close() {
	d.unfollow()
	d.hub.close()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.work.Wait()
	closeAll(d.current().members)
}
