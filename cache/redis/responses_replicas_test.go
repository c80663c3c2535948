package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// TestInvalidateReachesMemory holds that what one replica invalidates, others drop
// from memory, and nothing else.
func TestInvalidateReachesMemory(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	tests := []struct {
		name, param   string
		dropped, kept []string
	}{
		{"all", "", []string{"file:///a", "file:///b/c"}, nil},
		{"one", "file:///b/c", []string{"file:///b/c", "file:///b"}, []string{"file:///a", "file:///b/c/d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.stands("acme")
			for _, param := range append(tt.dropped, tt.kept...) {
				a.put(key(param), "1")
				b.want(key(param), "1")
				if !b.isNear(key(param)) {
					t.Fatalf("%q is not in memory after it was asked for", param)
				}
			}
			a.invalidate(reads, tt.param)
			for _, param := range tt.dropped {
				a.want(key(param), "")
				eventually(t, "the other replica drops it", func() bool { return b.get(key(param)) == "" })
			}
			for _, param := range tt.kept {
				a.want(key(param), "1")
				if !b.isNear(key(param)) {
					t.Errorf("%q is not in memory any more", param)
				}
			}
		})
	}
}

// TestDeleteReachesMemory holds that what is not public any more leaves all
// replicas at once, and that a user's own does not.
func TestDeleteReachesMemory(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	b.stands("acme")
	shared, alice := key("file:///a"), key("file:///a")
	alice.Credential = "alice"
	a.put(shared, "everybody's")
	a.put(alice, "hers")
	b.want(shared, "everybody's")
	b.want(alice, "hers")
	if err := a.Delete(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	a.want(shared, "")
	eventually(t, "the other replica drops it", func() bool { return b.get(shared) == "" })
	if !b.isNear(alice) {
		t.Error("another entry was dropped too")
	}
	a.put(shared, "again")
	b.want(shared, "again")
}

// TestDeleteOfNothing holds that a private answer, after which the shared one is
// deleted each time, disturbs nobody when there was none.
func TestDeleteOfNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, _ := replicas(t, s.URL())
	alice := key("file:///a")
	alice.Credential = "alice"
	a.put(alice, "hers")
	before := s.Do("HGET", a.topicKey(reads), "d")
	if err := a.Delete(t.Context(), key("file:///a")); err != nil {
		t.Fatal(err)
	}
	if after := s.Do("HGET", a.topicKey(reads), "d"); after != before {
		t.Errorf("all were told of it: %v after %v", after, before)
	}
	if !a.isNear(alice) {
		t.Error("another entry was dropped too")
	}
}

// TestReadInFlight holds that what was asked of Redis before a change came, or an
// entry was dropped, does not stay in memory.
func TestReadInFlight(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	k := key("file:///a")
	gen, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		meanwhile func()
		want      bool
	}{
		{"nothing", func() {}, true},
		{"a change of it", func() { a.changed(notice{topic: reads, param: k.Param, gen: gen + 1, prev: gen}, false) }, false},
		{"another's change", func() { a.changed(notice{topic: reads, param: "file:///b", gen: gen + 2, prev: gen + 1}, false) }, false},
		{"it was dropped", func() { a.dropped(notice{topic: reads, param: k.Param, gen: gen + 1, prev: gen}) }, false},
		{"it was dropped here", func() { a.dropped(notice{topic: reads, param: k.Param}) }, false},
		{"a change that cannot be written", func() { a.postpone(notice{topic: reads, param: k.Param, id: newID()}) }, false},
	}
	b.put(k, "1")
	for _, tt := range tests {
		v, err := a.visit(reads)
		if err != nil {
			t.Fatal(err)
		}
		tt.meanwhile()
		a.fill(t.Context(), v, k, cache.Entry{Body: []byte("1"), Stored: time.Now(), TTL: time.Hour})
		if got := a.isNear(k); got != tt.want {
			t.Errorf("%s: it is in memory: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestLostNotice holds that a notice shows when one before it was lost.
func TestLostNotice(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := replicas(t, s.URL())
	b.stands("acme")
	var told changes
	t.Cleanup(b.Follow("acme", told.add))
	a.put(key("file:///a"), "1")
	b.want(key("file:///a"), "1")
	s.Do("HINCRBY", a.topicKey(reads), "g", 1) // as a change of file:///a of which nobody heard
	a.invalidate(reads, "file:///b")
	eventually(t, "the change is told", func() bool { return len(told.all()) > 0 })
	if b.isNear(key("file:///a")) {
		t.Error("what may have changed unheard is still in memory")
	}
	if got := told.all()[0]; got.Param != "" {
		t.Errorf("told of a change of %q, want one of all", got.Param)
	}
}

// TestLostDrop is the same for an entry that was deleted.
func TestLostDrop(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := replicaOf(t, Options{Connection: Connection{URL: s.URL()}, PollInterval: 50 * time.Millisecond}, cache.NewMemory(0))
	a.put(key("file:///a"), "1")
	s.Do("HINCRBY", a.topicKey(reads), "d", 1)
	eventually(t, "it leaves memory", func() bool { return !a.isNear(key("file:///a")) })
}

// TestEvictedTopic holds that entries are not valid without what says since when
// they are.
func TestEvictedTopic(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := replicaOf(t, Options{Connection: Connection{URL: s.URL()}, PollInterval: 50 * time.Millisecond}, cache.NewMemory(0))
	b := replicaOf(t, Options{Connection: Connection{URL: s.URL()}}, nil)
	a.put(key("file:///a"), "1")
	before, err := b.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	s.Do("DEL", a.topicKey(reads))
	b.want(key("file:///a"), "")
	eventually(t, "it leaves memory", func() bool { return !a.isNear(key("file:///a")) })
	b.want(key("file:///a"), "")
	if stored, err := b.Put(t.Context(), key("file:///a"), cache.Entry{Stored: time.Now(), TTL: time.Hour}, before); err != nil || stored {
		t.Errorf("Put under a generation of before = %v, %v", stored, err)
	}
	a.put(key("file:///a"), "2")
	b.want(key("file:///a"), "2")
}

// TestOlderRedis has Redis lose the last changes, as one does that is restored or
// that a replica takes over from.
func TestOlderRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := replicaOf(t, Options{Connection: Connection{URL: s.URL()}}, nil)
	a.put(key("file:///a"), "1")
	topic := a.topicKey(reads)
	g, all := s.Do("HGET", topic, "g"), s.Do("HGET", topic, "a")
	a.invalidate(reads, "")
	s.Do("HSET", topic, "g", g, "a", all)
	b := replicaOf(t, Options{Connection: Connection{URL: s.URL()}, PollInterval: 50 * time.Millisecond}, cache.NewMemory(0))
	b.want(key("file:///a"), "1") // it cannot know better
	if gen, err := a.Generation(t.Context(), reads); err != nil {
		t.Errorf("Generation = %v, %v", gen, err)
	}
	a.want(key("file:///a"), "")
	eventually(t, "those who did not know learn", func() bool { return b.get(key("file:///a")) == "" })
}

// TestForeignEntries holds that what another version wrote counts as none.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := replicaOf(t, Options{Connection: Connection{URL: s.URL()}}, nil)
	k := key("file:///a")
	a.put(k, "1")
	value := s.Do("GET", a.entryKey(k)).(string)
	tests := []struct{ name, value string }{
		{"another version", "\x02" + value[1:]},
		{"an unknown flag", value[:1] + "\x80" + value[2:]},
		{"cut", value[:headerSize-1]},
		{"too short a body", value[:headerSize]},
		{"compressed, but not", value[:1] + "\x02" + value[2:]},
		{"something else", "hello"},
		{"nothing", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.Do("SET", a.entryKey(k), tt.value, "PX", 60_000)
			r := replica{a.Responses, t}
			r.want(k, "")
			r.put(k, "2")
			r.want(k, "2")
		})
	}
}

// TestClocks holds that replicas whose clocks differ by an hour agree on how long
// an entry is fresh.
func TestClocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	off := func(d time.Duration) replica {
		r := newResponses(openWell(t, at(s.URL())), cache.NewMemory(0), func() time.Time { return time.Now().Add(d) })
		t.Cleanup(r.Close)
		return replica{r, t}
	}
	a, b := off(0), off(time.Hour)
	tests := []struct {
		name           string
		writer, reader replica
		age            time.Duration
	}{
		{"ahead", a, b, 0},
		{"behind", b, a, 0},
		{"ahead, of some age", a, b, 10 * time.Minute},
		{"behind, of some age", b, a, 10 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, r := replica{tt.writer.Responses, t}, replica{tt.reader.Responses, t}
			k := key(tt.name)
			stored := w.now().Add(-tt.age)
			w.putEntry(k, cache.Entry{Body: []byte("1"), Stored: stored, TTL: 15 * time.Minute})
			e, ok, err := r.Get(t.Context(), k)
			if err != nil || !ok {
				t.Fatalf("Get = %v, %v", ok, err)
			}
			took := w.now().Sub(stored) - tt.age
			if age := r.now().Sub(e.Stored); age < tt.age || age > tt.age+took+time.Minute {
				t.Errorf("an entry of %v counts as one of %v", tt.age, age)
			}
		})
	}
}

// TestLatePut holds that an entry whose writing was held up is as old as it is.
func TestLatePut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := at(s.URL())
	opts.Timeout = 500 * time.Millisecond
	a := replicaOf(t, opts, nil)
	k := key("file:///a")
	a.put(k, "1") // which has a connection made
	gen, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	s.Pause()
	stored := time.Now()
	if ok, err := a.Put(t.Context(), k, cache.Entry{Body: []byte("2"), Stored: stored, TTL: time.Hour}, gen); err == nil {
		t.Fatalf("Put = %v while Redis was suspended", ok)
	}
	s.Resume()
	var e cache.Entry
	eventually(t, "the entry is written after all", func() bool {
		e, _, _ = a.Get(t.Context(), k)
		return string(e.Body) == "2"
	})
	if younger := e.Stored.Sub(stored); younger > 100*time.Millisecond {
		t.Errorf("the entry counts as %v younger than it is", younger)
	}
}

// TestPutOfLaterLease holds that of two who fetch at the same time, the later holder
// of the lease stays.
func TestPutOfLaterLease(t *testing.T) {
	t.Parallel()
	a := replicaOf(t, at(redistest.Start(t).URL()), nil)
	gen, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		fence cache.Fence
		want  bool
	}{
		{"first", cache.Fence{Epoch: 1 << 63, N: 10}, true},
		{"later", cache.Fence{Epoch: 1 << 63, N: 12}, true},
		{"the same", cache.Fence{Epoch: 1 << 63, N: 12}, true},
		{"earlier", cache.Fence{Epoch: 1 << 63, N: 11}, false},
		{"none", cache.Fence{}, true},
		{"after none", cache.Fence{Epoch: 1 << 63, N: 11}, true},
		{"another epoch", cache.Fence{Epoch: 7, N: 1}, true},
	}
	for _, tt := range tests {
		e := cache.Entry{Body: []byte(tt.name), Stored: time.Now(), TTL: time.Hour, Fence: tt.fence}
		got, err := a.Put(t.Context(), key("file:///a"), e, gen)
		if err != nil || got != tt.want {
			t.Errorf("%s: Put = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// TestExpiredInMemory holds that another replica's newer entry is found.
func TestExpiredInMemory(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	k := key("file:///a")
	a.putEntry(k, cache.Entry{Body: []byte("old"), Stored: time.Now().Add(-time.Minute), TTL: time.Second, Keep: time.Hour})
	a.want(k, "old")
	b.put(k, "new")
	a.want(k, "new")
	if !a.isNear(k) {
		t.Error("the newer entry is not in memory")
	}
}

// TestOfNoUse holds that an answer that cannot be used again takes the place of one
// that could.
func TestOfNoUse(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	k := key("file:///a")
	a.put(k, "old")
	gen, err := a.Generation(t.Context(), reads)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []cache.Entry{
		{Body: []byte("new"), Stored: time.Now()},
		{Body: []byte("new"), Stored: time.Now().Add(-time.Hour), TTL: time.Minute, Keep: time.Minute},
		{Body: make([]byte, maxBody+1), Stored: time.Now(), TTL: time.Minute},
	} {
		if stored, err := a.Put(t.Context(), k, e, gen); err != nil || stored {
			t.Errorf("Put = %v, %v", stored, err)
		}
	}
	a.want(k, "")
	b.want(k, "")
}

// TestManyMarks holds that the hash of a topic is bounded, and nothing that is
// invalidated comes back by that.
func TestManyMarks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := replicaOf(t, at(s.URL()), nil)
	a.put(key("file:///0/0"), "1")
	a.invalidate(reads, "file:///0/0")
	topic := a.topicKey(reads)
	most := int64(0)
	for i := range 700 {
		a.invalidate(reads, "file:///"+time.Duration(i).String())
		most = max(most, s.Do("HLEN", topic).(int64))
		a.want(key("file:///0/0"), "")
	}
	if most > maxMarks {
		t.Errorf("a topic's hash has %d fields, want at most %d", most, maxMarks)
	}
}

func TestCovered(t *testing.T) {
	t.Parallel()
	for _, param := range []string{"a", "/", "//", "file:///a/b", "file:///a/b/", "a/b?c=/d", "/a", "é/ü", "a//b"} {
		want := map[string]bool{}
		for i := 1; i <= len(param); i++ {
			if cache.Covers(param, param[:i]) {
				want[param[:i]] = true
			}
		}
		got := map[string]bool{}
		for _, p := range covered(param) {
			got[p] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q covers (-want +got):\n%s", param, diff)
		}
	}
	if covered(strings.Repeat("/a", maxAncestors)) != nil {
		t.Error("more is listed than may be")
	}
	if covered("") != nil || covered(string(make([]byte, 10))) == nil {
		t.Error("no parameter covers all, and only none does")
	}
}
