package federation

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// sharing is what a slot knows of the list as all replicas know it. The slot's lock
// guards it. Without a Cluster it is not used.
type sharing struct {
	gen uint64 // the topic's generation, as last heard of; 0 when it is not known

	// raising counts who raises the topic's generation in this process. No fetch
	// begins between the slot's own generation and that one.
	raising int
	raised  chan struct{} // closed when nobody does so any more

	// barred tells that an invalidation could not be written down: what the others
	// have stored is not to be used until the generation has moved.
	barred   bool
	barredAt uint64 // the generation that is known since before that; 0 for none

	floor      cache.Fence // lists that were fetched before it do not count; zero for none
	wishes     uint64      // counts the wishes for a list as it is from then on
	granted    uint64      // up to which they have come true
	unreadable bool        // that a stored list cannot be read has been logged
}

// cluster is what the replicas share; nil where there is one.
func (m *member) cluster() *Cluster { return m.domain.fed.opts.Cluster }

// invalidate tells that the upstream announced a change of the list: no replica
// serves what it has as fresh from then on. It gives the topic's new generation; 0
// when there is one replica, or the others could not be told.
func (m *member) invalidate(ctx context.Context, k kind) uint64 {
	s, topic := &m.slots[k], m.topic(k.method())
	c := m.cluster()
	if c == nil {
		s.announced()
		if _, err := m.domain.fed.opts.Cache.Invalidate(ctx, topic, ""); err != nil {
			m.domain.log.Warn("invalidate the cache", "upstream", m.conf.Alias, "method", topic.Method, "error", err)
		}
		return 0
	}
	s.mu.Lock()
	if s.shared.raising++; s.shared.raising == 1 {
		s.shared.raised = make(chan struct{})
	}
	s.mu.Unlock()
	s.announced()
	// The upstream has said so, whatever becomes of the stream that it said it on.
	gen, err := c.Lists.Invalidate(context.WithoutCancel(ctx), topic, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared.raising--; s.shared.raising == 0 {
		close(s.shared.raised)
	}
	if err != nil {
		m.domain.log.Warn("invalidate the shared lists", "upstream", m.conf.Alias, "method", topic.Method, "error", err)
		s.bar()
		return 0
	}
	if gen > s.shared.gen {
		s.shared.gen, s.shared.barred = gen, false
	}
	return gen
}

// announced notes that the upstream announced a change: the current segment is not
// served as fresh any more.
func (s *slot) announced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen++
	s.told = true
}

// bar notes that an invalidation could not be written down. The caller holds the
// lock.
func (s *slot) bar() { s.shared.barred, s.shared.barredAt = true, s.shared.gen }

// invalidated notes a change of the list that another replica knows of: gen is the
// topic's generation since then, 0 if it could not be written down, and told that
// the upstream announced it. What is known already changes nothing but that. If
// somebody listens to the member, the list is read again. The caller holds no lock.
func (m *member) invalidated(k kind, gen uint64, told bool) {
	h, s := m.domain.hub, &m.slots[k]
	if s.moves(gen, told) {
		if h.listens(m) {
			h.reread(m, k)
		}
		return
	}
	if !told {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	cur := s.cur.Load()
	read := cur != nil && cur.gen == s.gen
	// One that is not read again yet is announced when it is.
	s.told = s.told || !read
	s.mu.Unlock()
	if read {
		h.changed(m, k, news{announced: true})
	}
}

// moves takes a generation that was told, and tells whether it is news.
func (s *slot) moves(gen uint64, told bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case gen == 0:
		s.bar()
	case gen <= s.shared.gen:
		return false
	case s.shared.raising > 0:
		// The slot's own is raised already, and no fetch has begun since.
		s.shared.gen, s.shared.barred = gen, false
		return false
	default:
		s.shared.gen, s.shared.barred = gen, false
	}
	s.gen++
	s.told = s.told || told
	return true
}

// learn takes a generation that was asked for when that known was known and gen was
// the slot's own. It gives the slot's own from then on, and whether what others have
// stored may be used; moved tells that there was an invalidation meanwhile.
func (s *slot) learn(shared, known, gen uint64) (own uint64, usable, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen != gen {
		return s.gen, false, true
	}
	// A lower one than was known before is that of a store which has lost all.
	if shared > s.shared.gen || shared < known {
		s.shared.gen = shared
		s.gen++
	}
	if sh := &s.shared; sh.barred {
		if sh.barredAt == 0 {
			sh.barredAt = shared
		}
		sh.barred = shared == sh.barredAt
	}
	return s.gen, !s.shared.barred, false
}

// from has lists that were fetched before the fence not count any more, for what is
// fetched from now on. The caller holds the lock.
func (s *slot) from(floor cache.Fence) {
	if floor != (cache.Fence{}) && s.shared.floor.Before(floor) {
		s.shared.floor = floor
	}
}

// wish has the next fetch ask for the list as it is from now on, and gives the
// number of the wish. The caller holds the lock.
func (s *slot) wish() uint64 {
	s.shared.wishes++
	return s.shared.wishes
}

// refreshFrom is refresh where lists that were fetched before the fence do not
// count.
func (m *member) refreshFrom(ctx context.Context, k kind, floor cache.Fence) (*segment, error) {
	s, since := &m.slots[k], time.Now()
	for {
		s.mu.Lock()
		s.from(floor)
		if cur := s.cur.Load(); cur != nil && cur.gen == s.gen && !cur.fence.Before(floor) {
			s.mu.Unlock()
			return cur, nil
		}
		f := s.fetch()
		s.mu.Unlock()
		seg, err := f.wait(ctx, m)
		// A fetch that began from now on is good whatever its fence: without the
		// shared state there is none.
		if err != nil || !f.begun.Before(since) || !seg.fence.Before(floor) {
			return seg, err
		}
	}
}

// follow has the lists of the domain move with the generations that other replicas
// raise.
func (d *domain) follow() {
	d.unfollow = func() {}
	if c := d.fed.opts.Cluster; c != nil {
		d.unfollow = c.Lists.Follow(d.name, d.listChanged)
	}
}

// listChanged is told of a change of a topic.
func (d *domain) listChanged(c cache.Change) {
	m := d.memberAt(c.Topic.Upstream, c.Topic.Version)
	if m == nil {
		return
	}
	for k := range kinds {
		if k.method() == c.Topic.Method {
			m.invalidated(k, c.Gen, false)
		}
	}
}

// forget drops what is cached of the member: if the same registration comes back,
// it may be another server.
func (m *member) forget() {
	drop := func(in cache.Responses, method string) {
		if _, err := in.Invalidate(m.domain.ctx, m.topic(method), ""); err != nil {
			m.domain.log.Warn("invalidate the cache", "upstream", m.conf.Alias, "method", method, "error", err)
		}
	}
	drop(m.domain.fed.opts.Cache, mcp.MethodResourcesRead)
	if c := m.cluster(); c != nil {
		for k := range kinds {
			drop(c.Lists, k.method())
		}
	}
}

// forgetAll drops what is cached of members side by side, since there may be many
// and a store may be slow.
func forgetAll(members []*member) {
	var wg sync.WaitGroup
	for some := range slices.Chunk(members, 1+len(members)/maxEnding) {
		wg.Go(func() {
			for _, m := range some {
				m.forget()
			}
		})
	}
	wg.Wait()
}
