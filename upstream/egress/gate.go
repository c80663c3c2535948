package egress

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
)

// BlockedError tells that a host may not be reached. Its text tells what and why,
// but not which address a name stands for, so that it may be shown to whoever chose
// the host.
type BlockedError struct {
	Host   string // as it was asked for
	Reason string // what is wrong with it, in words
	// Addr is the address that was refused; it is for logs. It is not valid where
	// the host was refused before it was resolved.
	Addr netip.Addr
}

// Error tells the host and the reason.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%q may not be reached: %s", e.Host, e.Reason)
}

// gate says which hosts and addresses may be reached.
type gate struct {
	nets    []network
	private bool
	allow   []netip.Prefix
	// proxy is one that was chosen on purpose; nil where there is none. What goes
	// through it is resolved and checked there.
	proxy func(*http.Request) (*url.URL, error)
}

// address tells why an address may not be reached; nil when it may.
func (g *gate) address(a netip.Addr) *BlockedError {
	if a.Zone() != "" {
		return &BlockedError{Addr: a, Reason: "it is an address with a zone"}
	}
	a = a.Unmap()
	if what, ok := g.allows(a); !ok {
		return &BlockedError{Addr: a, Reason: "it is " + what}
	}
	for _, inner := range embedded(a) {
		if what, ok := g.allows(inner); !ok {
			return &BlockedError{Addr: a, Reason: "it stands for " + what}
		}
	}
	return nil
}

// allows tells whether an address, as it is written, may be reached, and else what
// it is.
func (g *gate) allows(a netip.Addr) (what string, ok bool) {
	for _, n := range g.nets {
		if !n.prefix.Contains(a) {
			continue
		}
		switch n.level {
		case open:
			return "", true
		case private:
			return n.what, g.private || g.lists(a, 0)
		case named:
			return n.what, g.lists(a, 0)
		case exact:
			return n.what, g.lists(a, a.BitLen())
		}
		return n.what, false
	}
	return "no address", false
}

// lists tells whether a network of at least so many bits that holds the address is
// allowed by name.
func (g *gate) lists(a netip.Addr, bits int) bool {
	for _, p := range g.allow {
		if p.Bits() >= bits && p.Contains(a) {
			return true
		}
	}
	return false
}

// control is for net.Dialer.ControlContext: it sees the very address that is about
// to be dialled, whatever a name stood for before.
func (g *gate) control(next controlFunc) controlFunc {
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return &BlockedError{Reason: "it is no address"}
		}
		if blocked := g.address(a.Addr()); blocked != nil {
			return blocked
		}
		if next != nil {
			return next(ctx, network, address, c)
		}
		return nil
	}
}

// host checks what can be known of a host before it is resolved. Only plain forms
// pass: a resolver, a proxy and we might each understand another one differently.
func (g *gate) host(host string) *BlockedError {
	blocked := func(reason string) *BlockedError { return &BlockedError{Host: host, Reason: reason} }
	if a, err := netip.ParseAddr(host); err == nil {
		b := g.address(a)
		if b != nil {
			b.Host = host
		}
		return b
	}
	name := strings.TrimSuffix(host, ".")
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return blocked("it is no host name")
		}
	}
	switch {
	case len(name) > 253:
		return blocked("it is no host name")
	case strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) }):
		return blocked("it is no host name of letters, digits and hyphens; others are written as xn--")
	case isNumber(labels[len(labels)-1]):
		return blocked("it is a number, or an address in a form that is not usual")
	case isMetadataName(strings.ToLower(name)):
		return blocked("it is a cloud's metadata service")
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// isNumber tells whether a name that ends in the label is an address to those who
// read 127.1, 0177.0.0.1, 0x7f.1 and 2130706433 as one (WHATWG URL, "ends in a
// number checker"), or who know binary numbers too. No top-level domain looks like
// that (RFC 3696, section 2).
func isNumber(label string) bool {
	const digits = "0123456789"
	label = strings.ToLower(label)
	for _, base := range []string{"0x", "0o", "0b"} {
		if number, ok := strings.CutPrefix(label, base); ok {
			return strings.Trim(number, digits+"abcdef") == ""
		}
	}
	return strings.Trim(label, digits) == ""
}

// isMetadataName tells whether a cloud's metadata service has that name. It would be
// refused for its address; but a proxy resolves names itself.
func isMetadataName(name string) bool {
	switch name {
	case "metadata", "metadata.google.internal", "metadata.goog", "metadata.azure.internal",
		"metadata.tencentyun.com", "metadata.oraclecloud.com", "instance-data", "instance-data.ec2.internal":
		return true
	}
	return false
}

// proxyKey is the key of the proxy that admit chose for a request, a *url.URL.
type proxyKey struct{}

// chosenProxy is for http.Transport.Proxy.
func chosenProxy(req *http.Request) (*url.URL, error) {
	u, _ := req.Context().Value(proxyKey{}).(*url.URL)
	return u, nil
}

// admit checks the URL of a request, and settles which way it goes: the transport
// has to know when it dials.
func (g *gate) admit(req *http.Request) (*http.Request, error) {
	if blocked := g.host(req.URL.Hostname()); blocked != nil {
		return nil, &DialError{Err: blocked}
	}
	if req.URL.User != nil {
		return nil, &DialError{Err: &BlockedError{Host: req.URL.Hostname(), Reason: "the URL holds credentials"}}
	}
	if g.proxy == nil {
		return req, nil
	}
	u, err := g.proxy(req)
	if err != nil || u == nil {
		return req, err
	}
	return req.WithContext(context.WithValue(req.Context(), proxyKey{}, u)), nil
}

// closeBody keeps the promise of http.RoundTripper for a request that is not sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
