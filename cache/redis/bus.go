package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// How the connection for messages is looked after.
const (
	pingEvery   = time.Second
	deafAfter   = 3 * time.Second // without a sign of life; then it is made anew
	retrySoon   = 50 * time.Millisecond
	retryAtMost = time.Second
	tellWithin  = time.Second // for telling Redis of channels
)

// bus is the one connection on which this process receives messages.
//
// go-redis makes a lost connection anew by itself, and tells so by confirming each
// channel again, which its plain channel of messages hides. Its check of the health
// of a connection writes pings and does not look for what they are answered with,
// so one that the network has cut would be taken as sound for minutes. This is
// therefore done here: what is received goes through Receive, a connection on
// which nothing comes any more is closed, and each confirmation is a gap.
type bus struct {
	connect func(ctx context.Context) *goredis.PubSub

	mu       sync.Mutex
	channels map[string]*busChannel // by the name in Redis
	news     chan struct{}          // has something in it when channels have come or gone
}

// busChannel is one channel that somebody here wants.
type busChannel struct {
	stands bool // Redis has confirmed it, on the connection there is
	subs   []*subscriber
}

func newBus(connect func(ctx context.Context) *goredis.PubSub) *bus {
	return &bus{connect: connect, channels: map[string]*busChannel{}, news: make(chan struct{}, 1)}
}

// Publish implements cache.Bus.
func (s *Store) Publish(ctx context.Context, channel string, body []byte) error {
	name := s.channel(channel)
	err := s.guard(ctx, func(ctx context.Context) error {
		var client goredis.Cmdable = s.client
		if cluster, ok := s.client.(*goredis.ClusterClient); ok {
			// Always by the same node: on the ways from several to a subscriber one
			// message could overtake another.
			node, err := cluster.MasterForKey(ctx, name)
			if err != nil {
				return err
			}
			client = node
		}
		return client.Publish(ctx, name, body).Err()
	})
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// Subscribe implements cache.Bus. The bodies that several get are the same, and not
// to be changed.
func (s *Store) Subscribe(channel string, receive func(body []byte, gap bool)) (stop func()) {
	return s.bus.subscribe(s.channel(channel), receive)
}

func (b *bus) subscribe(name string, receive func(body []byte, gap bool)) (stop func()) {
	sub := newSubscriber(receive)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.channels[name]
	if c == nil {
		c = &busChannel{}
		b.channels[name] = c
		b.tell()
	}
	c.subs = append(slices.Clone(c.subs), sub)
	if c.stands {
		sub.push(delivery{gap: true})
	}
	return func() {
		b.leave(name, sub)
		sub.stop()
	}
}

func (b *bus) leave(name string, sub *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.channels[name]
	if c == nil {
		return // the bus has ended
	}
	c.subs = slices.DeleteFunc(slices.Clone(c.subs), func(o *subscriber) bool { return o == sub })
	if len(c.subs) == 0 {
		b.tell()
	}
}

// tell has the connection's owner look which channels there are.
func (b *bus) tell() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// names gives the channels that are wanted, and forgets the others. They are in any
// order: a cluster's node is chosen by the first one, and another time it had
// better be another one.
func (b *bus) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, 0, len(b.channels))
	for name, c := range b.channels {
		if len(c.subs) == 0 {
			delete(b.channels, name)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// run keeps a connection, while there is a channel, until ctx ends.
func (b *bus) run(ctx context.Context) {
	pause := retrySoon
	for ctx.Err() == nil {
		names := b.names()
		if len(names) == 0 {
			select {
			case <-ctx.Done():
			case <-b.news:
			}
			continue
		}
		if b.hold(ctx, names) {
			pause = retrySoon
		}
		select {
		case <-ctx.Done():
		case <-time.After(jitter(pause)):
		}
		pause = min(2*pause, retryAtMost)
	}
}

// end ends all subscriptions.
func (b *bus) end() {
	b.mu.Lock()
	channels := b.channels
	b.channels = map[string]*busChannel{}
	b.mu.Unlock()
	for _, c := range channels {
		for _, sub := range c.subs {
			sub.stop()
		}
	}
}

// hold makes a connection and keeps it for as long as it works. It tells whether it
// did.
func (b *bus) hold(ctx context.Context, names []string) (worked bool) {
	defer b.lost()
	ps := b.connect(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ps.Close()
	if within(ctx, func(ctx context.Context) error { return ps.Subscribe(ctx, names...) }) != nil {
		return false
	}
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	gone := make(chan struct{})
	wg.Go(func() {
		defer close(gone)
		for {
			m, err := ps.Receive(ctx)
			if err != nil {
				return
			}
			heard.Store(time.Now().UnixNano())
			b.received(m)
		}
	})
	b.tend(ctx, ps, names, gone, &heard)
	return true
}

// tend keeps the channels of a connection those that are wanted, and watches that
// it lives.
func (b *bus) tend(ctx context.Context, ps *goredis.PubSub, names []string, gone <-chan struct{}, heard *atomic.Int64) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	has := map[string]bool{}
	for _, name := range names {
		has[name] = true
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case <-b.news:
			err = b.adjust(ctx, ps, has)
		case <-tick.C:
			if time.Since(time.Unix(0, heard.Load())) > deafAfter {
				return
			}
			err = within(ctx, func(ctx context.Context) error { return ps.Ping(ctx) })
		}
		if err != nil || len(has) == 0 {
			return
		}
	}
}

// adjust tells Redis of channels that have come or gone.
func (b *bus) adjust(ctx context.Context, ps *goredis.PubSub, has map[string]bool) error {
	want := map[string]bool{}
	var more, less []string
	for _, name := range b.names() {
		want[name] = true
		if !has[name] {
			more = append(more, name)
			has[name] = true
		}
	}
	for name := range has {
		if !want[name] {
			less = append(less, name)
			delete(has, name)
		}
	}
	return within(ctx, func(ctx context.Context) error {
		if len(less) > 0 {
			if err := ps.Unsubscribe(ctx, less...); err != nil {
				return err
			}
		}
		if len(more) == 0 {
			return nil
		}
		return ps.Subscribe(ctx, more...)
	})
}

// within runs what tells Redis something, in a bounded time.
func within(ctx context.Context, tell func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	return tell(ctx)
}

// received hands on what came.
func (b *bus) received(m any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch m := m.(type) {
	case *goredis.Subscription:
		if c := b.channels[m.Channel]; c != nil && m.Kind == "subscribe" {
			c.stands = true
			c.push(delivery{gap: true})
		}
	case *goredis.Message:
		if c := b.channels[m.Channel]; c != nil {
			c.push(delivery{body: []byte(m.Payload)})
		}
	}
}

func (c *busChannel) push(m delivery) {
	for _, sub := range c.subs {
		sub.push(m)
	}
}

// lost notes that no channel stands any more. That is told as a gap when they
// stand again.
func (b *bus) lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.channels {
		c.stands = false
	}
}
