package gateway

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// publicURL is the URL that clients know the gateway by, in the form in which URIs of
// resources are compared (RFC 8707; 2026-07-28, basic/authorization, Canonical Server
// URI). It never comes from a request.
type publicURL struct {
	origin string // with a small scheme and host, without a default port; empty where there is none
	path   string // below which the endpoints are; without a slash at its end
}

// newPublicURL reads a URL that was validated; it may be empty.
func newPublicURL(s string) publicURL {
	u, err := url.Parse(s)
	if err != nil {
		return publicURL{}
	}
	origin, err := parseOrigin(s)
	if err != nil {
		return publicURL{}
	}
	return publicURL{origin: origin, path: strings.TrimRight(u.EscapedPath(), "/")}
}

// resource gives the canonical URI of the endpoint at path.
func (p *publicURL) resource(path string) string { return p.origin + p.path + path }

// metadata gives the URL of that endpoint's metadata (RFC 9728, section 3.1).
func (p *publicURL) metadata(path string) string { return p.origin + pathMetadata + p.path + path }

// publicOf gives the URL that clients know a host by: a tenant's, or else the gateway's.
func (e *edge) publicOf(of *host) *publicURL {
	if of != nil {
		return &of.public
	}
	return &e.public
}

// anybody tells whether a tenant's callers need not say who they are.
func anybody(t *tenant.Tenant) bool { return t.Auth.Mode == "" || t.Auth.Mode == tenant.AuthNone }

// authenticate finds out who sends the request, before anything of its body is read
// (2026-07-28, basic/authorization, Token Handling).
func (x *exchange) authenticate(t *tenant.Tenant) error {
	e, public := x.edge, x.edge.publicOf(x.host)
	x.asked = auth.Request{Tenant: t, Wanted: scopesOf(t, x.at), HTTP: x.r}
	if anybody(t) {
		if !e.open {
			return refuse(http.StatusForbidden, classAuthentication,
				"Forbidden: this tenant has no authentication, and other machines can reach the gateway")
		}
		return nil
	}
	if public.origin == "" && t.Auth.Mode == tenant.AuthOAuth {
		return fmt.Errorf("tenant %s takes access tokens, which are for a resource below the public URL, and there is none", t.Name)
	}
	x.asked.Resource, x.asked.Metadata, x.asked.Source = public.resource(x.path), public.metadata(x.path), x.source()
	who, err := e.auth.Authenticate(x.r.Context(), &x.asked)
	if err != nil {
		return err
	}
	x.caller, x.who = who.Principal, who
	return nil
}

// lacking gives the challenge for a request that needs scopes which its caller lacks.
func (x *exchange) lacking(needed []string) string {
	if x.edge.auth == nil || x.asked.Tenant == nil {
		return ""
	}
	return x.edge.auth.Lacking(&x.asked, x.who, needed).Challenge
}

// newCall makes what the federation is asked on behalf of the client.
func (x *exchange) newCall(req *mcp.Request) federation.Call {
	c := federation.Call{Endpoint: x.at, Principal: x.caller, Request: req, Header: x.r.Header}
	if x.legacy != nil {
		c.Session, c.NoHeaders = x.legacy.id, true
	}
	if x.passed != nil {
		c.Token, c.TokenExpires = x.passed.Token, x.passed.TokenExpires
	} else if c.Token = x.who.Token(x.r); c.Token != "" {
		c.TokenExpires = x.who.Expires
	}
	return c
}

// source gives the client's address; the zero Addr where it has none.
func (x *exchange) source() netip.Addr {
	addr, err := netip.ParseAddr(x.address())
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// classAuthentication is the error_type of requests whose sender may not go on. Why is
// told by causeway_auth_failures_total.
const classAuthentication = "authentication"

// unauthenticated tells what becomes of a request whose sender may not go on.
func unauthenticated(r *auth.Refusal) failure {
	f := failure{status: r.Status, errorType: classAuthentication}
	f.rpc = mcp.Errorf(mcp.CodeInvalidRequest, "%s: %s", http.StatusText(r.Status), r.Text())
	if r.Challenge != "" {
		f.header = [2]string{"WWW-Authenticate", r.Challenge}
	} else if r.RetryAfter > 0 {
		f.header = retryAfter(r.RetryAfter)
	}
	return f
}
