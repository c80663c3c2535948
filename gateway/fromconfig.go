package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream"
)

// keyFile is the file of the made key, in the data directory.
const keyFile = "key"

// Deps are what FromConfig needs beside a configuration. Only Logger must be
// given.
type Deps struct {
	Logger *slog.Logger
	// Tenants are those of the configuration file; nil means the configuration's,
	// unchangeable.
	Tenants *tenant.Memory
	// Ring seals; nil means the one that the configuration asks for.
	Ring *seal.Ring
	// Registry takes all metrics; nil means a new one that tells about the process
	// too.
	Registry *prometheus.Registry
	// Tracer makes spans; nil makes none.
	Tracer  trace.Tracer
	Version string
	// LookupEnv finds secrets in the environment, as os.LookupEnv does; nil means
	// that there are none.
	LookupEnv func(name string) (string, bool)
}

// FromConfig assembles a Gateway as a configuration describes it. A Config that
// was made in code is validated here. ctx bounds how long a registry in Redis may
// take to answer; the Redis that replicas share need not answer. Errors are
// config.Faults where the configuration is wrong.
func FromConfig(ctx context.Context, cfg *config.Config, deps Deps) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts := OptionsFrom(cfg)
	opts.Version = cmp.Or(deps.Version, opts.Version)
	opts.Logger, opts.Tracer, opts.Ring = deps.Logger, deps.Tracer, deps.Ring
	if opts.Ring == nil {
		var err error
		if opts.Ring, err = NewRing(cfg, deps.LookupEnv); err != nil {
			return nil, err
		}
	}
	opts.Secrets = secrets(opts.Ring, deps.LookupEnv)
	registry := deps.Registry
	if registry == nil {
		registry = telemetry.NewRegistry()
	}
	opts.Registerer, opts.Gatherer = registry, registry

	opened := &opened{}
	err := opened.registry(ctx, cfg, &deps, &opts)
	if err == nil {
		err = opened.shared(cfg, &deps, &opts)
	}
	var g *Gateway
	if err == nil {
		g, err = New(opts)
	}
	if err != nil {
		return nil, errors.Join(err, opened.cleanups.run(ctx))
	}
	g.cleanups.list = append(opened.cleanups.list, g.cleanups.list...)
	return g, nil
}

// NewRing makes the key ring that a configuration asks for: its keys, or else one
// that is made once and kept in the data directory. lookupEnv may be nil.
func NewRing(cfg *config.Config, lookupEnv func(string) (string, bool)) (*seal.Ring, error) {
	keys, err := cfg.SealKeys(lookupEnv)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		if cfg.DataDir == "" {
			return nil, errors.New("no keys are configured, and no data directory to keep one")
		}
		key, err := seal.LoadOrCreate(filepath.Join(cfg.DataDir, keyFile))
		if err != nil {
			return nil, err
		}
		keys = []seal.Key{key}
	}
	ring, err := seal.New(keys)
	if err != nil {
		return nil, fmt.Errorf("make the key ring: %w", err)
	}
	return ring, nil
}

// OptionsFrom gives the options that a configuration describes, with a cache of
// the configured size. Store, Keys, Secrets, Cluster, Counters, Ring, Logger, Registerer, Gatherer
// and Tracer are left to the caller.
func OptionsFrom(cfg *config.Config) Options {
	o := DefaultOptions()
	o.Listen, o.AdminListen = cfg.Listen, cfg.Admin.Listen
	o.PublicURL = cmp.Or(cfg.PublicURL, defaultPublicURL(cfg.Listen))
	o.AllowedOrigins = cfg.AllowedOrigins
	o.TrustedProxies = cfg.TrustedProxies
	o.AllowUnauthenticated = cfg.AllowUnauthenticated
	o.Egress = Egress(cfg.Egress)
	o.Cache = cache.NewMemory(cfg.Limits.CacheBytes)

	l := &o.Limits
	override(&l.MaxHeader, cfg.Limits.Header)
	override(&l.MaxBody, cfg.Limits.Body)
	override(&l.MaxDepth, cfg.Limits.Depth)
	override(&l.MaxBuffered, cfg.Limits.BufferedBytes)
	override(&l.HeaderTimeout, cfg.Server.HeaderTimeout)
	override(&l.BodyTimeout, cfg.Server.BodyTimeout)
	override(&l.IdleTimeout, cfg.Server.IdleTimeout)
	override(&l.WriteTimeout, cfg.Server.WriteTimeout)
	override(&l.KeepAlive, cfg.Server.KeepAlive)
	override(&l.Streams, cfg.Limits.Streams)
	override(&l.StreamsPerPrincipal, cfg.Limits.StreamsPerPrincipal)
	override(&l.StreamLifetime, cfg.Limits.StreamLifetime)
	override(&l.SessionLifetime, cfg.Limits.ClientSessionLifetime)
	override(&l.Sessions, cfg.Limits.ClientSessions)
	override(&l.AnswerWait, cfg.Limits.ParkMax)
	override(&l.Asking, cfg.Limits.Asking)
	override(&l.AskingPerPrincipal, cfg.Limits.AskingPerPrincipal)
	override(&l.ShutdownGrace, cfg.Server.ShutdownGrace)
	override(&l.DrainDelay, cfg.Server.DrainDelay)

	f := &o.Federation
	override(&f.PageSize, cfg.Limits.PageSize)
	override(&f.MaxPages, cfg.Limits.Pages)
	override(&f.MaxItems, cfg.Limits.Items)
	override(&f.ListWait, cfg.Timeouts.List)
	override(&f.RevalidateWait, cfg.Timeouts.Revalidate)
	if cfg.Cache.ListTTL != nil {
		f.ListTTL = *cfg.Cache.ListTTL // 0 is a choice, not an absence
	}
	override(&f.Stale, cfg.Cache.Stale)
	override(&f.StaleIfError, cfg.Cache.StaleIfError)
	override(&f.StateTTL, cfg.Limits.StateTTL)
	override(&f.MaxDepth, cfg.Limits.Depth)
	override(&f.MaxListBytes, cfg.Limits.ListBytes)
	override(&f.Watches, cfg.Limits.Watches)
	override(&f.Instructions, cfg.Limits.Instructions)
	override(&f.ListenQueue, cfg.Limits.ListenQueue)
	override(&f.Coalesce, cfg.Limits.Coalesce)
	override(&f.PollInterval, cfg.Limits.PollInterval)
	override(&f.ListenStreams, cfg.Limits.ListenStreams)
	override(&f.InFlight, cfg.Limits.InFlight)
	override(&f.Idle, cfg.Limits.TenantIdle)

	o.Upstream = upstream.Config{
		ConnectTimeout:  cfg.Timeouts.Connect,
		CallTimeout:     cfg.Timeouts.Call,
		CallMax:         cfg.Timeouts.CallMax,
		IdleTimeout:     cfg.Timeouts.Idle,
		BreakerFailures: cfg.Breaker.Failures,
		BreakerOpen:     cfg.Breaker.Open,
		MaxMessage:      cfg.Limits.Message,
		MaxDepth:        cfg.Limits.Depth,
		Sessions: upstream.Sessions{
			Idle:                  cfg.Limits.SessionIdle,
			Max:                   cfg.Limits.Sessions,
			MaxProcesses:          cfg.Limits.Processes,
			ParkMax:               cfg.Limits.ParkMax,
			MaxParked:             cfg.Limits.Parked,
			MaxParkedPerPrincipal: cfg.Limits.ParkedPerPrincipal,
		},
	}
	return o
}

// override sets what the configuration says something about.
func override[T comparable](to *T, configured T) { *to = cmp.Or(configured, *to) }

// defaultPublicURL is how clients reach a listener that has one address of its
// own; empty where they cannot tell from it.
func defaultPublicURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || host == "" || port == "0" {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return "http://" + net.JoinHostPort(host, port)
}
