package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// plainTimeout is how long a client may take to take an answer that is not of MCP.
const plainTimeout = 10 * time.Second

// publicRoutes mounts the MCP endpoints, their metadata, and the pages for users. A
// host of a tenant leads to that tenant's endpoints, and to nothing else.
func publicRoutes(e *edge, trusted []netip.Prefix) http.Handler {
	mux := newEcho(http.MethodPost, trusted)
	mux.Any("/mcp", func(c echo.Context) error {
		return e.serveAt(c, place{at: federation.Endpoint{Tenant: tenant.DefaultName}, path: "/mcp"})
	})
	for _, path := range []string{"/t/:tenant/mcp", "/t/:tenant/u/:alias/mcp", "/t/:tenant/s/:toolset/mcp"} {
		mux.Any(path, func(c echo.Context) error {
			at := federation.Endpoint{Tenant: c.Param("tenant"), Alias: c.Param("alias"), Toolset: c.Param("toolset")}
			return e.serveAt(c, place{at: at, path: "/t/" + at.Tenant + pathOf(at)})
		})
	}
	metadata := func(c echo.Context) error {
		e.serveMetadata(c.Response().Writer, c.Request(), nil)
		return nil
	}
	mux.Any(pathMetadata, metadata)
	mux.Any(pathMetadata+"/*", metadata)
	own := hostRoutes(e, trusted)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch of := e.hosts.find(r.Host); {
		case of != nil:
			own(w, r, of)
		case e.pages != nil && e.pages.has(r):
			e.pages.serve(w, r, mux.IPExtractor(r))
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// hostRoutes serves what is at a host of a tenant.
func hostRoutes(e *edge, trusted []netip.Prefix) func(w http.ResponseWriter, r *http.Request, of *host) {
	mux := newEcho(http.MethodPost, trusted)
	type key struct{} // of the host, in a request's context
	hostOf := func(c echo.Context) *host {
		of, _ := c.Request().Context().Value(key{}).(*host)
		return of
	}
	mux.Any("/*", func(c echo.Context) error {
		of := hostOf(c)
		at, ok := endpointOf(of.tenant, of.public.below(c.Request().URL.Path))
		if !ok {
			return echo.ErrNotFound
		}
		return e.serveAt(c, place{at: at, path: pathOf(at), host: of})
	})
	metadata := func(c echo.Context) error {
		e.serveMetadata(c.Response().Writer, c.Request(), hostOf(c))
		return nil
	}
	mux.Any(pathMetadata, metadata)
	mux.Any(pathMetadata+"/*", metadata)
	return func(w http.ResponseWriter, r *http.Request, of *host) {
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, of)))
	}
}

// serveAt serves a request to an MCP endpoint.
func (e *edge) serveAt(c echo.Context, p place) error {
	if c.Request().URL.RawQuery != "" {
		// Several are none of the modes.
		p.at.Discovery = tenant.DiscoveryMode(strings.Join(c.QueryParams()["discovery"], ","))
	}
	// The writer below Echo's own: the endpoint flushes, hijacks and sets
	// deadlines itself.
	e.serve(c.Response().Writer, c.Request(), p, c.RealIP)
	return nil
}

// adminRoutes mounts what watches the process. guard is that of the listener.
func adminRoutes(g *guard, h *health, gatherer prometheus.Gatherer, log *slog.Logger) http.Handler {
	mux := newEcho(http.MethodGet, nil)
	mux.GET("/livez", echo.WrapHandler(http.HandlerFunc(h.live)))
	mux.GET("/readyz", echo.WrapHandler(http.HandlerFunc(h.ready)))
	mux.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
		EnableOpenMetrics: true,
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.allow(r) {
			writePlain(w, http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// newEcho makes a router and nothing else: Echo's own servers, banner and error
// pages are not used. allow is the one method of its routes, trusted are the
// proxies whose X-Forwarded-For is believed.
func newEcho(allow string, trusted []netip.Prefix) *echo.Echo {
	mux := echo.New()
	mux.IPExtractor = echo.ExtractIPDirect()
	if len(trusted) > 0 {
		options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
		for _, p := range trusted {
			options = append(options, echo.TrustIPRange(&net.IPNet{
				IP:   p.Addr().AsSlice(),
				Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
			}))
		}
		mux.IPExtractor = echo.ExtractIPFromXFFHeader(options...)
	}
	mux.HTTPErrorHandler = func(err error, c echo.Context) {
		status := http.StatusInternalServerError
		var he *echo.HTTPError
		if errors.As(err, &he) {
			status = he.Code
		}
		if status == http.StatusMethodNotAllowed {
			c.Response().Writer.Header().Set("Allow", allow)
		}
		writePlain(c.Response().Writer, status)
	}
	return mux
}

// writePlain answers with an error that is not of MCP.
func writePlain(w http.ResponseWriter, status int) {
	// The connection may still have the deadline of its last response.
	_ = http.NewResponseController(w).SetWriteDeadline(writeDeadline(plainTimeout, 0))
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(plainError(status)) // a client that left is no error
}
