package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

// Bounds of what is remembered until it can be written. Over them, more is
// invalidated than need be: a topic, a tenant, everything.
const (
	maxPendingParams  = 64 // of one topic
	maxPendingTopics  = 1000
	maxPendingTenants = 1000
)

const (
	// writeWithin bounds one try to write all that is pending, and one look at
	// generations; backgroundTimeout one operation. Nobody waits for them.
	writeWithin       = 5 * time.Second
	backgroundTimeout = time.Second
	scanCount         = 1000
)

// pending are the invalidations that could not be written yet.
type pending struct {
	topics  map[cache.Topic][]notice
	tenants map[string]bool
	all     bool
}

func newPending() pending {
	return pending{topics: map[cache.Topic][]notice{}, tenants: map[string]bool{}}
}

func (p *pending) empty() bool { return len(p.topics) == 0 && len(p.tenants) == 0 && !p.all }

// covers tells whether something of the topic is pending.
func (p *pending) covers(t cache.Topic) bool {
	return p.all || p.tenants[t.Tenant] || len(p.topics[t]) > 0
}

// add adds a change, and tells whether it was not there.
func (p *pending) add(n notice) bool {
	if p.all || p.tenants[n.topic.Tenant] {
		return true
	}
	list := p.topics[n.topic]
	if slices.ContainsFunc(list, func(o notice) bool { return o.id == n.id }) {
		return false
	}
	if len(list) >= maxPendingParams {
		// It is another change than each of them, so it has another name.
		n.param, n.id, list = "", newID(), nil
	}
	p.topics[n.topic] = append(list, n)
	if len(p.topics) > maxPendingTopics {
		p.widen()
	}
	return true
}

// widen replaces the changes of the tenant with the most topics by one of all that
// it has.
func (p *pending) widen() {
	counts := map[string]int{}
	most := ""
	for t := range p.topics {
		counts[t.Tenant]++
		if counts[t.Tenant] > counts[most] {
			most = t.Tenant
		}
	}
	maps.DeleteFunc(p.topics, func(t cache.Topic, _ []notice) bool { return t.Tenant == most })
	p.tenants[most] = true
	if len(p.tenants) > maxPendingTenants {
		*p = newPending()
		p.all = true
	}
}

// postpone has a change written as soon as that is possible, and makes it here.
func (r *Responses) postpone(n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	st := r.enter(n.topic).state
	if slices.Contains(st.written[:], n.id) || !r.pending.add(n) {
		return // it was written, or told of, before
	}
	r.cut(st, n.param)
	r.tell(st, cache.Change{Topic: n.topic, Param: n.param})
	r.look()
}

// write writes what is pending, as far as it can, and tells whether nothing is
// left.
func (r *Responses) write(ctx context.Context) bool {
	r.mu.Lock()
	topics, tenants, all := maps.Clone(r.pending.topics), maps.Clone(r.pending.tenants), r.pending.all
	idle := r.pending.empty()
	r.mu.Unlock()
	if idle {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	for _, list := range topics {
		for _, n := range list {
			if r.bounded(ctx, func(ctx context.Context) error { return r.writeLater(ctx, n) }) == nil {
				r.written(n)
			}
		}
	}
	for tenant := range tenants {
		if r.forgetTopics(ctx, r.store.opts.Prefix+":{"+escape(tenant)+"/") == nil {
			r.mu.Lock()
			delete(r.pending.tenants, tenant)
			r.mu.Unlock()
			r.announce(ctx, tenant)
		}
	}
	if all && r.forgetTopics(ctx, r.store.opts.Prefix+":{") == nil {
		r.mu.Lock()
		r.pending.all = false
		names := slices.Collect(maps.Keys(r.tenants))
		r.mu.Unlock()
		for _, tenant := range names {
			r.announce(ctx, tenant)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.empty()
}

// bounded runs one operation.
func (r *Responses) bounded(ctx context.Context, op func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	return op(ctx)
}

// written takes a change off the list.
func (r *Responses) written(n notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(r.pending.topics[n.topic]), func(o notice) bool { return o.id == n.id })
	if r.pending.topics[n.topic] = list; len(list) == 0 {
		delete(r.pending.topics, n.topic)
	}
}

// announce tells all that more of a tenant was invalidated than can be told. They
// find out at the latest when they look at generations.
func (r *Responses) announce(ctx context.Context, tenant string) {
	n := notice{kind: noticeTenant, topic: cache.Topic{Tenant: tenant}}
	_ = r.bounded(ctx, func(ctx context.Context) error {
		return r.store.client.Publish(ctx, r.channel(tenant), n.encode()).Err()
	})
}

// forgetTopics removes the hashes of all topics whose keys begin with prefix, and
// so invalidates all that Redis has of them.
func (r *Responses) forgetTopics(ctx context.Context, prefix string) error {
	pattern := escapeGlob(prefix) + "*}:" + kindTopic + ":*"
	var err error
	if cluster, ok := r.store.client.(*goredis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
			return r.forgetKeys(ctx, node, pattern)
		})
	} else {
		err = r.forgetKeys(ctx, r.store.client, pattern)
	}
	if err != nil {
		return fmt.Errorf("forget topics: %w", err)
	}
	return nil
}

func (r *Responses) forgetKeys(ctx context.Context, node goredis.Cmdable, pattern string) error {
	var cursor uint64
	for {
		err := r.bounded(ctx, func(ctx context.Context) error {
			keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
			if err != nil {
				return err
			}
			pipe := node.Pipeline() // one key each, since their slots differ
			for _, key := range keys {
				pipe.Unlink(ctx, key)
			}
			cursor = next
			if _, err := pipe.Exec(ctx); len(keys) > 0 && err != nil && !errors.Is(err, goredis.Nil) {
				return err
			}
			return nil
		})
		if err != nil || cursor == 0 {
			return err
		}
	}
}

// escapeGlob takes from a text what has a meaning in patterns.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
