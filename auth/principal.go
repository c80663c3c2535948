package auth

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// caller finds who a token is for by its claims, or why it is not to be used here: it
// has to be from the issuer, for the resource and the tenant, and valid now. Claims
// are those of a JWT, or an introspection answer, which has the same names (RFC 7662,
// section 2.2).
func (is *issuer) caller(req *Request, r *realm, c claims, now time.Time) (*Caller, reason) {
	expires, why := c.times(now)
	switch {
	case why != "":
		return nil, why
	case !is.forResource(c, req.Resource):
		return nil, reasonAudience
	case !is.forTenant(c):
		return nil, reasonTenant
	case c.has("cnf"):
		// RFC 8705 and RFC 9449: whoever shows the token must prove a key. That is
		// not checked here, so it is as good as stolen.
		return nil, reasonBound
	}
	subject, ok1 := c.text("sub")
	party := "client_id"
	if !c.has(party) {
		party = "azp"
	}
	client, ok2 := c.text(party)
	scopes, ok3 := c.scopes(is.ScopeClaim)
	groups, ok4 := is.groups(c)
	if !ok1 || !ok2 || !ok3 || !ok4 || subject == "" || len(subject) > maxSubject || len(client) > maxSubject {
		return nil, reasonClaims
	}
	return &Caller{
		Principal: tenant.Principal{
			Tenant: req.Tenant.Name, Issuer: is.Issuer.Issuer, Subject: subject, ClientID: client,
			Scopes: r.expand(scopes), Groups: groups,
		},
		Expires: expires, under: is.digest,
	}, ""
}

// forResource tells whether a token is for the endpoint (RFC 8707; 2026-07-28,
// basic/authorization, Token Handling).
func (is *issuer) forResource(c claims, resource string) bool {
	audiences, ok := c.texts("aud")
	return ok && slices.ContainsFunc(audiences, func(aud string) bool {
		return sameResource(aud, resource) || slices.Contains(is.Audiences, aud)
	})
}

// sameResource tells whether two URIs are equal but for the letter case of scheme and
// host, and for the path of an origin (2026-07-28, basic/authorization, Canonical
// Server URI). An empty one equals nothing.
func sameResource(a, b string) bool {
	if a == "" || a == b {
		return a != ""
	}
	return canonical(a) == canonical(b) && canonical(a) != ""
}

// canonical gives the canonical form of a resource's URI; empty for what is none.
func canonical(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || strings.Contains(s, "#") {
		return ""
	}
	// Behind the authority everything is compared as it is written.
	_, rest, _ := strings.Cut(s, "//")
	rest = rest[min(len(u.Host), len(rest)):]
	if rest == "/" {
		rest = ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host) + rest
}

// forTenant tells whether the tenant claim is right, where one is configured.
func (is *issuer) forTenant(c claims) bool {
	if is.TenantClaim == "" {
		return true
	}
	values, ok := textsOf(c.at(is.TenantClaim))
	return ok && slices.Contains(values, is.of)
}

// groups gives the groups, sorted, each once.
func (is *issuer) groups(c claims) ([]string, bool) {
	if is.GroupsClaim == "" {
		return nil, true
	}
	groups, ok := textsOf(c.at(is.GroupsClaim))
	return sorted(groups), ok
}

// sorted gives a copy of a list, sorted, each item once.
func sorted(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}
