package cache

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// MemoryShared is Leases, Boards, Bus, Values and Counters within this process: for
// a gateway of one process, and for several in one test. It is safe for concurrent
// use, never fails, and looks at no context. What has expired is forgotten, and
// its memory given back, by the next call that concerns its kind.
type MemoryShared struct {
	leases   memoryLeases
	boards   memoryBoards
	bus      memoryBus
	values   memoryValues
	counters memoryCounters
}

var (
	_ Leases   = (*MemoryShared)(nil)
	_ Boards   = (*MemoryShared)(nil)
	_ Bus      = (*MemoryShared)(nil)
	_ Values   = (*MemoryShared)(nil)
	_ Counters = (*MemoryShared)(nil)
)

// NewShared makes a MemoryShared with nothing in it.
func NewShared() *MemoryShared {
	s := &MemoryShared{}
	//nolint:gosec // an epoch is to be another one, not to be unknown to anybody
	s.leases.epoch = rand.Uint64()
	return s
}

// memoryLeases are the leases. One row of numbers serves all scopes.
type memoryLeases struct {
	mu    sync.Mutex
	epoch uint64
	last  uint64 // the number given out last
	held  table[leaseKey, Lease]
}

type leaseKey struct {
	scope Scope
	name  string
}

// Acquire implements Leases.
func (s *MemoryShared) Acquire(ctx context.Context, sc Scope, name, holder string, ttl time.Duration) (Lease, bool, error) {
	m, now := &s.leases, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := leaseKey{sc, name}
	if l, ok := m.held.get(now, key); ok {
		return l, false, nil
	}
	l := Lease{Scope: sc, Name: name, Holder: holder, Fence: m.draw(now)}
	m.held.set(now, key, l, ttl)
	return l, true, nil
}

// Renew implements Leases.
func (s *MemoryShared) Renew(ctx context.Context, l Lease, ttl time.Duration) (bool, error) {
	m, now := &s.leases, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := leaseKey{l.Scope, l.Name}
	if has, ok := m.held.get(now, key); !ok || has != l {
		return false, nil
	}
	m.held.set(now, key, l, ttl)
	return true, nil
}

// Release implements Leases.
func (s *MemoryShared) Release(ctx context.Context, l Lease) error {
	m, now := &s.leases, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := leaseKey{l.Scope, l.Name}
	if has, ok := m.held.get(now, key); ok && has == l {
		m.held.drop(key)
	}
	return nil
}

// Draw implements Leases.
func (s *MemoryShared) Draw(ctx context.Context, sc Scope) (Fence, error) {
	m := &s.leases
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draw(time.Now()), nil
}

// draw gives out a number. The caller holds the lock.
func (m *memoryLeases) draw(now time.Time) Fence {
	//nolint:gosec // the time is after 1970
	m.last = max(m.last+1, uint64(now.UnixMicro()))
	return Fence{Epoch: m.epoch, N: m.last}
}
