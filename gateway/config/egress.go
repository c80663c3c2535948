package config

import "net/netip"

// Egress says what may be reached by what this file does not name itself: upstreams
// that are registered in the store, and the authorization servers that upstreams and
// tenants lead to. By default those are public addresses, without a proxy.
type Egress struct {
	// Allow are networks that are not public and may be reached nevertheless. A
	// link-local address and a cloud's metadata service have to be named themselves.
	Allow []netip.Prefix
	// TrustProxy has these connections too go through the proxy of the environment
	// (HTTPS_PROXY, NO_PROXY), which then has to refuse what must not be reached.
	TrustProxy bool
}

func (d *decoder) egress(n *node, path string, e *Egress) {
	d.object(n, path, fields{
		"allow": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) { e.Allow = append(e.Allow, d.prefix(n, path)) })
		},
		"trustProxy": d.boolean(&e.TrustProxy),
	})
}
