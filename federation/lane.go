package federation

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// A lane is a member for one user of an upstream that is shown who calls: it has lists
// and a listen stream of its own, and shares the client of the upstream with the
// member that it was made of.

// laneMark is between the alias and the name of a lane, where replicas name it. No
// alias has it.
const laneMark = "~"

// lanes are those of a tenant.
type lanes struct {
	mu   sync.Mutex
	kept map[laneKey]*member
}

type laneKey struct {
	parent *member
	name   string
}

// lane is what a member has that is for one user.
type lane struct {
	parent *member
	name   string
	source upstream.CredentialSource
	who    tenant.Principal // of an upstream that is shown who calls
	used   atomic.Int64     // when it was last looked for, in Unix nanoseconds
}

// laneOf gives the member in whose place a roster's caller uses m: m itself where all
// share one credential.
func (d *domain) laneOf(m *member, r *roster) *member {
	name := ""
	switch {
	case m.conf.Auth.Mode == tenant.CredentialExchange:
		name = r.caller.who.GrantKey()
	case m.conf.Auth.PerUser():
		name = r.caller.who.Key()
	case m.conf.Auth.Mode == tenant.CredentialForward:
		name = r.audience.headers
	}
	if name == "" {
		return m
	}
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	key := laneKey{m, name}
	l := d.lanes.kept[key]
	if l == nil {
		if d.lanes.kept == nil {
			d.lanes.kept = map[laneKey]*member{}
		}
		l = d.newLane(m, name, r)
		d.lanes.kept[key] = l
	}
	l.lane.used.Store(d.fed.now().UnixNano())
	return l
}

// newLane makes one.
func (d *domain) newLane(parent *member, name string, r *roster) *member {
	var source upstream.CredentialSource
	if parent.conf.Auth.PerUser() {
		source = d.fed.credentials(r.snap, &parent.conf, r.caller.who)
	} else {
		source = &forwarded{lines: pick(r.caller.header, canonical(parent.conf.Auth.Forward))}
	}
	m := &member{domain: d, conf: parent.conf, quota: parent.quota, lane: &lane{parent: parent, name: name, source: source, who: *r.caller.who}}
	m.doer = &laneDoer{Doer: parent.doer, source: source, name: name}
	m.begin()
	return m
}

// parent gives the member that a lane was made of; others are their own.
func (m *member) parent() *member {
	if m.lane != nil {
		return m.lane.parent
	}
	return m
}

// scope is what replicas call the member.
func (m *member) scope() string {
	if m.lane != nil {
		return m.conf.Alias + laneMark + m.lane.name
	}
	return m.conf.Alias
}

// memberAt gives the member that replicas call by a scope, under a version of its
// configuration; nil where this replica has none.
func (d *domain) memberAt(scope, version string) *member {
	alias, name, isLane := strings.Cut(scope, laneMark)
	m := d.current().byAlias[alias]
	if m == nil || m.conf.Version != version {
		return nil
	}
	if !isLane {
		return m
	}
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	return d.lanes.kept[laneKey{m, name}]
}

// prune drops the audiences and lanes that nobody has used since a time.
func (d *domain) prune(before time.Time) { d.drop(before, before) }

// settleTime is how long a lane may be without the audience that it is made for.
const settleTime = 2 * time.Second

// shed drops, a moment later, the lanes of audiences that had to make room: else whoever
// can have many names would have a lane kept for each.
func (d *domain) shed(now time.Time) {
	d.run(func(context.Context) { d.drop(time.Unix(0, 0), now.Add(-settleTime)) })
}

// withdrawn tells whether the user of a lane does not let the caller's client act for
// them, or not any more: then what was read for it is not given away either.
func (m *member) withdrawn(ctx context.Context) bool {
	if m.lane == nil || m.conf.Auth.Mode != tenant.CredentialUser {
		return false
	}
	_, err := m.lane.source.Credential(ctx)
	return err != nil
}

// drop drops the audiences that nobody has used since a time, and the lanes that nobody
// else uses and that were not looked for since another.
func (d *domain) drop(audiences, before time.Time) {
	d.hub.mu.Lock() // comes before the others
	defer d.hub.mu.Unlock()
	used := d.current().audiences.prune(audiences)
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	for key, m := range d.lanes.kept {
		if m.lane.used.Load() <= before.UnixNano() && !used[m] && d.hub.listeners[m] == nil {
			delete(d.lanes.kept, key)
		}
	}
}

// keepLanes drops the lanes of members that a roster does not have, and gives them.
func (d *domain) keepLanes(next *roster) (gone []*member) {
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	for key, m := range d.lanes.kept {
		if !next.has(key.parent) {
			delete(d.lanes.kept, key)
			gone = append(gone, m)
		}
	}
	return gone
}

// laneDoer sends requests with one user's credentials.
type laneDoer struct {
	upstream.Doer
	source upstream.CredentialSource
	name   string
}

// Do implements upstream.Doer. Requests of the gateway's own are for the user too: a
// handshake server answers them in a session that no other user has.
func (l *laneDoer) Do(ctx context.Context, req *upstream.Request) (upstream.Answer, error) {
	req.Credentials = l.source
	if req.Principal == "" {
		req.Principal = l.name
	}
	return l.Doer.Do(ctx, req)
}

// credentials gives what an upstream is shown; nil for nothing.
func (f *Federation) credentials(t *tenant.Tenant, conf *tenant.Upstream, who *tenant.Principal) upstream.CredentialSource {
	if conf.Auth.PerUser() && who == nil {
		return &nobody{}
	}
	if f.opts.Credentials == nil {
		return nil
	}
	return f.opts.Credentials(t, conf, who)
}

// nobody is the source of an upstream that is shown who calls, for callers who are
// nobody in particular.
type nobody struct{ _ byte }

var errNobody = errors.New("the upstream is shown who calls, and the caller is nobody in particular")

// Credential fails.
func (*nobody) Credential(context.Context) (http.Header, error) { return nil, errNobody }

// Refused fails, though nothing was sent.
func (*nobody) Refused(context.Context, http.Header, int, []string) (bool, error) {
	return false, errNobody
}

// forwarded is the source of an upstream that gets header lines of the client.
type forwarded struct{ lines http.Header }

// Credential gives the lines.
func (f *forwarded) Credential(context.Context) (http.Header, error) { return f.lines.Clone(), nil }

// Refused has nothing else to offer.
func (*forwarded) Refused(context.Context, http.Header, int, []string) (bool, error) {
	return false, nil
}

// canonical gives names of headers as a request has them.
func canonical(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = http.CanonicalHeaderKey(name)
	}
	return out
}

// Connected is told that a user has let the gateway act for them at an upstream, or does
// so no more: what was shown before that is read again, on all replicas.
func (f *Federation) Connected(ctx context.Context, name, alias string, who *tenant.Principal) {
	// What was kept for the user before the tenant went idle may be used again too.
	d, err := f.load(ctx, name)
	if err != nil {
		f.log.Warn("load the tenant of a user who has signed in", "tenant", name, "error", err)
		return
	}
	defer d.leave()
	m := d.current().byAlias[alias]
	if m == nil || who.Key() == "" {
		return
	}
	// What one client's user has signed in for is there for the user's other clients
	// too, where they may have it.
	for _, l := range d.lanesOf(m, who) {
		l.reconnected(ctx)
	}
	scope := m.conf.Alias + laneMark + who.Key()
	if d.memberAt(scope, m.conf.Version) != nil {
		return
	}
	reads := m.topic(mcp.MethodResourcesRead)
	reads.Upstream = scope
	if _, err := f.opts.Cache.Invalidate(ctx, reads, ""); err != nil {
		d.log.Warn("invalidate the cache", "upstream", alias, "method", reads.Method, "error", err)
	}
	if c := f.opts.Cluster; c != nil {
		for k := range kinds {
			topic := m.topic(k.method())
			topic.Upstream = scope
			if _, err := c.Lists.Invalidate(ctx, topic, ""); err != nil {
				d.log.Warn("invalidate the shared lists", "upstream", alias, "method", topic.Method, "error", err)
			}
		}
	}
}

// lanesOf gives the lanes of a user, of whichever client.
func (d *domain) lanesOf(parent *member, who *tenant.Principal) (all []*member) {
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	for key, l := range d.lanes.kept {
		if key.parent == parent && l.lane.who.Issuer == who.Issuer && l.lane.who.Subject == who.Subject {
			all = append(all, l)
		}
	}
	return all
}
