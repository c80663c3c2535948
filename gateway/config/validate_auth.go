package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// isOpen tells whether anybody who reaches a tenant may use it.
func isOpen(t *tenant.Tenant) bool { return t.Auth.Mode == "" || t.Auth.Mode == tenant.AuthNone }

// auth checks who may use a tenant, as a registry does.
func (v *checker) auth(path string, t *tenant.Tenant, c *Config) {
	var faults tenant.Faults
	if errors.As(tenant.ValidateAuth(&t.Auth), &faults) {
		for _, f := range faults {
			message := f.Message
			if strings.HasSuffix(f.Path, ".clientSecret") {
				message = "must be a reference: either {env: NAME} or {file: path}"
			}
			v.fault(path+"."+f.Path, "%s", message)
		}
	}
	if t.Auth.Mode == tenant.AuthOAuth && c.PublicURL == "" {
		v.fault(path+".mode", "oauth needs publicURL: access tokens are for a resource below it")
	}
}

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
	}
	return warnings
}

// CheckIssuers looks whether the secrets that tenants[].auth refers to are there now;
// a running gateway reads them each time it uses them. lookupEnv is os.LookupEnv or
// nil. The error is Faults, which show no value.
func (c *Config) CheckIssuers(lookupEnv func(string) (string, bool)) error {
	var faults Faults
	for i, t := range c.Tenants {
		for j := range t.Auth.Issuers {
			in := t.Auth.Issuers[j].Introspection
			if in == nil {
				continue
			}
			if _, err := (Secret{Env: in.ClientSecret.Env, File: in.ClientSecret.File}).Value(lookupEnv); err != nil {
				path := fmt.Sprintf("tenants[%d].auth.issuers[%d].introspection.clientSecret", i, j)
				faults = append(faults, Fault{Path: path, Message: err.Error()})
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// openTenant tells whether there is a tenant that anybody may use.
func (c *Config) openTenant() bool { return slices.ContainsFunc(c.Tenants, isOpen) }
