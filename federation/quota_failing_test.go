package federation

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// While the counters fail, a replica allows the whole limits by itself or no more
// than it has leased, as is chosen. Calls hardly wait for what fails, it is not
// asked all the time, and all is well again as soon as it is.
func TestCountersFail(t *testing.T) {
	tests := []struct {
		name   string
		quota  tenant.Quota
		closed bool
		hangs  bool
		// Calls of one replica in the first 10 s of the failure, of 20 ms each, by ten
		// workers. Of 600 a minute that is 600, 100 in 10 s and two batches in store.
		least, most int64
		inFlight    int64
	}{
		{name: "open, in flight", quota: tenant.Quota{InFlight: 4}, least: 1_500, most: 2_000, inFlight: 4},
		{name: "open, calls", quota: tenant.Quota{CallsPerMinute: 600}, least: 690, most: 761, inFlight: 10},
		{name: "open, both", quota: tenant.Quota{InFlight: 4, CallsPerMinute: 600}, least: 690, most: 761, inFlight: 4},
		{name: "open, hanging", quota: tenant.Quota{InFlight: 4, CallsPerMinute: 600}, hangs: true, least: 650, most: 761, inFlight: 4},
		{name: "closed, in flight", quota: tenant.Quota{InFlight: 4}, closed: true, least: 0, most: 2_000, inFlight: 4},
		{name: "closed, calls", quota: tenant.Quota{CallsPerMinute: 600}, closed: true, least: 0, most: 60, inFlight: 10},
		{name: "closed, hanging", quota: tenant.Quota{InFlight: 40, CallsPerMinute: 600}, closed: true, hangs: true, least: 0, most: 60, inFlight: 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newMeter(t, 20*time.Millisecond)
				all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) { t.Limits.Quota = tt.quota }), func(o *Options) {
					o.QuotaFailClosed = tt.closed
				})
				defer stopAll(all)
				r := all[0]
				load(t, r.rig, 2, 2*time.Second, 10*time.Millisecond)
				up.most.Store(0)
				r.trips.Store(0)
				if r.failed.Store(true); tt.hangs {
					r.hang.Store(int64(time.Hour))
				}
				got := load(t, r.rig, 10, 10*time.Second, 100*time.Millisecond)
				if n := got.answered.Load(); n < tt.least || n > tt.most {
					t.Errorf("%d calls were answered, want %d to %d", n, tt.least, tt.most)
				}
				if n := up.most.Load(); n > tt.inFlight {
					t.Errorf("%d calls were under way, want at most %d", n, tt.inFlight)
				}
				if tt.closed && got.refused.Load() == 0 {
					t.Error("no call was refused")
				}
				if n := r.trips.Load(); n > 10*(2*4+2) {
					t.Errorf("the counters were asked %d times in 10 s", n)
				}

				r.failed.Store(false)
				r.hang.Store(0)
				time.Sleep(3 * time.Second)
				up.most.Store(0)
				if o := load(t, r.rig, 4, time.Second, 10*time.Millisecond); o.answered.Load() < 10 {
					t.Errorf("%d calls were answered when all was well again", o.answered.Load())
				}
			})
		})
	}
}

// What is leased is used up, and no more, when this is chosen.
func TestLeasedIsUsedUpWhileCountersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 0)
		up.release = make(chan struct{})
		all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) { t.Limits.InFlight = 100 }), func(o *Options) { o.QuotaFailClosed = true })
		defer stopAll(all)
		r := all[0]
		o := &verdicts{}
		var wg sync.WaitGroup
		call := func(n int) {
			for range n {
				wg.Go(func() { o.one(t, r.rig, r.as("ann")) })
			}
			time.Sleep(100 * time.Millisecond)
		}
		call(20)
		r.failed.Store(true)
		call(3) // in advance there are at least as many
		if o.refused.Load() != 0 {
			t.Errorf("%d calls were refused though there was a share for them", o.refused.Load())
		}
		call(10)
		if n := up.now.Load(); n < 23 || n > 30 || o.refused.Load() < 3 {
			t.Errorf("%d calls are under way and %d were refused", n, o.refused.Load())
		}
		time.Sleep(shareTTL)
		for range 5 {
			up.release <- struct{}{}
		}
		synctest.Wait()
		before := o.refused.Load()
		call(1) // what was leased may be somebody else's by now
		if o.refused.Load() != before+1 {
			t.Error("a call was let through by a lease that has expired")
		}
		close(up.release)
		wg.Wait()
		r.failed.Store(false)
		time.Sleep(time.Second)
		before = o.refused.Load()
		call(90)
		wg.Wait()
		if n := o.refused.Load() - before; n != 0 {
			t.Errorf("%d calls were refused when all was well again", n)
		}
	})
}

// Tokens in store are used up as well, but only for as long as they are good.
func TestTokensInStoreWhileCountersFail(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"at once", 0, true},
		{"when they are lost", tokenLife, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := quotaReplicas(t, 1, newMeter(t, 50*time.Millisecond), limited(func(t *tenant.Tenant) { t.Limits.CallsPerMinute = 6_000 }), func(o *Options) { o.QuotaFailClosed = true })
				defer stopAll(all)
				r := all[0]
				load(t, r.rig, 2, 3*time.Second, time.Millisecond)
				r.failed.Store(true)
				time.Sleep(tt.after)
				o := &verdicts{}
				o.one(t, r.rig, r.as("ann"))
				if got := o.answered.Load() == 1; got != tt.want {
					t.Errorf("answered: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// When the counters have forgotten all, and others were faster to ask for what a
// replica had, it lets nothing more through once it knows.
func TestCountersForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 10*time.Second)
		all := quotaReplicas(t, 2, up, limited(func(t *tenant.Tenant) { t.Limits.InFlight = 4 }), nil)
		defer stopAll(all)
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		call := func(r *quotaReplica, n int) *verdicts {
			o := &verdicts{}
			for range n {
				wg.Go(func() { o.one(t, r.rig, r.as("ann")) })
			}
			time.Sleep(1500 * time.Millisecond)
			return o
		}
		call(all[0], 4)
		all[0].forget()
		other := call(all[1], 4)
		if o := call(all[0], 1); o.refused.Load() != 1 || up.now.Load() > 8 {
			t.Errorf("%d calls are under way", up.now.Load())
		}
		time.Sleep(5505 * time.Millisecond) // those of the first have just ended, those of the other not yet
		if o := call(all[0], 1); o.refused.Load() != 1 {
			t.Error("a call was let through in the place of one that had ended, though the share is another's")
		}
		wg.Wait()
		if n := other.answered.Load(); n != 4 {
			t.Errorf("the other answered %d calls, want 4", n)
		}
	})
}

// A failure adds no more to a call than one round trip that fails, and to most
// nothing.
func TestLatencyWhileCountersFail(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint("closed=", closed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := quotaReplicas(t, 1, newMeter(t, 0), limited(func(t *tenant.Tenant) {
					t.Limits.Quota = tenant.Quota{InFlight: 10, CallsPerMinute: 60_000}
				}), func(o *Options) { o.QuotaFailClosed = closed })
				defer stopAll(all)
				r := all[0]
				r.failed.Store(true)
				time.Sleep(time.Minute)
				r.hang.Store(int64(25*time.Millisecond - r.takes))
				o, waited := &verdicts{}, 0
				for range 1_000 {
					start := time.Now()
					o.one(t, r.rig, r.as("ann"))
					if d := time.Since(start); d > 60*time.Millisecond {
						t.Errorf("a call took %v", d)
					} else if d > 0 {
						waited++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if waited > 100 {
					t.Errorf("%d of 1,000 calls waited", waited)
				}
			})
		})
	}
}

// Three replicas under load, in real time and with real races. The bounds hold all
// the same.
func TestQuotasUnderLoad(t *testing.T) {
	up := newMeter(t, time.Millisecond)
	const limit = 12
	all := quotaReplicas(t, 3, up, limited(func(t *tenant.Tenant) {
		t.Limits.Quota = tenant.Quota{InFlight: limit, CallsPerMinute: 60_000}
		t.Limits.Principal = tenant.Quota{InFlight: 8, CallsPerMinute: 30_000}
		t.Upstreams[0].Limits = tenant.Quota{InFlight: limit}
	}), nil)
	start := time.Now()
	side(all, func(r *quotaReplica) *verdicts { return load(t, r.rig, 16, time.Second, time.Millisecond) })
	passed := time.Since(start) + tokenLife
	stopAll(all)
	// Where a replica does not get to run for 5 s, its share is given to others; so
	// long does this test not take.
	if n := up.most.Load(); passed < shareTTL && n > limit {
		t.Errorf("%d calls were under way, want at most %d", n, limit)
	}
	if n, most := up.calls.Load(), int64(30_000+500*passed.Seconds())+1; n > most {
		t.Errorf("%d calls, want at most %d", n, most)
	}
}
