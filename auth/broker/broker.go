// Package broker gives upstreams their credentials: secrets of the configuration,
// tokens that the gateway gets for itself or in exchange for those of its callers, and
// tokens that users let it have. It is an OAuth 2.1 client for that (2026-07-28,
// basic/authorization). It imports federation/tenant, cache, auth/seal, auth/ask,
// auth/lru and auth/work.
package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/ask"
	"github.com/causeway-mcp/causeway/auth/lru"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/auth/work"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Options are the collaborators of a Broker. PublicURL, Connected and Now may be left
// out.
type Options struct {
	// Tenant gives a registration as it is now, or tenant.ErrNotFound.
	Tenant func(ctx context.Context, name string) (*tenant.Tenant, error)
	Vault  tenant.Vault // keeps what users and servers gave
	Values cache.Values // keeps sign-ins that are under way, and the gateway's own tokens, for all replicas
	Leases cache.Leases // lets one replica refresh a token
	Ring   *seal.Ring   // seals what is kept, and links
	// Secrets opens those of registrations.
	Secrets func(tenant.Secret) ([]byte, error)
	// Client gives the client for addresses that somebody chose: private tells that
	// the operator did, so that they may be private ones.
	Client func(private bool) *http.Client
	// PublicURL is the base URL under which browsers reach Handler; empty where there
	// is none. Users cannot sign in then, nor where it is an http one of another machine.
	PublicURL string
	// Connected is told that a user has let the gateway have a token, or has taken back
	// what any client was allowed (then without a ClientID), on the replica
	// where that ended.
	Connected func(ctx context.Context, t, alias string, who *tenant.Principal)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time // nil means time.Now
}

func (o *Options) validate() error {
	var faults []error
	for _, need := range []struct {
		name    string
		missing bool
	}{
		{"Tenant", o.Tenant == nil}, {"Vault", o.Vault == nil}, {"Values", o.Values == nil}, {"Leases", o.Leases == nil},
		{"Ring", o.Ring == nil}, {"Secrets", o.Secrets == nil}, {"Client", o.Client == nil},
		{"Logger", o.Logger == nil}, {"Registerer", o.Registerer == nil},
	} {
		if need.missing {
			faults = append(faults, fmt.Errorf("%s is required", need.name))
		}
	}
	if o.PublicURL != "" {
		u, err := url.Parse(o.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.ContainsAny(o.PublicURL, "?#") {
			faults = append(faults, errors.New("PublicURL must be an http or https URL without a user, a query and a fragment"))
		}
	}
	return errors.Join(faults...)
}

// Broker gives upstreams their credentials. It is safe for concurrent use.
type Broker struct {
	opts            Options
	public, private *http.Client // for what is asked of servers
	holder          string       // of leases: this process
	metrics         *metrics
	work            *work.Group
	nobody          *nobodySource
	signIns         *signIns

	mu        sync.Mutex
	sources   *lru.Cache[sourceKey, Source]
	servers   *lru.Cache[serverKey, *document[server]]
	resources *lru.Cache[upstreamKey, *about]
	clients   *lru.Cache[tenant.VaultKey, *document[registration]]
}

// New makes a Broker. Close ends it. The error names all faults of opts. It panics when
// its metrics are registered already.
func New(opts Options) (*Broker, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	b := &Broker{
		opts: opts, public: ask.Client(opts.Client(false)), private: ask.Client(opts.Client(true)),
		holder: rand.Text(), metrics: newMetrics(opts.Registerer), work: work.New(), nobody: &nobodySource{},
		sources:   lru.New[sourceKey, Source](maxSources),
		servers:   lru.New[serverKey, *document[server]](maxServers),
		resources: lru.New[upstreamKey, *about](maxResources),
		clients:   lru.New[tenant.VaultKey, *document[registration]](maxClientIDs),
	}
	b.signIns = newSignIns(b)
	return b, nil
}

// Close ends what runs in the background and waits for it. What needs it fails from
// then on.
func (b *Broker) Close() {
	b.signIns.close()
	b.work.Close()
}

// Forget drops what is kept of a tenant in memory, such as when it is dropped from this
// process. Sources that were given out go on, and are not the same as those that are
// given out from then on. What users and servers gave stays in the vault.
func (b *Broker) Forget(name string) {
	b.mu.Lock()
	b.sources.RemoveIf(func(k sourceKey, _ Source) bool { return k.tenant == name })
	b.resources.RemoveIf(func(k upstreamKey, _ *about) bool { return k.tenant == name })
	b.clients.RemoveIf(func(k tenant.VaultKey, _ *document[registration]) bool { return k.Tenant == name })
	b.mu.Unlock()
	b.signIns.mu.Lock()
	defer b.signIns.mu.Unlock()
	b.signIns.grants.RemoveIf(func(k userKey, _ *grant) bool { return k.tenant == name })
}

func (b *Broker) now() time.Time { return b.opts.Now() }

// ConsentError tells that a user has to go to a page before an upstream can be used.
type ConsentError struct {
	URL     string // of a page of the gateway, good for a short time and for this user only
	Message string // for the user: what is asked for, and why
}

// Error tells nothing of the link, which is for one user.
func (e *ConsentError) Error() string { return "the user has to sign in at the upstream" }

// ConsentURL gives the page and what to tell the user.
func (e *ConsentError) ConsentURL() (url, message string) { return e.URL, e.Message }
