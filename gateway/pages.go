package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/auth"
)

// pathPages is below which users' browsers, and the authorization servers of upstreams,
// find what the gateway has for them as an OAuth client.
const pathPages = "/oauth/"

// Bounds of a request there.
const (
	maxForm  = 64 << 10         // bytes of a form
	pageTime = 30 * time.Second // until it is answered, also where a server has to be asked first
)

// pages serves what users open in their browsers. Links to it are for one user alone, so
// neither they nor what is posted is logged.
type pages struct {
	handler http.Handler
	public  publicURL
	guard   *guard
	auth    *auth.Authenticator
	limits  Limits
	log     *slog.Logger
}

// mountPages has a handler serve the pages; it needs the edge's other collaborators, and
// an address that browsers know. nil is none.
func (e *edge) mountPages(handler http.Handler) {
	if handler == nil || e.public.origin == "" {
		return
	}
	e.pages = &pages{handler: handler, public: e.public, guard: e.guard, auth: e.auth, limits: e.limits, log: e.log}
}

// has tells whether a request is for a page.
func (p *pages) has(r *http.Request) bool { return p.path(r) != "" }

// path gives the path of the page that a request is for; empty where it is for none.
func (p *pages) path(r *http.Request) string {
	for _, path := range []string{p.public.below(r.URL.Path), r.URL.Path} {
		if strings.HasPrefix(path, pathPages) {
			return path
		}
	}
	return ""
}

// serve answers a request for a page. address is the client's, behind trusted proxies.
// The handler sees paths that begin with pathPages, and bodies of at most maxForm bytes.
// Who fails too often has to wait: links and forms are not to be guessed.
func (p *pages) serve(w http.ResponseWriter, r *http.Request, address string) {
	if !p.allow(r) {
		writePlain(w, http.StatusForbidden)
		return
	}
	source, _ := netip.ParseAddr(address) // those that are none have one limit together
	if wait := p.auth.Pause(source.Unmap()); wait > 0 {
		after := retryAfter(wait)
		w.Header().Set(after[0], after[1])
		writePlain(w, http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	out := &answered{ResponseWriter: w}
	defer p.recover(out, r)
	inner, status := p.take(w, r.WithContext(ctx))
	if inner == nil {
		writePlain(out, status)
	} else {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTime + plainTimeout)) // as writePlain does
		w.Header().Set("X-Content-Type-Options", "nosniff")
		p.handler.ServeHTTP(out, inner)
	}
	if 400 <= out.status && out.status < 500 {
		p.auth.Failed(source.Unmap())
	}
}

// allow tells whether a request may be served. Forms come from the gateway's own pages
// alone: not even the origins whose pages may call the MCP endpoints have any there.
func (p *pages) allow(r *http.Request) bool {
	if !p.guard.allowHost(r, nil) || !privately(r) && !p.guard.allowOrigin(r, nil) || embedded(r) {
		return false
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true // of no browser; those send it with each form (Fetch standard, 3.1)
	}
	origin, err := parseOrigin(values[0])
	return err == nil && origin == p.public.origin || privately(r)
}

// embedded tells whether another site's page loads a page as a part of its own, as it
// might an image, and not for its user to go there. Such requests have no use but to fail
// until the user has to wait.
func embedded(r *http.Request) bool {
	site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
	return (site == "cross-site" || site == "same-site") && mode != "" && mode != "navigate"
}

// privately tells whether a form is from a page of the same origin that has browsers
// keep its address to themselves: they then say that its origin is null (Fetch standard,
// 3.1), and by another header, which no page can set, where it is from.
func privately(r *http.Request) bool {
	origin, site := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	return len(origin) == 1 && origin[0] == "null" && len(site) == 1 && site[0] == "same-origin"
}

// take reads the request's body, and gives the request as the handler is to see it; or
// nil and the status of the refusal.
func (p *pages) take(w http.ResponseWriter, r *http.Request) (*http.Request, int) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(p.limits.BodyTimeout)) // where it cannot be set, the server's own bounds hold
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge
	case err != nil:
		return nil, http.StatusBadRequest
	}
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	inner.URL.Path, inner.URL.RawPath = p.path(r), ""
	return inner, 0
}

// recover answers a panic of the handler.
func (p *pages) recover(w *answered, r *http.Request) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v) // it cuts the connection off
	default:
		p.log.Error("serve a page", "http_method", r.Method, "error", panicked(v))
		if w.status == 0 {
			writePlain(w, http.StatusInternalServerError)
		}
	}
}

// answered is a response whose status is known.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
