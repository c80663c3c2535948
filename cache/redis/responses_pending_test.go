package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// behind makes a replica that reaches a server through a proxy, and looks at
// generations after a gap only.
func behind(t *testing.T, s *redistest.Server) (replica, *redistest.Proxy) {
	t.Helper()
	p := redistest.Slow(t, s.Addr(), 0)
	opts := at(p.URL())
	opts.Timeout, opts.PollInterval = 200*time.Millisecond, time.Hour
	return replicaOf(t, opts, cache.NewMemory(0)), p
}

// TestCutOff has one replica of two cut off while either of them invalidates
// something.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, cut := behind(t, s)
	b := replicaOf(t, at(s.URL()), cache.NewMemory(0))
	theirs, ours, other := key("file:///theirs"), key("file:///ours"), key("file:///other")
	other.Upstream = "other"
	a.stands("acme")
	for _, k := range []cache.Key{theirs, ours, other} {
		a.put(k, "1")
		b.want(k, "1")
	}
	cut.Cut()
	b.invalidate(reads, theirs.Param)
	if _, err := a.Invalidate(t.Context(), reads, ours.Param); err == nil {
		t.Fatal("an invalidation that cannot be written is no error")
	}
	// What a replica knows of counts at once, what it does not know of cannot.
	if _, ok, _ := a.Get(t.Context(), ours); ok {
		t.Error("what was invalidated here is still served")
	}
	a.want(theirs, "1")
	a.want(other, "1")
	b.want(ours, "1")
	if _, err := a.Generation(t.Context(), reads); err == nil {
		t.Error("a generation is known while an invalidation is pending")
	}

	cut.Heal()
	eventually(t, "the replica drops what was invalidated while it was cut off", func() bool {
		_, ok, err := a.Get(t.Context(), theirs)
		return !ok && err == nil
	})
	eventually(t, "the others drop what it invalidated", func() bool { return b.get(ours) == "" })
	a.want(ours, "")
	eventually(t, "it stores again", func() bool {
		gen, err := a.Generation(t.Context(), reads)
		if err != nil {
			return false
		}
		ok, err := a.Put(t.Context(), ours, cache.Entry{Body: []byte("2"), Stored: time.Now(), TTL: time.Hour}, gen)
		return ok && err == nil
	})
	b.want(ours, "2")
	a.want(other, "1")
}

// TestRefused has Redis be a replica of nobody who is there: it takes no writes, but
// hands on what is published.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := at(s.URL())
	opts.PollInterval = 200 * time.Millisecond
	a, b := replicaOf(t, opts, cache.NewMemory(0)), replicaOf(t, opts, cache.NewMemory(0))
	var told changes
	t.Cleanup(b.Follow("acme", told.add))
	b.stands("acme")
	k, other := key("file:///a"), key("file:///b")
	for _, k := range []cache.Key{k, other} {
		a.put(k, "1")
		b.want(k, "1")
	}
	before, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	s.Do("REPLICAOF", "127.0.0.1", "1")
	if _, err := a.Invalidate(t.Context(), reads, k.Param); !refused(err) {
		t.Fatalf("Invalidate = %v, want that it is refused", err)
	}
	if _, ok, _ := a.Get(t.Context(), k); ok {
		t.Error("what was invalidated here is still served")
	}
	eventually(t, "the other replica is told", func() bool { return len(told.all()) > 0 })
	if got, want := told.all()[0], (cache.Change{Topic: reads, Param: k.Param}); got != want {
		t.Errorf("told of %+v, want %+v", got, want)
	}
	if _, ok, err := b.Get(t.Context(), k); ok || err == nil {
		t.Errorf("Get = %v, %v, want an error", ok, err)
	}
	b.want(other, "1") // from memory

	s.Do("REPLICAOF", "NO", "ONE")
	for _, r := range []replica{a, b} {
		eventually(t, "it is written", func() bool { _, ok, err := r.Get(t.Context(), k); return err == nil && !ok })
		r.want(other, "1")
	}
	eventually(t, "the change is told with its generation", func() bool {
		all := told.all()
		return all[len(all)-1].Gen > before
	})
	after, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	for _, ch := range told.all() {
		if ch.Gen != 0 && ch.Gen != after {
			t.Errorf("the change was made twice: %+v, and then %d", ch, after)
		}
	}
}

// TestLateRefusal has the notice that a change cannot be written come after the
// change was written, by another process, and found out by looking.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	b.stands("acme")
	var told changes
	t.Cleanup(b.Follow("acme", told.add))
	if _, err := b.Generation(t.Context(), reads); err != nil {
		t.Fatal(err)
	}
	n := notice{kind: noticeChange, topic: reads, id: newID()}
	if err := a.writeLater(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is told", func() bool { return len(told.all()) == 1 })
	gen := told.all()[0].Gen
	b.receive("acme", n.encode(), false) // it is known by its name
	n.id = newID()
	if err := a.store.client.Set(t.Context(), a.store.key(scopeOf(reads), kindDone, n.id), "", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	b.receive("acme", n.encode(), false) // it is not
	eventually(t, "the generation moves", func() bool {
		all := told.all()
		return all[len(all)-1].Gen > gen
	})
	if all := told.all(); len(all) != 3 || all[1].Gen != 0 {
		t.Errorf("told of %+v, want a change, one that could not be written, and one that was", all)
	}
}

// TestDeleteWhileCutOff holds that a shared entry does not come back when its
// deletion could not be written.
func TestDeleteWhileCutOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, cut := behind(t, s)
	b := replicaOf(t, at(s.URL()), cache.NewMemory(0))
	k := key("file:///a")
	a.put(k, "everybody's")
	b.want(k, "everybody's")
	cut.Cut()
	if err := a.Delete(t.Context(), k); err == nil {
		t.Fatal("a deletion that cannot be written is no error")
	}
	if _, ok, _ := a.Get(t.Context(), k); ok {
		t.Error("what was deleted here is still served")
	}
	cut.Heal()
	eventually(t, "the others drop it", func() bool { return b.get(k) == "" })
	eventually(t, "it stays away", func() bool { _, ok, err := a.Get(t.Context(), k); return err == nil && !ok })
}

// TestTooMuchPending holds that what is remembered is bounded, by invalidating more.
func TestTooMuchPending(t *testing.T) {
	t.Parallel()
	topic := func(tenant string, i int) cache.Topic {
		return cache.Topic{Tenant: tenant, Upstream: fmt.Sprint(i), Method: "tools/list"}
	}
	p := newPending()
	for i := range 2 * maxPendingParams {
		p.add(notice{topic: topic("few", 0), param: fmt.Sprint(i), id: newID()})
	}
	if list := p.topics[topic("few", 0)]; len(list) > maxPendingParams || list[0].param != "" {
		t.Errorf("%d parameters are remembered, the first %q", len(list), list[0].param)
	}
	for i := range maxPendingTopics {
		p.add(notice{topic: topic("many", i), id: newID()})
	}
	if len(p.topics) > maxPendingTopics || !p.tenants["many"] || p.tenants["few"] {
		t.Errorf("%d topics, and the tenants %v are remembered", len(p.topics), p.tenants)
	}
	for _, tp := range []cache.Topic{topic("few", 0), topic("many", 7), topic("many", -1)} {
		if !p.covers(tp) {
			t.Errorf("%v is not covered", tp)
		}
	}
	if p.covers(topic("few", 1)) {
		t.Error("a topic is covered that nothing was said of")
	}
	for i := range maxPendingTenants {
		for j := range 2 {
			p.add(notice{topic: topic(fmt.Sprint(i), j), id: newID()})
		}
	}
	for i := range maxPendingTopics {
		p.add(notice{topic: topic(fmt.Sprint("t", i), 0), id: newID()})
	}
	if n := len(p.topics) + len(p.tenants); n > maxPendingTopics+maxPendingTenants {
		t.Errorf("%d things are remembered", n)
	}
	if !p.covers(topic("few", 0)) || !p.covers(topic("999", 1)) {
		t.Error("something was forgotten")
	}
}

// TestMuchPending holds that when single changes are not remembered any more, all
// that the tenant has, or everybody, goes.
func TestMuchPending(t *testing.T) {
	t.Parallel()
	standalone, cluster := redistest.Start(t), redistest.StartCluster(t)
	tests := []struct {
		name    string
		conn    Connection
		pending func(p *pending)
		kept    bool // what another tenant has
	}{
		{"tenant", Connection{URL: standalone.URL()}, func(p *pending) { p.tenants["a*"] = true }, true},
		{"everything", Connection{URL: standalone.URL()}, func(p *pending) { p.all = true }, false},
		{"tenant in a cluster", Connection{URL: cluster.URL(), Mode: ModeCluster}, func(p *pending) { p.tenants["a*"] = true }, true},
	}
	var p prefixes
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := Options{Connection: tt.conn, Prefix: p.next() + "[*]", PollInterval: 100 * time.Millisecond}
			a, b := replicaOf(t, opts, nil), replicaOf(t, opts, cache.NewMemory(0))
			var mine []cache.Key
			for i := range 20 {
				mine = append(mine, cache.Key{Topic: cache.Topic{Tenant: "a*", Upstream: fmt.Sprint("u", i), Method: "tools/list"}})
			}
			other := cache.Key{Topic: cache.Topic{Tenant: "ab", Upstream: "u", Method: "tools/list"}}
			for _, k := range append(mine, other) {
				b.put(k, "1")
			}
			a.mu.Lock()
			tt.pending(&a.pending)
			a.mu.Unlock()
			if _, _, err := a.Get(t.Context(), mine[0]); err == nil {
				t.Error("what is pending is used")
			}
			a.look()
			eventually(t, "it is written", func() bool { _, ok, err := a.Get(t.Context(), mine[0]); return !ok && err == nil })
			for _, k := range mine {
				a.want(k, "")
				eventually(t, "it leaves memory", func() bool { return b.get(k) == "" })
			}
			if got := a.get(other) != ""; got != tt.kept {
				t.Errorf("what another tenant has is there: %v, want %v", got, tt.kept)
			}
		})
	}
}

func TestEscapeGlob(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const odd = `a*b?c[d]e\f`
	s.Do("SET", odd, "1")
	s.Do("SET", strings.Replace(odd, "*", "x", 1), "1")
	got := s.Do("KEYS", escapeGlob(odd)).([]any)
	if len(got) != 1 || got[0] != odd {
		t.Errorf("the pattern of %q finds %q", odd, got)
	}
}
