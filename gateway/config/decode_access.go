package config

import (
	"slices"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// policy reads who may see and call what.
func (d *decoder) policy(to **tenant.Policy) func(n *node, path string) {
	return func(n *node, path string) {
		p := &tenant.Policy{}
		d.object(n, path, fields{
			"default": d.str((*string)(&p.Default)),
			"rules": func(n *node, path string) {
				d.list(n, path, func(n *node, path string) {
					var r tenant.Rule
					d.object(n, path, fields{
						"name": d.str(&r.Name), "when": d.str(&r.When), "effect": d.str((*string)(&r.Effect)), "scopes": d.strs(&r.Scopes),
					})
					p.Rules = append(p.Rules, r)
				})
			},
		})
		*to = p
	}
}

func (d *decoder) toolset(n *node, path string) tenant.Toolset {
	var s tenant.Toolset
	d.object(n, path, fields{
		"name":      d.str(&s.Name),
		"include":   d.strs(&s.Include),
		"tags":      d.strs(&s.Tags),
		"when":      d.str(&s.When),
		"scopes":    d.strs(&s.Scopes),
		"limits":    func(n *node, path string) { d.object(n, path, d.quota(&s.Limits)) },
		"discovery": d.discovery(&s.Discovery),
	})
	return s
}

// discovery reads how clients find tools.
func (d *decoder) discovery(to *tenant.Discovery) func(n *node, path string) {
	return func(n *node, path string) {
		d.object(n, path, fields{
			"mode":                d.str((*string)(&to.Mode)),
			"autoThresholdTokens": d.count(&to.AutoThresholdTokens),
			"pinned":              d.strs(&to.Pinned),
			"fromURL":             d.boolean(&to.FromURL),
		})
	}
}

func (d *decoder) host(n *node, path string) tenant.Host {
	var h tenant.Host
	d.object(n, path, fields{"name": d.str(&h.Name), "url": d.str(&h.URL)})
	return h
}

// credential reads how an upstream is shown who calls.
func (d *decoder) credential(to *tenant.Credential) func(n *node, path string) {
	return func(n *node, path string) {
		d.object(n, path, fields{
			"mode":         d.str((*string)(&to.Mode)),
			"token":        d.reference(&to.Token),
			"headers":      func(n *node, path string) { to.Headers = d.secretHeaders(n, path) },
			"forward":      d.strs(&to.Forward),
			"issuer":       d.str(&to.Issuer),
			"tokenURL":     d.str(&to.TokenURL),
			"audience":     d.str(&to.Audience),
			"resource":     d.str(&to.Resource),
			"clientID":     d.str(&to.ClientID),
			"clientSecret": d.reference(&to.ClientSecret),
			"scopes":       d.strs(&to.Scopes),
			"registration": d.str((*string)(&to.Registration)),
		})
	}
}

// secretHeaders reads a reference for each name. They are sorted by name, so that
// their order in the file means nothing.
func (d *decoder) secretHeaders(n *node, path string) []tenant.SecretHeader {
	var list []tenant.SecretHeader
	d.each(n, path, func(name string, n *node, path string) {
		h := tenant.SecretHeader{Name: name}
		d.reference(&h.Value)(n, path)
		list = append(list, h)
	})
	slices.SortFunc(list, func(a, b tenant.SecretHeader) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// reference reads a reference to a secret of a registration.
func (d *decoder) reference(to *tenant.Secret) func(n *node, path string) {
	return func(n *node, path string) {
		var s Secret
		d.secret(&s)(n, path)
		*to = tenant.Secret{Env: s.Env, File: s.File}
	}
}

// pins reads the approved definitions of tools.
func (d *decoder) pins(to *map[string]string) func(n *node, path string) {
	return func(n *node, path string) {
		*to = map[string]string{}
		d.each(n, path, func(tool string, n *node, path string) {
			var digest string
			d.str(&digest)(n, path)
			(*to)[tool] = digest
		})
	}
}
