package redis

import (
	"context"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

const (
	// idleAfter is how long a topic is known after its last use, unless somebody
	// follows its tenant.
	idleAfter = 15 * time.Minute
	// pollBatch bounds the generations that are looked at in one round trip.
	pollBatch = 500
	// soon is the longest that something waits which is to be done at once, so that
	// not all processes do it at the same time.
	soon = 250 * time.Millisecond
	// What could not be written is tried again after retryFirst, then after twice as
	// long each time, up to retryLast.
	retryFirst = 50 * time.Millisecond
	retryLast  = 2 * time.Second
)

// look has what is pending written, and all generations looked at, soon.
func (r *Responses) look() { signal(r.attend) }

// watch looks at Redis again and again until ctx ends.
func (r *Responses) watch(ctx context.Context) {
	every, retry := r.store.opts.PollInterval, retryFirst
	due := time.Now().Add(spread(every))
	for {
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.attend:
			timer.Stop()
			if at := time.Now().Add(rand.N(min(soon, every))); at.Before(due) {
				due = at
			}
			continue
		case <-timer.C:
		}
		done := r.write(ctx)
		r.poll(ctx)
		r.sweep()
		if done {
			due, retry = time.Now().Add(spread(every)), retryFirst
		} else {
			retry = min(2*retry, retryLast, every)
			due = time.Now().Add(spread(retry))
		}
	}
}

// spread gives a duration with jitter, which keeps processes apart.
func spread(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// look is what was known of a topic when its generation was asked for.
type look struct {
	state             *topicState
	told, seen, drops uint64
	idle              bool
	reply             *goredis.SliceCmd
}

// poll looks at the generations of all topics that are known here.
func (r *Responses) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	looks := r.looks()
	for len(looks) > 0 && ctx.Err() == nil {
		n := min(len(looks), pollBatch)
		r.pollSome(ctx, looks[:n])
		looks = looks[n:]
	}
}

func (r *Responses) looks() []look {
	r.mu.Lock()
	defer r.mu.Unlock()
	var looks []look
	for _, tt := range r.tenants {
		if len(tt.followers) == 0 && r.near == nil {
			continue
		}
		for _, st := range tt.topics {
			if st.seen != 0 {
				idle := r.now().Sub(st.used) > idleAfter
				looks = append(looks, look{state: st, told: st.told, seen: st.seen, drops: st.drops, idle: idle})
			}
		}
	}
	return looks
}

func (r *Responses) pollSome(ctx context.Context, looks []look) {
	_ = r.bounded(ctx, func(ctx context.Context) error {
		pipe := r.store.client.Pipeline()
		for i := range looks {
			looks[i].reply = pipe.HMGet(ctx, r.topicKey(looks[i].state.topic), "g", "d")
		}
		_, err := pipe.Exec(ctx) // what could not be had is looked at next time
		return err
	})
	for _, l := range looks {
		n, ok := generationOf(l.reply)
		if !ok {
			continue
		}
		if gen, drops := n[0], n[1]; gen >= l.seen {
			r.compare(l, gen, drops)
		} else {
			r.repair(ctx, l, gen)
		}
	}
}

// generationOf reads a generation and a number of drops, 0 where there is none.
func generationOf(reply *goredis.SliceCmd) (n [2]uint64, ok bool) {
	fields, err := reply.Result()
	if err != nil || len(fields) != len(n) {
		return n, false
	}
	for i, f := range fields {
		if f == nil {
			continue
		}
		if n[i], err = number(f); err != nil {
			return n, false
		}
	}
	return n, true
}

// compare makes a change of a generation that nobody told of.
func (r *Responses) compare(l look, gen, drops uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := l.state
	if st.forgotten || st.told != l.told {
		return // told meanwhile
	}
	if drops > st.drops || gen > st.told {
		st.drops = max(drops, st.drops)
		r.cut(st, "")
	}
	if gen > st.told {
		st.told, st.seen = gen, max(st.seen, gen)
		r.tell(st, cache.Change{Topic: st.topic, Gen: gen})
	}
}

// repair sees to a topic of which Redis has lost what it had.
func (r *Responses) repair(ctx context.Context, l look, gen uint64) {
	if gen == 0 && l.idle {
		// Nobody has used it for so long that nobody needs it. Whatever its next
		// generation is, it is higher than this one.
		r.compare(l, l.seen+1, 0)
		r.mu.Lock()
		r.forget(l.state)
		r.mu.Unlock()
		return
	}
	_ = r.bounded(ctx, func(ctx context.Context) error {
		v := visit{state: l.state, seen: l.seen}
		reply, err := runAs(ctx, r.store.client, scriptGeneration, []string{r.topicKey(l.state.topic)}, r.generationArgs(v)...)
		if err != nil {
			return err
		}
		n, err := numbers(reply, 3)
		if err != nil {
			return err
		}
		r.compare(l, n[0], n[1])
		return nil
	})
}

// sweep forgets topics that have not been used for long, of tenants that nobody
// follows.
func (r *Responses) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, tt := range r.tenants {
		if len(tt.followers) > 0 {
			continue
		}
		for _, st := range tt.topics {
			if r.now().Sub(st.used) > idleAfter {
				r.forget(st)
			}
		}
		if len(tt.topics) == 0 {
			delete(r.tenants, name)
			signal(r.rework)
		}
	}
}

// forget forgets a topic, and drops what is in memory of it.
func (r *Responses) forget(st *topicState) {
	st.forgotten = true
	r.cut(st, "")
	if tt := r.tenants[st.topic.Tenant]; tt != nil && tt.topics[st.topic] == st {
		delete(tt.topics, st.topic)
	}
}
