package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// checkInterval is how often the balancer looks whether replicas are ready, and
// checkTimeout how long one may take to say so.
const (
	checkInterval = 50 * time.Millisecond
	checkTimeout  = 5 * time.Second
)

// HeaderReplica is the header that the balancer puts into a response: the index of the
// replica that has answered.
const HeaderReplica = "X-Replica"

// Balancer sends every request to another replica than the one before, in turns.
// It leaves out those that are not ready, goes on to the next one only when a
// replica refuses the connection, and passes bytes on as they come.
type Balancer struct {
	URL string // without a slash at the end

	replicas  []*Replica
	ready     []atomic.Bool
	served    []atomic.Int64
	next      atomic.Uint64
	transport *http.Transport
}

// StartBalancer starts a balancer in this process. It ends with the test.
func StartBalancer(tb testing.TB, replicas []*Replica) *Balancer {
	tb.Helper()
	b := &Balancer{
		replicas: replicas, ready: make([]atomic.Bool, len(replicas)), served: make([]atomic.Int64, len(replicas)),
		transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:     b,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // the client is told
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "balancer: "+err.Error(), http.StatusBadGateway)
		},
	}
	srv := httptest.NewServer(proxy)
	b.URL = srv.URL
	ctx, cancel := context.WithCancel(context.Background())
	var checks sync.WaitGroup
	for i := range replicas {
		b.ready[i].Store(true) // it was waited for
		checks.Go(func() { b.check(ctx, i) })
	}
	tb.Cleanup(func() {
		cancel()
		checks.Wait()
		srv.CloseClientConnections()
		srv.Close()
		b.transport.CloseIdleConnections()
	})
	return b
}

// check looks whether a replica is ready until ctx ends.
func (b *Balancer) check(ctx context.Context, i int) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: checkTimeout}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			ready, _ := b.replicas[i].readiness(ctx, client)
			b.ready[i].Store(ready)
		case <-ctx.Done():
			return
		}
	}
}

// Served gives how many requests each replica was sent.
func (b *Balancer) Served() []int64 {
	served := make([]int64, len(b.served))
	for i := range served {
		served[i] = b.served[i].Load()
	}
	return served
}

var errNoReplica = errors.New("no replica is ready")

// RoundTrip implements http.RoundTripper. It reads the whole request first, so that
// each attempt has a body of its own, which the transport may go on with when the
// answer has begun.
func (b *Balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	for range b.replicas {
		i, ok := b.pick()
		if !ok {
			break
		}
		target, err := url.Parse(b.replicas[i].URL)
		if err != nil {
			return nil, err
		}
		attempt := req.Clone(req.Context())
		attempt.URL.Scheme, attempt.URL.Host = target.Scheme, target.Host
		attempt.Body, attempt.ContentLength = http.NoBody, int64(len(body))
		if len(body) > 0 {
			attempt.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			attempt.Body, _ = attempt.GetBody()
		}
		res, err := b.transport.RoundTrip(attempt)
		if refused(err) {
			b.ready[i].Store(false)
			continue
		}
		if err == nil {
			b.served[i].Add(1)
			res.Header.Set(HeaderReplica, strconv.Itoa(i))
		}
		return res, err
	}
	return nil, errNoReplica
}

// pick gives the replica whose turn it is.
func (b *Balancer) pick() (int, bool) {
	n := uint64(len(b.replicas))
	for range n {
		i := (b.next.Add(1) - 1) % n
		if b.ready[i].Load() && !b.replicas[i].out.Load() {
			return int(i), true
		}
	}
	return 0, false
}

// refused tells whether nobody accepted the connection, so that nothing was sent.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
}
