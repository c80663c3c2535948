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
	"github.com/causeway-mcp/causeway/federation"
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
	var p *peers
	if opts.Cluster != nil {
		if p, err = newPeers(&opts); err != nil {
			return nil, err
		}
	}
	transports := opts.Egress.transports()
	fed, err := newFederation(&opts, budget, metrics, p, transports)
	var who *auth.Authenticator
	if err == nil {
		who, err = newAuthenticator(&opts, transports)
		if err != nil {
			err = errors.Join(err, fed.Close(context.Background()))
		}
	}
	if err != nil {
		if p != nil {
			err = errors.Join(err, p.close(context.Background()))
		}
		return nil, err
	}
	g := newGateway(opts, fed, budget, metrics)
	g.edge.auth = who
	g.cleanups.push("authentication", func(context.Context) error {
		who.Close()
		transports.Close()
		return nil
	})
	stop := opts.Store.Watch(context.Background(), g.edge.changed)
	g.cleanups.push("watch of registrations", func(context.Context) error {
		stop()
		return nil
	})
	if p != nil {
		g.join(p)
	}
	g.cleanups.push("federation", fed.Close)
	ctx, cancel := context.WithTimeout(context.Background(), fillTime)
	defer cancel()
	if err := g.edge.hosts.fill(ctx); err != nil { // after the watch, so that no change is missed
		return nil, errors.Join(err, g.cleanups.run(ctx))
	}
	return g, nil
}

// fillTime bounds how long it may take to read what all tenants register.
const fillTime = time.Minute

// newFederation makes the federation and, through it, the clients of upstreams.
// peers may be nil.
func newFederation(opts *Options, budget *mcp.Budget, metrics *telemetry.Metrics, p *peers, transports *egress.Transports) (*federation.Federation, error) {
	tracer := opts.Tracer
	if tracer == nil {
		tracer = noop.NewTracerProvider().Tracer("")
	}
	deps := upstream.Deps{
		Logger:  opts.Logger,
		Tracer:  opts.Tracer,
		Metrics: upstream.NewMetrics(opts.Registerer),
		Budget:  budget,
	}
	if isNoop(opts.Tracer) {
		deps.Tracer = nil
	}
	var cluster *federation.Cluster
	if p != nil {
		cluster = &opts.Cluster.Cluster
		deps.Ring, deps.Holder = opts.Ring, p.address
	}
	return federation.New(federation.Options{
		Store: opts.Store,
		Cache: opts.Cache,
		Ring:  opts.Ring,
		Connect: func(c upstream.Config) upstream.Doer {
			return upstream.Connect(withDefaults(c, opts.Upstream), transports, deps)
		},
		Logger:  opts.Logger,
		Tracer:  tracer,
		Metrics: opts.Registerer,
		Budget:  budget,
		Limits:  opts.Federation,
		Version: opts.Version,

		Unloaded: metrics.Forget,
		Cluster:  cluster,
		Holder:   deps.Holder,
		Counters: opts.Counters,

		QuotaFailClosed: opts.QuotaFailClosed,
	})
}

// newAuthenticator makes what finds out who calls.
func newAuthenticator(opts *Options, transports *egress.Transports) (*auth.Authenticator, error) {
	return auth.New(auth.Options{
		Keys:    opts.Keys,
		Secrets: opts.Secrets,
		Client: func(private bool) *http.Client {
			return transports.Fetcher(egress.FetchOptions{Private: private})
		},
		Registerer: opts.Registerer,
		Logger:     opts.Logger,
	})
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
