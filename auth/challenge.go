package auth

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// refuse makes the answer to a refused request and counts it. The challenge names
// all scopes that the request needs at once: those of the tenant, of the endpoint,
// and more (2026-07-28, basic/authorization, Scope Selection Strategy).
func (a *Authenticator) refuse(req *Request, why reason, more ...string) *Refusal {
	a.metrics.count(why)
	status, code, description := why.answer()
	r := &Refusal{Status: status, Reason: string(why)}
	switch why {
	case reasonRate, reasonUnavailable:
		r.RetryAfter = time.Second
	default:
		r.Challenge = challenge(req, code, description, needed(req.Tenant.Auth.Scopes, req.Scopes, req.Wanted, more))
	}
	return r
}

// InsufficientScope makes the answer to a request whose caller lacks scopes for what
// it asks for (403; 2026-07-28, basic/authorization, Scope Challenge Handling): a
// challenge with these and all others that the request needs. It counts as a failure.
func (a *Authenticator) InsufficientScope(t *tenant.Tenant, req *Request, missing []string) *Refusal {
	of := *req
	of.Tenant = t
	return a.refuse(&of, reasonScope, missing...)
}

// challenge gives the value of WWW-Authenticate. Where a tenant takes API keys only
// there is no metadata to point to.
func challenge(req *Request, code, description string, scopes []string) string {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, name+"="+quote(value))
		}
	}
	add("error", code)
	add("error_description", description)
	if req.Tenant.Auth.Mode == tenant.AuthOAuth {
		add("resource_metadata", req.Metadata)
	}
	add("scope", strings.Join(scopes, " "))
	if len(params) == 0 {
		return "Bearer"
	}
	return "Bearer " + strings.Join(params, ", ")
}

// quote gives s as a quoted string (RFC 9110, section 5.6.4), without what may not be
// in a header.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case ' ' <= c && c <= '~':
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// needed gives the scopes of all lists, each once, in their order. offline_access is
// never needed by a resource, and what is no scope is left out.
func needed(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		for _, s := range list {
			if isScope(s) && s != "offline_access" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// isScope tells whether s is one scope (RFC 6749, section 3.3).
func isScope(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// metadata is the document of RFC 9728, section 2.
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
}

// Metadata gives the metadata of an endpoint (RFC 9728) whose canonical URI is
// resource and which needs scopes besides the tenant's: JSON, the same for all
// callers. It lists no more scopes than any use needs. It is nil for a tenant that
// takes no access tokens, whose endpoints have none.
func Metadata(t *tenant.Tenant, resource string, scopes ...string) []byte {
	if t.Auth.Mode != tenant.AuthOAuth {
		return nil
	}
	m := metadata{
		Resource: resource, AuthorizationServers: []string{},
		ScopesSupported: needed(t.Auth.Scopes, scopes), BearerMethods: []string{"header"},
	}
	for i := range t.Auth.Issuers {
		if is := t.Auth.Issuers[i].Issuer; !slices.Contains(m.AuthorizationServers, is) {
			m.AuthorizationServers = append(m.AuthorizationServers, is)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings always encode
	}
	return raw
}
