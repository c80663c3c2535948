package federation

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Times after which principals that do nothing are forgotten.
const (
	principalIdle  = 5 * time.Second  // longer than what one has in store is good for
	principalSweep = 10 * time.Second // between two looks at all of them
)

// principals are those of a tenant's principals that have called lately. The number
// is bounded by the time for which one is remembered.
type principals struct {
	mu    sync.Mutex
	known map[principalID]*principal
	swept time.Time
}

// principalID is equal for one principal only. Those who are nobody in particular
// count as one.
type principalID struct{ issuer, subject, client string }

type principal struct {
	quota *quota
	calls int       // that hold it; guarded by principals, as is last
	last  time.Time // when it was released last
}

// hold gives what is kept of a principal. It is not forgotten before release.
func (p *principals) hold(d *domain, who *tenant.Principal) *principal {
	id := principalID{issuer: who.Issuer, subject: who.Subject}
	if id.subject == "" {
		id.client = who.ClientID
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.swept) >= principalSweep {
		p.sweep(now)
	}
	got := p.known[id]
	if got == nil {
		if p.known == nil {
			p.known = map[principalID]*principal{}
		}
		scope, counter := id.counter(d.name)
		got = &principal{quota: newQuota(d, ofPrincipal, scope, counter)}
		p.known[id] = got
	}
	got.calls++
	return got
}

func (p *principals) release(who *principal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	who.calls--
	who.last = time.Now()
}

// sweep forgets those who do nothing. The caller holds the lock.
func (p *principals) sweep(now time.Time) {
	p.swept = now
	left := map[principalID]*principal{} // since a map does not shrink
	for id, who := range p.known {
		if who.calls > 0 || now.Sub(who.last) < principalIdle || !who.quota.flight.idle() {
			left[id] = who
		}
	}
	p.known = left
}

// counter names a principal's counters, without telling who it is. Principals are
// spread over many scopes, so that those of a large tenant are not all in one place;
// an alias has no dot.
func (id principalID) counter(name string) (cache.Scope, string) {
	var b []byte
	for _, field := range []string{name, id.issuer, id.subject, id.client} {
		b = appendField(b, field)
	}
	sum := sha256.Sum256(b)
	text := hex.EncodeToString(sum[:16])
	return cache.Scope{Tenant: name, Upstream: "principal." + text[:2]}, "principal " + text
}
