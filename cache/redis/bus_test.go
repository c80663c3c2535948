package redis

import (
	"strconv"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache/redistest"
)

// inbox receives what a subscriber is told.
type inbox struct {
	t   *testing.T
	got chan delivery
}

func listen(t *testing.T, s *Store, channel string) *inbox {
	t.Helper()
	in := &inbox{t, make(chan delivery, 10_000)}
	t.Cleanup(s.Subscribe(channel, func(body []byte, gap bool) { in.got <- delivery{body, gap} }))
	return in
}

func (in *inbox) next() delivery {
	in.t.Helper()
	select {
	case m := <-in.got:
		return m
	case <-time.After(patience):
		in.t.Fatal("nothing came")
		return delivery{}
	}
}

// gap waits for a gap, and for nothing else.
func (in *inbox) gap() {
	in.t.Helper()
	if m := in.next(); !m.gap {
		in.t.Fatalf("got the message %q, want a gap", m.body)
	}
}

// want waits for a message; gaps may come before it.
func (in *inbox) want(body string) {
	in.t.Helper()
	for {
		if m := in.next(); !m.gap {
			if string(m.body) != body {
				in.t.Fatalf("got the message %q, want %q", m.body, body)
			}
			return
		}
	}
}

// TestBusGaps holds that each way to lose messages is told of, after which they
// come again.
func TestBusGaps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(s *redistest.Server, p *redistest.Proxy)
		heal func(s *redistest.Server, p *redistest.Proxy)
	}{
		{
			"connection closed",
			func(s *redistest.Server, p *redistest.Proxy) { s.Do("CLIENT", "KILL", "TYPE", "pubsub") },
			func(s *redistest.Server, p *redistest.Proxy) {},
		},
		{
			"network cut",
			func(s *redistest.Server, p *redistest.Proxy) { p.Cut() },
			func(s *redistest.Server, p *redistest.Proxy) { p.Heal() },
		},
		{
			"server killed",
			func(s *redistest.Server, p *redistest.Proxy) { s.Kill() },
			func(s *redistest.Server, p *redistest.Proxy) { s.Restart(true) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.Slow(t, server.Addr(), 0)
			s := openWell(t, at(proxy.URL()))
			one, two := listen(t, s, "one"), listen(t, s, "two")
			one.gap()
			two.gap()
			tt.lose(server, proxy)
			tt.heal(server, proxy)
			one.gap()
			two.gap()
			// A channel that came and went meanwhile does no harm.
			s.Subscribe("three", func([]byte, bool) {})()
			eventually(t, "a message is published", func() bool { return s.Publish(t.Context(), "one", []byte("1")) == nil })
			one.want("1")
		})
	}
}

// TestBusNoticesSilence holds that a connection on which nothing comes any more is
// given up while the network is still cut, since the other side may be long gone.
func TestBusNoticesSilence(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.Slow(t, server.Addr(), 0)
	s := openWell(t, at(proxy.URL()))
	in := listen(t, s, "acme")
	in.gap()
	stands := func() bool {
		s.bus.mu.Lock()
		defer s.bus.mu.Unlock()
		return s.bus.channels[s.channel("acme")].stands
	}
	proxy.Cut()
	eventually(t, "the subscription is known not to stand", func() bool { return !stands() })
	proxy.Heal()
	in.gap()
	eventually(t, "a message is published", func() bool { return s.Publish(t.Context(), "acme", []byte("1")) == nil })
	in.want("1")
}

// TestBusPaused has a server stop for a moment: nothing was lost, so nothing but
// the message need come.
func TestBusPaused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openWell(t, at(server.URL()))
	in := listen(t, s, "acme")
	in.gap()
	server.Pause()
	server.Resume()
	if err := s.Publish(t.Context(), "acme", []byte("1")); err != nil {
		t.Fatal(err)
	}
	in.want("1")
}

// TestSlowSubscriber holds that one who does not keep up is told that messages
// were lost, loses no later one, and holds up nobody.
func TestSlowSubscriber(t *testing.T) {
	leave, got := make(chan struct{}), make(chan delivery, maxQueued)
	sub := newSubscriber(func(body []byte, gap bool) {
		<-leave
		got <- delivery{body, gap}
	})
	for i := range maxQueued + 10 {
		sub.push(delivery{body: []byte(strconv.Itoa(i))})
	}
	sub.push(delivery{body: []byte("last")})
	close(leave)
	gaps := 0
	for {
		m := <-got
		if m.gap {
			gaps++
		}
		if string(m.body) == "last" {
			break
		}
	}
	if gaps != 1 {
		t.Errorf("told of %d gaps, want one", gaps)
	}
	sub.stop()
	sub.push(delivery{body: []byte("later")})
	if len(got) > 0 {
		t.Error("something came after stop")
	}
}

// TestBusOfCluster has several processes hear one another through a cluster, in
// order.
func TestBusOfCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := Options{Connection: Connection{URL: cluster.URL(), Mode: ModeCluster}}
	a, b := openWell(t, c), openWell(t, c)
	ins := []*inbox{listen(t, a, "acme"), listen(t, b, "acme")}
	for i := range 50 { // none of which is in one slot with all others
		ins = append(ins, listen(t, b, strconv.Itoa(i)))
	}
	for _, in := range ins {
		in.gap()
	}
	for i := range 100 {
		if err := a.Publish(t.Context(), "acme", []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		ins[0].want(strconv.Itoa(i))
		ins[1].want(strconv.Itoa(i))
	}
}
