// Package auth is the OAuth resource server towards clients (2026-07-28,
// basic/authorization): it verifies access tokens and API keys, tells clients what
// they need, and publishes the metadata of each endpoint. It may import
// federation/tenant, cache, auth/seal and upstream/egress.
package auth

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Request is one HTTP request whose sender is to be known.
type Request struct {
	Tenant *tenant.Tenant
	// Resource is the canonical URI of the endpoint (RFC 8707), which tokens must be
	// for, and Metadata the URL of its metadata (RFC 9728). Both come from the
	// configuration, never from the Host header.
	Resource, Metadata string
	// Scopes are needed besides the tenant's, for the endpoint.
	Scopes []string
	// Wanted are scopes that are needed for some of what the endpoint offers: clients
	// are told of them, so that they can ask for all at once, and may go on without.
	Wanted []string
	HTTP   *http.Request
	Source netip.Addr // of the client, behind trusted proxies
}

// Caller is who was found to send a request. It is shared between requests and must
// not be changed.
type Caller struct {
	// Principal has the scopes with all that they imply, and the groups, both sorted.
	// Its Issuer is empty for API keys and for anybody.
	Principal tenant.Principal
	Expires   time.Time // of the token or key; zero for never
	// Mark stands for what was verified, a hash. Two callers with equal marks showed
	// the same token.
	Mark [32]byte
	// Key is the id of the API key that was shown; empty for tokens.
	Key string

	// under is the digest of the issuer's configuration that the token was verified
	// under.
	under digest
}

// Token gives the access token that was shown by the request from which c was made. It
// is empty for API keys, and for anybody, whom nil stands for too. Callers are
// remembered for longer than requests, so they do not hold it.
func (c *Caller) Token(r *http.Request) string {
	if c == nil || c.Key != "" || c.Mark == [32]byte{} {
		return ""
	}
	token, _ := credential(r) // it was good when c was made
	return token
}

// Refusal is the error for a request whose sender may not go on: an HTTP status, and
// the challenge that goes with it (RFC 6750, section 3; RFC 9728, section 5.1).
type Refusal struct {
	Status     int           // 400, 401, 403, 429 for too many failures, or 503 when an issuer cannot be asked
	Challenge  string        // the value of WWW-Authenticate; empty for 429 and 503
	Reason     string        // one word for metrics, from a closed set
	RetryAfter time.Duration // for 429 and 503
}

// Error gives the reason, which holds nothing of what was sent.
func (r *Refusal) Error() string { return "authentication: " + r.Reason }

// Text says for people what was wrong. It holds nothing of what was sent.
func (r *Refusal) Text() string { return reason(r.Reason).text() }

// Keys finds API keys; tenant.Registry is one.
type Keys interface {
	Key(ctx context.Context, tenant, id string) (tenant.APIKey, error)
	TouchKey(ctx context.Context, tenant, id string, used time.Time) error
}

var _ Keys = tenant.Registry(nil)
