package redis

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/cachetest"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

func TestResponsesStandalone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	responsesSuites(t, Connection{URL: s.URL()})
	wantAllExpire(t, s)
}

func TestResponsesCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	responsesSuites(t, Connection{URL: c.URL(), Mode: ModeCluster})
	wantAllExpire(t, c.Nodes...)
}

func responsesSuites(t *testing.T, c Connection) {
	var p prefixes
	t.Run("far", func(t *testing.T) {
		cachetest.TestResponses(t, func(t *testing.T) cache.Responses {
			return replicaOf(t, Options{Connection: c, Prefix: p.next()}, nil).Responses
		})
	})
	t.Run("near and far", func(t *testing.T) {
		cachetest.TestResponses(t, func(t *testing.T) cache.Responses {
			return replicaOf(t, Options{Connection: c, Prefix: p.next()}, cache.NewMemory(0)).Responses
		})
	})
}

// replica is the cache of one process of a gateway.
type replica struct {
	*Responses
	t *testing.T
}

// replicaOf makes one, and waits until Redis works.
func replicaOf(t *testing.T, opts Options, near *cache.Memory) replica {
	t.Helper()
	r := NewResponses(openWell(t, opts), near)
	t.Cleanup(r.Close)
	return replica{r, t}
}

// replicas makes two that look at generations so rarely that only notices count.
func replicas(t *testing.T, url string) (a, b replica) {
	t.Helper()
	opts := Options{Connection: Connection{URL: url}, PollInterval: time.Hour}
	return replicaOf(t, opts, cache.NewMemory(0)), replicaOf(t, opts, cache.NewMemory(0))
}

var reads = cache.Topic{Tenant: "acme", Upstream: "files", Version: "v1", Method: "resources/read"}

func key(param string) cache.Key { return cache.Key{Topic: reads, Param: param} }

func (r replica) put(k cache.Key, body string) {
	r.t.Helper()
	r.putEntry(k, cache.Entry{Body: []byte(body), Stored: r.now(), TTL: time.Hour, Keep: time.Hour, Public: k.Credential == ""})
}

func (r replica) putEntry(k cache.Key, e cache.Entry) {
	r.t.Helper()
	gen, err := r.Generation(r.t.Context(), k.Topic)
	if err != nil {
		r.t.Fatal(err)
	}
	if stored, err := r.Put(r.t.Context(), k, e, gen); err != nil || !stored {
		r.t.Fatalf("Put(%q) = %v, %v", e.Body, stored, err)
	}
}

func (r replica) invalidate(t cache.Topic, param string) {
	r.t.Helper()
	if _, err := r.Invalidate(r.t.Context(), t, param); err != nil {
		r.t.Fatal(err)
	}
}

// get gives the body of an entry; empty when there is none.
func (r replica) get(k cache.Key) string {
	r.t.Helper()
	e, _, err := r.Get(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(e.Body)
}

func (r replica) want(k cache.Key, want string) {
	r.t.Helper()
	if got := r.get(k); got != want {
		r.t.Errorf("Get(%q) = %q, want %q", k.Param, got, want)
	}
}

// isNear tells whether the entry is in memory.
func (r replica) isNear(k cache.Key) bool {
	_, ok, _ := r.near.Get(context.Background(), k)
	return ok
}

// stands waits until the notices of a tenant arrive, and until generations have
// been looked at because of that. Otherwise a change could be found out by looking,
// before its notice comes, and then tells less.
func (r replica) stands(tenant string) {
	r.t.Helper()
	ctx := r.t.Context()
	t := cache.Topic{Tenant: tenant, Upstream: "canary"}
	if _, err := r.Generation(ctx, t); err != nil {
		r.t.Fatal(err)
	}
	name := r.channel(tenant)
	eventually(r.t, "the subscription stands", func() bool {
		r.store.bus.mu.Lock()
		defer r.store.bus.mu.Unlock()
		c := r.store.bus.channels[name]
		return c != nil && c.stands
	})
	for range 2 {
		gen, err := r.store.client.HIncrBy(ctx, r.topicKey(t), "g", 1).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		r.look()
		eventually(r.t, "generations are looked at", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.find(t).told >= uint64(gen)
		})
	}
}

// changes are what a follower was told, but for what stands does.
type changes struct {
	mu  sync.Mutex
	got []cache.Change
}

func (c *changes) add(ch cache.Change) {
	if ch.Topic.Upstream == "canary" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, ch)
}

func (c *changes) all() []cache.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}
