package federation

import (
	"context"
	"sync"
	"time"
)

// Times of an inFlight.
const (
	shareTTL    = 5 * time.Second        // a share that is not renewed is given back
	shareRenew  = time.Second            // between two renewals
	shareLinger = 20 * time.Millisecond  // before what is not used is given back
	shareRetry  = 20 * time.Millisecond  // before asking again where there was none
	shareNone   = 50 * time.Millisecond  // in which nobody asks after that
	shareYield  = 50 * time.Millisecond  // in which what was yielded is left to others
	shareFailed = 250 * time.Millisecond // before asking again after a failure
	shareAlone  = 2 * time.Second        // for which a failure lets this replica count alone
)

const (
	shareTries  = 2  // how often a call that waits asks again
	shareParts  = 20 // one in so many of a limit may be kept unused
	maxSpare    = 64 // and no more than these
	yieldedPart = 8  // one in so many of what is held is yielded
)

// inFlight bounds the requests under way. A replica holds a share of the limit by a
// lease that is renewed each second, so that the share of a replica that is gone is
// free 5 s later. The share follows the use in batches: a twentieth of the limit (at
// most 64) is had in advance, and given back when nothing was under way for a
// second; more than that, or for limits below 20 all that is unused, is given back
// after 20 ms. So an idle replica keeps nothing, and a call waits for a round trip
// only if the share is used up, which below 20 is where no other call has just
// ended. A call that finds nothing left asks again twice, 20 ms apart, since others
// may not have given back yet; those that come within 50 ms thereafter are refused
// at once. While there is nothing left of the limit, a replica yields an eighth of its
// share each second, and at least one, and asks for it again only after 50 ms, for
// which calls wait: so others get their turn.
//
// While the counters work there are never more than limit under way, except that
// calls go on which began before the limit was lowered, or before the replica could
// not reach the counters for 5 s and its share was given to others. While they fail,
// each replica allows the whole limit by itself (open), or what it holds for as long
// as it is its own (closed).
type inFlight struct {
	usage
	holder string

	mu    sync.Mutex
	limit int64
	used  int64 // under way
	held  int64 // this replica's share
	until time.Time

	waiting int64         // calls that wait for a larger share
	wake    chan struct{} // is closed for them to look again
	none    time.Time     // until then nobody asks for more
	alone   time.Time     // until then this replica has the whole limit, since the counters fail

	tending  bool          // run is running
	poke     chan struct{} // has run look again
	linger   time.Time     // when what is unused is given back; zero while nothing much is
	peak     int64         // of used, since linger was set
	renew    time.Time     // when the lease is to be renewed
	active   bool          // something was under way since the last renewal
	scarce   bool          // and there was nothing left of the limit
	ask      time.Time     // when those who wait may ask for more
	tries    int           // of theirs that got nothing
	more     time.Time     // when more may be had in advance
	yield    int64         // how many of the next that end leave theirs to others
	yielding bool          // some did, and it is not told yet
}

// enter counts a request as under way; errUsedUp when the limit is reached.
func (f *inFlight) enter(ctx context.Context, limit int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = limit
	if f.counting.shared == nil {
		if f.used >= limit {
			return errUsedUp
		}
		f.used++
		return nil
	}
	for {
		now := time.Now()
		f.expire(now)
		if f.used < min(f.held, limit) || f.used < limit && now.Before(f.alone) {
			f.used++
			f.peak, f.active = max(f.peak, f.used), true
			f.scarce = f.scarce || f.used >= limit
			if f.short(now) {
				f.tend()
			}
			return nil
		}
		if f.used >= limit || now.Before(f.none) {
			f.scarce = true
			return errUsedUp
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// wait waits until something has changed. The caller holds the lock.
func (f *inFlight) wait(ctx context.Context) error {
	f.waiting++
	defer func() { f.waiting-- }()
	if !f.tend() {
		return ErrNoEndpoint
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	wake := f.wake
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave ends a request.
func (f *inFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used--
	if f.counting.shared == nil {
		return
	}
	if f.yield > 0 && f.held > f.used {
		f.yield--
		f.held--
		f.yielding = true
	}
	f.awaken()
	if f.yielding || f.linger.IsZero() && f.excess() {
		f.tend()
	}
}

// awaken has those who wait look again. The caller holds the lock.
func (f *inFlight) awaken() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// idle tells whether nothing is under way, held or going on.
func (f *inFlight) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used == 0 && !f.tending
}

// expire drops a share that may be somebody else's by now. The caller holds the
// lock.
func (f *inFlight) expire(now time.Time) {
	if !now.Before(f.until) {
		f.held = 0
	}
}

// spare is how many may be held unused.
func (f *inFlight) spare() int64 { return min(f.limit/shareParts, maxSpare) }

// excess tells whether more is held than may stay unused. The caller holds the lock.
func (f *inFlight) excess() bool { return f.held-f.used > 2*f.spare() }

// short tells whether it is time to get more in advance. The caller holds the lock.
func (f *inFlight) short(now time.Time) bool {
	return f.active && f.spare() > 0 && f.held-f.used <= f.spare()/2 && f.held < f.limit && !now.Before(f.more)
}

// tend has run look, and starts it when it is not running; false when the domain is
// closed. The caller holds the lock.
func (f *inFlight) tend() bool {
	if f.tending {
		select {
		case f.poke <- struct{}{}:
		default:
		}
		return true
	}
	f.tending = f.domain.run(f.run)
	return f.tending
}

// run keeps the share as large as it has to be, until there is none.
func (f *inFlight) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		want, pause := f.plan(time.Now())
		switch {
		case want >= 0:
			f.set(ctx, want)
			continue
		case pause == 0:
			return
		}
		timer.Reset(pause)
		select {
		case <-f.poke:
		case <-timer.C:
		case <-ctx.Done():
			f.end(ctx)
			return
		}
	}
}

// plan says what share is to be set now, or a negative one and after which pause it
// is to be looked again; without a pause it is over.
func (f *inFlight) plan(now time.Time) (want int64, pause time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	wants := f.waiting > 0 && f.used >= min(f.held, f.limit)
	switch {
	case f.yielding:
		f.yielding, f.ask = false, now.Add(shareYield)
		return f.aim(f.held), 0
	case wants && !now.Before(f.ask):
		return f.aim(f.used + f.waiting + f.spare()), 0
	case f.held+f.used > 0 && !now.Before(f.renew):
		return f.aim(f.renewal()), 0
	case f.unused(now):
		return f.aim(f.peak + f.spare()), 0
	case f.short(now):
		return f.aim(f.used + f.spare()), 0
	case f.held+f.used+f.waiting == 0:
		f.tending, f.tries, f.yield = false, 0, 0
		return -1, 0
	}
	pause = shareRenew
	for _, at := range []time.Time{f.renew, f.linger, f.ask, f.more} {
		if at.After(now) {
			pause = min(pause, at.Sub(now))
		}
	}
	return -1, pause
}

// unused tells whether it is time to give something back. The caller holds the lock.
func (f *inFlight) unused(now time.Time) bool {
	switch {
	case !f.excess():
		f.linger = time.Time{}
	case f.linger.IsZero():
		f.linger, f.peak = now.Add(shareLinger), f.used
	case now.Before(f.linger):
	case f.peak+f.spare() < f.held:
		f.linger = time.Time{}
		return true
	default:
		f.linger, f.peak = now.Add(shareLinger), f.used
	}
	return false
}

// renewal gives the share to renew, and begins to count anew. The caller holds the
// lock.
func (f *inFlight) renewal() int64 {
	want := f.used + f.spare()
	if f.used == 0 && !f.active {
		want = 0
	}
	f.yield = 0
	if f.scarce {
		f.yield = max(1, f.held/yieldedPart)
	}
	f.active, f.scarce = f.used > 0, false
	return want
}

// aim sets the mark for a share to set: nothing of what is given back is used from
// now on. The caller holds the lock.
func (f *inFlight) aim(want int64) int64 {
	want = min(want, f.limit)
	f.held = min(f.held, want)
	return want
}

// set sets the share.
func (f *inFlight) set(ctx context.Context, want int64) {
	f.mu.Lock()
	limit := f.limit
	f.mu.Unlock()
	start := time.Now()
	call, cancel := context.WithTimeout(ctx, countersWait)
	got, err := f.counting.shared.Share(call, f.scope, f.counter, f.holder, want, limit, shareTTL)
	cancel()

	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.renew = start.Add(shareRenew)
	switch err {
	case nil:
		f.held, f.until, f.alone = got, start.Add(shareTTL), time.Time{}
		f.settle(now, got < want)
	default:
		f.tries, f.ask, f.more = 0, now.Add(shareFailed), now.Add(shareFailed)
		if f.counting.closed {
			f.none = f.ask
		} else {
			f.alone = now.Add(shareAlone)
		}
	}
	f.awaken()
}

// settle sees when it may be asked again. The caller holds the lock.
func (f *inFlight) settle(now time.Time, less bool) {
	switch {
	case !less:
		f.tries = 0
	case f.waiting > 0 && f.used >= f.held && f.tries < shareTries:
		f.tries++
		f.ask = now.Add(shareRetry)
	case f.waiting > 0 && f.used >= f.held:
		f.tries = 0
		f.none = now.Add(shareNone)
	default:
		f.more = now.Add(shareNone)
	}
}

// end gives back what is unused, when the domain is closed.
func (f *inFlight) end(ctx context.Context) {
	f.mu.Lock()
	used, held, limit := f.used, f.held, f.limit
	f.held, f.tending = min(used, held), false
	f.awaken()
	f.mu.Unlock()
	if held <= used {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), countersWait)
	defer cancel()
	if _, err := f.counting.shared.Share(call, f.scope, f.counter, f.holder, used, limit, shareTTL); err != nil {
		f.domain.log.Debug("give back a share", "counter", f.counter, "error", err)
	}
}
