package cachetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/causeway-mcp/causeway/cache"
)

// TestCounters checks a back end of cache.Counters. make gives one with nothing
// counted and registers its clean-up with t; the suite calls it once for each part.
func TestCounters(t *testing.T, make func(t *testing.T) cache.Counters) {
	tests := []struct {
		name string
		test func(t *testing.T, c counters)
	}{
		{"take", take},
		{"take again after a while", takeAgain},
		{"another rate", anotherRate},
		{"never too many", raceTakes},
		{"share", shareOut},
		{"a share expires", expireShare},
		{"another limit", anotherLimit},
		{"never too many at the same time", raceShares},
		{"counters are apart", countersApart},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, counters{t, make(t)}) })
	}
}

// counters calls a Counters and fails the test on errors.
type counters struct {
	t *testing.T
	c cache.Counters
}

// slow is a rate under which nothing more comes while a test lasts.
func slow(limit int64) cache.Rate { return cache.Rate{Limit: limit, Interval: 1000 * time.Hour} }

func (c counters) take(counter string, r cache.Rate, want int64) (int64, time.Duration) {
	c.t.Helper()
	got, wait, err := c.c.Take(c.t.Context(), files, counter, r, want)
	if err != nil {
		c.t.Fatalf("Take: %v", err)
	}
	if got < 0 || got > want || got == 0 && (wait <= 0 || wait > r.Interval) {
		c.t.Fatalf("Take of %d under %+v = %d, %v", want, r, got, wait)
	}
	return got, wait
}

func (c counters) wantTake(counter string, r cache.Rate, n, want int64) {
	c.t.Helper()
	if got, _ := c.take(counter, r, n); got != want {
		c.t.Errorf("Take(%q) of %d = %d, want %d", counter, n, got, want)
	}
}

func (c counters) share(counter, holder string, want, limit int64, ttl time.Duration) int64 {
	c.t.Helper()
	got, err := c.c.Share(c.t.Context(), files, counter, holder, want, limit, ttl)
	if err != nil {
		c.t.Fatalf("Share: %v", err)
	}
	if got < 0 || got > want {
		c.t.Fatalf("Share of %d = %d", want, got)
	}
	return got
}

func (c counters) wantShare(counter, holder string, n, limit, want int64) {
	c.t.Helper()
	if got := c.share(counter, holder, n, limit, long); got != want {
		c.t.Errorf("Share(%q) of %d of %d for %q = %d, want %d", counter, n, limit, holder, got, want)
	}
}

func take(t *testing.T, c counters) {
	c.wantTake("calls", slow(10), 4, 4)
	c.wantTake("calls", slow(10), 5, 5)
	c.wantTake("calls", slow(10), 5, 1)
	c.wantTake("calls", slow(10), 1, 0)
	c.wantTake("all", slow(10), 1000, 10)
	c.wantTake("one", slow(1), 1, 1)
	c.wantTake("one", slow(1), 1, 0)
}

func takeAgain(t *testing.T, c counters) {
	r := cache.Rate{Limit: 3, Interval: 3 * short}
	start := time.Now()
	got, _ := c.take("calls", r, 3)
	eventually(t, "there is some again", func() bool {
		n, _ := c.take("calls", r, 3)
		got += n
		return got >= 6
	})
	wantWithin(t, r, got, time.Since(start))
	// After an interval there are no more than at first.
	r = cache.Rate{Limit: 3, Interval: time.Hour}
	c.wantTake("rest", r, 10, 3)
}

// wantWithin checks the bound of what a rate lets happen in a time. One more may be
// due to how clocks round.
func wantWithin(t *testing.T, r cache.Rate, got int64, in time.Duration) {
	t.Helper()
	if most := r.Limit + int64(float64(r.Limit)*float64(in)/float64(r.Interval)) + 1; got > most {
		t.Errorf("%d things happened within %v under %+v, want at most %d", got, in, r, most)
	}
}

func anotherRate(t *testing.T, c counters) {
	c.wantTake("calls", slow(10), 6, 6)
	if got, _ := c.take("calls", slow(2), 6); got > 2 {
		t.Errorf("Take under a lower limit = %d, want at most 2", got)
	}
	c.wantTake("calls", slow(2), 1, 0)
	if got, _ := c.take("calls", slow(100), 200); got == 0 || got > 100-6 {
		t.Errorf("Take under a higher limit = %d, want some, but not what was taken before", got)
	}
}

func raceTakes(t *testing.T, c counters) {
	r := cache.Rate{Limit: 40, Interval: 400 * time.Millisecond}
	var total atomic.Int64
	start := time.Now()
	var group errgroup.Group
	for i := range 6 {
		group.Go(func() error {
			for time.Since(start) < 200*time.Millisecond {
				got, _, err := c.c.Take(t.Context(), files, "calls", r, int64(i+1))
				if err != nil {
					return fmt.Errorf("take: %w", err)
				}
				total.Add(got)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if total.Load() < r.Limit {
		t.Errorf("%d things happened, want at least %d", total.Load(), r.Limit)
	}
	wantWithin(t, r, total.Load(), time.Since(start))
}

func shareOut(t *testing.T, c counters) {
	c.wantShare("calls", "a", 3, 5, 3)
	c.wantShare("calls", "a", 3, 5, 3) // it is set, not added
	c.wantShare("calls", "b", 5, 5, 2)
	c.wantShare("calls", "c", 1, 5, 0)
	c.wantShare("calls", "a", 1, 5, 1)
	c.wantShare("calls", "b", 5, 5, 4)
	c.wantShare("calls", "a", 0, 5, 0)
	c.wantShare("calls", "a", 0, 5, 0)
	c.wantShare("calls", "c", 9, 5, 1)
	c.wantShare("calls", "b", 0, 5, 0)
	c.wantShare("calls", "c", 9, 5, 5)
	c.wantShare("calls", "c", 2, 5, 2)
	c.wantShare("calls", "a", 3, 5, 3)
}

func expireShare(t *testing.T, c counters) {
	if got := c.share("calls", "a", 5, 5, short); got != 5 {
		t.Fatalf("Share = %d, want 5", got)
	}
	eventually(t, "what a holder had is free again", func() bool { return c.share("calls", "b", 5, 5, long) == 5 })
	c.wantShare("calls", "a", 1, 5, 0)

	// A share lasts from when it was set last, and for its own time only.
	c.share("again", "a", 3, 5, short)
	c.share("again", "b", 2, 5, long)
	c.share("again", "a", 3, 5, long)
	c.share("again", "b", 2, 5, short)
	eventually(t, "the share of b expires", func() bool { return c.share("again", "c", 5, 5, long) == 2 })
	c.wantShare("again", "b", 1, 5, 0)
}

func anotherLimit(t *testing.T, c counters) {
	c.wantShare("calls", "a", 5, 5, 5)
	c.wantShare("calls", "b", 5, 3, 0)
	c.wantShare("calls", "a", 5, 3, 3)
	c.wantShare("calls", "b", 5, 3, 0)
	c.wantShare("calls", "b", 5, 7, 4)
	c.wantShare("calls", "a", 5, 0, 0)
}

func raceShares(t *testing.T, c counters) {
	const limit, holders = 10, 6
	var held atomic.Int64
	var group errgroup.Group
	for i := range holders {
		group.Go(func() error {
			for n := range 30 {
				got, err := c.c.Share(t.Context(), files, "calls", fmt.Sprint(i), int64(1+(i+n)%5), limit, long)
				if err != nil {
					return fmt.Errorf("share: %w", err)
				}
				if all := held.Add(got); all > limit {
					return fmt.Errorf("%d of %d are held", all, limit)
				}
				held.Add(-got)
				if _, err := c.c.Share(t.Context(), files, "calls", fmt.Sprint(i), 0, limit, long); err != nil {
					return fmt.Errorf("give back: %w", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	c.wantShare("calls", "last", limit, limit, limit)
}

func countersApart(t *testing.T, c counters) {
	keys := []struct {
		scope   cache.Scope
		counter string
	}{
		{cache.Scope{Tenant: "a", Upstream: "b"}, "c"},
		{cache.Scope{Tenant: "A", Upstream: "b"}, "c"},
		{cache.Scope{Tenant: "a"}, "c"},
		{cache.Scope{Tenant: "a"}, "b:c"},
		{cache.Scope{Tenant: "a/b"}, "c"},
		{cache.Scope{Tenant: "a"}, "b/c"},
		{cache.Scope{Tenant: "a", Upstream: "principals.0f"}, "c \x00é"},
		{cache.Scope{Tenant: "a"}, ""},
	}
	// A rate and a share may have the same name.
	for _, k := range keys {
		if got, _, err := c.c.Take(t.Context(), k.scope, k.counter, slow(3), 2); got != 2 || err != nil {
			t.Errorf("Take of %+v = %d, %v, want 2", k, got, err)
		}
		if got, err := c.c.Share(t.Context(), k.scope, k.counter, "a", 2, 3, long); got != 2 || err != nil {
			t.Errorf("Share of %+v = %d, %v, want 2", k, got, err)
		}
	}
	for _, k := range keys {
		if got, _, err := c.c.Take(t.Context(), k.scope, k.counter, slow(3), 2); got != 1 || err != nil {
			t.Errorf("Take of %+v = %d, %v, want 1", k, got, err)
		}
		if got, err := c.c.Share(t.Context(), k.scope, k.counter, "b", 2, 3, long); got != 1 || err != nil {
			t.Errorf("Share of %+v = %d, %v, want 1", k, got, err)
		}
	}
}
