package federation

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// caller is who asks, as far as what a tenant shows depends on it.
type caller struct {
	who     *tenant.Principal
	toolset string
	header  http.Header // as received
}

// callerOf gives who sends a call.
func callerOf(c *Call) caller {
	return caller{who: &c.Principal, toolset: c.Endpoint.Toolset, header: c.Header}
}

// audience is a class of callers to whom a tenant shows the same. The zero value is
// that of all callers from whom nothing is hidden, and who share the gateway's
// credentials.
type audience struct {
	hidden  bool   // something may be hidden from them, or refused
	toolset string // of the endpoint, where something is hidden
	facts   string // what policy reads of a principal
	user    string // the principal's key, where upstreams are shown who calls, or that of its token
	headers string // a digest of the headers that are forwarded as credentials
}

// audienceOf gives the class that a caller belongs to.
func (d *roster) audienceOf(c caller) (a audience) {
	switch {
	case d.exchanges:
		a.user = c.who.GrantKey()
	case d.perUser:
		a.user = c.who.Key()
	}
	if len(d.forwards) > 0 {
		a.headers = digestOf(d.forwards, c.header)
	}
	if d.policy != nil && (c.toolset != "" || d.policy.Restricts("")) {
		a.hidden, a.toolset, a.facts = true, c.toolset, d.policy.Facts(c.who, c.toolset)
	}
	return a
}

// digestOf gives a digest of named header lines; empty when none is there.
func digestOf(names []string, header http.Header) string {
	var b []byte
	for _, name := range names {
		for _, value := range header[name] {
			b = appendField(appendField(b, name), value)
		}
	}
	if b == nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// seenBy gives the roster as a caller sees it: without what policy hides, and with
// the members that are the caller's own.
func (d *roster) seenBy(c caller) *roster {
	base := d.base
	a := base.audienceOf(c)
	if a == (audience{}) {
		return base
	}
	return base.seenAs(a, c)
}

// seenAs is seenBy for a known audience.
func (d *roster) seenAs(a audience, c caller) *roster {
	now := d.fed.now()
	if kept := d.audiences.get(a, now); kept != nil {
		return kept
	}
	own := d
	if a.user != "" || a.headers != "" {
		all := audience{user: a.user, headers: a.headers}
		if a.hidden {
			own = d.seenAs(all, c)
		} else {
			own = nil
		}
	}
	kept, crowded := d.audiences.put(a, d.derive(a, c, own), now)
	if crowded {
		d.shed(now)
	}
	return kept
}

// derive makes the roster of an audience. own is the one with the same members from
// which nothing is hidden; nil when this is to be it.
func (d *roster) derive(a audience, c caller, own *roster) *roster {
	who := *c.who
	r := &roster{
		domain: d.domain, snap: d.snap, policy: d.policy, decisions: d.decisions, perUser: d.perUser, exchanges: d.exchanges, forwards: d.forwards,
		base: d, own: own, audience: a, caller: caller{who: &who, toolset: c.toolset, header: pick(c.header, d.forwards)},
		byAlias: make(map[string]*member, len(d.members)),
		views:   views{kept: map[viewKey]*view{}},
	}
	if own == nil {
		r.own, r.index = r, &toolIndex{domain: d.domain, of: func() *roster { return r }}
		for _, m := range d.members {
			r.add(d.laneOf(m, r))
		}
		return r
	}
	r.index = own.index
	for _, m := range own.members {
		if r.mayUse(m) {
			r.add(m)
		}
	}
	return r
}

// pick gives those header lines that are named; nil where there are none.
func pick(header http.Header, names []string) http.Header {
	var out http.Header
	for _, name := range names {
		if values := header[name]; len(values) > 0 {
			if out == nil {
				out = http.Header{}
			}
			out[name] = slices.Clone(values)
		}
	}
	return out
}

func (d *roster) add(m *member) {
	d.members = append(d.members, m)
	d.byAlias[m.conf.Alias] = m
}

// outdated tells whether the registration is another one by now.
func (d *roster) outdated() bool { return d.current() != d.base }

// renewed gives the roster of the same caller under the registration as it is now.
func (d *roster) renewed() *roster {
	if d.caller.who == nil {
		return d.current()
	}
	return d.current().seenBy(d.caller)
}

// varies tells whether what the endpoint shows depends on who asks, whoever that is now:
// one who is nobody in particular, or shows no header, is no measure for the others.
func (d *roster) varies() bool { return d.perUser || len(d.forwards) > 0 || d.sorts() }

// sorts tells whether policy hides from one caller of the endpoint what it shows
// another.
func (d *roster) sorts() bool { return d.audience.hidden && d.policy.Varies(d.audience.toolset) }

// differs tells whether who may have an answer of a member depends on who asks.
func (d *roster) differs(m *member) bool { return m.lane != nil || d.sorts() }

// Bounds of the audiences that are kept of one tenant: when there are more, those that
// were not used for the longest time make room.
const (
	maxAudiences = 10_000
	maxHeaders   = 64 << 20  // bytes of the header lines that they show upstreams
	maxViews     = 512 << 20 // bytes of what they are shown
)

// audiences keeps the rosters of a base roster's audiences. What is dropped is made
// anew when it is asked for.
type audiences struct {
	mu   sync.RWMutex
	kept map[audience]*seen
	// Of all of them, in bytes.
	headers, views int
}

// seen is a roster with the time when it was last used, in Unix nanoseconds.
type seen struct {
	roster         *roster
	headers, views int // its own, in bytes
	used           atomic.Int64
	under          *seen // of the same members, from which nothing is hidden; nil for none
}

// use notes that the roster is used, and with it the one that it is made of.
func (s *seen) use(now time.Time) {
	s.used.Store(now.UnixNano())
	if s.under != nil {
		s.under.used.Store(now.UnixNano())
	}
}

// sizeOf gives the size of header lines in bytes.
func sizeOf(header http.Header) int {
	size := 0
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

func (s *audiences) get(a audience, now time.Time) *roster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	kept := s.kept[a]
	if kept == nil {
		return nil
	}
	kept.use(now)
	return kept.roster
}

// put keeps a roster, unless there is one by now, and gives the one that is kept.
// crowded tells that others had to make room.
func (s *audiences) put(a audience, r *roster, now time.Time) (_ *roster, crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.kept[a]; kept != nil {
		return kept.roster, false
	}
	if s.kept == nil {
		s.kept = map[audience]*seen{}
	}
	made := &seen{roster: r, headers: sizeOf(r.caller.header)}
	for len(s.kept) > 0 && (len(s.kept) >= maxAudiences || s.headers+made.headers > maxHeaders) {
		s.makeRoom()
		crowded = true
	}
	s.headers += made.headers
	if r.own != nil && r.own != r {
		made.under = s.kept[r.own.audience]
	}
	made.use(now)
	s.kept[a] = made
	return r, crowded
}

// grew counts that a roster's views have grown by some bytes, which may be less than 0.
// crowded tells that audiences had to make room.
func (s *audiences) grew(r *roster, by int) (crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.kept[r.audience]
	if kept == nil || kept.roster != r {
		return false // it was dropped, or is that of all callers
	}
	kept.views += by
	s.views += by
	for len(s.kept) > 1 && s.views > maxViews {
		s.makeRoom()
		crowded = true
	}
	return crowded
}

// makeRoom drops the eighth that was not used for the longest time. The caller holds
// the lock.
func (s *audiences) makeRoom() {
	times := make([]int64, 0, len(s.kept))
	for _, kept := range s.kept {
		times = append(times, kept.used.Load())
	}
	slices.Sort(times)
	s.drop(times[len(times)/8])
}

// drop forgets what was last used at a time or before. The caller holds the lock.
func (s *audiences) drop(before int64) {
	for a, kept := range s.kept {
		if kept.used.Load() <= before {
			s.headers -= kept.headers
			s.views -= kept.views
			delete(s.kept, a)
		}
	}
}

// prune forgets what was not used since a time, and gives the members of the others.
func (s *audiences) prune(before time.Time) map[*member]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(before.UnixNano())
	used := map[*member]bool{}
	for _, kept := range s.kept {
		for _, m := range kept.roster.members {
			used[m] = true
		}
	}
	return used
}
