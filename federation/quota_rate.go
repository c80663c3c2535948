package federation

import (
	"context"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// Times and bounds of a rate.
const (
	tokenLife  = 2 * time.Second        // what is not used until then is lost
	rateNone   = 10 * time.Millisecond  // the least time between two asks that get nothing, where a token comes more often
	rateLook   = time.Second            // and the longest
	rateFailed = 250 * time.Millisecond // before asking again after a failure
	tokenParts = 20                     // one in so many of a limit may be had in store
	maxTokens  = 1000                   // and no more than these
)

// rate bounds calls per minute. The counters give out tokens, one for a call, as
// cache.Rate says: limit at once and limit a minute. A replica takes as many as it
// has used up lately in about a second, at most a twentieth of the limit or 1,000,
// and takes the next ones when half of them are left, so that a call finds one. With
// limits below 40 each call takes its own. What is not used after 2 s is lost. A call
// that finds none waits for one round trip; one that gets none is refused, and all
// are without another round trip until there can be one.
//
// So while the counters work, at most limit + limit·(d+2s)/minute calls happen in any
// time d, whatever the number of replicas: what the counters give out in d, and in the
// 2 s before. While they fail, each replica allows limit + limit·d/minute by itself
// (open), or none but those for which it has tokens (closed).
type rate struct {
	usage

	mu    sync.Mutex
	limit int64
	stock [2]tokens // the first is used first

	asking  bool
	waiting int64         // calls that wait for a token
	wake    chan struct{} // is closed for them to look again
	next    time.Time     // when there can be a token
	ask     time.Time     // until then it is not asked
	alone   time.Time     // until then this replica counts alone, since the counters fail

	second        int64 // in which calls were counted
	calls, before int64 // in it, and in the second before
}

// tokens are some that were given out together.
type tokens struct {
	n     int64
	until time.Time
}

// take takes a token, and tells how long it is good for. With errUsedUp it tells when
// there can be one.
func (r *rate) take(ctx context.Context, limit int64) (until time.Time, wait time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit != limit {
		r.limit, r.next, r.ask = limit, time.Time{}, time.Time{}
	}
	r.count(time.Now())
	for {
		now := time.Now()
		if until, ok := r.pop(now); ok {
			if r.low(now) {
				r.refill()
			}
			return until, 0, nil
		}
		switch {
		case r.counting.shared == nil || now.Before(r.alone):
			return r.takeAlone(ctx, now)
		case now.Before(r.ask):
			return until, max(r.next.Sub(now), time.Millisecond), errUsedUp
		case !r.refill():
			return until, 0, ErrNoEndpoint
		}
		if err := r.wait(ctx); err != nil {
			return until, 0, err
		}
	}
}

// wait waits until something has changed. The caller holds the lock.
func (r *rate) wait(ctx context.Context) error {
	r.waiting++
	defer func() { r.waiting-- }()
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	wake := r.wake
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeAlone takes a token of this process's own.
func (r *rate) takeAlone(ctx context.Context, now time.Time) (time.Time, time.Duration, error) {
	got, wait, err := r.counting.alone.Take(ctx, r.scope, r.counter, r.rate(), 1)
	if err == nil && got == 0 {
		err = errUsedUp
	}
	return now.Add(tokenLife), wait, err
}

// giveBack takes back a token that was not used.
func (r *rate) giveBack(until time.Time) {
	if until.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(time.Now(), tokens{1, until})
}

func (r *rate) rate() cache.Rate { return cache.Rate{Limit: r.limit, Interval: time.Minute} }

// count notes a call. The caller holds the lock.
func (r *rate) count(now time.Time) {
	if second := now.Unix(); second != r.second {
		r.before = 0
		if second == r.second+1 {
			r.before = r.calls
		}
		r.second, r.calls = second, 0
	}
	r.calls++
}

// batch gives how many tokens to have in store; 0 for none. The caller holds the
// lock.
func (r *rate) batch() int64 {
	n := min(r.limit/tokenParts, maxTokens, (r.before+r.calls)/2)
	if n < 2 {
		return 0 // it would more often be lost than used
	}
	return n
}

// pop takes a token from the stock. The caller holds the lock.
func (r *rate) pop(now time.Time) (until time.Time, ok bool) {
	for i := range r.stock {
		t := &r.stock[i]
		if t.n > 0 && now.Before(t.until) {
			t.n--
			return t.until, true
		}
		t.n = 0
	}
	return until, false
}

// put adds to the stock. The caller holds the lock.
func (r *rate) put(now time.Time, t tokens) {
	for i := range r.stock {
		if s := &r.stock[i]; s.n == 0 || !now.Before(s.until) {
			*s = t
			return
		}
	}
	last := &r.stock[1]
	last.n += t.n
	if t.until.Before(last.until) {
		last.until = t.until
	}
}

// low tells whether it is time to take more in advance. The caller holds the lock.
func (r *rate) low(now time.Time) bool {
	var left, full int64
	for _, t := range r.stock {
		if t.n > 0 && now.Before(t.until) {
			left += t.n
			full++
		}
	}
	n := r.batch()
	return n > 0 && full < 2 && left <= n/2 && r.counting.shared != nil && !now.Before(r.ask) && !now.Before(r.alone)
}

// refill takes tokens in the background; false when the domain is closed. The caller
// holds the lock.
func (r *rate) refill() bool {
	if !r.asking {
		r.asking = r.domain.run(r.fetch)
	}
	return r.asking
}

// fetch takes tokens from the counters: for those who wait, and in advance.
func (r *rate) fetch(ctx context.Context) {
	r.mu.Lock()
	want, of := max(min(r.waiting+r.batch(), r.limit), 1), r.rate()
	r.mu.Unlock()
	start := time.Now()
	call, cancel := context.WithTimeout(ctx, countersWait)
	got, wait, err := r.counting.shared.Take(call, r.scope, r.counter, of, want)
	cancel()

	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.asking = false
	switch {
	case err != nil && r.counting.closed:
		r.next, r.ask = now.Add(time.Second), now.Add(rateFailed)
	case err != nil:
		r.alone = now.Add(rateFailed)
	case got > 0:
		r.put(now, tokens{got, start.Add(tokenLife)})
	default:
		r.next, r.ask = now.Add(wait), now.Add(min(wait, rateLook))
		if time.Minute/time.Duration(of.Limit) < rateNone {
			r.ask = now.Add(max(wait, rateNone))
		}
	}
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}
