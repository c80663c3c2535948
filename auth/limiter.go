package auth

import (
	"net/netip"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/lru"
)

// Bounds on failures.
const (
	// maxSources bounds how many addresses are remembered; the ones that failed
	// longest ago are forgotten first.
	maxSources = 1 << 16
	// burstOf is how many minutes' failures one address may make at once, and how
	// many it may be in debt after many requests at the same time.
	burstOf = 1
)

// limiter bounds the failures of each source, an IPv4 address or an IPv6 network of
// 64 bits, by a token bucket. A success changes nothing.
type limiter struct {
	now       func() time.Time
	burst     float64
	perSecond float64

	mu      sync.Mutex
	buckets *lru.Cache[netip.Addr, bucket]
}

// bucket is how many failures are left, as of a time.
type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(perMinute int, now func() time.Time) *limiter {
	return &limiter{
		now: now, burst: float64(perMinute * burstOf), perSecond: float64(perMinute) / 60,
		buckets: lru.New[netip.Addr, bucket](maxSources),
	}
}

// source gives what a bucket is for. Addresses that are not known have one together.
func source(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a
}

// wait tells for how long a source may not try again; 0 when it may.
func (l *limiter) wait(a netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.level(source(a))
	if left >= 1 {
		return 0
	}
	return time.Duration((1 - left) / l.perSecond * float64(time.Second))
}

// failed counts one failure of a source.
func (l *limiter) failed(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := source(a)
	l.buckets.Put(of, bucket{max(l.level(of)-1, -l.burst), l.now()}, 1)
}

func (l *limiter) level(of netip.Addr) float64 {
	b, ok := l.buckets.Get(of)
	if !ok {
		return l.burst
	}
	return min(b.left+l.now().Sub(b.at).Seconds()*l.perSecond, l.burst)
}
