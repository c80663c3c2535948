package federation

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Quotas bound what a tenant, each of its principals, its toolsets and its
// upstreams use over all replicas. For InFlight every request counts from its begin
// to its answer, with the lists and server/discover, but not listen streams, nor
// calls while they are parked; for an upstream only those requests count that are
// sent to it. For CallsPerMinute those count that go to an upstream: tools/call,
// prompts/get, resources/read that is not answered from the cache,
// completion/complete, the methods of tasks, and what passes through; one that the
// gateway repeats counts once, and what it asks for itself does not count. The tools
// that find tools do not, but what call_tool calls does.
//
// Replicas share limits by leases of cache.Counters, so that a call costs no round
// trip: see inFlight and rate, also for what the bounds are exactly. Where a limit is
// not set the default for requests under way holds, of this replica alone.

// quotaOf says whose a quota is.
type quotaOf uint8

const (
	ofTenant quotaOf = iota
	ofPrincipal
	ofToolset
	ofUpstream
)

// whose names the owner in errors.
func (o quotaOf) whose() string {
	return [...]string{"tenant", "user", "toolset", "upstream"}[o]
}

// label gives the value of the label quota of causeway_quota_rejections_total.
func (o quotaOf) label(what string) string {
	return [...]string{"", "principal_", "toolset_", "upstream_"}[o] + what
}

// counting is how this process counts.
type counting struct {
	shared cache.Counters // nil where this process is alone
	// alone counts in this process: where it is alone, and while shared fails.
	alone  *cache.MemoryShared
	closed bool // refuse what is not leased while shared fails
	name   string
	last   atomic.Int64
}

func newCounting(o *Options) *counting {
	n := &counting{shared: o.Counters, alone: cache.NewShared(), closed: o.QuotaFailClosed, name: rand.Text()[:12]}
	if o.Cluster != nil {
		n.name = o.Cluster.Replica
	}
	return n
}

// holder gives a name that no other quota of any replica has. Two of one replica may
// be of the same scope, when its registration changes or the tenant is loaded anew.
func (n *counting) holder() string { return n.name + "#" + strconv.FormatInt(n.last.Add(1), 36) }

// quota is the use of one scope by this replica.
type quota struct {
	of     quotaOf
	flight inFlight
	rate   rate
}

// newQuota makes a quota. Those of one scope and counter are shared by all replicas.
func newQuota(d *domain, of quotaOf, s cache.Scope, counter string) *quota {
	u := usage{domain: d, counting: d.fed.counting, scope: s, counter: counter}
	return &quota{
		of:     of,
		flight: inFlight{usage: u, holder: u.counting.holder(), poke: make(chan struct{}, 1)},
		rate:   rate{usage: u},
	}
}

// toolsetQuotas are the use of a tenant's toolsets.
type toolsetQuotas struct {
	mu   sync.Mutex
	kept map[string]*quota
}

// of gives that of one.
func (q *toolsetQuotas) of(d *domain, name string) *quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.kept[name]
	if kept == nil {
		if q.kept == nil {
			q.kept = map[string]*quota{}
		}
		kept = newQuota(d, ofToolset, cache.Scope{Tenant: d.name}, "toolset "+name)
		q.kept[name] = kept
	}
	return kept
}

// usage is what an inFlight and a rate have in common.
type usage struct {
	domain   *domain
	counting *counting
	scope    cache.Scope
	counter  string
}

// countersWait bounds a round trip to counters that do not bound it themselves.
const countersWait = 250 * time.Millisecond

// errUsedUp tells that a limit is reached.
var errUsedUp = errors.New("used up")

// bound is a quota with the limits that it has for one request.
type bound struct {
	*quota
	limits  tenant.Quota
	inside  bool      // the request counts as under way
	expires time.Time // of the token that it took
}

// enter counts a request as under way until leave.
func (b *bound) enter(ctx context.Context) error {
	if b.limits.InFlight <= 0 {
		return nil
	}
	err := b.flight.enter(ctx, int64(b.limits.InFlight))
	if err == errUsedUp {
		return b.refuse("in_flight", "too many requests of this "+b.of.whose()+" are under way", time.Second)
	}
	b.inside = err == nil
	return err
}

// leave ends what enter began.
func (b *bound) leave() {
	if b.inside {
		b.inside = false
		b.flight.leave()
	}
}

// spend counts a call.
func (b *bound) spend(ctx context.Context) error {
	if b.limits.CallsPerMinute <= 0 {
		return nil
	}
	expires, wait, err := b.rate.take(ctx, int64(b.limits.CallsPerMinute))
	if err == errUsedUp {
		return b.refuse("calls_per_minute", "too many calls of this "+b.of.whose(), wait)
	}
	b.expires = expires
	return err
}

// refuse makes the error for a request over the quota.
func (b *bound) refuse(what, message string, after time.Duration) *mcp.Error {
	d := b.flight.domain
	d.fed.metrics.rejected(d.name, b.of.label(what))
	return overQuota(message, after)
}

// enterAll counts a request as under way in all bounds, or in none.
func enterAll(ctx context.Context, bounds []bound) error {
	for i := range bounds {
		if err := bounds[i].enter(ctx); err != nil {
			leaveAll(bounds[:i])
			return err
		}
	}
	return nil
}

func leaveAll(bounds []bound) {
	for i := range bounds {
		bounds[i].leave()
	}
}

// spendAll counts a call in all bounds, or in none: the quota of one scope does not
// pay for what another refuses.
func spendAll(ctx context.Context, bounds []bound) error {
	for i := range bounds {
		if err := bounds[i].spend(ctx); err != nil {
			for j := range bounds[:i] {
				bounds[j].rate.giveBack(bounds[j].expires)
			}
			return err
		}
	}
	return nil
}

// admission is a request that was let in.
type admission struct {
	domain *domain
	busy   bool // counted among the domain's
	user   *principal
}

// admit counts a request as under way for its tenant, principal and toolset, as far
// as they have limits. leave ends that.
func (d *roster) admit(ctx context.Context, c *Call) (admission, error) {
	limits := &d.snap.Limits
	a := admission{domain: d.domain}
	c.bounds = nil
	if limits.InFlight <= 0 {
		if d.busy.Add(1) > int64(d.fed.opts.Limits.InFlight) {
			d.busy.Add(-1)
			d.fed.metrics.rejected(d.name, ofTenant.label("in_flight"))
			return a, overQuota("too many requests of this tenant are under way", time.Second)
		}
		a.busy = true
	}
	var none tenant.Quota
	set := d.toolset(c.Endpoint.Toolset)
	if limits.Quota == none && limits.Principal == none && (set == nil || set.Limits == none) {
		return a, nil
	}
	// The narrowest comes first: what one user may not do is none of the others'
	// business.
	if limits.Principal != none {
		a.user = d.principals.hold(d.domain, &c.Principal)
		c.bounds = append(c.bounds, bound{quota: a.user.quota, limits: limits.Principal})
	}
	if set != nil && set.Limits != none {
		c.bounds = append(c.bounds, bound{quota: d.quotas.of(d.domain, set.Name), limits: set.Limits})
	}
	if limits.Quota != none {
		c.bounds = append(c.bounds, bound{quota: d.quota, limits: limits.Quota})
	}
	if err := enterAll(ctx, c.bounds); err != nil {
		c.bounds = nil
		a.leave(c)
		return admission{}, err
	}
	return a, nil
}

// leave ends what admit began.
func (a *admission) leave(c *Call) {
	leaveAll(c.bounds)
	c.bounds = nil
	if a.user != nil {
		a.domain.principals.release(a.user)
	}
	if a.busy {
		a.domain.busy.Add(-1)
	}
}

// admit counts the exchange as a call, and as under way at its upstream until leave.
func (x *exchange) admit(ctx context.Context) error {
	m := x.target.member
	bounds := x.call.bounds
	if m.quota != nil {
		x.upstream = bound{quota: m.quota, limits: m.conf.Limits}
		if err := x.upstream.enter(ctx); err != nil {
			return x.failed(ctx, err)
		}
		bounds = append(bounds[:len(bounds):len(bounds)], x.upstream)
	}
	if err := spendAll(ctx, bounds); err != nil {
		x.leave()
		return x.failed(ctx, err)
	}
	return nil
}

// leave ends what admit began.
func (x *exchange) leave() { x.upstream.leave() }
