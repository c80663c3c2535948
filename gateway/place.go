package gateway

import (
	"strings"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// place is where a request has arrived.
type place struct {
	at   federation.Endpoint
	path string // of the endpoint, below the URL that clients know
	host *host  // that was asked; nil for one that leads to all tenants
}

// endpointAt gives the endpoint at a path of the gateway: /mcp, which is the tenant
// default's, and those of each tenant below /t/{tenant}.
func endpointAt(path string) (at federation.Endpoint, ok bool) {
	if path == "/mcp" {
		return federation.Endpoint{Tenant: tenant.DefaultName}, true
	}
	below, ok := strings.CutPrefix(path, "/t/")
	if !ok {
		return at, false
	}
	name, rest, ok := strings.Cut(below, "/")
	if !ok || name == "" {
		return at, false
	}
	return endpointOf(name, "/"+rest)
}

// endpointOf gives the endpoint of a tenant at a path below its own: the one with all,
// that of one upstream, or that of one toolset.
func endpointOf(name, path string) (at federation.Endpoint, ok bool) {
	at.Tenant = name
	if path == "/mcp" {
		return at, true
	}
	middle, ok := strings.CutSuffix(path, "/mcp")
	if !ok || len(middle) < len("/u/x") || strings.Contains(middle[len("/u/"):], "/") {
		return at, false
	}
	switch what := middle[len("/u/"):]; middle[:len("/u/")] {
	case "/u/":
		at.Alias = what
	case "/s/":
		at.Toolset = what
	default:
		return at, false
	}
	return at, true
}

// pathOf gives the path of an endpoint below that of its tenant.
func pathOf(at federation.Endpoint) string {
	switch {
	case at.Alias != "":
		return "/u/" + at.Alias + "/mcp"
	case at.Toolset != "":
		return "/s/" + at.Toolset + "/mcp"
	}
	return "/mcp"
}

// below gives a path without that of the URL in front of it, which a proxy may have
// taken away, or not.
func (p *publicURL) below(path string) string {
	if rest, ok := strings.CutPrefix(path, p.path+"/"); ok {
		return "/" + rest
	}
	return path
}

// scopesOf gives the scopes that some use of an endpoint needs, besides the tenant's.
func scopesOf(t *tenant.Tenant, at federation.Endpoint) []string {
	if at.Toolset == "" {
		return nil
	}
	for i := range t.Toolsets {
		if t.Toolsets[i].Name == at.Toolset {
			return t.Toolsets[i].Scopes
		}
	}
	return nil
}
