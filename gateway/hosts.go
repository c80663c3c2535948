package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// host is a name that leads to one tenant.
type host struct {
	name   string
	tenant string
	public publicURL // that clients know
}

// claim is a tenant's wish for a name.
type claim struct {
	tenant *tenant.Tenant
	host   tenant.Host
}

// hosts knows which names lead to which tenants. Requests ask what is in memory alone.
type hosts struct {
	store tenant.Store // nil where there are none
	own   string       // the host of the gateway's own URL, which leads to all tenants
	taken string       // the origin of that URL
	log   *slog.Logger

	mu      sync.Mutex
	claims  map[string][]claim // by tenant
	refused map[string]string  // by name and tenant: what was logged
	served  atomic.Pointer[map[string]*host]
}

func newHosts(store tenant.Store, own, taken string, log *slog.Logger) *hosts {
	return &hosts{store: store, own: own, taken: taken, log: log, claims: map[string][]claim{}, refused: map[string]string{}}
}

// find gives the host that a Host header names; nil where that leads to no tenant of its
// own. X-Forwarded-Host and the like are not looked at: anybody can send them.
func (h *hosts) find(header string) *host {
	served := h.served.Load()
	if served == nil {
		return nil
	}
	return (*served)[strings.ToLower(strings.TrimSuffix(hostname(header), "."))]
}

// serves tells whether a host is still served as it was found.
func (h *hosts) serves(was *host) bool {
	now := h.find(was.name)
	return now != nil && *now == *was
}

// fill reads the hosts of all tenants. Changes that come meanwhile are told to update.
func (h *hosts) fill(ctx context.Context) error {
	if h.store == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	names, err := h.store.Names(ctx)
	if err != nil {
		return fmt.Errorf("read the hosts of tenants: %w", err)
	}
	for _, name := range names {
		h.read(ctx, name)
	}
	h.settle()
	return nil
}

// update reads the hosts of one tenant anew.
func (h *hosts) update(ctx context.Context, name string) {
	if h.store == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read(ctx, name) {
		h.settle()
	}
}

// read notes what a tenant claims, and tells whether it claims or claimed anything. What
// cannot be read stays as it was. The lock is held, so that what is read later counts.
func (h *hosts) read(ctx context.Context, name string) bool {
	t, err := h.store.Tenant(ctx, name)
	if err != nil && !errors.Is(err, tenant.ErrNotFound) {
		h.log.Error("read the hosts of a tenant", "tenant", name, "error", err)
		return false
	}
	had := len(h.claims[name]) > 0
	delete(h.claims, name)
	if err != nil || len(t.Hosts) == 0 {
		return had
	}
	for _, one := range t.Hosts {
		h.claims[name] = append(h.claims[name], claim{t, one})
	}
	return true
}

// settle decides who gets which name. Of several tenants it is one of the configuration
// file, else the one whose own name comes first. The origins of their URLs are given away
// alike: what begins with one is a resource of one tenant, whose tokens are no others'.
// The lock is held.
func (h *hosts) settle() {
	var all []claim
	for _, of := range h.claims {
		all = append(all, of...)
	}
	slices.SortStableFunc(all, func(a, b claim) int {
		return cmp.Or(cmp.Compare(ofFile(b.tenant), ofFile(a.tenant)), cmp.Compare(a.tenant.Name, b.tenant.Name))
	})
	served := make(map[string]*host, len(all))
	origins := map[string]string{} // whose they are
	refused := map[string]string{}
	for _, c := range all {
		one := &host{
			name:   strings.ToLower(strings.TrimSuffix(c.host.Name, ".")),
			tenant: c.tenant.Name, public: newPublicURL(c.host.URL),
		}
		why := ""
		switch first, owner := served[one.name], origins[one.public.origin]; {
		case h.own != "" && sameName(one.name, h.own), h.taken != "" && one.public.origin == h.taken:
			why = "it is that of publicURL, which leads to all tenants"
		case ofFile(c.tenant) == 0 && ofMachine(one.name):
			why = "it is an address, or this machine's own name, which is not a tenant's to give"
		case first != nil && first.tenant != one.tenant:
			why = "it leads to tenant " + first.tenant
		case owner != "" && owner != one.tenant:
			why = "its URL is one of tenant " + owner
		case first == nil:
			served[one.name], origins[one.public.origin] = one, one.tenant
		}
		if why == "" {
			continue
		}
		key := one.name + " " + one.tenant
		if refused[key] = why; h.refused[key] != why {
			h.log.Warn("a host of a tenant is not served", "host", one.name, "tenant", one.tenant, "reason", why)
		}
	}
	h.refused = refused
	if len(served) == 0 {
		h.served.Store(nil)
		return
	}
	h.served.Store(&served)
}

// ofMachine tells whether a name may be one by which a machine is reached whoever owns
// it: an address in whatever notation, as it ends in a number then, or a name that means
// the machine itself (RFC 6761, section 6.3).
func ofMachine(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if isLoopbackName(name) || last == "localhost" || strings.Contains(name, ":") {
		return true
	}
	hex, isHex := strings.CutPrefix(last, "0x")
	return strings.Trim(last, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == ""
}

// ofFile is 1 for a tenant of the configuration file, else 0.
func ofFile(t *tenant.Tenant) int {
	if t.ManagedBy == tenant.ManagedByFile {
		return 1
	}
	return 0
}
