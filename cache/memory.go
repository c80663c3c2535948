package cache

import "context"

// DefaultMaxBytes bounds a Memory's bodies and keys.
const DefaultMaxBytes = 64 << 20

// Memory is a Responses in this process, bounded in bytes; the least recently
// used entries go first.
type Memory struct{ _ int }

var _ Responses = (*Memory)(nil)

// NewMemory makes a Memory; maxBytes 0 means DefaultMaxBytes.
func NewMemory(maxBytes int64) *Memory { return &Memory{} }

// Generation implements Responses.
func (m *Memory) Generation(ctx context.Context, t Topic) (uint64, error) { panic("stub") }

// Invalidate implements Responses.
func (m *Memory) Invalidate(ctx context.Context, t Topic, param string) (uint64, error) {
	panic("stub")
}

// Get implements Responses.
func (m *Memory) Get(ctx context.Context, k Key) (Entry, bool, error) { panic("stub") }

// Put implements Responses.
func (m *Memory) Put(ctx context.Context, k Key, e Entry, gen uint64) (bool, error) { panic("stub") }

// Delete implements Responses.
func (m *Memory) Delete(ctx context.Context, k Key) error { panic("stub") }
