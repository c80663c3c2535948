// Package egress is the only place that opens connections to addresses that
// somebody else chose. It makes the transports for upstream servers: how they
// dial, which proxy they use, how long a connection may stay idle. It is a leaf:
// it imports none of our packages.
package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
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

// keepAlive finds out within half a minute that a peer of a quiet stream is gone.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}

// Options hold for all connections of a process.
type Options struct {
	// Proxy chooses the proxy for a request. Nil means that of the environment
	// (HTTP_PROXY, HTTPS_PROXY, NO_PROXY), which never applies to loopback
	// addresses.
	Proxy func(*http.Request) (*url.URL, error)
	// Control is called with each resolved address before it is dialled; an error
	// refuses the address. Nil allows all. With a proxy it sees the proxy's
	// address.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
	// TLS is used for https; nil means the system's roots.
	TLS *tls.Config
}

// Settings are one upstream's own times. Both must be set.
type Settings struct {
	ConnectTimeout time.Duration // for name, connection and TLS handshake each
	IdleTimeout    time.Duration // an idle connection is closed after it, unless the server announces another time
}

// Transports makes the transports of this process.
type Transports struct{ opts Options }

// New makes a Transports.
func New(opts Options) *Transports {
	if opts.Proxy == nil {
		opts.Proxy = http.ProxyFromEnvironment
	}
	return &Transports{opts: opts}
}

// Calls makes the pool for one upstream's ordinary requests. It asks for gzip
// and decodes it.
func (t *Transports) Calls(s Settings) *Pool {
	return newPool(s.IdleTimeout, func(idle time.Duration) *http.Transport {
		tr := t.transport(s, idle)
		tr.MaxIdleConnsPerHost = maxIdleCalls
		tr.WriteBufferSize, tr.ReadBufferSize = callBuffer, callBuffer
		return tr
	})
}

// Listens makes the pool for one upstream's listen streams, so that they never
// take a connection from a call. It does not ask for compression, since some
// servers hold small events back to compress them better.
func (t *Transports) Listens(s Settings) *Pool {
	return newPool(s.IdleTimeout, func(idle time.Duration) *http.Transport {
		tr := t.transport(s, idle)
		tr.MaxIdleConnsPerHost = maxIdleListens
		tr.WriteBufferSize, tr.ReadBufferSize = listenBuffer, listenBuffer
		tr.DisableCompression = true
		return tr
	})
}

func (t *Transports) transport(s Settings, idle time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: s.ConnectTimeout, KeepAliveConfig: keepAlive(), ControlContext: t.opts.Control}
	return &http.Transport{
		Proxy: t.opts.Proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, &DialError{Err: err}
			}
			return conn, nil
		},
		TLSClientConfig:        t.opts.TLS.Clone(),
		TLSHandshakeTimeout:    s.ConnectTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
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
