package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	cacheredis "github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/redis"
)

// TestVaultStays restarts the server: values, and how high their revisions are, are on
// its disk, and nothing of them expires.
func TestVaultStays(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	key := tenant.VaultKey{Tenant: "acme", Alias: "weather", Kind: "token", Name: "alice"}
	first, err := r.PutSecret(t.Context(), key, []byte("sealed"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := r.Secret(t.Context(), key); err == nil || errors.Is(err, tenant.ErrNotFound) {
		t.Errorf("Secret while Redis is gone: %v, want an outage", err)
	}
	if _, err := r.Secrets(t.Context(), tenant.VaultKey{}, 1); err == nil {
		t.Error("Secrets while Redis is gone: no error")
	}
	s.Restart(false)
	awaitDegraded(t, r, "")
	want := tenant.VaultValue{Key: key, Revision: first, Sealed: []byte("sealed")}
	got, err := with(redis.Options{}).Secret(t.Context(), key)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("after a restart: %v (-want +got):\n%s", err, diff)
	}
	if next, err := r.PutSecret(t.Context(), key, []byte("again"), first); err != nil || next <= first {
		t.Errorf("PutSecret: revision %d after %d, %v", next, first, err)
	}
	for _, name := range s.Do("KEYS", "*").([]any) {
		if ttl := s.Do("PTTL", name.(string)).(int64); ttl != -1 {
			t.Errorf("%s expires in %d ms", name, ttl)
		}
	}
}

// TestVaultWithoutRegistry holds that a Redis that lost the registry takes values, and
// that they do not make it look like a registry.
func TestVaultWithoutRegistry(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	s.Do("FLUSHALL")
	awaitDegraded(t, r, "the registry in redis is empty")
	key := tenant.VaultKey{Tenant: "acme", Alias: "weather", Kind: "token", Name: "alice"}
	if _, err := r.PutSecret(t.Context(), key, []byte("sealed"), 0); err != nil {
		t.Errorf("PutSecret: %v", err)
	}
	awaitDegraded(t, r, "the registry in redis is empty")
	mustHold(t, r, map[string]string{"acme": "1"})
	state, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Import(t.Context(), state, tenant.Any); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Secret(t.Context(), key); err != nil {
		t.Errorf("after an Import: %v", err)
	}
}

// TestVaultOfOneSlot holds that a cluster keeps a registry with its values on one node,
// and that their names stay out of those of another prefix.
func TestVaultOfOneSlot(t *testing.T) {
	c := redistest.StartCluster(t)
	client := dial(t, cacheredis.Connection{URL: c.URL(), Mode: cacheredis.ModeCluster})
	for _, prefix := range []string{"one", "two"} {
		r := open(t, client, redis.Options{Prefix: prefix})
		for i := range 20 {
			key := tenant.VaultKey{Tenant: "acme", Kind: "token", Name: fmt.Sprint(prefix, i)}
			if _, err := r.PutSecret(t.Context(), key, []byte("sealed"), 0); err != nil {
				t.Fatal(err)
			}
		}
		page, err := r.Secrets(t.Context(), tenant.VaultKey{}, 100)
		if err != nil || len(page) != 20 || page[0].Key.Name != prefix+"0" {
			t.Errorf("%s: %d values, %v", prefix, len(page), err)
		}
		var homes []string
		for _, node := range c.Nodes {
			for _, name := range node.Do("KEYS", prefix+":*").([]any) {
				if name == prefix+":{"+prefix+"/registry}:vault" {
					homes = append(homes, node.Addr())
				}
			}
		}
		if slices.Sort(homes); len(homes) != 1 {
			t.Errorf("the values of %s are at %q, want one node", prefix, homes)
		}
	}
}
