package cachetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/causeway-mcp/causeway/cache"
)

// TestLeases checks a back end of cache.Leases. make gives one that nobody else
// uses and registers its clean-up with t; the suite calls it once for each part.
func TestLeases(t *testing.T, make func(t *testing.T) cache.Leases) {
	tests := []struct {
		name string
		test func(t *testing.T, c leases)
	}{
		{"one holder", oneHolder},
		{"leases are apart", leasesApart},
		{"release", releaseLease},
		{"renew", renewLease},
		{"expire", expireLease},
		{"one of many gets it", raceForLease},
		{"fences rise", fencesRise},
		{"fences rise for many", raceForFences},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, leases{t, make(t)}) })
	}
}

// TestFencesAfterLoss checks that the fences of a store that lost all it knew are
// told from those before, and have higher numbers. lose makes it lose all.
func TestFencesAfterLoss(t *testing.T, make func(t *testing.T) (l cache.Leases, lose func())) {
	l, lose := make(t)
	c := leases{t, l}
	before := c.draw(files)
	for range 100 {
		before = c.draw(files)
	}
	lose()
	after := c.acquire("fetch", "a", long).Fence
	if after.Epoch == before.Epoch || after.N <= before.N {
		t.Errorf("fence %+v after %+v and a loss, want another epoch and a higher number", after, before)
	}
	if !before.Before(after) {
		t.Errorf("%+v is not before %+v", before, after)
	}
}

var files = cache.Scope{Tenant: "acme", Upstream: "files"}

// leases calls a Leases and fails the test on errors.
type leases struct {
	t *testing.T
	l cache.Leases
}

func (c leases) try(s cache.Scope, name, holder string, ttl time.Duration) (cache.Lease, bool) {
	c.t.Helper()
	l, ok, err := c.l.Acquire(c.t.Context(), s, name, holder, ttl)
	if err != nil {
		c.t.Fatalf("Acquire: %v", err)
	}
	return l, ok
}

// acquire takes a lease of the scope files that is free.
func (c leases) acquire(name, holder string, ttl time.Duration) cache.Lease {
	c.t.Helper()
	l, ok := c.try(files, name, holder, ttl)
	if !ok {
		c.t.Fatalf("Acquire of %q for %q: taken by %+v", name, holder, l)
	}
	if l.Scope != files || l.Name != name || l.Holder != holder || l.Fence.N == 0 {
		c.t.Fatalf("Acquire of %q for %q gave %+v", name, holder, l)
	}
	return l
}

// wantTaken checks that somebody else's try fails and shows the lease.
func (c leases) wantTaken(by cache.Lease, holder string) {
	c.t.Helper()
	if got, ok := c.try(by.Scope, by.Name, holder, long); ok || got != by {
		c.t.Errorf("Acquire for %q = %+v, %v, want that it is taken by %+v", holder, got, ok, by)
	}
}

func (c leases) renew(l cache.Lease, ttl time.Duration) bool {
	c.t.Helper()
	ok, err := c.l.Renew(c.t.Context(), l, ttl)
	if err != nil {
		c.t.Fatalf("Renew: %v", err)
	}
	return ok
}

func (c leases) release(l cache.Lease) {
	c.t.Helper()
	if err := c.l.Release(c.t.Context(), l); err != nil {
		c.t.Fatalf("Release: %v", err)
	}
}

func (c leases) draw(s cache.Scope) cache.Fence {
	c.t.Helper()
	f, err := c.l.Draw(c.t.Context(), s)
	if err != nil {
		c.t.Fatalf("Draw: %v", err)
	}
	return f
}

func oneHolder(t *testing.T, c leases) {
	l := c.acquire("fetch tools/list", "a", long)
	c.wantTaken(l, "b")
	c.wantTaken(l, "a")
	c.wantTaken(l, "")
}

func leasesApart(t *testing.T, c leases) {
	scope := func(tenant, upstream string) cache.Scope { return cache.Scope{Tenant: tenant, Upstream: upstream} }
	keys := []struct {
		scope cache.Scope
		name  string
	}{
		{scope("a", "b"), "c"},
		{scope("A", "b"), "c"},
		{scope("a", "B"), "c"},
		{scope("a", "b"), "C"},
		{scope("a", "b"), ""},
		{scope("a", ""), "c"},
		// Joined without care, these are equal to another.
		{scope("ab", ""), "c"},
		{scope("a", ""), "b:c"},
		{scope("a/b", ""), "c"},
		{scope("a:b", ""), "c"},
		{scope("a", ""), "b/c"},
		{scope("a", "b:c"), ""},
		{scope("{a}", "b"), "c"},
		{scope("a", "b"), "c\x00\xffé\r\n"},
	}
	for i, k := range keys {
		if l, ok := c.try(k.scope, k.name, fmt.Sprint(i), long); !ok {
			t.Errorf("Acquire of %+v: taken by %+v", k, l)
		}
	}
}

func releaseLease(t *testing.T, c leases) {
	old := c.acquire("fetch", "a", long)
	c.release(old)
	next := c.acquire("fetch", "b", long)
	if next.Fence.Epoch != old.Fence.Epoch || next.Fence.N <= old.Fence.N {
		t.Errorf("the fence %+v came after %+v", next.Fence, old.Fence)
	}
	c.release(old) // it is somebody else's now
	c.wantTaken(next, "c")
	other := next
	other.Holder = "c"
	c.release(other)
	c.wantTaken(next, "c")
	c.release(next)
	c.release(next)
	again := c.acquire("fetch", "b", long)
	c.release(next) // of the same holder, but an earlier one
	c.wantTaken(again, "c")
}

func renewLease(t *testing.T, c leases) {
	l := c.acquire("fetch", "a", long)
	if !c.renew(l, long) {
		t.Error("Renew of a lease that is held = false")
	}
	other := l
	other.Holder = "b"
	if c.renew(other, long) {
		t.Error("Renew for another holder = true")
	}
	other = l
	other.Fence.N--
	if c.renew(other, long) {
		t.Error("Renew with another fence = true")
	}
	c.wantTaken(l, "b")
	c.release(l)
	if c.renew(l, long) {
		t.Error("Renew of a lease that was released = true")
	}

	// A lease lasts from its renewal on: longer than one that was taken, or renewed,
	// for as long as it was at first.
	for ttl := short; ; ttl *= 2 {
		l := c.acquire("renewed", "a", ttl)
		if !c.renew(l, long) {
			continue // it took too long
		}
		c.acquire("control", "a", ttl)
		eventually(t, "the control expires", func() bool { _, ok := c.try(files, "control", "b", long); return ok })
		c.wantTaken(l, "b")
		if !c.renew(l, time.Millisecond) {
			t.Error("Renew for a shorter time = false")
		}
		eventually(t, "a lease that was renewed for a moment expires", func() bool { _, ok := c.try(files, "renewed", "b", long); return ok })
		return
	}
}

func expireLease(t *testing.T, c leases) {
	old := c.acquire("fetch", "a", short)
	var next cache.Lease
	eventually(t, "the lease expires", func() (ok bool) {
		next, ok = c.try(files, "fetch", "b", long)
		return ok
	})
	if next.Holder != "b" || next.Fence.N <= old.Fence.N {
		t.Errorf("the lease %+v came after %+v", next, old)
	}
	if c.renew(old, long) {
		t.Error("Renew of a lease that was lost = true")
	}
	c.release(old)
	c.wantTaken(next, "a")

	gone := c.acquire("other", "a", time.Millisecond)
	eventually(t, "a lease that nobody else wants expires", func() bool {
		// Each renewal that comes in time makes it last for one more moment.
		return !c.renew(gone, time.Millisecond)
	})
	c.acquire("other", "a", long)
}

func raceForLease(t *testing.T, c leases) {
	for round := range 20 {
		var got atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, ok, err := c.l.Acquire(t.Context(), files, fmt.Sprint("fetch ", round), fmt.Sprint(i), long)
				if err != nil {
					t.Errorf("Acquire: %v", err)
				}
				if ok {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		if n := got.Load(); n != 1 {
			t.Fatalf("%d holders got the same lease", n)
		}
	}
}

func fencesRise(t *testing.T, c leases) {
	last := c.draw(files)
	//nolint:gosec // the time is after 1970
	if least := uint64(time.Now().Add(-time.Hour).UnixMicro()); last.N < least {
		t.Errorf("fence %d, want at least the time in microseconds", last.N)
	}
	rises := func(how string, f cache.Fence) {
		t.Helper()
		if f.Epoch != last.Epoch || f.N <= last.N || !last.Before(f) || f.Before(last) {
			t.Errorf("%s: fence %+v after %+v", how, f, last)
		}
		last = f
	}
	for range 5 {
		rises("drawn", c.draw(files))
		l := c.acquire("fetch", "a", long)
		rises("of a lease", l.Fence)
		if !c.renew(l, long) {
			t.Error("Renew = false")
		}
		rises("of another lease", c.acquire("listen", "b", long).Fence)
		c.release(l)
		l, _ = c.try(files, "listen", "b", long)
		c.release(l)
	}
}

func raceForFences(t *testing.T, c leases) {
	const drawers, each = 8, 40
	var mu sync.Mutex
	seen := map[cache.Fence]bool{}
	var group errgroup.Group
	for range drawers {
		group.Go(func() error {
			var last cache.Fence
			for range each {
				f, err := c.l.Draw(t.Context(), files)
				if err != nil {
					return fmt.Errorf("draw: %w", err)
				}
				if f.N <= last.N {
					return fmt.Errorf("fence %+v came after %+v", f, last)
				}
				last = f
				mu.Lock()
				seen[f] = true
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != drawers*each {
		t.Errorf("%d draws gave %d fences", drawers*each, len(seen))
	}
}
