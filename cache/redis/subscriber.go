package redis

import "sync"

// What waits for one subscriber is bounded. When there is more, all is lost and it
// is told of a gap.
const (
	maxQueued      = 10_000
	maxQueuedBytes = 32 << 20
)

// delivery is what a subscriber is told of.
type delivery struct {
	body []byte
	gap  bool
}

// subscriber is one subscription of the bus. Its messages are handed over by a
// goroutine that lives while there are some: a slow one holds up nobody but itself.
type subscriber struct {
	receive func(body []byte, gap bool)
	work    sync.WaitGroup

	mu      sync.Mutex
	queue   []delivery
	bytes   int // of the queue's bodies
	running bool
	stopped bool
}

func newSubscriber(receive func(body []byte, gap bool)) *subscriber {
	return &subscriber{receive: receive}
}

// push has a message handed over after those before.
func (s *subscriber) push(m delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	// What came before a gap is needed no less, but two gaps in a row tell no more
	// than one.
	if n := len(s.queue); m.gap && n > 0 && s.queue[n-1].gap {
		return
	}
	if len(s.queue) >= maxQueued || s.bytes+len(m.body) > maxQueuedBytes {
		s.queue, s.bytes, m = nil, 0, delivery{gap: true}
	}
	s.queue = append(s.queue, m)
	s.bytes += len(m.body)
	if !s.running {
		s.running = true
		s.work.Go(s.run)
	}
}

// run hands over what there is.
func (s *subscriber) run() {
	for {
		m, ok := s.next()
		if !ok {
			return
		}
		s.receive(m.body, m.gap)
	}
}

// next gives the message that waits longest; none when run is to end.
func (s *subscriber) next() (m delivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || len(s.queue) == 0 {
		s.queue, s.running = nil, false
		return delivery{}, false
	}
	m, s.queue[0] = s.queue[0], delivery{}
	s.queue = s.queue[1:]
	s.bytes -= len(m.body)
	return m, true
}

// stop ends the subscription and waits for its running call.
func (s *subscriber) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.work.Wait()
}
