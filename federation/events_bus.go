package federation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxInbox bounds the bytes of messages of other replicas that wait; when there are
	// more they are dropped, and count as missed.
	maxInbox = 32 << 20
	// makeUpWithin is the time, at random, after which what may have been missed is
	// made up for, since all that other replicas told may be missed by many at once.
	makeUpWithin = time.Second
	// complainEvery is how often it is logged that messages cannot be read.
	complainEvery = time.Minute
)

// channel names the bus channel of the tenant's replicas.
func (d *domain) channel() string { return "listen/" + d.name }

// tune has the tenant's replicas heard from now on. The caller holds the lock.
func (h *hub) tune(c *Cluster) {
	if !h.tuned {
		h.tuned = h.domain.run(func(ctx context.Context) { h.hear(ctx, c) })
	}
}

// hear acts on what other replicas tell until ctx ends.
func (h *hub) hear(ctx context.Context, c *Cluster) {
	in := &inbox{ready: make(chan struct{}, 1)}
	defer c.Bus.Subscribe(h.domain.channel(), in.put)()
	gap := time.NewTimer(0)
	gap.Stop()
	defer gap.Stop()
	waits := false
	var complained time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-gap.C:
			waits = false
			h.domain.run(h.makeUp)
			continue
		case <-in.ready:
		}
		bodies, missed := in.take()
		if missed && !waits {
			waits = true
			gap.Reset(rand.N(makeUpWithin)) //nolint:gosec // it spreads load
		}
		for _, body := range bodies {
			ev, err := readEvent(body)
			switch {
			case err == nil && ev.origin != c.Replica:
				h.receive(ctx, ev)
			case err != nil && time.Since(complained) > complainEvery:
				complained = time.Now()
				h.domain.log.Warn("another replica says what cannot be read", "error", err)
			}
		}
	}
}

// listenerOf gives the listener of what replicas call scope, under a version of its
// configuration; nil when nobody listens to it.
func (h *hub) listenerOf(scope, version string) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.domain.memberAt(scope, version); m != nil {
		return h.listeners[m]
	}
	return nil
}

// receive hands an event of another replica to the listener that it is for.
func (h *hub) receive(ctx context.Context, ev *event) {
	if l := h.listenerOf(ev.alias, ev.version); l != nil {
		l.receive(ctx, ev)
	}
}

// released tells this replica's own listener of the member that its lease is free.
func (h *hub) released(m *member) {
	if l := h.listenerOf(m.scope(), m.conf.Version); l != nil {
		poke(l.election.try)
	}
}

// makeUp acts on messages that may have been missed.
func (h *hub) makeUp(ctx context.Context) {
	h.mu.Lock()
	listeners := make([]*listener, 0, len(h.listeners))
	for _, l := range h.listeners {
		listeners = append(listeners, l)
	}
	h.mu.Unlock()
	for _, l := range listeners {
		l.makeUp(ctx)
	}
}

// inbox holds messages of other replicas until they are acted on. The bus is not
// kept waiting.
type inbox struct {
	ready chan struct{}

	mu     sync.Mutex
	bodies [][]byte
	size   int
	missed bool
}

// put takes a message; missed ones are forgotten with those before.
func (in *inbox) put(body []byte, gap bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case gap:
		in.missed = true
	case in.size+len(body)+inboxOverhead > maxInbox:
		in.bodies, in.size, in.missed = nil, 0, true
	default:
		in.bodies = append(in.bodies, body)
		in.size += len(body) + inboxOverhead
	}
	poke(in.ready)
}

// inboxOverhead is what a message is counted with besides its bytes.
const inboxOverhead = 64

// take gives what has come, and whether messages may have been missed before.
func (in *inbox) take() (bodies [][]byte, missed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	bodies, missed = in.bodies, in.missed
	in.bodies, in.size, in.missed = nil, 0, false
	return bodies, missed
}
