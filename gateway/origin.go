package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"
)

// guard decides whose requests a listener takes, by Origin and Host
// (2026-07-28, basic/transports/streamable-http, Security & Endpoint): a page
// from elsewhere must not reach a server on this machine or in this network
// through the browser of somebody here.
type guard struct {
	loopback bool // the listener is on a loopback address
	origins  map[string]bool
	host     string // of the public URL, without port; may be empty
}

// newGuard makes the guard of a listener. publicURL may be empty; both it and
// origins have been validated.
func newGuard(loopback bool, publicURL string, origins []string) *guard {
	g := &guard{loopback: loopback, origins: map[string]bool{}}
	for _, o := range append([]string{publicURL}, origins...) {
		if origin, err := parseOrigin(o); err == nil {
			g.origins[origin] = true
		}
	}
	if u, err := url.Parse(publicURL); err == nil {
		g.host = strings.ToLower(u.Hostname())
	}
	return g
}

// allow tells whether the request may be served.
func (g *guard) allow(r *http.Request) bool { return g.allowAt(r, nil) }

// allowAt is allow for a host of a tenant, which is as good as that of the public URL,
// and so is its origin, there. of is nil for all others.
func (g *guard) allowAt(r *http.Request, of *host) bool {
	return g.allowHost(r, of) && g.allowOrigin(r, of)
}

func (g *guard) allowHost(r *http.Request, of *host) bool {
	if !g.loopback || of != nil {
		return true
	}
	host := hostname(r.Host)
	return isLoopbackName(host) || g.host != "" && sameName(host, g.host)
}

func (g *guard) allowOrigin(r *http.Request, of *host) bool {
	values := r.Header["Origin"]
	if len(values) == 0 {
		return true // not a browser, or a page of the same origin that only reads
	}
	if len(values) > 1 {
		return false
	}
	origin, err := parseOrigin(values[0])
	if err != nil {
		return false
	}
	if g.origins[origin] || of != nil && origin == of.public.origin {
		return true
	}
	_, host, _ := strings.Cut(origin, "://")
	return g.loopback && isLoopbackName(hostname(host))
}

// parseOrigin gives the serialized origin (RFC 6454, 6.1) of an origin or of a
// URL, in lower case and without the scheme's default port. "null" is none. A name
// of other letters than ASCII comes in its ASCII form from browsers.
func parseOrigin(s string) (string, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return "", fmt.Errorf("%q has other characters than ASCII", s)
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a URL", s)
	}
	scheme := strings.ToLower(u.Scheme)
	if scheme != "http" && scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf("%q is not http:// or https:// with a host", s)
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "" || port == defaultPort(scheme) {
		host = strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
	}
	return scheme + "://" + host, nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// hostname gives the host of a Host header without port and brackets.
func hostname(hostport string) string {
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && !strings.HasSuffix(hostport, "]") && (strings.HasPrefix(hostport, "[") || strings.IndexByte(hostport, ':') == i) {
		hostport = hostport[:i]
	}
	if inner, ok := strings.CutPrefix(hostport, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	return hostport
}

// isLoopbackName tells whether a host name means this machine for every browser.
func isLoopbackName(host string) bool {
	return host == "127.0.0.1" || host == "::1" || sameName(host, "localhost")
}

// sameName compares host names without regard to case. Names of the same length in
// bytes cannot be equal by the folding of other letters, such as U+017F to s.
func sameName(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }

// isLoopback tells whether a listen address is reachable from this machine only.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
