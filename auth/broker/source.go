package broker

import (
	"context"
	"net/http"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Source gives what one upstream is shown of who calls: of one user, or of all. It is
// what package upstream wants of one; values are pointers and comparable.
type Source interface {
	// Credential gives header lines for one request, without waiting where they are
	// known. A *ConsentError tells that the user has to go to a page first.
	Credential(ctx context.Context) (http.Header, error)
	// Refused tells that the upstream refused a request with these lines by 401 or
	// 403, with what its WWW-Authenticate said. again is true when another attempt
	// with new ones makes sense; an error is like that of Credential.
	Refused(ctx context.Context, sent http.Header, status int, challenges []string) (again bool, err error)
}

// Source gives what an upstream is shown of who calls; nil where that is nobody, or
// what the client itself sends. who is nil for the gateway's own requests, and must not
// be where Credential.PerUser tells so.
func (b *Broker) Source(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) Source {
	return nil
}
