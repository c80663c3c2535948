package broker

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/auth/lru"
	"github.com/causeway-mcp/causeway/auth/work"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Bounds of what is kept in memory of users. What goes is read from the vault again.
const (
	maxGrants  = 64 << 20 // bytes of what users of upstreams have let the gateway have
	maxClients = 32       // clients of one user of an upstream
	grantSize  = 2 << 10  // bytes that a user is counted with besides what servers and clients chose

	scopeBytes, consentBytes = 16, 64 // of each, besides its text
)

// userKey is one user at one upstream.
type userKey struct{ tenant, alias, issuer, subject string }

// signIns holds what users have let the gateway have, and has them asked for it.
type signIns struct {
	b     *Broker
	site  *site
	pages *pages
	work  *work.Group
	slots slots

	mu     sync.Mutex
	grants *lru.Cache[userKey, *grant]
}

func newSignIns(b *Broker) *signIns {
	return &signIns{
		b: b, site: newSite(b.opts.PublicURL), pages: newPages(), work: work.New(),
		grants: lru.New[userKey, *grant](maxGrants),
	}
}

// close waits for what is under way: a token that a server has given is kept.
func (in *signIns) close() { in.work.Close() }

func (in *signIns) now() time.Time { return in.b.now() }

// grant gives what one user has let the gateway have for an upstream.
func (in *signIns) grant(k userKey) *grant {
	in.mu.Lock()
	defer in.mu.Unlock()
	g, ok := in.grants.Get(k)
	if !ok {
		g = &grant{in: in, key: k, sources: lru.New[string, *userSource](maxClients)}
		in.grants.Put(k, g, grantSize)
	}
	return g
}

// weigh counts a user with all that is known of them.
func (in *signIns) weigh(g *grant, r *userRecord) {
	size := grantSize
	if t := r.token; t != nil {
		size += len(t.Access) + len(t.Refresh)
		for _, scope := range slices.Concat(t.Scopes, t.Asked) {
			size += len(scope) + scopeBytes
		}
	}
	for _, one := range r.consents.Clients {
		size += len(one.Client) + consentBytes
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if known, ok := in.grants.Get(g.key); ok && known == g {
		in.grants.Put(g.key, g, size)
	}
}

// forget has what is known of a user read anew, since it was just changed.
func (in *signIns) forget(k userKey) {
	in.mu.Lock()
	g, ok := in.grants.Get(k)
	in.mu.Unlock()
	if ok {
		g.forget()
	}
}

// registered is an upstream with its tenant.
type registered struct {
	t *tenant.Tenant
	u *tenant.Upstream
}

// userSource is what one client shows an upstream for its user. There is one for both,
// as long as it is used.
type userSource struct {
	g  *grant
	at atomic.Pointer[registered]
	// client is the one that the user has to have agreed to.
	client string
}

// userSource gives the source of a user for an upstream with CredentialUser.
func (b *Broker) userSource(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) *userSource {
	k := userKey{tenant: t.Name, alias: u.Alias}
	client := ""
	if who != nil {
		k.issuer, k.subject, client = who.Issuer, who.Subject, who.ClientID
	}
	g := b.signIns.grant(k)
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.sources.Get(client)
	if !ok {
		s = &userSource{g: g, client: client}
		g.sources.Put(client, s, 1)
	}
	if at := s.at.Load(); at == nil || at.t != t || at.u != u {
		s.at.Store(&registered{t, u})
	}
	return s
}

// Credential implements Source.
func (s *userSource) Credential(ctx context.Context) (http.Header, error) {
	at := s.at.Load()
	if s.g.key.issuer == "" {
		return nil, fmt.Errorf("%s needs to know its user: %w", at.u.Alias, errNobody)
	}
	access, err := s.g.access(ctx, at, s.client)
	var needs *needed
	switch {
	case errors.As(err, &needs):
		return nil, s.ask(at, needs)
	case err != nil:
		return nil, err
	}
	return bearerHeader(access), nil
}

// errScope is the code for a token that is not enough (RFC 6750, section 3.1).
const errScope = "insufficient_scope"

// Refused implements Source. After a 401 the token is refreshed, once; then its user is
// asked again. After a 403 for want of scopes the user is asked for these too
// (2026-07-28, basic/authorization, Scope Challenge Handling).
func (s *userSource) Refused(ctx context.Context, sent http.Header, status int, challenges []string) (bool, error) {
	at := s.at.Load()
	access := shownBy(sent)
	if access == "" {
		return false, nil
	}
	var again bool
	var err error
	switch status {
	case http.StatusUnauthorized:
		s.g.in.b.recheck(at.t, at.u, challenges)
		again, err = s.g.replace(ctx, at, access, challenges)
	case http.StatusForbidden:
		said := bearerOf(challenges)
		if said.Error != errScope || len(said.Scopes) == 0 {
			return false, nil
		}
		again, err = s.g.widen(ctx, at, access, said.Scopes)
	default:
		return false, nil
	}
	var needs *needed
	if errors.As(err, &needs) {
		return false, s.ask(at, needs)
	}
	return again, err
}

// needed is the error where a user has to do something first.
type needed struct {
	signIn bool     // at the upstream's server, also where there is a token
	scopes []string // that are wanted besides those of the registration
}

// Error tells what is missing.
func (n *needed) Error() string { return "the user has not let the gateway have a token" }

// ask gives the error that sends the user to the page.
func (s *userSource) ask(at *registered, n *needed) error {
	k := s.g.key
	if _, err := loginOf(at.t, k.issuer); err != nil {
		return fmt.Errorf("%s needs its user to sign in: %w", at.u.Alias, err)
	}
	url, err := s.g.in.link(&ticket{
		Tenant: k.tenant, Alias: k.alias, Issuer: k.issuer, Subject: k.subject, Client: s.client,
		Scopes: n.scopes, SignIn: n.signIn,
	})
	if err != nil {
		return fmt.Errorf("ask the user about %s: %w", at.u.Alias, err)
	}
	message := "To use " + at.u.Alias + ", let this application act for you there."
	switch {
	case len(n.scopes) > 0:
		message = "What you asked of " + at.u.Alias + " needs more permissions: sign in there again."
	case n.signIn:
		message = "To use " + at.u.Alias + ", sign in there."
	}
	return &ConsentError{URL: url, Message: message}
}

var (
	errNobody  = errors.New("the caller is no user of an issuer")
	errNoLogin = errors.New("its issuer has no login configured")
)

// loginOf gives the issuer of a tenant at which a user can sign in.
func loginOf(t *tenant.Tenant, issuer string) (*tenant.Issuer, error) {
	if issuer == "" {
		return nil, errNobody
	}
	at := slices.IndexFunc(t.Auth.Issuers, func(is tenant.Issuer) bool { return is.Issuer == issuer && is.Login != nil })
	if at < 0 {
		return nil, errNoLogin
	}
	return &t.Auth.Issuers[at], nil
}

// same compares secrets, and names that must be exactly equal.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
