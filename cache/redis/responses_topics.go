package redis

import (
	"context"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// tenantTopics is what is known here of one tenant's topics, and who is told of
// their changes.
type tenantTopics struct {
	topics    map[cache.Topic]*topicState
	followers []*follower
}

// topicState is what is known here of one topic. Generations that Redis answers
// with may come before the notices about what made them, and answers may overtake
// each other. So there are two: told, up to which all changes were told to the
// followers, one after the other, and seen, which is known to have been reached.
type topicState struct {
	topic      cache.Topic
	told, seen uint64 // 0 while nothing is known
	drops      uint64 // the number of drops; likewise
	// cuts counts what put an end to entries in memory. What was asked of Redis
	// before the last one is not kept there.
	cuts      uint64
	forgotten bool
	clock     clock
	used      time.Time
	// written are the last changes that are known to be written, by their ids. The
	// notice that one cannot be written may come late.
	written [8]string
	// barred is there while the followers wait for the generation to move.
	barred bool
}

// wrote takes note that a change was written.
func (st *topicState) wrote(id string) {
	copy(st.written[1:], st.written[:])
	st.written[0] = id
}

// clock tells what time it was in Redis, at the most, at a time here.
type clock struct {
	server uint64 // in microseconds; 0 while it is not known
	here   time.Time
}

// at gives the time in Redis at another time here, in microseconds.
func (c clock) at(t time.Time) int64 { return int64(c.server) + t.Sub(c.here).Microseconds() }

// visit is what is remembered of a topic while Redis is asked.
type visit struct {
	state *topicState
	seen  uint64
	cuts  uint64
	clock clock
}

// visit begins to use a topic. It is an error while Redis may have what was
// invalidated.
func (r *Responses) visit(t cache.Topic) (visit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return visit{}, errClosed
	}
	if r.pending.covers(t) {
		return visit{}, errPending
	}
	return r.enter(t), nil
}

// enter is visit with the lock held, whatever is pending.
func (r *Responses) enter(t cache.Topic) visit {
	tt := r.tenant(t.Tenant)
	st := tt.topics[t]
	if st == nil {
		st = &topicState{topic: t}
		tt.topics[t] = st
	}
	st.used = r.now()
	return visit{state: st, seen: st.seen, cuts: st.cuts, clock: st.clock}
}

// tenant gives what is known of a tenant, and makes it.
func (r *Responses) tenant(name string) *tenantTopics {
	tt := r.tenants[name]
	if tt == nil {
		tt = &tenantTopics{topics: map[cache.Topic]*topicState{}}
		r.tenants[name] = tt
		signal(r.rework)
	}
	return tt
}

// find gives what is known of a topic, if anything.
func (r *Responses) find(t cache.Topic) *topicState {
	if tt := r.tenants[t.Tenant]; tt != nil {
		return tt.topics[t]
	}
	return nil
}

// observe takes note of what Redis answered about a topic: its generation, its
// number of drops, and the time if it is not 0.
func (r *Responses) observe(v visit, gen, drops, server uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := v.state
	if server != 0 {
		st.clock = clock{server, r.now()}
	}
	if gen < v.seen {
		r.look() // Redis has lost what it had
	}
	if gen == 0 {
		return
	}
	switch {
	case st.seen == 0:
		st.seen, st.drops = gen, max(st.drops, drops)
		st.told = max(st.told, gen)
	case gen > st.seen:
		// The notices about it are still on their way.
		st.seen, st.drops = gen, max(st.drops, drops)
		r.cut(st, "")
	case gen == st.seen && drops > st.drops:
		st.drops = drops
		r.cut(st, "")
	}
}

// cut drops what an invalidation covers from memory, and sees to it that nothing
// comes there which was asked for before.
func (r *Responses) cut(st *topicState, param string) {
	st.cuts++
	if r.near != nil {
		_, _ = r.near.Invalidate(context.Background(), st.topic, param) // never fails
	}
}

// fill keeps an entry in memory, unless it may have been invalidated or dropped
// since it was asked for.
func (r *Responses) fill(ctx context.Context, v visit, k cache.Key, e cache.Entry) {
	if r.near == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.state.cuts != v.cuts || v.state.forgotten || r.closed {
		return
	}
	if old, ok, _ := r.near.Get(ctx, k); ok && old.Stored.After(e.Stored) {
		return
	}
	gen, _ := r.near.Generation(ctx, k.Topic) // never fails
	_, _ = r.near.Put(ctx, k, e, gen)
}

// changed takes note of a change that was written. mine tells that it was made
// here; then its notice is still to come, perhaps after notices of others.
func (r *Responses) changed(n notice, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.find(n.topic)
	if st == nil {
		r.tell(nil, cache.Change{Topic: n.topic, Param: n.param, Gen: n.gen})
		return
	}
	st.wrote(n.id)
	if n.gen <= st.told {
		return
	}
	next := n.prev == st.told
	if st.told == 0 {
		next = st.seen == 0 || n.prev <= st.seen
	}
	if mine && (!next || st.told == 0) {
		// Those before are told first.
		r.cut(st, n.param)
		if n.prev > st.seen {
			r.cut(st, "")
		}
		st.seen = max(st.seen, n.gen)
		return
	}
	param := n.param
	if !next {
		param = "" // what came in between was lost
	}
	r.cut(st, param)
	st.told, st.seen = n.gen, max(st.seen, n.gen)
	r.tell(st, cache.Change{Topic: n.topic, Param: param, Gen: n.gen})
}

// dropped takes note that an entry was dropped; gen is 0 when others need not be
// told.
func (r *Responses) dropped(n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.find(n.topic)
	if st == nil {
		return
	}
	if n.gen != 0 {
		if n.gen <= st.drops {
			return
		}
		if n.prev != st.drops && st.drops != 0 {
			r.cut(st, "") // what was dropped in between was not told
		}
		st.drops = n.gen
	}
	st.cuts++
	if r.near != nil {
		k := cache.Key{Topic: n.topic, Credential: n.credential, Param: n.param}
		_ = r.near.Delete(context.Background(), k) // never fails
	}
}

// tell tells the followers of a change. st is what is known of the topic, if
// anything.
func (r *Responses) tell(st *topicState, c cache.Change) {
	if st != nil {
		st.barred = c.Gen == 0
	}
	if tt := r.tenants[c.Topic.Tenant]; tt != nil {
		for _, f := range tt.followers {
			f.push(c)
		}
	}
}

// signal puts something into a channel of one place, unless there is something.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
