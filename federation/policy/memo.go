package policy

import (
	"hash/maphash"
	"sync"
)

// Bounds of a memo: so many bytes in two generations of each shard.
const (
	memoShards   = 16
	memoBytes    = 2 << 20
	memoOverhead = 192 // bytes of an entry besides its key
)

// memo keeps decisions by key. It forgets those that were not asked for longest, by
// generations.
type memo struct {
	seed   maphash.Seed
	shards [memoShards]memoShard
}

type memoShard struct {
	mu         sync.RWMutex
	young, old map[string]Decision
	size       int // bytes of young
}

func (m *memo) shard(key []byte) *memoShard {
	return &m.shards[maphash.Bytes(m.seed, key)%memoShards]
}

func (m *memo) get(key []byte) (Decision, bool) {
	s := m.shard(key)
	s.mu.RLock()
	d, ok := s.young[string(key)]
	aged := false
	if !ok {
		d, ok = s.old[string(key)]
		aged = ok
	}
	s.mu.RUnlock()
	if aged {
		s.put(key, d)
	}
	return d, ok
}

func (m *memo) put(key []byte, d Decision) { m.shard(key).put(key, d) }

func (s *memoShard) put(key []byte, d Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.young[string(key)]; ok {
		return
	}
	if s.young == nil || s.size > memoBytes/memoShards/2 {
		s.young, s.old, s.size = map[string]Decision{}, s.young, 0
	}
	s.young[string(key)] = d
	s.size += len(key) + memoOverhead
}
