package cache

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"
)

// memoryBoards are the boards. One is forgotten with its last field.
type memoryBoards struct {
	mu     sync.Mutex
	boards table[boardKey, map[string]post]
}

type boardKey struct {
	scope Scope
	board string
}

type post struct {
	value []byte
	until time.Time
}

// Post implements Boards.
func (s *MemoryShared) Post(ctx context.Context, sc Scope, board, field string, value []byte, ttl time.Duration) error {
	m, now := &s.boards, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := boardKey{sc, board}
	fields := m.fields(now, key)
	if fields == nil {
		fields = map[string]post{}
	}
	fields[field] = post{value: append([]byte{}, value...), until: now.Add(ttl)}
	last := ttl
	for _, p := range fields {
		last = max(last, p.until.Sub(now))
	}
	m.boards.set(now, key, fields, last)
	return nil
}

// Remove implements Boards.
func (s *MemoryShared) Remove(ctx context.Context, sc Scope, board, field string) error {
	m, now := &s.boards, time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	key := boardKey{sc, board}
	fields := m.fields(now, key)
	delete(fields, field)
	if len(fields) == 0 {
		m.boards.drop(key)
	}
	return nil
}

// Read implements Boards.
func (s *MemoryShared) Read(ctx context.Context, sc Scope, board string) (map[string][]byte, error) {
	m := &s.boards
	m.mu.Lock()
	defer m.mu.Unlock()
	fields := m.fields(time.Now(), boardKey{sc, board})
	out := make(map[string][]byte, len(fields))
	for field, p := range fields {
		out[field] = bytes.Clone(p.value)
	}
	return out, nil
}

// fields gives the fields of a board that are there at the time. The caller holds
// the lock.
func (m *memoryBoards) fields(now time.Time, key boardKey) map[string]post {
	fields, _ := m.boards.get(now, key)
	maps.DeleteFunc(fields, func(_ string, p post) bool { return !now.Before(p.until) })
	return fields
}

// memoryValues are the values.
type memoryValues struct {
	mu      sync.Mutex
	values  table[string, version]
	changes uint64 // how many there were
}

// version is a value that was written by one change.
type version struct {
	value  []byte
	change uint64
}

// Get implements Values.
func (s *MemoryShared) Get(ctx context.Context, key string) ([]byte, error) {
	return bytes.Clone(s.values.get(key).value), nil
}

// Update implements Values. change may use the same Values: no lock is held.
func (s *MemoryShared) Update(ctx context.Context, key string, ttl time.Duration, change func(old []byte) ([]byte, error)) error {
	for {
		old := s.values.get(key)
		next, err := change(bytes.Clone(old.value))
		if err != nil {
			return err
		}
		if s.values.swap(key, old, next, ttl) {
			return nil
		}
	}
}

func (m *memoryValues) get(key string) version {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, _ := m.values.get(time.Now(), key)
	return v
}

// swap replaces a value if it still is the old one.
func (m *memoryValues) swap(key string, old version, next []byte, ttl time.Duration) bool {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, _ := m.values.get(now, key); v.change != old.change {
		return false
	}
	if next == nil {
		m.values.drop(key)
		return true
	}
	m.changes++
	m.values.set(now, key, version{value: append([]byte{}, next...), change: m.changes}, ttl)
	return true
}
