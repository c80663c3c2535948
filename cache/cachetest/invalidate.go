package cachetest

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/causeway-mcp/causeway/cache"
)

func generations(t *testing.T, r cache.Responses) {
	c := client{t, r}
	lists := reads
	lists.Method = "tools/list"

	gen, other := c.generation(reads), c.generation(lists)
	c.store(cache.Key{Topic: reads}, "one")
	if got := c.generation(reads); got != gen {
		t.Errorf("the generation went from %d to %d without an Invalidate", gen, got)
	}
	for _, param := range []string{"", "file:///nothing/here", ""} {
		next := c.invalidate(reads, param)
		if next <= gen {
			t.Errorf("Invalidate(%q) = %d after %d, want a higher one", param, next, gen)
		}
		if got := c.generation(reads); got != next {
			t.Errorf("Generation = %d after Invalidate gave %d", got, next)
		}
		gen = next
	}
	if got := c.generation(lists); got != other {
		t.Errorf("another topic's generation went from %d to %d", other, got)
	}

	// A topic that was never asked for can be invalidated, and then be used.
	unseen := reads
	unseen.Upstream = "unseen"
	if !c.put(cache.Key{Topic: unseen}, "one", c.invalidate(unseen, "")) {
		t.Error("Put under the generation that Invalidate gave was refused")
	}
}

func inFlight(t *testing.T, r cache.Responses) {
	c := client{t, r}
	tests := []struct{ name, param, invalidated string }{
		{"the topic was invalidated", "file:///a", ""},
		{"the param was invalidated", "file:///a", "file:///a"},
		// The back end need not know what the read in flight covers.
		{"another param was invalidated", "file:///a", "file:///b"},
	}
	for _, tt := range tests {
		k := cache.Key{Topic: reads, Param: tt.param}
		before := c.generation(reads)
		after := c.invalidate(reads, tt.invalidated)
		if c.put(k, "old", before) {
			t.Errorf("%s: Put under the generation before was stored", tt.name)
		}
		c.wantNone(k)
		if !c.put(k, "new", after) {
			t.Errorf("%s: Put under the new generation was refused", tt.name)
		}
		// A late answer does no harm to a newer one.
		if c.put(k, "late", before) {
			t.Errorf("%s: a late Put was stored", tt.name)
		}
		c.wantBody(k, "new")
		if err := r.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
}

func invalidateTopic(t *testing.T, r cache.Responses) {
	c := client{t, r}
	var others []cache.Key
	for _, change := range []func(*cache.Topic){
		func(t *cache.Topic) { t.Tenant = "other" },
		func(t *cache.Topic) { t.Upstream = "other" },
		func(t *cache.Topic) { t.Version = "v2" },
		func(t *cache.Topic) { t.Method = "tools/list" },
	} {
		other := reads
		change(&other)
		others = append(others, cache.Key{Topic: other})
	}
	keys := []cache.Key{
		{Topic: reads},
		{Topic: reads, Credential: "alice"},
		{Topic: reads, Credential: "bob", Param: "file:///a"},
		{Topic: reads, Param: "file:///a/b"},
	}
	for _, k := range append(others, keys...) {
		c.store(k, "one")
	}
	c.invalidate(reads, "")
	for _, k := range keys {
		c.wantNone(k)
	}
	for _, k := range others {
		c.wantBody(k, "one")
	}
}

func invalidateParam(t *testing.T, r cache.Responses) {
	c := client{t, r}
	tests := []struct {
		name, param    string
		dropped, keeps []string
	}{
		{
			"itself and its parents", "file:///a/b",
			[]string{"file:///a/b", "file:///a", "file:///a/", "file:///"},
			[]string{"file:///a/b/c", "file:///a/c", "file:///a/bc", "file:///ab", "file:///b", "travel:///a/b", ""},
		},
		{"nothing known", "file:///z", nil, []string{"file:///a/b", ""}},
		{"characters with a meaning elsewhere", "file:///a*/[b]?", []string{"file:///a*/[b]?", "file:///a*"}, []string{"file:///ab/b1", "file:///ab"}},
	}
	for _, tt := range tests {
		other := reads
		other.Upstream = "other"
		for _, credential := range []string{"", "alice"} {
			for _, p := range append(tt.keeps, tt.dropped...) {
				c.store(cache.Key{Topic: reads, Credential: credential, Param: p}, "one")
				c.store(cache.Key{Topic: other, Credential: credential, Param: p}, "one")
			}
		}
		c.invalidate(reads, tt.param)
		for _, credential := range []string{"", "alice"} {
			for _, p := range tt.dropped {
				c.wantNone(cache.Key{Topic: reads, Credential: credential, Param: p})
				c.wantBody(cache.Key{Topic: other, Credential: credential, Param: p}, "one")
			}
			for _, p := range tt.keeps {
				c.wantBody(cache.Key{Topic: reads, Credential: credential, Param: p}, "one")
			}
		}
		c.invalidate(reads, "")
		c.invalidate(other, "")
	}
}

// race has writers that store what a source says while it changes. After each
// Invalidate nothing older than the change may be there.
func race(t *testing.T, r cache.Responses) {
	const writers, changes = 4, 200
	k := cache.Key{Topic: reads, Param: "file:///a/b"}
	var source atomic.Int64
	done, written := make(chan struct{}), make(chan struct{})
	group, failed := errgroup.WithContext(t.Context())
	for range writers {
		group.Go(func() error {
			for {
				gen, err := r.Generation(t.Context(), k.Topic)
				if err != nil {
					return fmt.Errorf("generation: %w", err)
				}
				body := strconv.FormatInt(source.Load(), 10)
				if _, err := r.Put(t.Context(), k, entry(body), gen); err != nil {
					return fmt.Errorf("put: %w", err)
				}
				select {
				case <-done:
					return nil
				case written <- struct{}{}:
				default:
				}
			}
		})
	}
	// Also when c ends the test, the writers end before it.
	defer func() {
		close(done)
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()
	c := client{t, r}
	for i := range changes {
		select {
		case <-written: // so that each change meets writers at work
		case <-failed.Done():
		}
		at := source.Add(1)
		c.invalidate(reads, []string{"", k.Param, k.Param + "/c"}[i%3])
		e, ok := c.get(k)
		if !ok {
			continue
		}
		if got, err := strconv.ParseInt(string(e.Body), 10, 64); err != nil || got < at {
			t.Errorf("after change %d the entry says %q", at, e.Body)
		}
	}
}
