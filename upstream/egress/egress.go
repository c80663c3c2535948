// Package egress is the only place that opens connections to addresses that
// somebody else chose. It makes the transports for upstream servers: how they
// dial, which proxy they use, how long a connection may stay idle; and the client
// for everything else that is fetched from a URL which a tenant, a user or a server
// chose. It is a leaf: it imports none of our packages.
//
// What was not chosen by the operator is checked: a Pool whose Settings are Checked,
// and every Fetcher. A host is refused when it is, or is resolved to, an address that
// is not public, or written in a form that somebody might read as one. The address
// that is judged is the one that is dialled, so that a name whose answer changes wins
// nothing. Any port of an allowed address may be reached.
package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// Bounds that all transports share.
const (
	// maxHeaderBytes bounds the header of one response.
	maxHeaderBytes = 64 << 10
	// maxIdleCalls is how many idle connections for calls are kept per upstream;
	// it is not below the default of concurrent calls, so that a busy upstream's
	// connections are not closed and opened all the time.
	maxIdleCalls = 256
	// maxIdleListens is the same for listen streams, which rarely end.
	maxIdleListens = 2
	// Messages are a few KiB: a call with its header goes out in one write, and
	// its answer comes in with one read. Listen streams are many and quiet.
	callBuffer   = 8 << 10
	listenBuffer = 2 << 10
)

// controlFunc is the type of net.Dialer.ControlContext.
type controlFunc = func(ctx context.Context, network, address string, c syscall.RawConn) error

// keepAlive finds out within half a minute that a peer of a quiet stream is gone.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// Options hold for all connections of a process.
type Options struct {
	// Proxy chooses the proxy for a request. Nil means that of the environment
	// (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), which never applies to loopback
	// addresses. What is checked uses no proxy of the environment: a proxy resolves
	// names itself, so the check would see the proxy's address only. It does use one
	// that is given here, which then has to refuse what must not be reached.
	Proxy func(*http.Request) (*url.URL, error)
	// AllowPrivate are networks whose addresses may be reached although they are not
	// public. A metadata service or a link-local address has to be named itself, as
	// /32 or /128.
	AllowPrivate []netip.Prefix
	// Resolver resolves names; nil means that of the system.
	Resolver *net.Resolver
	// Control is called with each resolved address before it is dialled, after the
	// checks of this package; an error refuses the address. Nil allows all. With a
	// proxy it sees the proxy's address.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
	// TLS is used for https; nil means the system's roots.
	TLS *tls.Config
}

// Settings are one upstream's own. Both times must be set.
type Settings struct {
	// Checked is for an upstream whose URL was not chosen by the operator: the address
	// is checked.
	Checked        bool
	ConnectTimeout time.Duration // for name, connection and TLS handshake each
	IdleTimeout    time.Duration // an idle connection is closed after it, unless the server announces another time
}

// Transports makes the transports of this process.
type Transports struct {
	opts  Options
	gate  *gate // of what is checked
	inner *gate // the same where private addresses are allowed
	// Those of fetchers, which are all alike; innerFetch dials private addresses too.
	fetch, innerFetch *http.Transport
}

// New makes a Transports.
func New(opts Options) *Transports {
	t := &Transports{opts: opts, gate: &gate{nets: networks(), proxy: opts.Proxy}}
	for _, p := range opts.AllowPrivate {
		t.gate.allow = append(t.gate.allow, unmapped(p))
	}
	t.inner = new(*t.gate)
	t.inner.private = true
	if opts.Proxy == nil {
		t.opts.Proxy = http.ProxyFromEnvironment
	}
	t.fetch, t.innerFetch = t.fetching(t.gate), t.fetching(t.inner)
	return t
}

// Calls makes the pool for one upstream's ordinary requests. It asks for gzip
// and decodes it.
func (t *Transports) Calls(s Settings) *Pool {
	return newPool(t.gateOf(s), s.IdleTimeout, func(idle time.Duration) *http.Transport {
		tr := t.transport(t.gateOf(s), s.ConnectTimeout, idle)
		tr.MaxIdleConnsPerHost = maxIdleCalls
		tr.WriteBufferSize, tr.ReadBufferSize = callBuffer, callBuffer
		return tr
	})
}

// Listens makes the pool for one upstream's listen streams, so that they never
// take a connection from a call. It does not ask for compression, since some
// servers hold small events back to compress them better.
func (t *Transports) Listens(s Settings) *Pool {
	return newPool(t.gateOf(s), s.IdleTimeout, func(idle time.Duration) *http.Transport {
		tr := t.transport(t.gateOf(s), s.ConnectTimeout, idle)
		tr.MaxIdleConnsPerHost = maxIdleListens
		tr.WriteBufferSize, tr.ReadBufferSize = listenBuffer, listenBuffer
		tr.DisableCompression = true
		return tr
	})
}

// gateOf gives nil where any address may be reached.
func (t *Transports) gateOf(s Settings) *gate {
	if s.Checked {
		return t.gate
	}
	return nil
}

// transport makes one that dials what g allows; nil allows all.
func (t *Transports) transport(g *gate, connect, idle time.Duration) *http.Transport {
	tr := &http.Transport{
		Proxy:                  t.opts.Proxy,
		DialContext:            t.dialer(connect, t.opts.Control),
		TLSClientConfig:        t.opts.TLS.Clone(),
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if g != nil {
		toProxy, checked := tr.DialContext, t.dialer(connect, g.control(t.opts.Control))
		tr.Proxy = chosenProxy
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if ctx.Value(proxyKey{}) != nil {
				return toProxy(ctx, network, addr)
			}
			return checked(ctx, network, addr)
		}
	}
	return tr
}

// dialer makes a function that resolves a name once and tries what it stands for,
// one after the other; control sees each address before it is dialled.
func (t *Transports) dialer(timeout time.Duration, control controlFunc) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive(), ControlContext: control, Resolver: t.opts.Resolver}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		if err == nil {
			return conn, nil
		}
		if blocked, ok := errors.AsType[*BlockedError](err); ok {
			// What is around it tells the address.
			host, _, _ := net.SplitHostPort(addr)
			err = &BlockedError{Host: host, Reason: blocked.Reason, Addr: blocked.Addr}
		}
		return nil, &DialError{Err: err}
	}
}

// DialError tells that no connection could be made.
type DialError struct{ Err error }

// Error gives the cause.
func (e *DialError) Error() string { return fmt.Sprintf("dial: %v", e.Err) }

// Unwrap gives the cause.
func (e *DialError) Unwrap() error { return e.Err }

// Timeout tells whether the connection was not made in time.
func (e *DialError) Timeout() bool {
	var t net.Error
	return errors.As(e.Err, &t) && t.Timeout()
}

// NotSent tells whether err, which a Pool's RoundTrip returned, means for sure
// that no byte of the request went out. Where it is in doubt the answer is false.
func NotSent(err error) bool {
	var dial *DialError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &dial) || errors.As(err, &cert)
}
