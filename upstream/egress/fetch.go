package egress

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Defaults of FetchOptions.
const (
	DefaultFetchTimeout = 10 * time.Second
	DefaultFetchBytes   = 1 << 20
)

// Bounds of all fetches.
const (
	// maxRedirects is how many redirects within one origin are followed.
	maxRedirects = 3
	// fetchConnect bounds resolving and connecting, and the TLS handshake.
	fetchConnect = 5 * time.Second
	// fetchIdle is below the 5 s after which common servers close an idle connection.
	fetchIdle = 4 * time.Second
	// maxIdleFetches is how many idle connections are kept, and maxIdleFetchesPerHost
	// how many of them to one host.
	maxIdleFetches, maxIdleFetchesPerHost = 128, 16
)

// FetchOptions say what a client may reach and how much of it. Zero values mean the
// named defaults.
type FetchOptions struct {
	// Private allows private and loopback addresses, and http. Metadata services,
	// link-local and reserved addresses stay refused.
	Private bool
	// HTTP allows http besides https.
	HTTP bool
	// Timeout bounds one fetch as a whole, from resolving the name to the last byte
	// of the body: DefaultFetchTimeout.
	Timeout time.Duration
	// MaxBytes bounds the body of a response: DefaultFetchBytes.
	MaxBytes int64
}

// Fetcher gives a client for URLs that a tenant, a user or a server chose. Fetchers
// share connections, so that one may be made for each use.
//
// It dials public addresses only, and those of Options.AllowPrivate; see
// FetchOptions.Private. It follows at most three redirects, and those only to the
// same scheme, host and port; it keeps no cookies, asks for no compression, and uses
// no proxy of the environment. A refusal is a *BlockedError within the error of Do. A
// body that is too large is an error of its Read, a *SizeError.
//
// The *url.Error that http.Client makes quotes the URL, and other errors may tell
// addresses: they are for logs.
func (t *Transports) Fetcher(o FetchOptions) *http.Client {
	f := &fetcher{transport: t.fetch, gate: t.gate, http: o.HTTP || o.Private, max: o.MaxBytes}
	if o.Private {
		f.transport, f.gate = t.innerFetch, t.inner
	}
	if f.max <= 0 {
		f.max = DefaultFetchBytes
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = DefaultFetchTimeout
	}
	return &http.Client{Transport: f, CheckRedirect: checkRedirect, Timeout: timeout}
}

// Close drops the idle connections of all fetchers. Pools are closed by their owners.
func (t *Transports) Close() {
	t.fetch.CloseIdleConnections()
	t.innerFetch.CloseIdleConnections()
}

// fetching makes the transport of fetchers.
func (t *Transports) fetching(g *gate) *http.Transport {
	tr := t.transport(g, fetchConnect, fetchIdle)
	tr.DisableCompression = true // a small body must not become a large one
	tr.MaxIdleConns, tr.MaxIdleConnsPerHost = maxIdleFetches, maxIdleFetchesPerHost
	if tr.TLSClientConfig == nil {
		tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	tr.TLSClientConfig.MinVersion = max(tr.TLSClientConfig.MinVersion, tls.VersionTLS12)
	return tr
}

// fetcher is the http.RoundTripper of one Fetcher. It sees each redirect too.
type fetcher struct {
	transport *http.Transport
	gate      *gate
	http      bool
	max       int64
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(req *http.Request) (*http.Response, error) {
	admitted, err := f.admit(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := f.transport.RoundTrip(admitted)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: f.max, err: &SizeError{Host: req.URL.Hostname(), Max: f.max}}
	return resp, nil
}

func (f *fetcher) admit(req *http.Request) (*http.Request, error) {
	if req.URL.Scheme != "https" && (req.URL.Scheme != "http" || !f.http) {
		return nil, &DialError{Err: &BlockedError{Host: req.URL.Hostname(), Reason: "the URL is not an https URL"}}
	}
	return f.gate.admit(req)
}

// CloseIdleConnections is for http.Client.
func (f *fetcher) CloseIdleConnections() { f.transport.CloseIdleConnections() }

// checkRedirect is for http.Client: what was asked of one origin, with the
// credentials that were meant for it, stays there.
func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case origin(req.URL) != origin(via[0].URL):
		return &BlockedError{Host: req.URL.Hostname(), Reason: "it is another origin than the one that redirects to it"}
	case len(via) > maxRedirects:
		return &BlockedError{Host: req.URL.Hostname(), Reason: fmt.Sprintf("it redirects more than %d times", maxRedirects)}
	}
	return nil
}

// origin gives scheme, host and port (RFC 6454, section 4).
func origin(u *url.URL) [3]string {
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	}
	return [3]string{u.Scheme, strings.ToLower(u.Hostname()), cmp.Or(port, "80")}
}

// SizeError tells that a body is larger than a fetch allows.
type SizeError struct {
	Host string
	Max  int64 // bytes
}

// Error tells the host and the bound.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the answer of %q is larger than %d bytes", e.Host, e.Max)
}

// boundedBody is a body of which no more than left bytes are given.
type boundedBody struct {
	io.ReadCloser
	left int64
	over bool
	err  error // when there are more
}

// Read gives err after the last byte that is allowed, when there are more.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, b.err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left+1] // one more tells whether there are more
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		b.over = true
		return int(b.left), b.err
	}
	b.left -= int64(n)
	return n, err
}
