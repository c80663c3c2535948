// Package cachetest is the conformance suite that each back end of package
// cache runs in its own tests. It is imported by tests only.
package cachetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/cache"
)

// TestResponses checks a back end of cache.Responses. make gives an empty one and
// registers its clean-up with t; the suite calls it once for each part. Nothing
// depends on how much time passes, except that an entry must be kept for a minute
// after it has expired when it says so, and that its Stored may come back off by
// tolerance.
func TestResponses(t *testing.T, make func(t *testing.T) cache.Responses) {
	tests := []struct {
		name string
		test func(t *testing.T, r cache.Responses)
	}{
		{"round trip", roundTrip},
		{"keys are apart", keysApart},
		{"replace", replace},
		{"delete", deleteOne},
		{"generations", generations},
		{"a read in flight is not stored", inFlight},
		{"invalidate a topic", invalidateTopic},
		{"invalidate a param", invalidateParam},
		{"invalidate between readers and writers", race},
		{"follow", follow},
		{"followers of several tenants", followApart},
		{"stop following", stopFollowing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, make(t)) })
	}
}

var reads = cache.Topic{Tenant: "acme", Upstream: "files", Version: "v1", Method: "resources/read"}

// client calls a Responses and fails the test on errors.
type client struct {
	t *testing.T
	r cache.Responses
}

func (c client) generation(t cache.Topic) uint64 {
	c.t.Helper()
	gen, err := c.r.Generation(c.t.Context(), t)
	if err != nil {
		c.t.Fatalf("Generation: %v", err)
	}
	return gen
}

func (c client) invalidate(t cache.Topic, param string) uint64 {
	c.t.Helper()
	gen, err := c.r.Invalidate(c.t.Context(), t, param)
	if err != nil {
		c.t.Fatalf("Invalidate: %v", err)
	}
	return gen
}

func (c client) put(k cache.Key, body string, gen uint64) bool {
	c.t.Helper()
	stored, err := c.r.Put(c.t.Context(), k, entry(body), gen)
	if err != nil {
		c.t.Fatalf("Put: %v", err)
	}
	return stored
}

// store puts under the topic's current generation.
func (c client) store(k cache.Key, body string) {
	c.t.Helper()
	if !c.put(k, body, c.generation(k.Topic)) {
		c.t.Fatalf("Put of %+v under the current generation was refused", k)
	}
}

func (c client) get(k cache.Key) (cache.Entry, bool) {
	c.t.Helper()
	e, ok, err := c.r.Get(c.t.Context(), k)
	if err != nil {
		c.t.Fatalf("Get: %v", err)
	}
	return e, ok
}

func (c client) wantBody(k cache.Key, want string) {
	c.t.Helper()
	if e, ok := c.get(k); !ok || string(e.Body) != want {
		c.t.Errorf("Get(%+v) = %q, %v, want %q", k, e.Body, ok, want)
	}
}

func (c client) wantNone(k cache.Key) {
	c.t.Helper()
	if e, ok := c.get(k); ok {
		c.t.Errorf("Get(%+v) = %q, want none", k, e.Body)
	}
}

// tolerance is how much an entry's Stored may differ: a back end may compute it from
// how long the entry has yet to live.
const tolerance = 2 * time.Second

// entry is fresh for as long as a test may last. Its times are whole
// milliseconds, since a back end need not keep more.
func entry(body string) cache.Entry {
	return cache.Entry{Body: []byte(body), Stored: time.Now().Truncate(time.Millisecond), TTL: time.Hour}
}

func roundTrip(t *testing.T, r cache.Responses) {
	c := client{t, r}
	now := time.Now().Truncate(time.Millisecond)
	tests := []struct {
		name string
		want cache.Entry
	}{
		{"fresh", cache.Entry{Body: []byte(`{"tools":[]}`), Stored: now, TTL: time.Minute, Public: true}},
		{"private", cache.Entry{Body: []byte(`{}`), Stored: now, TTL: time.Minute}},
		{"kept", cache.Entry{Body: []byte("x"), Stored: now, TTL: time.Minute, Keep: 90*time.Minute + time.Millisecond, Public: true}},
		{"expired a minute ago", cache.Entry{Body: []byte("x"), Stored: now.Add(-2 * time.Minute), TTL: time.Minute, Keep: time.Hour}},
		{"never fresh", cache.Entry{Body: []byte("x"), Stored: now, Keep: time.Hour}},
		{"fence", cache.Entry{Body: []byte("x"), Stored: now, TTL: time.Minute, Fence: cache.Fence{Epoch: 1<<64 - 1, N: 1_790_000_000_000_001}}},
		{"empty body", cache.Entry{Stored: now, TTL: time.Minute}},
		{"any bytes", cache.Entry{Body: []byte("\x00\xff\r\n\"é😀"), Stored: now, TTL: time.Millisecond, Keep: time.Minute}},
		{"large body", cache.Entry{Body: bytes.Repeat([]byte("0123456789abcdef"), 1<<16), Stored: now, TTL: 24 * time.Hour}},
	}
	for _, tt := range tests {
		k := cache.Key{Topic: reads, Param: tt.name}
		c.wantNone(k)
		stored, err := r.Put(t.Context(), k, tt.want, c.generation(reads))
		if err != nil || !stored {
			t.Fatalf("%s: Put = %v, %v, want true", tt.name, stored, err)
		}
		got, ok := c.get(k)
		if !ok {
			t.Errorf("%s: not there", tt.name)
			continue
		}
		if !bytes.Equal(got.Body, tt.want.Body) {
			t.Errorf("%s: another body of %d bytes came back, want %d bytes", tt.name, len(got.Body), len(tt.want.Body))
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(cache.Entry{}, "Body"), cmpopts.EquateApproxTime(tolerance)); diff != "" {
			t.Errorf("%s: another entry came back (-want +got):\n%s", tt.name, diff)
		}
	}
}

func keysApart(t *testing.T, r cache.Responses) {
	c := client{t, r}
	key := func(tenant, upstream, version, method, credential, param string) cache.Key {
		return cache.Key{
			Topic:      cache.Topic{Tenant: tenant, Upstream: upstream, Version: version, Method: method},
			Credential: credential, Param: param,
		}
	}
	keys := []cache.Key{
		key("a", "b", "c", "d", "e", "f"),
		key("A", "b", "c", "d", "e", "f"),
		key("a", "B", "c", "d", "e", "f"),
		key("a", "b", "C", "d", "e", "f"),
		key("a", "b", "c", "D", "e", "f"),
		key("a", "b", "c", "d", "E", "f"),
		key("a", "b", "c", "d", "e", "F"),
		key("a", "b", "c", "d", "", "f"),
		key("a", "b", "c", "d", "e", ""),
		// Joined without care, these are equal to the first.
		key("ab", "", "c", "d", "e", "f"),
		key("a:b", "", "c", "d", "e", "f"),
		key("a", "b:c", "", "d", "e", "f"),
		key("a", "b", "c", "d:e", "", "f"),
		key("a", "b", "c", "d", "e:f", ""),
		key("a", "b", "c", "d", "e\x00f", ""),
		key("a", "b", "c", "d", "", "e:f"),
		key("{a}", "b", "c", "d", "e", "f"),
	}
	for i, k := range keys {
		c.store(k, string(rune('A'+i)))
	}
	for i, k := range keys {
		c.wantBody(k, string(rune('A'+i)))
	}
}

func replace(t *testing.T, r cache.Responses) {
	c := client{t, r}
	k := cache.Key{Topic: reads, Param: "file:///a"}
	c.store(k, "one")
	c.store(k, "two")
	c.wantBody(k, "two")
}

func deleteOne(t *testing.T, r cache.Responses) {
	c := client{t, r}
	k := cache.Key{Topic: reads, Param: "file:///a"}
	other := cache.Key{Topic: reads, Param: "file:///a", Credential: "alice"}
	c.store(k, "one")
	c.store(other, "two")
	gen := c.generation(reads)
	for range 2 { // the second finds nothing, which is no error
		if err := r.Delete(t.Context(), k); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	c.wantNone(k)
	c.wantBody(other, "two")
	if got := c.generation(reads); got != gen {
		t.Errorf("Delete raised the generation from %d to %d", gen, got)
	}
	if !c.put(k, "three", gen) {
		t.Error("Put after Delete was refused")
	}
	c.wantBody(k, "three")
}
