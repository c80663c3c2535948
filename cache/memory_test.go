package cache_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/cachetest"
)

func TestMemory(t *testing.T) {
	cachetest.TestResponses(t, func(*testing.T) cache.Responses { return cache.NewMemory(0) })
}

func topic(upstream string) cache.Topic {
	return cache.Topic{Tenant: "acme", Upstream: upstream, Version: "v1", Method: "resources/read"}
}

// put stores a body of n bytes under the topic's current generation.
func put(t *testing.T, m *cache.Memory, k cache.Key, n int) bool {
	t.Helper()
	gen, err := m.Generation(t.Context(), k.Topic)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := m.Put(t.Context(), k, cache.Entry{Body: make([]byte, n), Stored: time.Now()}, gen)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func has(t *testing.T, m *cache.Memory, k cache.Key) bool {
	t.Helper()
	_, ok, err := m.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestMemoryDropsLeastRecentlyUsed(t *testing.T) {
	m := cache.NewMemory(10_000)
	key := func(i int) cache.Key { return cache.Key{Topic: topic("files"), Param: fmt.Sprint(i)} }
	for i := range 3 {
		if !put(t, m, key(i), 2_500) {
			t.Fatalf("entry %d was not stored", i)
		}
	}
	has(t, m, key(0)) // now 1 is the oldest
	put(t, m, key(3), 2_500)
	for i, want := range []bool{true, false, true, true} {
		if got := has(t, m, key(i)); got != want {
			t.Errorf("entry %d there: %v, want %v", i, got, want)
		}
	}
}

func TestMemoryEntryTooLarge(t *testing.T) {
	m := cache.NewMemory(10_000)
	k := cache.Key{Topic: topic("files"), Param: "file:///a"}
	other := cache.Key{Topic: topic("files"), Param: "file:///b"}
	put(t, m, k, 100)
	put(t, m, other, 100)
	if put(t, m, k, 10_000) {
		t.Error("an entry larger than the memory was stored")
	}
	if has(t, m, k) {
		t.Error("the older answer is still there after a newer one was seen")
	}
	if !has(t, m, other) {
		t.Error("an entry that cannot be stored drove out another")
	}
}

// A body counts with the memory that it keeps alive.
func TestMemoryCountsCapacity(t *testing.T) {
	m := cache.NewMemory(10_000)
	k := cache.Key{Topic: topic("files")}
	gen, _ := m.Generation(t.Context(), k.Topic)
	stored, err := m.Put(t.Context(), k, cache.Entry{Body: make([]byte, 1, 20_000)}, gen)
	if err != nil || stored {
		t.Errorf("stored = %v, %v, want false", stored, err)
	}
}

// A forgotten topic must not let a read in flight overwrite what is newer.
func TestMemoryForgottenTopic(t *testing.T) {
	m := cache.NewMemory(10_000)
	k := cache.Key{Topic: topic("files")}
	before, _ := m.Generation(t.Context(), k.Topic)
	for i := range 100 {
		_, _ = m.Generation(t.Context(), topic("other"+strconv.Itoa(i)))
	}
	if stored, err := m.Put(t.Context(), k, cache.Entry{}, before); err != nil || stored {
		t.Errorf("stored = %v, %v under a generation that was forgotten", stored, err)
	}
	after, _ := m.Generation(t.Context(), k.Topic)
	if after <= before {
		t.Errorf("generation %d after %d, want a higher one", after, before)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const max = 4 << 20
	const slack = max / 8 // what the allocator rounds up
	tests := []struct {
		name string
		step func(m *cache.Memory, i int)
	}{
		{"entries", func(m *cache.Memory, i int) {
			put(t, m, cache.Key{Topic: topic("files"), Param: "file:///" + strconv.Itoa(i)}, 0)
		}},
		{"credentials", func(m *cache.Memory, i int) {
			put(t, m, cache.Key{Topic: topic("files"), Credential: strconv.Itoa(i)}, 10)
		}},
		{"large bodies", func(m *cache.Memory, i int) {
			put(t, m, cache.Key{Topic: topic("files"), Param: strconv.Itoa(i)}, 10_000)
		}},
		{"topics that were asked for", func(m *cache.Memory, i int) {
			_, _ = m.Generation(t.Context(), topic(strconv.Itoa(i)))
		}},
		{"topics that were invalidated", func(m *cache.Memory, i int) {
			_, _ = m.Invalidate(t.Context(), topic(strconv.Itoa(i)), "")
		}},
		{"topics with an entry", func(m *cache.Memory, i int) {
			put(t, m, cache.Key{Topic: topic(strconv.Itoa(i))}, 0)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			m := cache.NewMemory(max)
			for i := range 40_000 {
				tt.step(m, i)
			}
			if grown := heap() - before; grown > max+slack {
				t.Errorf("the heap has grown by %d bytes, want at most %d", grown, max+slack)
			}
			runtime.KeepAlive(m)
		})
	}
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestCovers(t *testing.T) {
	tests := []struct {
		name, param, entry string
		want               bool
	}{
		{"all", "", "file:///a", true},
		{"all, with no param", "", "", true},
		{"itself", "file:///a/b", "file:///a/b", true},
		{"parent", "file:///a/b", "file:///a", true},
		{"parent with slash", "file:///a/b", "file:///a/", true},
		{"grandparent", "file:///a/b/c", "file:///a", true},
		{"root", "file:///a/b", "file:///", true},
		{"child", "file:///a", "file:///a/b", false},
		{"child of a directory", "file:///a/", "file:///a/b", false},
		{"the same without slash", "file:///a/", "file:///a", true},
		{"the same with slash", "file:///a", "file:///a/", false},
		{"common beginning", "file:///ab", "file:///a", false},
		{"sibling", "file:///a/b", "file:///a/c", false},
		{"other scheme", "travel://a/b", "file:///a", false},
		{"entry without param", "/a", "", false},
		{"letter case", "file:///A/b", "file:///a", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := cache.Covers(tt.param, tt.entry); got != tt.want {
				t.Errorf("Covers(%q, %q) = %v, want %v", tt.param, tt.entry, got, tt.want)
			}
		})
	}
}

func BenchmarkMemoryGet(b *testing.B) {
	m := cache.NewMemory(0)
	tp := topic("files")
	gen, _ := m.Generation(b.Context(), tp)
	keys := make([]cache.Key, 1_000)
	for i := range keys {
		keys[i] = cache.Key{Topic: tp, Param: strings.Repeat("p", 40) + strconv.Itoa(i)}
		if _, err := m.Put(b.Context(), keys[i], cache.Entry{Body: make([]byte, 100)}, gen); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := rand.IntN(len(keys))
		for pb.Next() {
			if _, ok, _ := m.Get(b.Context(), keys[i%len(keys)]); !ok {
				b.Error("not there")
			}
			i++
		}
	})
}
