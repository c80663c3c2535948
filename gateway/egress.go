package gateway

import (
	"net/http"
	"net/netip"

	"github.com/causeway-mcp/causeway/upstream/egress"
)

// Egress says what may be reached by what the operator did not choose: upstreams
// that are not managed by the file, and what else is fetched from addresses that a
// tenant, a user or a server chose. By default those are public addresses.
type Egress struct {
	// Allow are networks that are not public and may be reached nevertheless; see
	// egress.Options.AllowPrivate.
	Allow []netip.Prefix
	// TrustProxy has the proxy of the environment used for these too, which then has
	// to refuse what must not be reached.
	TrustProxy bool
}

// transports makes what opens connections to addresses that somebody else chose.
func (e *Egress) transports() *egress.Transports {
	opts := egress.Options{AllowPrivate: e.Allow}
	if e.TrustProxy {
		opts.Proxy = http.ProxyFromEnvironment
	}
	return egress.New(opts)
}
