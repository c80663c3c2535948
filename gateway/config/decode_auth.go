package config

import "github.com/causeway-mcp/causeway/federation/tenant"

// auth reads who may use a tenant.
func (d *decoder) auth(to *tenant.Auth) func(n *node, path string) {
	return func(n *node, path string) {
		d.object(n, path, fields{
			"mode":   d.str((*string)(&to.Mode)),
			"scopes": d.strs(&to.Scopes),
			"issuers": func(n *node, path string) {
				d.list(n, path, func(n *node, path string) {
					to.Issuers = append(to.Issuers, d.issuer(n, path))
				})
			},
			"implies": func(n *node, path string) {
				to.Implies = map[string][]string{}
				d.each(n, path, func(scope string, n *node, path string) {
					var implied []string
					d.strs(&implied)(n, path)
					to.Implies[scope] = implied
				})
			},
		})
	}
}

// issuer reads whose tokens are accepted.
func (d *decoder) issuer(n *node, path string) tenant.Issuer {
	var is tenant.Issuer
	d.object(n, path, fields{
		"issuer":      d.str(&is.Issuer),
		"audiences":   d.strs(&is.Audiences),
		"groupsClaim": d.str(&is.GroupsClaim),
		"tenantClaim": d.str(&is.TenantClaim),
		"tenantValue": d.str(&is.TenantValue),
		"scopeClaim":  d.str(&is.ScopeClaim),
		"algorithms":  d.strs(&is.Algorithms),
		"jwksURL":     d.str(&is.JWKSURL),
		"private":     d.boolean(&is.Private),
		"introspection": func(n *node, path string) {
			in := &tenant.Introspection{}
			d.object(n, path, fields{
				"url": d.str(&in.URL), "clientID": d.str(&in.ClientID), "clientSecret": d.reference(&in.ClientSecret),
			})
			is.Introspection = in
		},
		"login": func(n *node, path string) {
			l := &tenant.Login{}
			d.object(n, path, fields{
				"clientID": d.str(&l.ClientID), "clientSecret": d.reference(&l.ClientSecret), "scopes": d.strs(&l.Scopes),
			})
			is.Login = l
		},
	})
	return is
}
