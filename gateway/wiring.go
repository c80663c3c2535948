package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// New makes a Gateway and its collaborators; nothing is served yet, and of the
// listeners only that for other replicas is open. Stop must be called in the end.
// The error names all faults of opts.
func New(opts Options) (*Gateway, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	budget := mcp.NewBudget(opts.Limits.MaxBuffered)
	metrics, err := telemetry.NewMetrics(opts.Registerer, budget)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	p := &parts{opts: &opts, budget: budget, metrics: metrics, transports: opts.Egress.transports()}
	g, err := p.join()
	if err != nil {
		return nil, errors.Join(err, p.cleanups.run(context.Background()))
	}
	g.cleanups = p.cleanups
	return g, nil
}

// parts are the collaborators of a gateway as they are put together.
type parts struct {
	opts       *Options
	budget     *mcp.Budget
	metrics    *telemetry.Metrics
	transports *egress.Transports
	broker     *broker.Broker
	peers      *peers // nil where this is the only replica
	federation *federation.Federation

	cleanups cleanups // of what is there, also when the next one fails
}

// join makes the parts, each before those that need it.
func (p *parts) join() (*Gateway, error) {
	p.closes("connections", p.transports.Close)
	who, err := newAuthenticator(p.opts, p.transports)
	if err != nil {
		return nil, err
	}
	p.closes("authentication", who.Close)
	if p.broker, err = p.newBroker(); err != nil {
		return nil, err
	}
	p.closes("credentials", p.broker.Close)
	if p.opts.Cluster != nil {
		if p.peers, err = newPeers(p.opts); err != nil {
			return nil, err
		}
		p.cleanups.push("peers", p.peers.close)
	}
	if p.federation, err = p.newFederation(); err != nil {
		return nil, err
	}
	p.cleanups.push("federation", p.federation.Close)

	g := newGateway(*p.opts, p.federation, p.budget, p.metrics)
	p.cleanups.list = append(p.cleanups.list, g.cleanups.list...)
	g.edge.auth = who
	g.edge.mountPages(p.broker.Handler())
	g.meet(p.peers)
	p.closes("watch of registrations", p.opts.Store.Watch(context.Background(), g.edge.changed))
	ctx, cancel := context.WithTimeout(context.Background(), fillTime)
	defer cancel()
	return g, g.edge.hosts.fill(ctx) // after the watch, so that no change is missed
}

// closes has a part closed in the end.
func (p *parts) closes(name string, run func()) {
	p.cleanups.push(name, func(context.Context) error {
		run()
		return nil
	})
}

// fillTime bounds how long it may take to read what all tenants register.
const fillTime = time.Minute

// newBroker makes what gives upstreams their credentials. Where replicas share nothing,
// it keeps in this process what is under way, and where there is no vault all the rest.
func (p *parts) newBroker() (*broker.Broker, error) {
	opts := broker.Options{
		Tenant: p.opts.Store.Tenant, Vault: p.opts.Vault, Ring: p.opts.Ring, Secrets: p.opts.Secrets,
		// The broker sees to TLS itself: a server on this machine needs none.
		Client: func(private bool) *http.Client {
			return p.transports.Fetcher(egress.FetchOptions{Private: private, HTTP: true})
		},
		PublicURL: p.opts.PublicURL,
		// The federation is there before anybody can sign in.
		Connected: func(ctx context.Context, name, alias string, who *tenant.Principal) {
			p.federation.Connected(ctx, name, alias, who)
		},
		Logger: p.opts.Logger, Registerer: p.opts.Registerer,
	}
	if opts.Vault == nil {
		opts.Vault = tenant.NewMemoryRegistry()
	}
	if opts.Secrets == nil {
		opts.Secrets = func(tenant.Secret) ([]byte, error) { return nil, errNoSecrets }
	}
	if c := p.opts.Cluster; c != nil {
		opts.Values, opts.Leases = c.Values, c.Leases
	} else {
		alone := cache.NewShared()
		opts.Values, opts.Leases = alone, alone
	}
	return broker.New(opts)
}

var errNoSecrets = errors.New("there are no secrets here")

// credentials gives what upstreams are shown.
func (p *parts) credentials(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) upstream.CredentialSource {
	if s := p.broker.Source(t, u, who); s != nil {
		return s
	}
	return nil
}

// unloaded is told of a tenant that this process serves no more, for now.
func (p *parts) unloaded(name string) {
	p.metrics.Forget(name)
	p.broker.Forget(name)
}

// newFederation makes the federation and, through it, the clients of upstreams.
func (p *parts) newFederation() (*federation.Federation, error) {
	opts := p.opts
	tracer := opts.Tracer
	if tracer == nil {
		tracer = noop.NewTracerProvider().Tracer("")
	}
	deps := upstream.Deps{
		Logger:  opts.Logger,
		Tracer:  opts.Tracer,
		Metrics: upstream.NewMetrics(opts.Registerer),
		Budget:  p.budget,
	}
	if isNoop(opts.Tracer) {
		deps.Tracer = nil
	}
	var cluster *federation.Cluster
	if p.peers != nil {
		cluster = &opts.Cluster.Cluster
		deps.Ring, deps.Holder = opts.Ring, p.peers.address
	}
	return federation.New(federation.Options{
		Store: opts.Store,
		Cache: opts.Cache,
		Ring:  opts.Ring,
		Connect: func(c upstream.Config) upstream.Doer {
			return upstream.Connect(withDefaults(c, opts.Upstream), p.transports, deps)
		},
		Credentials: p.credentials,
		Logger:      opts.Logger,
		Tracer:      tracer,
		Metrics:     opts.Registerer,
		Budget:      p.budget,
		Limits:      opts.Federation,
		Version:     opts.Version,

		Unloaded: p.unloaded,
		Cluster:  cluster,
		Holder:   deps.Holder,
		Counters: opts.Counters,

		QuotaFailClosed: opts.QuotaFailClosed,
	})
}

// newAuthenticator makes what finds out who calls.
func newAuthenticator(opts *Options, transports *egress.Transports) (*auth.Authenticator, error) {
	return auth.New(auth.Options{
		Keys:       opts.Keys,
		Secrets:    opts.Secrets,
		Client:     fetcher(transports),
		Registerer: opts.Registerer,
		Logger:     opts.Logger,
	})
}

// fetcher gives the clients for addresses that somebody chose.
func fetcher(transports *egress.Transports) func(private bool) *http.Client {
	return func(private bool) *http.Client { return transports.Fetcher(egress.FetchOptions{Private: private}) }
}

// withDefaults fills what an upstream's registration leaves open.
func withDefaults(c, d upstream.Config) upstream.Config {
	or(&c.ConnectTimeout, d.ConnectTimeout)
	or(&c.CallTimeout, d.CallTimeout)
	or(&c.CallMax, d.CallMax)
	or(&c.IdleTimeout, d.IdleTimeout)
	or(&c.BreakerOpen, d.BreakerOpen)
	or(&c.MaxInFlight, d.MaxInFlight)
	or(&c.BreakerFailures, d.BreakerFailures)
	or(&c.MaxMessage, d.MaxMessage)
	or(&c.MaxDepth, d.MaxDepth)
	or(&c.Sessions.Idle, d.Sessions.Idle)
	if c.Process != nil {
		or(&c.Sessions.Max, d.Sessions.MaxProcesses)
	} else {
		or(&c.Sessions.Max, d.Sessions.Max)
	}
	or(&c.Sessions.ParkMax, d.Sessions.ParkMax)
	or(&c.Sessions.MaxParked, d.Sessions.MaxParked)
	or(&c.Sessions.MaxParkedPerPrincipal, d.Sessions.MaxParkedPerPrincipal)
	return c
}

func or[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }
