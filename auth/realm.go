package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// maxRealms bounds how many tenants are kept ready; the least recently used go first.
const maxRealms = 1 << 12

// digest is a SHA-256.
type digest [sha256.Size]byte

// digestOf gives the digest of a configuration.
func digestOf(parts ...any) digest {
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(err) // no part of a tenant.Auth can fail to encode
	}
	return sha256.Sum256(raw)
}

// realm is what a tenant says about its callers, made ready.
type realm struct {
	from    *tenant.Tenant
	digest  digest // of all of Auth
	issuers []*issuer
	opaque  *issuer             // who is asked about tokens that are no JWTs; nil for nobody
	implied map[string][]string // all that a scope stands for, directly or not, itself included
	epoch   uint64              // keys that were looked up in an earlier one are looked up again
}

// issuer is one issuer of a realm.
type issuer struct {
	tenant.Issuer
	digest     digest // of all that a verdict on its tokens depends on
	of         string // what the tenant claim must hold
	algorithms []string
	server     *server
}

// algorithms gives the signatures that may be accepted at all, the default ones
// first. None of them is symmetric.
func algorithms() (all []string, defaults int) {
	return []string{"RS256", "PS256", "ES256", "ES384", "EdDSA", "RS384", "RS512", "PS384", "PS512", "ES512"}, 5
}

// realm gives a tenant's realm, and makes it when the registration is a new one.
func (a *Authenticator) realm(t *tenant.Tenant) *realm {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.realms.Get(t.Name)
	if ok && old.from == t {
		return old
	}
	r := &realm{from: t, digest: digestOf(t.Auth), implied: closure(t.Auth.Implies)}
	switch {
	case ok:
		r.epoch = old.epoch
	default:
		a.epochs++
		r.epoch = a.epochs
	}
	asked := 0
	for _, conf := range t.Auth.Issuers {
		is := &issuer{
			Issuer: conf, digest: digestOf(conf, t.Auth.Implies, t.Name), of: cmp.Or(conf.TenantValue, t.Name),
			algorithms: accepted(conf.Algorithms), server: a.server(conf),
		}
		r.issuers = append(r.issuers, is)
		if conf.Introspection != nil {
			r.opaque = is
			asked++
		}
	}
	if asked > 1 {
		r.opaque = nil
		a.log.Error("several issuers of a tenant are configured for introspection: none is asked", "tenant", t.Name)
	}
	a.realms.Put(t.Name, r, 1)
	return r
}

// Forget makes the next requests with API keys of a tenant read them anew. It is for
// a change of the tenant or its keys; without it a change holds within 5 seconds.
func (a *Authenticator) Forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.realms.Get(name)
	if !ok {
		return
	}
	next := *old
	a.epochs++
	next.epoch = a.epochs
	a.realms.Put(name, &next, 1)
}

// accepted gives the algorithms that an issuer may use. What may never be accepted is
// left out, whatever the configuration says.
func accepted(configured []string) []string {
	all, defaults := algorithms()
	if len(configured) == 0 {
		return all[:defaults]
	}
	return slices.DeleteFunc(all, func(alg string) bool { return !slices.Contains(configured, alg) })
}

// closure gives all that each scope stands for.
func closure(implies map[string][]string) map[string][]string {
	all := make(map[string][]string, len(implies))
	for scope := range implies {
		found := []string{scope}
		for i := 0; i < len(found); i++ {
			for _, s := range implies[found[i]] {
				if !slices.Contains(found, s) {
					found = append(found, s)
				}
			}
		}
		all[scope] = found
	}
	return all
}

// expand gives scopes with all that they imply, sorted, each once.
func (r *realm) expand(scopes []string) []string {
	var all []string
	for _, s := range scopes {
		if more, ok := r.implied[s]; ok {
			all = append(all, more...)
		} else {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lacks tells whether a caller, whose scopes are sorted, lacks one of those that a
// request needs.
func lacks(c *Caller, lists ...[]string) bool {
	for _, list := range lists {
		for _, s := range list {
			if s == "offline_access" {
				continue
			}
			if _, ok := slices.BinarySearch(c.Principal.Scopes, s); !ok {
				return true
			}
		}
	}
	return false
}
