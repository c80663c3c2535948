package cache

import (
	"container/list"
	"context"
	"sync"
)

// DefaultMaxBytes bounds a Memory's bodies and keys.
const DefaultMaxBytes = 64 << 20

// What an entry and a topic are counted with besides their bytes: the structs,
// the list elements and the shares of the maps.
const (
	entryOverhead = 400
	topicOverhead = 700
)

// Memory is a Responses in this process, bounded in bytes; the least recently
// used entries go first. It is safe for concurrent use. None of its methods
// waits or fails, so contexts are not looked at.
//
// Generations come from one counter and are never used twice. That bounds them
// too: a topic that was not used for long is forgotten after its last entry, and
// when it is seen again it has a new generation, so that a read that was in
// flight meanwhile is not stored. Forgetting looks like one more Invalidate.
type Memory struct {
	max int64

	mu     sync.Mutex
	used   int64
	last   uint64 // the generation given out last
	follow followers
	topics map[Topic]*memoryTopic
	// recent has the *memoryTopic and *memoryEntry, the last used first. A topic
	// is always ahead of its entries, so that it is never dropped before them.
	recent *list.List
}

type memoryTopic struct {
	name    Topic
	gen     uint64
	entries map[entryKey]*memoryEntry
	at      *list.Element
}

// entryKey is a Key within its topic.
type entryKey struct{ credential, param string }

type memoryEntry struct {
	topic *memoryTopic
	key   entryKey
	entry Entry
	at    *list.Element
}

var _ Responses = (*Memory)(nil)

// NewMemory makes a Memory; maxBytes 0 means DefaultMaxBytes.
func NewMemory(maxBytes int64) *Memory {
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	return &Memory{max: maxBytes, topics: make(map[Topic]*memoryTopic), recent: list.New()}
}

// Generation implements Responses.
func (m *Memory) Generation(ctx context.Context, t Topic) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gen := m.topic(t).gen
	m.evict()
	return gen, nil
}

// Invalidate implements Responses. With a param it looks at each entry of the
// topic.
func (m *Memory) Invalidate(ctx context.Context, t Topic, param string) (uint64, error) {
	var gen uint64
	m.follow.tell(func() Change {
		gen = m.raise(t, param)
		return Change{Topic: t, Param: param, Gen: gen}
	})
	return gen, nil
}

// raise raises the topic's generation and drops what is covered.
func (m *Memory) raise(t Topic, param string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt := m.topic(t)
	m.last++
	mt.gen = m.last
	for k, e := range mt.entries {
		if Covers(param, k.param) {
			m.drop(e)
		}
	}
	m.evict()
	return m.last
}

// Follow implements Responses. changed is called before Invalidate returns, with
// rising generations.
func (m *Memory) Follow(tenant string, changed func(Change)) (stop func()) {
	return m.follow.add(tenant, changed)
}

// Get implements Responses.
func (m *Memory) Get(ctx context.Context, k Key) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(k)
	if e == nil {
		return Entry{}, false, nil
	}
	m.recent.MoveToFront(e.at)
	m.recent.MoveToFront(e.topic.at)
	return e.entry, true, nil
}

// Put implements Responses. It also tells false for an entry that is larger than
// the whole Memory, and then drops the one it was to replace.
func (m *Memory) Put(ctx context.Context, k Key, e Entry, gen uint64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mt := m.topics[k.Topic]
	if mt == nil || mt.gen != gen {
		return false, nil
	}
	if old := m.find(k); old != nil {
		m.drop(old)
	}
	ne := &memoryEntry{topic: mt, key: entryKey{k.Credential, k.Param}, entry: e}
	if ne.size()+mt.size() > m.max {
		return false, nil
	}
	mt.entries[ne.key] = ne
	ne.at = m.recent.PushFront(ne)
	m.used += ne.size()
	m.recent.MoveToFront(mt.at)
	m.evict()
	return true, nil
}

// Delete implements Responses.
func (m *Memory) Delete(ctx context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.find(k); e != nil {
		m.drop(e)
	}
	return nil
}

// topic gives the topic as the most recently used, and makes it with a new
// generation when it is not known.
func (m *Memory) topic(t Topic) *memoryTopic {
	if mt := m.topics[t]; mt != nil {
		m.recent.MoveToFront(mt.at)
		return mt
	}
	m.last++
	mt := &memoryTopic{name: t, gen: m.last, entries: make(map[entryKey]*memoryEntry)}
	mt.at = m.recent.PushFront(mt)
	m.topics[t] = mt
	m.used += mt.size()
	return mt
}

func (m *Memory) find(k Key) *memoryEntry {
	mt := m.topics[k.Topic]
	if mt == nil {
		return nil
	}
	return mt.entries[entryKey{k.Credential, k.Param}]
}

func (m *Memory) drop(e *memoryEntry) {
	delete(e.topic.entries, e.key)
	m.recent.Remove(e.at)
	m.used -= e.size()
}

// evict drops what was not used for the longest time until the bound is kept.
func (m *Memory) evict() {
	for m.used > m.max {
		switch v := m.recent.Back().Value.(type) {
		case *memoryEntry:
			m.drop(v)
		case *memoryTopic:
			delete(m.topics, v.name)
			m.recent.Remove(v.at)
			m.used -= v.size()
		}
	}
}

func (e *memoryEntry) size() int64 {
	// A body keeps all of its array in memory, whatever its length.
	return int64(entryOverhead + cap(e.entry.Body) + len(e.key.credential) + len(e.key.param))
}

func (t *memoryTopic) size() int64 {
	n := t.name
	return int64(topicOverhead + len(n.Tenant) + len(n.Upstream) + len(n.Version) + len(n.Method))
}
