// Package broker gives upstreams their credentials: secrets of the configuration,
// tokens that the gateway gets for itself or in exchange for those of its callers, and
// tokens that users let it have. It is an OAuth 2.1 client for that (2026-07-28,
// basic/authorization). It imports federation/tenant, cache and auth/seal.
package broker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Options are the collaborators of a Broker. Connected and Now may be left out.
type Options struct {
	// Tenant gives a registration as it is now, or tenant.ErrNotFound.
	Tenant func(ctx context.Context, name string) (*tenant.Tenant, error)
	Vault  tenant.Vault // keeps what users and servers gave
	Values cache.Values // keeps sign-ins that are under way, for all replicas
	Leases cache.Leases // lets one replica refresh a token
	Ring   *seal.Ring   // seals what is kept, and links
	// Secrets opens those of registrations.
	Secrets func(tenant.Secret) ([]byte, error)
	// Client gives the client for addresses that somebody chose: private tells that
	// the operator did, so that they may be private ones.
	Client func(private bool) *http.Client
	// PublicURL is the base URL under which browsers reach Handler; empty where there
	// is none, and then users cannot sign in.
	PublicURL string
	// Connected is told that a user has let the gateway have a token, on the replica
	// where that ended.
	Connected func(ctx context.Context, t, alias string, who *tenant.Principal)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Broker gives upstreams their credentials. It is safe for concurrent use.
type Broker struct {
	opts Options
}

// New makes a Broker. Close ends it. The error names all faults of opts.
func New(opts Options) (*Broker, error) {
	return nil, errors.New("broker: not there yet")
}

// ConsentError tells that a user has to go to a page before an upstream can be used.
type ConsentError struct {
	URL     string // of a page of the gateway, good for a short time and for this user only
	Message string // for the user: what is asked for, and why
}

// Error tells nothing of the link, which is for one user.
func (e *ConsentError) Error() string { return "the user has to sign in at the upstream" }

// ConsentURL gives the page and what to tell the user.
func (e *ConsentError) ConsentURL() (url, message string) { return e.URL, e.Message }
