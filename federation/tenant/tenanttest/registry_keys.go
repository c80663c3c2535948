package tenanttest

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// key gives a key whose subject tells versions apart.
func key(of, id, subject string) tenant.APIKey {
	hash := sha256.Sum256([]byte(of + id))
	return tenant.APIKey{
		ID: id, Tenant: of, Name: "Schlüssel", Hash: hash[:], Subject: subject,
		Scopes: []string{"mcp"}, Groups: []string{"g"},
		Created: time.Date(2026, 7, 28, 1, 2, 3, 456789, time.UTC),
		Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func putKeys(t *testing.T, r tenant.Registry, keys ...tenant.APIKey) {
	t.Helper()
	for _, k := range keys {
		if err := r.PutKey(t.Context(), k); err != nil {
			t.Fatalf("PutKey(%q, %q): %v", k.Tenant, k.ID, err)
		}
	}
}

// mustHaveKeys fails unless the keys of a tenant are those.
func mustHaveKeys(t *testing.T, r tenant.Registry, of string, want ...tenant.APIKey) {
	t.Helper()
	got, err := r.Keys(t.Context(), of)
	if err != nil {
		t.Fatalf("Keys(%q): %v", of, err)
	}
	if len(got)+len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Keys(%q) (-want +got):\n%s", of, diff)
	}
}

func testKeys(t *testing.T, open openRegistry) {
	r, b := open(t)
	mustBe(t, "PutKey without its tenant", r.PutKey(t.Context(), key("acme", "k1", "s")), tenant.ErrNotFound)
	_, err := r.Keys(t.Context(), "acme")
	mustBe(t, "Keys without their tenant", err, tenant.ErrNotFound)
	revision := put(t, r, named("acme", 1), 0)
	put(t, r, named("acme-2", 1), 0)
	mustHaveKeys(t, r, "acme")

	putKeys(t, r, key("acme", "k2", "s"), key("acme", "k1", "s"), key("acme", "k1-x", "s"), key("acme-2", "k1", "other"))
	mustHaveKeys(t, r, "acme", key("acme", "k1", "s"), key("acme", "k1-x", "s"), key("acme", "k2", "s"))
	mustHaveKeys(t, r, "acme-2", key("acme-2", "k1", "other"))
	got, err := r.Key(t.Context(), "acme", "k2")
	if diff := cmp.Diff(key("acme", "k2", "s"), got); diff != "" || err != nil {
		t.Errorf("Key: %v (-want +got):\n%s", err, diff)
	}
	for _, other := range [][2]string{{"acme", "k3"}, {"acme-2", "k2"}, {"nobody", "k1"}, {"", ""}} {
		_, err := r.Key(t.Context(), other[0], other[1])
		mustBe(t, "Key of nobody", err, tenant.ErrNotFound)
		mustBe(t, "DeleteKey of nobody", r.DeleteKey(t.Context(), other[0], other[1]), tenant.ErrNotFound)
	}

	putKeys(t, r, key("acme", "k1", "changed"))
	mustBe(t, "DeleteKey", r.DeleteKey(t.Context(), "acme", "k2"), nil)
	mustBe(t, "second DeleteKey", r.DeleteKey(t.Context(), "acme", "k2"), tenant.ErrNotFound)
	mustHaveKeys(t, r, "acme", key("acme", "k1", "changed"), key("acme", "k1-x", "s"))
	if now := get(t, r, "acme").Revision; now != revision {
		t.Errorf("the tenant's revision went from %d to %d with its keys", revision, now)
	}
	await(t, "keys elsewhere", func() bool {
		k, err := b.Key(t.Context(), "acme", "k1")
		_, gone := b.Key(t.Context(), "acme", "k2")
		return err == nil && k.Subject == "changed" && errors.Is(gone, tenant.ErrNotFound)
	})

	var faults tenant.Faults
	if err := r.PutKey(t.Context(), tenant.APIKey{ID: "a/b", Tenant: "acme", Hash: []byte{1}}); !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("PutKey of a faulty key: %v, want 3 faults", err)
	}
}

func testKeysGo(t *testing.T, open openRegistry) {
	r, b := open(t)
	put(t, r, named("acme", 1), 0)
	put(t, r, named("acme-2", 1), 0)
	putKeys(t, r, key("acme", "k1", "s"), key("acme-2", "k1", "s"))
	put(t, r, named("acme", 2), tenant.Any)
	mustHaveKeys(t, r, "acme", key("acme", "k1", "s"))
	mustBe(t, "Delete", r.Delete(t.Context(), "acme", tenant.Any), nil)
	_, err := r.Key(t.Context(), "acme", "k1")
	mustBe(t, "Key of a deleted tenant", err, tenant.ErrNotFound)
	put(t, r, named("acme", 1), 0)
	mustHaveKeys(t, r, "acme")
	mustHaveKeys(t, r, "acme-2", key("acme-2", "k1", "s"))
	await(t, "keys elsewhere", func() bool {
		keys, err := b.Keys(t.Context(), "acme")
		others, _ := b.Keys(t.Context(), "acme-2")
		return err == nil && len(keys) == 0 && len(others) == 1
	})
}

func testTouch(t *testing.T, open openRegistry) {
	r, _ := open(t)
	put(t, r, named("acme", 1), 0)
	putKeys(t, r, key("acme", "k1", "s"))
	used := time.Date(2026, 8, 1, 10, 59, 59, 0, time.UTC)
	for _, at := range []time.Time{used.Add(-time.Hour), used, used.Add(-3 * time.Hour)} {
		mustBe(t, "TouchKey", r.TouchKey(t.Context(), "acme", "k1", at), nil)
	}
	want := key("acme", "k1", "s")
	want.LastUsed = time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	mustHaveKeys(t, r, "acme", want)

	mustBe(t, "DeleteKey", r.DeleteKey(t.Context(), "acme", "k1"), nil)
	mustBe(t, "TouchKey of a key that is gone", r.TouchKey(t.Context(), "acme", "k1", used), tenant.ErrNotFound)
	mustHaveKeys(t, r, "acme")

	want.Subject = "again"
	putKeys(t, r, want)
	mustHaveKeys(t, r, "acme", want)
}
