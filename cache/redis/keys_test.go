package redis

import (
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/cache"
)

// TestKeys holds that what differs has another key, and that a key's hash tag is
// its scope and nothing else.
func TestKeys(t *testing.T) {
	s := &Store{opts: Options{Prefix: "cw"}}
	names := []string{"", "a", "a:b", "a/b", "b", "{", "}", "%", "%7B", "a}:lease:{a", "é", "\x00"}
	seen := map[string][]string{}
	for _, tenant := range names {
		for _, upstream := range names {
			for _, x := range names {
				for _, y := range names {
					key := s.key(cache.Scope{Tenant: tenant, Upstream: upstream}, kindLease, x, y)
					what := []string{tenant, upstream, x, y}
					if seen[key] != nil {
						t.Fatalf("%q and %q have the same key %q", seen[key], what, key)
					}
					seen[key] = what
					_, rest, _ := strings.Cut(key, "{")
					tag, rest, _ := strings.Cut(rest, "}")
					if want := escape(tenant) + "/" + escape(upstream); tag != want || strings.ContainsAny(rest, "{}") {
						t.Fatalf("the key %q has the tag %q, want %q", key, tag, want)
					}
					if !strings.HasPrefix(key, "cw:") {
						t.Fatalf("the key %q has no prefix", key)
					}
				}
			}
		}
	}
	if got, want := s.key(cache.Scope{Tenant: "acme", Upstream: "files"}, kindLease, "listen"), "cw:{acme/files}:lease:listen"; got != want {
		t.Errorf("key = %q, want %q", got, want)
	}
}
