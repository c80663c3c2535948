package cachetest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// TestBus checks a back end of cache.Bus whose connection is not disturbed. make
// gives one that nobody else uses and registers its clean-up with t; the suite
// calls it once for each part.
func TestBus(t *testing.T, make func(t *testing.T) cache.Bus) {
	tests := []struct {
		name string
		test func(t *testing.T, b cache.Bus)
	}{
		{"messages in order", messagesInOrder},
		{"all subscribers", allSubscribers},
		{"channels are apart", channelsApart},
		{"any bytes", anyBytes},
		{"a receiver publishes", receiverPublishes},
		{"one call after the other", oneCallAtATime},
		{"stop", stopSubscription},
		{"come and go", comeAndGo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, make(t)) })
	}
}

// inbox receives messages.
type inbox struct {
	t    *testing.T
	stop func()
	got  chan []byte
}

// subscribe subscribes, and waits until the subscription stands.
func subscribe(t *testing.T, b cache.Bus, channel string) *inbox {
	t.Helper()
	in := &inbox{t: t, got: make(chan []byte, 10_000)}
	stands := make(chan struct{})
	var first atomic.Bool
	in.stop = b.Subscribe(channel, func(body []byte, gap bool) {
		switch {
		case gap && len(body) > 0:
			t.Errorf("a gap with the body %q", body)
		case gap && first.CompareAndSwap(false, true):
			close(stands)
		case gap:
			t.Errorf("another gap in channel %q", channel)
		case !first.Load():
			t.Errorf("the message %q came before the first gap", body)
		default:
			in.got <- body
		}
	})
	t.Cleanup(in.stop)
	select {
	case <-stands:
	case <-time.After(patience):
		t.Fatal("the subscription does not stand")
	}
	return in
}

func (in *inbox) want(want ...string) {
	in.t.Helper()
	for _, w := range want {
		select {
		case got := <-in.got:
			if string(got) != w {
				in.t.Fatalf("got message %.100q, want %.100q", got, w)
			}
		case <-time.After(patience):
			in.t.Fatalf("message %.100q did not come", w)
		}
	}
}

func publish(t *testing.T, b cache.Bus, channel, body string) {
	t.Helper()
	if err := b.Publish(t.Context(), channel, []byte(body)); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

func messagesInOrder(t *testing.T, b cache.Bus) {
	publish(t, b, "acme", "nobody is told")
	in := subscribe(t, b, "acme")
	for i := range 200 {
		publish(t, b, "acme", strconv.Itoa(i))
	}
	for i := range 200 {
		in.want(strconv.Itoa(i))
	}
}

func allSubscribers(t *testing.T, b cache.Bus) {
	one, two := subscribe(t, b, "acme"), subscribe(t, b, "acme")
	publish(t, b, "acme", "1")
	one.want("1")
	two.want("1")
	one.stop()
	publish(t, b, "acme", "2")
	two.want("2")
	three := subscribe(t, b, "acme")
	publish(t, b, "acme", "3")
	two.want("3")
	three.want("3")
}

func channelsApart(t *testing.T, b cache.Bus) {
	channels := []string{"a", "A", "a:b", "a b", "*", "a*", "[a]", "ab", "a\x00", "é", ""}
	in := make([]*inbox, len(channels))
	for i, ch := range channels {
		in[i] = subscribe(t, b, ch)
	}
	for i, ch := range channels {
		publish(t, b, ch, strconv.Itoa(i))
	}
	for _, ch := range channels {
		publish(t, b, ch, "end")
	}
	for i := range channels {
		in[i].want(strconv.Itoa(i), "end")
	}
}

func anyBytes(t *testing.T, b cache.Bus) {
	in := subscribe(t, b, "acme")
	bodies := []string{"", "\x00\xff\r\n\"é😀", strings.Repeat("0123456789abcdef", 1<<14)}
	for _, body := range bodies {
		publish(t, b, "acme", body)
	}
	in.want(bodies...)

	body := []byte("mine")
	if err := b.Publish(t.Context(), "acme", body); err != nil {
		t.Fatal(err)
	}
	copy(body, "xxxx")
	in.want("mine")
}

func receiverPublishes(t *testing.T, b cache.Bus) {
	answers := subscribe(t, b, "answers")
	stop := b.Subscribe("asks", func(body []byte, gap bool) {
		// A receiver must not wait for long, nor be waited for by what it publishes.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		channel := "answers"
		if bytes.Equal(body, []byte("again")) {
			channel, body = "asks", []byte("ask")
		}
		if err := b.Publish(ctx, channel, body); err != nil {
			t.Errorf("Publish from a receiver: %v", err)
		}
	})
	defer stop()
	answers.want("") // the gap
	publish(t, b, "asks", "ask")
	answers.want("ask")
	publish(t, b, "asks", "again")
	answers.want("ask")
}

func oneCallAtATime(t *testing.T, b cache.Bus) {
	const senders, each = 4, 50
	var calling, calls atomic.Int32
	done := make(chan struct{})
	stands := make(chan struct{})
	stop := b.Subscribe("acme", func(body []byte, gap bool) {
		if calling.Add(1) > 1 {
			t.Error("two calls at the same time")
		}
		defer calling.Add(-1)
		if gap {
			close(stands)
		} else if calls.Add(1) == senders*each {
			close(done)
		}
	})
	defer stop()
	<-stands
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for n := range each {
				if err := b.Publish(t.Context(), "acme", fmt.Appendf(nil, "%d/%d", i, n)); err != nil {
					t.Errorf("Publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("%d of %d messages came", calls.Load(), senders*each)
	}
}

func stopSubscription(t *testing.T, b cache.Bus) {
	control := subscribe(t, b, "acme")
	var stopped atomic.Bool
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := b.Subscribe("acme", func(body []byte, gap bool) {
		if stopped.Load() {
			t.Error("a call after stop had returned")
		}
		if !gap {
			once.Do(func() {
				close(entered)
				<-leave
			})
		}
		if stopped.Load() {
			t.Error("a call ran when stop had returned")
		}
	})
	// One of these finds the subscription standing.
	eventually(t, "a message comes", func() bool {
		publish(t, b, "acme", "x")
		control.want("x")
		select {
		case <-entered:
			return true
		default:
			return false
		}
	})
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		stop()
		stopped.Store(true)
	}()
	for range 10 {
		publish(t, b, "acme", "y")
		control.want("y")
	}
	select {
	case <-returned:
		t.Error("stop returned while a call ran")
	default:
	}
	close(leave)
	select {
	case <-returned:
	case <-time.After(patience):
		t.Fatal("stop does not return")
	}
	stop() // once more, which does nothing
	for range 10 {
		publish(t, b, "acme", "z")
		control.want("z")
	}
}

func comeAndGo(t *testing.T, b cache.Bus) {
	control := subscribe(t, b, "acme")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				b.Subscribe("acme", func([]byte, bool) {})()
			}
		})
	}
	for i := range 50 {
		publish(t, b, "acme", strconv.Itoa(i))
	}
	wg.Wait()
	for i := range 50 {
		control.want(strconv.Itoa(i))
	}
	publish(t, b, "acme", "end")
	control.want("end")
}
