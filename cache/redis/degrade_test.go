package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// degradation is one way in which Redis fails, and what callers of the response
// cache see of it.
type degradation struct {
	name       string
	fail, heal func(s *redistest.Server, p *redistest.Proxy)
	silent     bool // it cannot be used, so callers stop asking it
	lost       bool // what it had is gone
	// What it can do nevertheless.
	gives, invalidates, stores bool
}

func degradations() []degradation {
	set := func(value string) func(*redistest.Server, *redistest.Proxy) {
		return func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", value) }
	}
	return []degradation{
		{
			name:   "stopped",
			fail:   func(s *redistest.Server, _ *redistest.Proxy) { s.Stop() },
			heal:   func(s *redistest.Server, _ *redistest.Proxy) { s.Restart(false) },
			silent: true,
		},
		{
			name:   "killed and empty",
			fail:   func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() },
			heal:   func(s *redistest.Server, _ *redistest.Proxy) { s.Restart(true) },
			silent: true, lost: true,
		},
		{
			name:   "paused",
			fail:   func(s *redistest.Server, _ *redistest.Proxy) { s.Pause() },
			heal:   func(s *redistest.Server, _ *redistest.Proxy) { s.Resume() },
			silent: true,
		},
		{
			name:   "slow",
			fail:   func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(200 * time.Millisecond) },
			heal:   func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(0) },
			silent: true,
		},
		{
			name:   "cut off",
			fail:   func(_ *redistest.Server, p *redistest.Proxy) { p.Cut() },
			heal:   func(_ *redistest.Server, p *redistest.Proxy) { p.Heal() },
			silent: true,
		},
		{name: "full", fail: set("1"), heal: set("0"), gives: true, invalidates: true},
		{
			name:  "read-only",
			fail:  func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "127.0.0.1", "1") },
			heal:  func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "NO", "ONE") },
			gives: true,
		},
	}
}

// degraded is a Redis that two replicas use while it fails.
type degraded struct {
	degradation
	t      *testing.T
	server *redistest.Server
	proxy  *redistest.Proxy
	a, b   replica
	told   changes // to a follower at b

	warm, cold, gone cache.Key
}

// TestDegradation holds for each way to fail that what is in memory is served, that
// nothing waits for long, that what is invalidated stays so, and that all heals.
func TestDegradation(t *testing.T) {
	t.Parallel()
	for _, tt := range degradations() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDegraded(t, tt)
			d.fail(d.server, d.proxy)
			d.wantDegraded(t)
			d.heal(d.server, d.proxy)
			d.wantHealed(t)
			wantAllExpire(t, d.server)
		})
	}
}

func newDegraded(t *testing.T, tt degradation) *degraded {
	d := &degraded{degradation: tt, t: t, server: redistest.Start(t)}
	d.proxy = redistest.Slow(t, d.server.Addr(), 0)
	opts := at(d.proxy.URL())
	opts.Timeout, opts.PollInterval = 100*time.Millisecond, 300*time.Millisecond
	d.a, d.b = replicaOf(t, opts, cache.NewMemory(0)), replicaOf(t, opts, cache.NewMemory(0))
	t.Cleanup(d.b.Follow("acme", d.told.add))
	d.a.stands("acme")
	d.b.stands("acme")
	// The cold one's topic is its own, since nothing of a topic is used while an
	// invalidation of it is to be written.
	d.warm, d.gone, d.cold = key("file:///warm"), key("file:///gone"), key("file:///cold")
	d.cold.Upstream = "cold"
	eventually(t, "entries are stored", func() bool {
		return store(d.a, d.warm, "1") && store(d.a, d.gone, "1") && store(d.b, d.cold, "1")
	})
	return d
}

// store stores an entry, and tells whether it did.
func store(r replica, k cache.Key, body string) bool {
	gen, err := r.Generation(r.t.Context(), k.Topic)
	if err != nil {
		return false
	}
	ok, err := r.Put(r.t.Context(), k, cache.Entry{Body: []byte(body), Stored: time.Now(), TTL: time.Hour}, gen)
	return ok && err == nil
}

// wantDegraded checks what callers see while Redis fails.
func (d *degraded) wantDegraded(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if e, ok, err := d.a.Get(ctx, d.cold); ok != d.gives || (err == nil) != d.gives {
		t.Errorf("Get of what is in Redis alone = %q, %v, %v; want it: %v", e.Body, ok, err, d.gives)
	}
	fresh := d.cold
	fresh.Param = "file:///fresh"
	if ok := store(d.a, fresh, "1"); ok != d.stores {
		t.Errorf("stored = %v, want %v", ok, d.stores)
	}
	if _, err := d.a.Invalidate(ctx, d.gone.Topic, d.gone.Param); (err == nil) != d.invalidates {
		t.Errorf("Invalidate = %v, want success: %v", err, d.invalidates)
	}
	if e, ok, _ := d.a.Get(ctx, d.gone); ok {
		t.Errorf("%q is served after it was invalidated", e.Body)
	}
	eventually(t, "the store tells", func() bool {
		_, _, _ = d.a.Get(ctx, d.gone)
		_ = store(d.a, fresh, "1")
		return d.a.store.Degraded() != ""
	})
	if d.silent {
		eventually(t, "callers do not wait", func() bool {
			_, err := d.a.Generation(ctx, d.cold.Topic)
			return errors.Is(err, ErrUnavailable)
		})
	}
	for range 100 {
		d.a.want(d.warm, "1")
	}
}

// wantHealed checks that all works again, and that nothing has come back.
func (d *degraded) wantHealed(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, r := range []replica{d.a, d.b} {
		eventually(t, "the store works", func() bool { return r.store.Degraded() == "" })
		eventually(t, "what was invalidated is gone for all", func() bool {
			_, ok, err := r.Get(ctx, d.gone)
			return err == nil && !ok
		})
	}
	eventually(t, "a replica stores", func() bool { return store(d.a, d.gone, "2") })
	eventually(t, "another one has it", func() bool {
		e, _, err := d.b.Get(ctx, d.gone)
		return err == nil && string(e.Body) == "2"
	})
	want := "1"
	if d.lost {
		want = ""
		eventually(t, "what Redis has lost leaves memory", func() bool { _, ok, err := d.b.Get(ctx, d.cold); return err == nil && !ok })
	}
	d.a.want(d.cold, want)
	// Invalidations work as before.
	d.b.invalidate(d.gone.Topic, "")
	eventually(t, "the other replica drops it", func() bool { _, ok, err := d.a.Get(ctx, d.gone); return err == nil && !ok })
	d.wantFewChanges(t)
}

// wantFewChanges checks that the failure is not made up for by telling of many
// changes, each of which makes somebody ask an upstream.
func (d *degraded) wantFewChanges(t *testing.T) {
	t.Helper()
	// What was lost, what could not be written at first, and the last one.
	most := map[string]int{d.gone.Upstream: 3, d.cold.Upstream: 0}
	if d.lost {
		most[d.cold.Upstream] = 1
	}
	count := map[string]int{}
	for _, c := range d.told.all() {
		if c.Gen != 0 {
			count[c.Topic.Upstream]++
		}
	}
	for upstream, n := range count {
		if n > most[upstream] {
			t.Errorf("%d changes of %s were told, want at most %d: %+v", n, upstream, most[upstream], d.told.all())
		}
	}
}
