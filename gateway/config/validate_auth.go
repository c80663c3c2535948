package config

import (
	"fmt"
	"slices"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// isOpen tells whether anybody who reaches a tenant may use it.
func isOpen(t *tenant.Tenant) bool { return t.Auth.Mode == "" || t.Auth.Mode == tenant.AuthNone }

// Warnings tells what is valid and most likely not what was meant.
func (c *Config) Warnings() Faults {
	type accepted struct{ issuer, audience string }
	first := map[accepted]string{}
	var warnings Faults
	for i, t := range c.Tenants {
		for j := range t.Auth.Issuers {
			is := &t.Auth.Issuers[j]
			if is.TenantClaim != "" {
				continue // which tells whose a token is
			}
			for k, audience := range is.Audiences {
				what := accepted{is.Issuer, audience}
				if other, there := first[what]; there && other != t.Name {
					warnings = append(warnings, Fault{
						Path: fmt.Sprintf("tenants[%d].auth.issuers[%d].audiences[%d]", i, j, k),
						Message: fmt.Sprintf("tenant %s accepts this audience of this issuer too: without a tenantClaim their users' tokens are good for both",
							other),
					})
				} else if !there {
					first[what] = t.Name
				}
			}
		}
		warnings = append(warnings, scopesOfNobody(fmt.Sprintf("tenants[%d]", i), t)...)
	}
	return warnings
}

// scopesOfNobody tells of scopes that are needed in an open tenant, where no caller has
// any. t is at path.
func scopesOfNobody(path string, t *tenant.Tenant) (warnings Faults) {
	if !isOpen(t) {
		return nil
	}
	look := func(at string, i int, scopes []string) {
		if len(scopes) > 0 {
			warnings = append(warnings, Fault{
				Path: fmt.Sprintf("%s.%s[%d].scopes", path, at, i), Message: "nobody has scopes where auth.mode is none: no call can be made",
			})
		}
	}
	if t.Policy != nil {
		for i := range t.Policy.Rules {
			look("policy.rules", i, t.Policy.Rules[i].Scopes)
		}
	}
	for i := range t.Toolsets {
		look("toolsets", i, t.Toolsets[i].Scopes)
	}
	return warnings
}

// CheckIssuers looks whether the secrets that tenants[].auth refers to are there now;
// a running gateway reads them each time it uses them. lookupEnv is os.LookupEnv or
// nil. The error is Faults, which show no value.
func (c *Config) CheckIssuers(lookupEnv func(string) (string, bool)) error {
	there := presence{lookupEnv: lookupEnv}
	for i, t := range c.Tenants {
		for j := range t.Auth.Issuers {
			is, path := &t.Auth.Issuers[j], fmt.Sprintf("tenants[%d].auth.issuers[%d]", i, j)
			if is.Introspection != nil {
				there.look(path+".introspection.clientSecret", is.Introspection.ClientSecret)
			}
			if is.Login != nil {
				there.look(path+".login.clientSecret", is.Login.ClientSecret)
			}
		}
	}
	return there.err()
}

// CheckCredentials is CheckIssuers for tenants[].upstreams[].auth.
func (c *Config) CheckCredentials(lookupEnv func(string) (string, bool)) error {
	there := presence{lookupEnv: lookupEnv}
	for i, t := range c.Tenants {
		for j := range t.Upstreams {
			auth, path := &t.Upstreams[j].Auth, fmt.Sprintf("tenants[%d].upstreams[%d].auth", i, j)
			there.look(path+".token", auth.Token)
			there.look(path+".clientSecret", auth.ClientSecret)
			for _, h := range auth.Headers {
				there.look(join(path+".headers", h.Name), h.Value)
			}
		}
	}
	return there.err()
}

// presence looks whether secrets are there.
type presence struct {
	lookupEnv func(string) (string, bool)
	faults    Faults
}

// look looks for the secret that the key at path refers to, if any.
func (p *presence) look(path string, s tenant.Secret) {
	if s.IsZero() {
		return
	}
	if _, err := (Secret{Env: s.Env, File: s.File}).Value(p.lookupEnv); err != nil {
		p.faults = append(p.faults, Fault{Path: path, Message: err.Error()})
	}
}

func (p *presence) err() error {
	if len(p.faults) > 0 {
		return p.faults
	}
	return nil
}

// openTenant tells whether there is a tenant that anybody may use.
func (c *Config) openTenant() bool { return slices.ContainsFunc(c.Tenants, isOpen) }
