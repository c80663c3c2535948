package cache

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// maxQueued bounds the messages that wait for one subscriber. When there are more,
// all are lost and it is told of a gap.
const maxQueued = 10_000

// memoryBus is the bus.
type memoryBus struct {
	mu       sync.Mutex
	channels map[string][]*subscriber
}

// subscriber is one subscription. Its messages are handed over by a goroutine that
// lives while there are some, so that a publisher may hold locks that the receiver
// takes, as with a bus between processes.
type subscriber struct {
	receive func(body []byte, gap bool)
	work    sync.WaitGroup

	mu      sync.Mutex
	queue   []message
	running bool
	stopped bool
}

type message struct {
	body []byte
	gap  bool
}

// Publish implements Bus. It does not wait for the receivers.
func (s *MemoryShared) Publish(ctx context.Context, channel string, body []byte) error {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	list := s.bus.channels[channel]
	if len(list) == 0 {
		return nil
	}
	m := message{body: bytes.Clone(body)}
	for _, sub := range list {
		sub.push(m)
	}
	return nil
}

// Subscribe implements Bus. All who receive a message share its body, which is not
// to be changed.
func (s *MemoryShared) Subscribe(channel string, receive func(body []byte, gap bool)) (stop func()) {
	b, sub := &s.bus, &subscriber{receive: receive}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.channels == nil {
		b.channels = map[string][]*subscriber{}
	}
	b.channels[channel] = append(b.channels[channel], sub)
	sub.push(message{gap: true})
	return func() {
		b.leave(channel, sub)
		sub.stop()
	}
}

// leave takes a subscriber out.
func (b *memoryBus) leave(channel string, sub *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := slices.DeleteFunc(b.channels[channel], func(o *subscriber) bool { return o == sub })
	if b.channels[channel] = rest; len(rest) == 0 {
		delete(b.channels, channel)
	}
}

// push has a message handed over after those before.
func (s *subscriber) push(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if len(s.queue) >= maxQueued {
		s.queue, m = nil, message{gap: true}
	}
	s.queue = append(s.queue, m)
	if !s.running {
		s.running = true
		s.work.Go(s.run)
	}
}

// run hands over what there is.
func (s *subscriber) run() {
	for {
		batch := s.next()
		if batch == nil {
			return
		}
		for _, m := range batch {
			if s.ended() {
				break
			}
			s.receive(m.body, m.gap)
		}
	}
}

// next gives the messages that wait; nil when run is to end.
func (s *subscriber) next() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.queue
	s.queue = nil
	if s.stopped || len(batch) == 0 {
		s.running = false
		return nil
	}
	return batch
}

func (s *subscriber) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// stop ends the subscription and waits for its running call.
func (s *subscriber) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.work.Wait()
}
