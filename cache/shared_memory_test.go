package cache_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/cachetest"
)

func TestMemoryShared(t *testing.T) {
	t.Run("leases", func(t *testing.T) {
		cachetest.TestLeases(t, func(*testing.T) cache.Leases { return cache.NewShared() })
	})
	t.Run("boards", func(t *testing.T) {
		cachetest.TestBoards(t, func(*testing.T) cache.Boards { return cache.NewShared() })
	})
	t.Run("bus", func(t *testing.T) {
		cachetest.TestBus(t, func(*testing.T) cache.Bus { return cache.NewShared() })
	})
	t.Run("values", func(t *testing.T) {
		cachetest.TestValues(t, func(*testing.T) cache.Values { return cache.NewShared() })
	})
	t.Run("counters", func(t *testing.T) {
		cachetest.TestCounters(t, func(*testing.T) cache.Counters { return cache.NewShared() })
	})
}

// Time is that of a bubble, so all of it is exact.
func TestMemorySharedTakesExactly(t *testing.T) {
	tests := []struct {
		name string
		rate cache.Rate
		want []int64 // what a greedy taker gets in the 1st second, the 2nd and so on
	}{
		{"one a minute", cache.Rate{Limit: 1, Interval: time.Minute}, []int64{1, 0, 0, 0}},
		{"one a second", cache.Rate{Limit: 1, Interval: time.Second}, []int64{1, 1, 1, 1}},
		{"sixty a minute", cache.Rate{Limit: 60, Interval: time.Minute}, []int64{60, 1, 1, 1}},
		{"that do not come out even", cache.Rate{Limit: 7, Interval: 2 * time.Second}, []int64{10, 3, 4, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := cache.NewShared()
				for i, want := range tt.want {
					var got int64
					for range 100 {
						n, _, err := s.Take(t.Context(), cache.Scope{}, "calls", tt.rate, 1000)
						if err != nil {
							t.Fatal(err)
						}
						got += n
						time.Sleep(10 * time.Millisecond)
					}
					if got != want {
						t.Errorf("second %d: got %d, want %d", i+1, got, want)
					}
				}
			})
		})
	}
}

// The wait that Take tells is exactly the time until there is one.
func TestMemorySharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := cache.NewShared(), cache.Rate{Limit: 7, Interval: time.Minute}
		take := func() (int64, time.Duration) {
			got, wait, _ := s.Take(t.Context(), cache.Scope{}, "calls", r, 10)
			return got, wait
		}
		take()
		for range 20 {
			_, wait := take()
			time.Sleep(wait - time.Nanosecond)
			if got, _ := take(); got != 0 {
				t.Errorf("got %d before the time", got)
			}
			time.Sleep(time.Nanosecond)
			if got, _ := take(); got != 1 {
				t.Errorf("got %d after the time, want 1", got)
			}
		}
	})
}

// A subscriber that holds up its messages loses them and is told so; it does not
// hold up the publisher.
func TestMemorySharedSlowSubscriber(t *testing.T) {
	s := cache.NewShared()
	const more = 25_000
	stands, leave, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	gaps, got := 0, 0
	stop := s.Subscribe("acme", func(body []byte, gap bool) {
		switch {
		case gap && gaps == 0:
			gaps++
			close(stands)
			<-leave
		case gap:
			gaps++
		case string(body) == "end":
			close(end)
		default:
			got++
		}
	})
	<-stands
	for range more {
		if err := s.Publish(t.Context(), "acme", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Publish(t.Context(), "acme", []byte("end")); err != nil {
		t.Fatal(err)
	}
	close(leave)
	<-end
	stop()
	if gaps < 2 || got >= more {
		t.Errorf("%d gaps and %d of %d messages", gaps, got, more)
	}
}

// A publisher may hold a lock that a receiver takes.
func TestMemorySharedPublishUnderLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cache.NewShared()
		var mu sync.Mutex
		got := make(chan string, 2)
		stop := s.Subscribe("acme", func(body []byte, gap bool) {
			mu.Lock()
			defer mu.Unlock()
			if !gap {
				got <- string(body)
			}
		})
		defer stop()
		mu.Lock()
		_ = s.Publish(t.Context(), "acme", []byte("x"))
		mu.Unlock()
		if g := <-got; g != "x" {
			t.Errorf("got %q", g)
		}
	})
}

// What has expired takes no memory, however much there was.
func TestMemorySharedIsBounded(t *testing.T) {
	const each, most = 10_000, 1 << 20
	step := func(s *cache.MemoryShared, name string) {
		ctx, sc := t.Context(), cache.Scope{Tenant: "acme", Upstream: name}
		_, _, _ = s.Acquire(ctx, sc, "fetch", "a", time.Second)
		_ = s.Post(ctx, sc, "listen", "a", []byte("value"), time.Second)
		_ = s.Post(ctx, cache.Scope{}, "one board", name, []byte("value"), time.Second)
		_ = s.Update(ctx, name, time.Second, func([]byte) ([]byte, error) { return []byte("value"), nil })
		_, _, _ = s.Take(ctx, sc, "calls", cache.Rate{Limit: 1, Interval: time.Second}, 1)
		_, _ = s.Share(ctx, sc, "calls", "a", 1, 1, time.Second)
		_, _ = s.Share(ctx, cache.Scope{}, "one counter", name, 1, 1e9, time.Second)
		s.Subscribe(name, func([]byte, bool) {})()
	}
	synctest.Test(t, func(t *testing.T) {
		s := cache.NewShared()
		step(s, "first")
		before := heap()
		for i := range each / 100 {
			for j := range 100 {
				step(s, fmt.Sprint(i, " ", j))
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Second)
		step(s, "last")
		if grown := heap() - before; grown > most {
			t.Errorf("%d bytes are left, want at most %d", grown, most)
		}
		runtime.KeepAlive(s)
	})
}
