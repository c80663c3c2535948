package federation

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Three replicas never have more under way than the limit, use it well, and each
// gets its turn, however much all of them want.
func TestReplicasShareWhatIsInFlight(t *testing.T) {
	tests := []struct {
		limit, workers int
		takes          time.Duration
	}{
		{1, 1, 20 * time.Millisecond},
		{1, 5, 20 * time.Millisecond},
		{3, 4, 20 * time.Millisecond},
		{10, 10, 20 * time.Millisecond},
		{10, 3, 20 * time.Millisecond},
		{50, 40, 100 * time.Millisecond},
		{400, 150, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of %d", tt.limit, 3*tt.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newMeter(t, tt.takes)
				all := quotaReplicas(t, 3, up, limited(func(t *tenant.Tenant) { t.Limits.InFlight = tt.limit }), nil)
				defer stopAll(all)
				d := 6 * time.Second
				if tt.limit < 8 {
					d *= 5 // the turn of one of a few changes once a second
				}
				got := side(all, func(r *quotaReplica) *verdicts { return load(t, r.rig, tt.workers, d, 50*time.Millisecond) })
				var sum int64
				for _, o := range got {
					sum += o.answered.Load()
				}
				if most := up.most.Load(); most > int64(tt.limit) || most < int64(min(tt.limit, 3*tt.workers))*9/10 {
					t.Errorf("%d calls were under way, want %d", most, min(tt.limit, 3*tt.workers))
				}
				could := int64(min(tt.limit, 3*tt.workers)) * int64(d/tt.takes)
				if sum < could/2 {
					t.Errorf("%d calls were answered, and %d could be", sum, could)
				}
				for i, o := range got {
					if n := o.answered.Load(); n < sum/20 {
						t.Errorf("replica %d answered %d calls of %d", i, n, sum)
					}
				}
			})
		})
	}
}

// Three replicas never let more calls happen in any time than is stated, and use
// what is allowed.
func TestReplicasShareARate(t *testing.T) {
	tests := []struct{ limit, workers int }{
		{1, 2}, {6, 2}, {60, 4}, {600, 4}, {6_000, 4}, {15_000, 6},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d a minute", tt.limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newMeter(t, 5*time.Millisecond)
				all := quotaReplicas(t, 3, up, limited(func(t *tenant.Tenant) { t.Limits.CallsPerMinute = tt.limit }), nil)
				defer stopAll(all)
				allowed := func(d time.Duration) int64 {
					return int64(tt.limit) + int64(float64(tt.limit)*(d+tokenLife).Minutes()) + 1
				}
				start, before := time.Now(), int64(0)
				for _, d := range []time.Duration{2 * time.Second, 6 * time.Second, time.Second, 3 * time.Second} {
					side(all, func(r *quotaReplica) *verdicts { return load(t, r.rig, tt.workers, d, 50*time.Millisecond) })
					now := up.calls.Load()
					if n := now - before; n > allowed(d) {
						t.Errorf("%d calls happened in %v, want at most %d", n, d, allowed(d))
					}
					before = now
				}
				passed := time.Since(start)
				if before > allowed(passed) {
					t.Errorf("%d calls happened in %v, want at most %d", before, passed, allowed(passed))
				}
				could := int64(tt.limit) + int64(float64(tt.limit)*passed.Minutes())
				could = min(could, 3*int64(tt.workers)*int64(passed/(5*time.Millisecond)))
				if before < could*8/10 {
					t.Errorf("%d calls happened in %v, and %d could", before, passed, could)
				}
			})
		})
	}
}

// Calls that keep within the limits are never refused, and cost few round trips.
func TestCallsWithinTheLimitsCostNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 10*time.Millisecond)
		all := quotaReplicas(t, 3, up, limited(func(t *tenant.Tenant) {
			q := tenant.Quota{InFlight: 200, CallsPerMinute: 120_000}
			t.Limits.Quota, t.Limits.Principal, t.Upstreams[0].Limits = q, q, q
		}), nil)
		defer stopAll(all)
		side(all, func(r *quotaReplica) *verdicts { return load(t, r.rig, 6, 2*time.Second, time.Millisecond) })
		for _, r := range all {
			r.trips.Store(0)
		}
		before := up.calls.Load()
		got := side(all, func(r *quotaReplica) *verdicts { return load(t, r.rig, 6, 4*time.Second, time.Millisecond) })
		calls := up.calls.Load() - before
		for i, r := range all {
			if got[i].refused.Load() > 0 {
				t.Errorf("replica %d refused %d calls", i, got[i].refused.Load())
			}
			// There and back count two. Of 2,400 calls of each replica.
			if trips := r.trips.Load() / 2; trips > calls/3/25 {
				t.Errorf("replica %d: %d round trips for %d calls", i, trips, calls/3)
			}
		}
	})
}

// An idle replica leaves the whole limit to the others, at once where limits are
// small.
func TestIdleReplicaKeepsNothing(t *testing.T) {
	tests := []struct {
		limit int
		after time.Duration
		want  int64
	}{
		{1, 0, 1},
		{10, 0, 10},
		{100, 0, 90},
		{100, 3 * time.Second, 100},
		{500, 3 * time.Second, 500},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d after %v", tt.limit, tt.after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newMeter(t, 500*time.Millisecond)
				all := quotaReplicas(t, 2, up, limited(func(t *tenant.Tenant) { t.Limits.InFlight = tt.limit }), nil)
				defer stopAll(all)
				burst := func(r *quotaReplica) *verdicts {
					o := &verdicts{}
					var wg sync.WaitGroup
					for range tt.limit {
						wg.Go(func() { o.one(t, r.rig, r.as("ann")) })
					}
					wg.Wait()
					return o
				}
				time.Sleep(3 * time.Second) // both have asked for a list
				if n := burst(all[0]).answered.Load(); n != int64(tt.limit) {
					t.Fatalf("the first answered %d", n)
				}
				time.Sleep(tt.after)
				if n := burst(all[1]).answered.Load(); n < tt.want {
					t.Errorf("the second answered %d, want %d", n, tt.want)
				}
			})
		})
	}
}

// What a replica had that is gone is free again when its lease has expired, and at
// once when it was shut down.
func TestShareOfAReplicaThatIsGone(t *testing.T) {
	tests := []struct {
		name  string
		crash bool
		after time.Duration
		want  int64
	}{
		{"crash, before", true, 3 * time.Second, 0},
		{"crash, after", true, shareTTL + 100*time.Millisecond, 4},
		{"shut down", false, 0, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := newMeter(t, 0)
				up.release = make(chan struct{})
				all := quotaReplicas(t, 2, up, limited(func(t *tenant.Tenant) { t.Limits.InFlight = 4 }), nil)
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { (&verdicts{}).one(t, all[0].rig, all[0].as("ann")) })
				}
				time.Sleep(time.Second)
				if tt.crash {
					all[0].failed.Store(true) // nobody hears of it any more
				} else {
					close(up.release)
					wg.Wait()
					all[0].stop()
					up.release = nil
				}
				time.Sleep(tt.after)
				up.takes.Store(int64(time.Second))
				if tt.crash {
					close(up.release)
				}
				o := &verdicts{}
				for range 6 {
					wg.Go(func() { o.one(t, all[1].rig, all[1].as("bob")) })
				}
				wg.Wait()
				if n := o.answered.Load(); n != tt.want {
					t.Errorf("%d calls were answered, want %d", n, tt.want)
				}
				all[1].stop()
				if tt.crash {
					all[0].stop()
				}
			})
		})
	}
}
