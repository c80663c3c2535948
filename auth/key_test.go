package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

func TestNewKey(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		plain, k := auth.NewKey(tenant.APIKey{ID: "mine", Tenant: "acme", Subject: "robot", Hash: []byte("x")})
		sum := sha256.Sum256([]byte(plain))
		if len(plain) != 60 || seen[plain] || seen[k.ID] || !cmp.Equal(k.Hash, sum[:]) || plain[:17] != "cwk_"+k.ID+"_" {
			t.Fatalf("key %q: %+v", plain, k)
		}
		if err := tenant.ValidateKey(&k); err != nil {
			t.Fatal(err)
		}
		seen[plain], seen[k.ID] = true, true
	}
}

func TestKey(t *testing.T) {
	for _, mode := range []tenant.AuthMode{tenant.AuthOAuth, tenant.AuthKeys} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, func(one *tenant.Tenant) { one.Auth.Mode = mode })
			expires := time.Now().Add(time.Hour).UTC()
			plain, k := r.key(t, tenant.APIKey{Scopes: []string{"write"}, Groups: []string{"b", "a"}, Expires: expires})
			c := r.mustAccept(t, plain)
			want := tenant.Principal{Tenant: "acme", Subject: "robot", Scopes: []string{"mcp", "write"}, Groups: []string{"a", "b"}}
			if diff := cmp.Diff(want, c.Principal); diff != "" || c.Key != k.ID || c.Mark != [32]byte(k.Hash) || !c.Expires.Equal(expires) {
				t.Errorf("caller %+v; principal (-want +got):\n%s", c, diff)
			}
			mustNotTell(t, r, []string{plain}, "")
		})
	}
}

// A key is read once in five seconds, and one that is taken away stops then, or at
// once when that is told.
func TestKeyIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		plain, k := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
		for range 100 {
			r.mustAccept(t, plain)
		}
		if got := r.keys.count(); got != 1 {
			t.Errorf("%d reads for 100 requests", got)
		}
		mustDelete := func(k tenant.APIKey) {
			if err := r.keys.DeleteKey(t.Context(), "acme", k.ID); err != nil {
				t.Fatal(err)
			}
		}
		mustDelete(k)
		time.Sleep(5 * time.Second)
		r.mustRefuse(t, plain, "key")

		plain, k = r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
		r.mustAccept(t, plain)
		mustDelete(k)
		r.Forget("nobody")
		r.mustAccept(t, plain)
		r.Forget("acme")
		r.mustRefuse(t, plain, "key")

		plain, _ = r.key(t, tenant.APIKey{Scopes: []string{"mcp"}, Expires: time.Now().Add(2 * time.Second)})
		r.mustAccept(t, plain)
		time.Sleep(2 * time.Second)
		r.mustRefuse(t, plain, "key")
	})
}

// A key that is read while it is forgotten is not remembered.
func TestForgetWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		plain, k := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
		r.keys.setFail(func(string) error {
			r.keys.setFail(nil)
			r.Forget("acme")
			return nil
		})
		r.mustAccept(t, r.idp.token(nil)) // so that there is something to forget
		r.mustAccept(t, plain)
		if err := r.keys.DeleteKey(t.Context(), "acme", k.ID); err != nil {
			t.Fatal(err)
		}
		r.mustRefuse(t, plain, "key")
	})
}

func TestRegistryIsDown(t *testing.T) {
	r := newRig(t)
	plain, _ := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
	r.keys.setFail(func(id string) error { return fmt.Errorf("read key %s: broken", id) })
	if refusal := r.mustRefuse(t, plain, "unavailable"); refusal.Status != 503 {
		t.Errorf("refusal = %+v", refusal)
	}
	mustNotTell(t, r, []string{plain}, "")
}

func TestLastUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		plain, k := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
		lastUsed := func() time.Time {
			synctest.Wait()
			got, err := r.keys.MemoryRegistry.Key(t.Context(), "acme", k.ID)
			if err != nil {
				t.Fatal(err)
			}
			return got.LastUsed
		}
		if got := lastUsed(); !got.IsZero() {
			t.Errorf("an unused key was used at %v", got)
		}
		for range 3 {
			r.mustAccept(t, plain)
			if got, want := lastUsed(), time.Now().UTC().Truncate(time.Hour); !got.Equal(want) {
				t.Errorf("used at %v, want %v", got, want)
			}
			time.Sleep(90 * time.Minute)
		}
		r.mustRefuse(t, plain[:59]+"!", "request")
		if got := lastUsed(); time.Since(got) < time.Hour {
			t.Error("a failure counts as a use")
		}
	})
}

// That a use cannot be written is no failure of the request, is told once, and goes on
// with the next look-up.
func TestLastUsedCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		plain, k := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
		broken := true
		r.keys.setTouch(func(ctx context.Context, id string) error {
			if broken {
				return errors.New("key " + id + ": disk is full")
			}
			return nil
		})
		r.mustAccept(t, plain)
		synctest.Wait()
		mustNotTell(t, r, []string{plain}, "")
		broken = false
		time.Sleep(5 * time.Second)
		r.mustAccept(t, plain)
		synctest.Wait()
		if got, err := r.keys.MemoryRegistry.Key(t.Context(), "acme", k.ID); err != nil || got.LastUsed.IsZero() {
			t.Errorf("used at %v, %v", got.LastUsed, err)
		}

		// One that hangs does not hold up Close.
		r.keys.setTouch(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		time.Sleep(time.Hour)
		r.mustAccept(t, plain)
		before := time.Now()
		r.Close()
		if got := time.Since(before); got != 0 {
			t.Errorf("Close took %v", got)
		}
	})
}

func TestValidKey(t *testing.T) {
	tests := []struct {
		name string
		edit func(r *rig, k *tenant.APIKey) // what is written again; an empty id for nothing
		want bool
	}{
		{"as it was", func(*rig, *tenant.APIKey) {}, true},
		{"used", func(_ *rig, k *tenant.APIKey) { k.LastUsed = time.Now() }, true},
		{"renamed", func(_ *rig, k *tenant.APIKey) { k.Name = "x" }, true},
		{"deleted", func(r *rig, k *tenant.APIKey) {
			_ = r.keys.DeleteKey(context.Background(), "acme", k.ID)
			k.ID = ""
		}, false},
		{"expired", func(_ *rig, k *tenant.APIKey) { k.Expires = past() }, false},
		{"another secret", func(_ *rig, k *tenant.APIKey) { k.Hash = make([]byte, 32) }, false},
		{"other groups", func(_ *rig, k *tenant.APIKey) { k.Groups = []string{"x"} }, false},
		{"more scopes", func(_ *rig, k *tenant.APIKey) { k.Scopes = append(k.Scopes, "x") }, false},
		{"another subject", func(_ *rig, k *tenant.APIKey) { k.Subject = "x" }, false},
		{"registry down", func(r *rig, k *tenant.APIKey) { r.keys.setFail(func(string) error { return errors.New("down") }) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			plain, k := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}, Groups: []string{"g"}})
			c := r.mustAccept(t, plain)
			if tt.edit(r, &k); k.ID != "" {
				if err := r.keys.PutKey(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.Valid(t.Context(), r.tenant, c); got != tt.want {
				t.Errorf("Valid = %v, want %v", got, tt.want)
			}
		})
	}
}
