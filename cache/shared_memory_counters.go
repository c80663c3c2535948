package cache

import (
	"context"
	"maps"
	"sync"
	"time"
)

// memoryCounters are the counters.
type memoryCounters struct {
	mu sync.Mutex
	// buckets has the time until which each counter is used up: with every thing
	// that happens it moves on by the time that one thing takes under the rate, and
	// may get an Interval ahead; what is not ahead is forgotten.
	buckets table[counterKey, time.Time]
	shares  table[counterKey, map[string]share]
}

type counterKey struct {
	scope   Scope
	counter string
}

type share struct {
	n     int64
	until time.Time
}

// Take implements Counters. In any time d at most Limit + Limit·d/Interval things
// are given out.
func (s *MemoryShared) Take(ctx context.Context, sc Scope, counter string, r Rate, want int64) (got int64, wait time.Duration, err error) {
	if r.Limit <= 0 || r.Interval <= 0 {
		return 0, r.Interval, nil
	}
	m, now := &s.counters, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := counterKey{sc, counter}
	each := (r.Interval-1)/time.Duration(r.Limit) + 1
	full := each * time.Duration(r.Limit)
	used, ok := m.buckets.get(now, key)
	if !ok {
		used = now
	}
	ahead := min(used.Sub(now), full) // another rate may have let it go further
	got = max(min(want, int64((full-ahead)/each)), 0)
	if got == 0 {
		return 0, max(ahead+each-full, 0), nil
	}
	ahead += time.Duration(got) * each
	m.buckets.set(now, key, now.Add(ahead), ahead)
	return got, 0, nil
}

// Share implements Counters.
func (s *MemoryShared) Share(ctx context.Context, sc Scope, counter, holder string, want, limit int64, ttl time.Duration) (got int64, err error) {
	m, now := &s.counters, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := counterKey{sc, counter}
	shares, _ := m.shares.get(now, key)
	maps.DeleteFunc(shares, func(_ string, sh share) bool { return !now.Before(sh.until) })
	delete(shares, holder)
	left, last := limit, ttl
	for _, sh := range shares {
		left -= sh.n
		last = max(last, sh.until.Sub(now))
	}
	if got = max(min(want, left), 0); got > 0 {
		if shares == nil {
			shares = map[string]share{}
		}
		shares[holder] = share{n: got, until: now.Add(ttl)}
	}
	if len(shares) == 0 {
		m.shares.drop(key)
	} else {
		m.shares.set(now, key, shares, last)
	}
	return got, nil
}
