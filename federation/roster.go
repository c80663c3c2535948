package federation

import (
	"maps"
	"slices"
	"sync"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// roster is what a tenant consists of under one snapshot of its registration, for all
// callers or for an audience. It does not change but for the views that are kept with
// it. A request uses one roster from its begin to its end, so that what it has found
// stays there.
type roster struct {
	*domain
	snap    *tenant.Tenant
	members []*member // in the order of registration; not to be changed
	byAlias map[string]*member
	views   views

	policy    *policy.Program // nil where there is none
	decisions *decisions      // nil where there is none
	perUser   bool            // some upstream is shown who calls
	exchanges bool            // and gets a token in exchange for the caller's
	forwards  []string        // the headers that are credentials of some upstream, sorted
	index     *toolIndex

	// base is the roster of all callers, itself perhaps; audiences are its others.
	base      *roster
	audiences audiences
	audience  audience
	caller    caller // one of the audience; the zero value in base
	// own is the roster of the same members from which nothing is hidden, itself
	// perhaps: names are given there.
	own *roster
}

// views are the latest view of each endpoint and kind.
type views struct {
	making sync.Mutex // held while a view is made

	mu   sync.RWMutex
	kept map[viewKey]*view
}

func (v *views) get(key viewKey) *view {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.kept[key]
}

// set keeps a view, and gives the one that it takes the place of; nil for none.
func (v *views) set(key viewKey, made *view) (before *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before = v.kept[key]
	v.kept[key] = made
	return before
}

// keepView keeps a view with the roster, which may be one of many.
func (d *roster) keepView(key viewKey, made *view) {
	before := d.views.set(key, made)
	if d.base.audiences.grew(d, made.size()-before.size()) {
		d.shed(d.fed.now())
	}
}

// newRoster makes the roster of a snapshot and its policy, which may be nil. Members
// whose configuration did not change since old, which may be nil, stay with all that
// is known of them.
func newRoster(d *domain, t *tenant.Tenant, program *policy.Program, old *roster) *roster {
	r := &roster{
		domain: d, snap: t, policy: program, index: &d.tools,
		members: make([]*member, 0, len(t.Upstreams)),
		byAlias: make(map[string]*member, len(t.Upstreams)),
		views:   views{kept: map[viewKey]*view{}},
	}
	r.base, r.own = r, r
	if program != nil {
		r.decisions = d.fed.metrics.decidedBy(d.name)
	}
	for _, conf := range t.Upstreams {
		var m *member
		if old != nil {
			m = old.byAlias[conf.Alias]
		}
		if m == nil || !m.serves(&conf) {
			m = newMember(d, t, conf)
		}
		r.add(m)
		r.perUser = r.perUser || conf.Auth.PerUser()
		r.exchanges = r.exchanges || conf.Auth.Mode == tenant.CredentialExchange
		r.forwards = append(r.forwards, canonical(conf.Auth.Forward)...)
	}
	slices.Sort(r.forwards)
	r.forwards = slices.Compact(r.forwards)
	return r
}

// serves tells whether the member is as a configuration wants it.
func (m *member) serves(conf *tenant.Upstream) bool {
	return m.conf.Version == conf.Version && m.conf.ManagedBy == conf.ManagedBy &&
		m.conf.Pinning == conf.Pinning && maps.Equal(m.conf.Pins, conf.Pins)
}

// has tells whether the member belongs to the roster.
func (d *roster) has(m *member) bool { return d.byAlias[m.conf.Alias] == m }

// without gives the members that another roster does not have.
func (d *roster) without(other *roster) []*member {
	return slices.DeleteFunc(slices.Clone(d.members), other.has)
}

// at gives the members behind an endpoint's alias: one, or all when it is empty.
func (d *roster) at(alias string) []*member {
	if alias == "" {
		return d.members
	}
	if m := d.byAlias[alias]; m != nil {
		return m.alone[:]
	}
	return nil
}
