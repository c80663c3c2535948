package cachetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/causeway-mcp/causeway/cache"
)

// changes collects what a follower is told.
type changes struct {
	mu   sync.Mutex
	list []cache.Change
}

// follows follows a tenant until the test ends.
func follows(t *testing.T, r cache.Responses, tenant string) *changes {
	t.Helper()
	c := &changes{}
	var calling atomic.Int32
	t.Cleanup(r.Follow(tenant, func(ch cache.Change) {
		if calling.Add(1) > 1 {
			t.Error("two calls at the same time")
		}
		defer calling.Add(-1)
		if ch.Topic.Tenant != tenant {
			t.Errorf("a follower of %q was told of %+v", tenant, ch)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, ch)
	}))
	return c
}

// has tells whether a change was told. One that nobody could tell of at the time
// counts for the whole topic.
func (c *changes) has(topic cache.Topic, param string, gen uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.list {
		if ch.Topic == topic && (ch.Param == param || ch.Param == "") && ch.Gen == gen {
			return true
		}
	}
	return false
}

func follow(t *testing.T, r cache.Responses) {
	c := client{t, r}
	lists := reads
	lists.Method = "tools/list"
	one, two := follows(t, r, "acme"), follows(t, r, "acme")
	for _, step := range []struct {
		topic cache.Topic
		param string
	}{
		{reads, ""},
		{reads, "file:///a/b"},
		{lists, ""},
		{cache.Topic{Tenant: "acme", Upstream: "unseen"}, ""},
	} {
		gen := c.invalidate(step.topic, step.param)
		for _, f := range []*changes{one, two} {
			eventually(t, "a follower is told", func() bool { return f.has(step.topic, step.param, gen) })
		}
	}
}

func followApart(t *testing.T, r cache.Responses) {
	c := client{t, r}
	tenants := []string{"acme", "Acme", "acm", "acme:b", "*", ""}
	followers := make([]*changes, len(tenants))
	for i, name := range tenants {
		followers[i] = follows(t, r, name)
	}
	for i, name := range tenants {
		topic := reads
		topic.Tenant = name
		gen := c.invalidate(topic, "")
		eventually(t, "the tenant's follower is told", func() bool { return followers[i].has(topic, "", gen) })
	}
}

func stopFollowing(t *testing.T, r cache.Responses) {
	c := client{t, r}
	control := follows(t, r, "acme")
	var stopped atomic.Bool
	stop := r.Follow("acme", func(cache.Change) {
		if stopped.Load() {
			t.Error("a call after stop had returned")
		}
	})
	check := func() {
		t.Helper()
		for range 5 {
			gen := c.invalidate(reads, "")
			eventually(t, "the other follower is told", func() bool { return control.has(reads, "", gen) })
		}
	}
	check()
	stop()
	stopped.Store(true)
	check()
}
