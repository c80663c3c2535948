// Package gateway is the process and its HTTP edge: it wires the parts together,
// serves the MCP endpoints and the admin listener, and ends everything in order.
// It and the packages below it are the only ones that import Echo, for routing;
// protocol code here is written against net/http. It may import all other
// packages of ours but cmd.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Gateway is one gateway process. Use it as New, Start, Stop, or as New and Run.
type Gateway struct {
	opts   Options
	log    *slog.Logger
	edge   *edge
	health *health

	cleanups cleanups
	serving  sync.WaitGroup
	failed   chan error // of a listener that ended by itself

	public, admin net.Listener
}

// newGateway puts the edge before a router.
func newGateway(opts Options, r router, budget *mcp.Budget, metrics *telemetry.Metrics) *Gateway {
	e := newEdge()
	e.router, e.limits, e.budget, e.metrics, e.log = r, opts.Limits, budget, metrics, opts.Logger
	if !isNoop(opts.Tracer) {
		e.tracer = opts.Tracer
	}
	e.store = opts.Store
	e.open = opts.AllowUnauthenticated || isLoopback(opts.Listen)
	e.public = newPublicURL(opts.PublicURL)
	e.guard = newGuard(isLoopback(opts.Listen), opts.PublicURL, opts.AllowedOrigins)
	e.hosts = newHosts(opts.Store, e.guard.host, e.public.origin, opts.Logger)
	e.streams = newStreams(opts.Limits, metrics, opts.Logger)
	e.handshakes = newHandshakes(&opts)
	g := &Gateway{opts: opts, log: opts.Logger, edge: e, health: newHealth(&opts), failed: make(chan error, 3)}
	g.cleanups.push("state of sessions", e.handshakes.forget)
	return g
}

// isNoop tells whether spans of the tracer go nowhere, so that they need not be
// made.
func isNoop(t trace.Tracer) bool {
	_, ok := t.(noop.Tracer)
	return t == nil || ok
}

// Start listens and serves. When it fails, nothing is left open but what New
// made.
func (g *Gateway) Start(ctx context.Context) error {
	var lc net.ListenConfig
	public, err := lc.Listen(ctx, "tcp", g.opts.Listen)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	g.public = public
	if a, ok := public.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && !g.opts.AllowUnauthenticated {
		// A name such as localhost may mean something else here.
		g.edge.open = false
	}
	if g.opts.AdminListen != "" {
		if g.admin, err = lc.Listen(ctx, "tcp", g.opts.AdminListen); err != nil {
			return errors.Join(fmt.Errorf("listen for administration: %w", err), public.Close())
		}
		guard := newGuard(isLoopback(g.opts.AdminListen), "", nil)
		server := g.server(adminRoutes(guard, g.health, g.opts.Gatherer, g.log))
		server.WriteTimeout = time.Minute // nothing there streams
		g.serve("admin listener", server, g.admin)
	}
	if p := g.edge.peers; p != nil {
		g.servePeers()
		g.log.Info("one of several replicas", "replica", p.replica, "peer", p.address)
	}
	g.serveClients(g.public)
	g.cleanups.push("readiness", g.leave)
	g.health.state.Store(stateReady)
	g.log.Info("serving", "listen", g.Addr().String(), "version", g.opts.Version)
	return nil
}

// leave makes the gateway not ready, and goes on serving for a while: balancers
// that ask for readiness learn of it meanwhile, and send nothing to a listener that
// is closed.
func (g *Gateway) leave(ctx context.Context) error {
	g.health.state.Store(stateDraining)
	timer := time.NewTimer(g.opts.Limits.DrainDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// serveClients serves the MCP endpoints.
func (g *Gateway) serveClients(l net.Listener) {
	g.cleanups.push("workers of listen streams", g.edge.streams.join)
	g.cleanups.push("calls of handshake clients", g.edge.handshakes.close)
	g.serve("MCP listener", g.server(publicRoutes(g.edge, g.opts.TrustedProxies)), l)
	g.cleanups.push("listen streams", g.edge.streams.drain)
}

// server makes a server with the bounds that both listeners have. It has no
// WriteTimeout: an event stream may last, and each event has a deadline.
func (g *Gateway) server(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // as proxies that speak it to their backends do
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: g.opts.Limits.HeaderTimeout,
		IdleTimeout:       g.opts.Limits.IdleTimeout,
		MaxHeaderBytes:    g.opts.Limits.MaxHeader,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		Protocols:         protocols,
	}
}

// serve runs a server until it is stopped, which waits for requests under way.
func (g *Gateway) serve(name string, server *http.Server, l net.Listener) {
	g.serveWith(name, server, func() error { return server.Serve(l) })
}

// serveWith is serve for a server that begins in a way of its own.
func (g *Gateway) serveWith(name string, server *http.Server, begin func() error) {
	g.serving.Go(func() {
		if err := begin(); !errors.Is(err, http.ErrServerClosed) {
			g.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
	g.cleanups.push(name, func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(fmt.Errorf("requests were cut off: %w", err), server.Close())
		}
		return err
	})
}

// Stop ends everything in order: the gateway is no longer ready, listen streams
// are ended gracefully, requests under way are waited for, then collaborators are
// closed. It takes no longer than ctx and Limits.ShutdownGrace, and then cuts off
// what is left. It may be called after a failed Start, and twice.
func (g *Gateway) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Limits.ShutdownGrace)
	defer cancel()
	err := g.cleanups.run(ctx)
	g.serving.Wait()
	return err
}

// Run starts the gateway, and stops it when ctx ends or a listener fails.
func (g *Gateway) Run(ctx context.Context) error {
	err := g.Start(ctx)
	if err == nil {
		select {
		case <-ctx.Done():
			g.log.Info("stopping", "grace", g.opts.Limits.ShutdownGrace.String())
		case err = <-g.failed:
		}
	}
	return errors.Join(err, g.Stop(context.WithoutCancel(ctx)))
}

// Addr gives the address of the MCP listener; nil before Start.
func (g *Gateway) Addr() net.Addr {
	if g.public == nil {
		return nil
	}
	return g.public.Addr()
}

// AdminAddr gives the address of the admin listener; nil before Start and where
// there is none.
func (g *Gateway) AdminAddr() net.Addr {
	if g.admin == nil {
		return nil
	}
	return g.admin.Addr()
}
