// Package demo holds three sample MCP servers, the travel-planning scenario of
// the MCP documentation: travel, weather and calendar. They are written with the
// official Go SDK, so that they are an implementation of the protocol which is
// independent of the gateway's own, and they listen on real loopback ports.
//
// Everything they say is made up, deterministic, and needs no network. It
// imports none of our packages.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// DefaultStep is the time that one step of a booking takes: long enough for a
// person to see the progress arrive.
const DefaultStep = 400 * time.Millisecond

// Options of Start. The zero value is ready.
type Options struct {
	Logger *slog.Logger  // of the servers; nil discards
	Step   time.Duration // of a booking; 0 means DefaultStep
}

// Upstream is where one sample server can be reached.
type Upstream struct {
	Alias       string
	URL         string
	Description string
}

// Servers are the running sample servers.
type Servers struct{ running []*running }

// running is one server and what serves it.
type running struct {
	upstream   Upstream
	http       *http.Server
	endListens context.CancelFunc
	served     chan error // gets the result of http.Serve
}

// Start starts the three servers on ports of 127.0.0.1 that the system chooses.
// Stop ends them.
func Start(opts Options) (*Servers, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Step == 0 {
		opts.Step = DefaultStep
	}
	s := &Servers{}
	for _, def := range []struct {
		alias, about string
		make         func(Options) *mcp.Server
	}{
		{"travel", "flights and hotels", newTravel},
		{"weather", "current weather and forecasts", newWeather},
		{"calendar", "events and e-mail", newCalendar},
	} {
		r, err := serve(def.make(opts), opts.Logger.With("upstream", def.alias))
		if err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("start the sample server %s: %w", def.alias, err), s.Stop(ctx))
		}
		r.upstream.Alias, r.upstream.Description = def.alias, def.about
		s.running = append(s.running, r)
	}
	return s, nil
}

// Upstreams gives the servers in a fixed order.
func (s *Servers) Upstreams() []Upstream {
	var list []Upstream
	for _, r := range s.running {
		list = append(list, r.upstream)
	}
	return list
}

// Stop ends the servers: listen streams get their completion result, running
// calls may finish until ctx ends.
func (s *Servers) Stop(ctx context.Context) error {
	var errs []error
	for _, r := range s.running {
		if err := r.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the sample server %s: %w", r.upstream.Alias, err))
		}
	}
	return errors.Join(errs...)
}

// serve serves one server at /mcp of a port of its own. All requests share the
// one *mcp.Server, since a change that one request makes has to reach the
// listen streams that others opened.
func serve(server *mcp.Server, logger *slog.Logger) (*running, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			// Revision 2026-07-28 is spoken by the SDK's stateless handler only.
			Stateless:                    true,
			Logger:                       logger,
			PropagateRequestCancellation: true,
		})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	stopping, cancel := context.WithCancel(context.Background())
	server.AddReceivingMiddleware(endListens(stopping))
	r := &running{
		upstream: Upstream{URL: "http://" + ln.Addr().String() + "/mcp"},
		http: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 5 * time.Second,
			IdleTimeout:       time.Minute,
			ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		},
		endListens: cancel,
		served:     make(chan error, 1),
	}
	go func() { r.served <- r.http.Serve(ln) }()
	return r, nil
}

// endListens ends listen requests with stopping. The SDK answers one whose
// context ends with the completion result (basic/patterns/subscriptions,
// Graceful Closure); closing its session would drop the answer.
func endListens(stopping context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "subscriptions/listen" {
				return next(ctx, method, req)
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(stopping, cancel)()
			return next(ctx, method, req)
		}
	}
}

// stop ends the server and waits for all that it started.
func (r *running) stop(ctx context.Context) error {
	r.endListens()
	err := r.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, r.http.Close())
	}
	if served := <-r.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
