package egress

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MaxIdleTimeout bounds the idle time that a server may announce.
const MaxIdleTimeout = 2 * time.Minute

// Pool is the http.RoundTripper for one upstream. It follows no redirects,
// keeps no cookies and adds no credentials. Its idle connections are dropped
// before the server drops them: net/http cannot repeat a POST that went out on a
// dying connection. When the server says `Keep-Alive: timeout=N`, the idle time
// becomes one second less than N.
type Pool struct {
	gate    *gate // nil where any address may be reached
	build   func(idle time.Duration) *http.Transport
	current atomic.Pointer[http.Transport]
	seen    atomic.Int64 // the idle time of the latest announcement; 0 before the first

	mu   sync.Mutex // held while current changes
	idle time.Duration
}

func newPool(g *gate, idle time.Duration, build func(time.Duration) *http.Transport) *Pool {
	p := &Pool{gate: g, build: build, idle: idle}
	p.current.Store(build(idle))
	return p
}

// RoundTrip implements http.RoundTripper. Where the pool is checked, the error holds
// a *BlockedError for an address that may not be reached.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.gate != nil {
		admitted, err := p.gate.admit(req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		req = admitted
	}
	resp, err := p.current.Load().RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if v := resp.Header["Keep-Alive"]; len(v) > 0 {
		p.announced(v[0])
	}
	return resp, nil
}

// Close drops the idle connections. Requests under way end normally, and their
// connections are then closed.
func (p *Pool) Close() { p.current.Load().CloseIdleConnections() }

// announced takes over the idle time that the server announces. A shorter one
// holds at once. A longer one holds when it is the first: replicas behind one
// address that disagree must not make the pool change all the time.
func (p *Pool) announced(keepAlive string) {
	idle := idleTime(keepAlive)
	if idle == 0 || int64(idle) == p.seen.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.seen.Swap(int64(idle)) == 0
	if idle == p.idle || idle > p.idle && !first {
		return
	}
	// net/http has one idle time per transport. What is under way on the old one
	// ends there.
	p.idle = idle
	p.current.Swap(p.build(idle)).CloseIdleConnections()
}

// idleTime reads the timeout parameter of a Keep-Alive header
// (draft-thomson-hybi-http-timeout, 2) and gives how long a connection may be
// idle; 0 when there is no use in it.
func idleTime(keepAlive string) time.Duration {
	for param := range strings.SplitSeq(keepAlive, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
		switch {
		case err != nil || n == 0:
			return 0
		case n == 1:
			return time.Second / 2
		}
		return min(time.Duration(n-1)*time.Second, MaxIdleTimeout)
	}
	return 0
}
