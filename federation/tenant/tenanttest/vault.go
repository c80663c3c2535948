package tenanttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Vaulted is a registry that is a vault too.
type Vaulted interface {
	tenant.Registry
	tenant.Vault
}

// openVault gives two registries of one new content, as openRegistry does.
type openVault = func(t *testing.T) (a, b Vaulted)

// TestVault runs the suite of vaults. open gives two registries of one new, empty
// content, and cleans up through t.
func TestVault(t *testing.T, open func(t *testing.T) (a, b Vaulted)) {
	t.Run("PutAndDelete", func(t *testing.T) { testSecret(t, open) })
	t.Run("Revisions", func(t *testing.T) { testSecretRevisions(t, open) })
	t.Run("Copies", func(t *testing.T) { testSecretCopies(t, open) })
	t.Run("KeysOfAnyText", func(t *testing.T) { testSecretKeys(t, open) })
	t.Run("Bounds", func(t *testing.T) { testSecretBounds(t, open) })
	t.Run("Pages", func(t *testing.T) { testSecretPages(t, open) })
	t.Run("PagesOfLargeValues", func(t *testing.T) { testLargePages(t, open) })
	t.Run("OneWriterWins", func(t *testing.T) { testOneSecretWins(t, open) })
	t.Run("NoUpdateIsLost", func(t *testing.T) { testNoSecretLost(t, open) })
	t.Run("GoesWithItsTenant", func(t *testing.T) { testSecretsGo(t, open) })
	t.Run("IsNotTheRegistry", func(t *testing.T) { testSecretsApart(t, open) })
}

// ofUser gives the key of a user's token.
func ofUser(of, alias, name string) tenant.VaultKey {
	return tenant.VaultKey{Tenant: of, Alias: alias, Kind: "token", Name: name}
}

// keep puts a value and gives its revision.
func keep(t *testing.T, v tenant.Vault, key tenant.VaultKey, sealed string, expect uint64) uint64 {
	t.Helper()
	revision, err := v.PutSecret(t.Context(), key, []byte(sealed), expect)
	if err != nil {
		t.Fatalf("PutSecret(%q, %d): %v", key, expect, err)
	}
	return revision
}

// mustKeep fails unless the value is there.
func mustKeep(t *testing.T, v tenant.Vault, key tenant.VaultKey, sealed string, revision uint64) {
	t.Helper()
	got, err := v.Secret(t.Context(), key)
	if err != nil {
		t.Errorf("Secret(%q): %v", key, err)
		return
	}
	if diff := cmp.Diff(tenant.VaultValue{Key: key, Revision: revision, Sealed: []byte(sealed)}, got); diff != "" {
		t.Errorf("Secret(%q) (-want +got):\n%s", key, diff)
	}
}

// mustKeepNone fails unless there is no such value.
func mustKeepNone(t *testing.T, v tenant.Vault, key tenant.VaultKey) {
	t.Helper()
	got, err := v.Secret(t.Context(), key)
	if !errors.Is(err, tenant.ErrNotFound) || got.Sealed != nil {
		t.Errorf("Secret(%q) = %q, %v, want ErrNotFound", key, got.Sealed, err)
	}
}

func testSecret(t *testing.T, open openVault) {
	a, b := open(t)
	key := ofUser("acme", "weather", "alice")
	mustKeepNone(t, a, key)
	first := keep(t, a, key, "one", 0)
	mustKeep(t, b, key, "one", first) // at once, without being told
	second := keep(t, b, key, "two", first)
	mustKeep(t, a, key, "two", second)
	mustBe(t, "DeleteSecret of another revision", a.DeleteSecret(t.Context(), key, first), tenant.ErrConflict)
	mustBe(t, "DeleteSecret of none", a.DeleteSecret(t.Context(), key, 0), tenant.ErrConflict)
	mustKeep(t, b, key, "two", second)
	mustBe(t, "DeleteSecret", a.DeleteSecret(t.Context(), key, second), nil)
	mustKeepNone(t, b, key)
	for _, expect := range []uint64{0, second, tenant.Any} {
		mustBe(t, "DeleteSecret of what is gone", b.DeleteSecret(t.Context(), key, expect), nil)
	}
	keep(t, a, key, "three", 0)
	mustBe(t, "DeleteSecret of any", b.DeleteSecret(t.Context(), key, tenant.Any), nil)
	mustKeepNone(t, a, key)
}

func testSecretRevisions(t *testing.T, open openVault) {
	a, b := open(t)
	key, other := ofUser("acme", "weather", "alice"), ofUser("acme", "weather", "bob")
	refused := func(what string, expect uint64) {
		t.Helper()
		revision, err := b.PutSecret(t.Context(), key, []byte("x"), expect)
		mustBe(t, "PutSecret "+what, err, tenant.ErrConflict)
		if revision != 0 {
			t.Errorf("PutSecret %s gave revision %d", what, revision)
		}
	}
	refused("of a revision that never was", 7)
	first := keep(t, a, key, "1", 0)
	refused("of none where there is one", 0)
	second := keep(t, a, key, "2", first)
	refused("of the one before", first)
	third := keep(t, a, key, "2", tenant.Any) // as it was
	refused("of the one before an equal one", second)
	mustKeep(t, a, key, "2", third)
	keep(t, a, other, "1", tenant.Any)
	mustBe(t, "DeleteSecret", a.DeleteSecret(t.Context(), key, third), nil)
	refused("of one that is gone", third)
	fourth := keep(t, a, key, "1", 0)
	if first == 0 || second <= first || third <= second || fourth <= third {
		t.Errorf("revisions %d, %d, %d, and %d after it was gone: they rise from 1", first, second, third, fourth)
	}
	refused("of one from before it was gone", first)
}

// testSecretCopies changes what was put, and what was given.
func testSecretCopies(t *testing.T, open openVault) {
	r, _ := open(t)
	key, sealed := ofUser("acme", "weather", "alice"), []byte("sealed")
	revision, err := r.PutSecret(t.Context(), key, sealed, 0)
	if err != nil {
		t.Fatal(err)
	}
	sealed[0] = 'x'
	got, err := r.Secret(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got.Sealed[1] = 'x'
	page, err := r.Secrets(t.Context(), tenant.VaultKey{}, 1)
	if err != nil || len(page) != 1 {
		t.Fatalf("Secrets: %d values, %v", len(page), err)
	}
	page[0].Sealed[2] = 'x'
	mustKeep(t, r, key, "sealed", revision)
}

// strangeKeys are keys that a careless encoding takes for one another, in their order.
func strangeKeys() []tenant.VaultKey {
	long := strings.Repeat("n", tenant.MaxVaultPart)
	keys := []tenant.VaultKey{
		{Tenant: "a", Kind: "k"}, {Tenant: "a", Kind: "k", Name: "k"}, {Tenant: "a", Alias: "k", Kind: "k"},
		{Tenant: "a", Alias: "b", Kind: "c", Name: "d"}, {Tenant: "a/b", Kind: "c", Name: "d"}, {Tenant: "a", Alias: "b/c", Kind: "d"},
		{Tenant: "a:b", Alias: "c", Kind: "d"}, {Tenant: "a", Alias: "b:c", Kind: "d"},
		{Tenant: "a\x00", Alias: "b", Kind: "c"}, {Tenant: "a", Alias: "\x00b", Kind: "c"}, {Tenant: "a", Alias: "b", Kind: "c", Name: "\x00"},
		{Tenant: "a", Alias: "b\x00", Kind: "c"}, {Tenant: "a", Alias: "b", Kind: "\x00c"},
		{Tenant: "a\x00\x01", Kind: "c"}, {Tenant: "a\x00\xff", Kind: "c"}, {Tenant: "a", Alias: "\x01", Kind: "c"}, {Tenant: "a", Alias: "\xff", Kind: "c"},
		{Tenant: "a\x01", Kind: "c"}, {Tenant: "a\xff", Kind: "c"}, {Tenant: "a\xff\xff", Kind: "c"},
		{Tenant: "a", Kind: "c", Name: "line\nline\r\n"}, {Tenant: "a", Kind: "c", Name: " "}, {Tenant: "a", Kind: "c", Name: "  "},
		{Tenant: "a", Kind: "c", Name: "Ärzte 🐟 \xf0\x9f"}, {Tenant: "a", Kind: "c", Name: `{"*":[?]}`}, {Tenant: "a", Kind: "c", Name: "(a"}, {Tenant: "a", Kind: "c", Name: "[a"},
		{Tenant: long, Alias: long, Kind: long, Name: long}, {Tenant: long, Alias: long, Kind: long, Name: strings.Repeat("\x00", tenant.MaxVaultPart)},
		{Tenant: "{a}", Kind: "c"}, {Tenant: "+", Kind: "c"}, {Tenant: "-", Kind: "c"},
	}
	slices.SortFunc(keys, tenant.VaultKey.Compare)
	return keys
}

// testSecretKeys holds that no two keys are one.
func testSecretKeys(t *testing.T, open openVault) {
	a, b := open(t)
	keys := strangeKeys()
	revisions := make([]uint64, len(keys))
	for i, key := range slices.Backward(keys) {
		revisions[i] = keep(t, a, key, fmt.Sprintf("%d \x00\n\xff", i), 0)
	}
	for i, key := range keys {
		mustKeep(t, b, key, fmt.Sprintf("%d \x00\n\xff", i), revisions[i])
	}
	if diff := cmp.Diff(keys, walk(t, b, 5, nil)); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	for i, key := range keys {
		mustBe(t, "DeleteSecret", b.DeleteSecret(t.Context(), key, revisions[i]), nil)
		if diff := cmp.Diff(keys[i+1:], walk(t, a, 100, nil)); diff != "" && i < len(keys)-1 {
			t.Fatalf("after DeleteSecret(%q) (-want +got):\n%s", key, diff)
		}
	}
}

// walk gives the keys of all values, in the order in which they come. between is
// called after each page, unless it is nil.
func walk(t *testing.T, v tenant.Vault, limit int, between func()) []tenant.VaultKey {
	t.Helper()
	var keys []tenant.VaultKey
	for after := (tenant.VaultKey{}); ; {
		page, err := v.Secrets(t.Context(), after, limit)
		if err != nil {
			t.Fatalf("Secrets(%q, %d): %v", after, limit, err)
		}
		if len(page) > limit {
			t.Fatalf("Secrets(%q, %d) gave %d values", after, limit, len(page))
		}
		if len(page) == 0 {
			return keys
		}
		for _, one := range page {
			keys = append(keys, one.Key)
		}
		after = page[len(page)-1].Key
		if between != nil {
			between()
		}
	}
}

func testSecretBounds(t *testing.T, open openVault) {
	r, _ := open(t)
	long := strings.Repeat("a", tenant.MaxVaultPart+1)
	tests := []struct {
		name   string
		key    tenant.VaultKey
		sealed int
		want   string // fault; empty for none
	}{
		{"largest", tenant.VaultKey{Tenant: long[1:], Alias: long[1:], Kind: long[1:], Name: long[1:]}, tenant.MaxSealed, ""},
		{"no tenant", tenant.VaultKey{Kind: "k"}, 1, "tenant: must not be empty"},
		{"no kind", tenant.VaultKey{Tenant: "t"}, 1, "kind: must not be empty"},
		{"long tenant", tenant.VaultKey{Tenant: long, Kind: "k"}, 1, "tenant: has 513 bytes, and may have 512"},
		{"long alias", tenant.VaultKey{Tenant: "t", Alias: long, Kind: "k"}, 1, "alias: has 513 bytes, and may have 512"},
		{"long kind", tenant.VaultKey{Tenant: "t", Kind: long}, 1, "kind: has 513 bytes, and may have 512"},
		{"long name", tenant.VaultKey{Tenant: "t", Kind: "k", Name: long}, 1, "name: has 513 bytes, and may have 512"},
		{"no value", tenant.VaultKey{Tenant: "t", Kind: "k"}, 0, "sealed: must not be empty"},
		{"large value", tenant.VaultKey{Tenant: "t", Kind: "k"}, tenant.MaxSealed + 1, "sealed: has 65537 bytes, and may have 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.PutSecret(t.Context(), tt.key, bytes.Repeat([]byte{'s'}, tt.sealed), tenant.Any)
			if tt.want == "" {
				mustBe(t, "PutSecret", err, nil)
				return
			}
			mustFault(t, "PutSecret", err, tt.want)
			if strings.HasPrefix(tt.want, "sealed") {
				mustKeepNone(t, r, tt.key)
				return
			}
			_, err = r.Secret(t.Context(), tt.key)
			mustFault(t, "Secret", err, tt.want)
			mustFault(t, "DeleteSecret", r.DeleteSecret(t.Context(), tt.key, tenant.Any), tt.want)
		})
	}
	_, err := r.Secrets(t.Context(), tenant.VaultKey{}, 0)
	mustFault(t, "Secrets", err, "limit: is 0, and must be 1 or more")
	_, err = r.Secrets(t.Context(), tenant.VaultKey{Name: long}, 1)
	mustFault(t, "Secrets", err, "name: has 513 bytes, and may have 512")
	if keys := walk(t, r, 10, nil); len(keys) != 1 {
		t.Errorf("%d values, want the largest one", len(keys))
	}
}

func mustFault(t *testing.T, what string, err error, want string) {
	t.Helper()
	var faults tenant.Faults
	if !errors.As(err, &faults) || err.Error() != want {
		t.Errorf("%s: %v, want the fault %s", what, err, want)
	}
}

// testSecretPages walks over many values, while others come and go.
func testSecretPages(t *testing.T, open openVault) {
	a, b := open(t)
	if keys := walk(t, a, 10, nil); len(keys) != 0 {
		t.Errorf("%d values in an empty vault", len(keys))
	}
	var want []tenant.VaultKey
	for i := range tenant.MaxVaultPage + 20 {
		key := ofUser(fmt.Sprintf("t%d", i%3), fmt.Sprintf("a%d", i%5), fmt.Sprintf("user %d", i))
		keep(t, a, key, "x", 0)
		want = append(want, key)
	}
	slices.SortFunc(want, tenant.VaultKey.Compare)
	for _, limit := range []int{7, tenant.MaxVaultPage, len(want) + 1} {
		if diff := cmp.Diff(want, walk(t, b, limit, nil)); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	page, err := b.Secrets(t.Context(), tenant.VaultKey{}, len(want))
	if err != nil || len(page) != tenant.MaxVaultPage {
		t.Errorf("a page of all: %d values, %v, want %d", len(page), err, tenant.MaxVaultPage)
	}
	page, err = b.Secrets(t.Context(), tenant.VaultKey{Tenant: "t1"}, 1)
	first := slices.IndexFunc(want, func(k tenant.VaultKey) bool { return k.Tenant == "t1" })
	if err != nil || len(page) != 1 || page[0].Key != want[first] {
		t.Errorf("the first of t1: %v, %v, want %v", page, err, want[first])
	}

	comes := ofUser("t1", "b", "comes and goes")
	there := false
	seen := walk(t, b, 20, func() {
		if there = !there; there {
			keep(t, a, comes, "x", 0)
		} else if err := a.DeleteSecret(t.Context(), comes, tenant.Any); err != nil {
			t.Fatal(err)
		}
	})
	seen = slices.DeleteFunc(seen, func(k tenant.VaultKey) bool { return k == comes })
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("a walk while others come and go (-want +got):\n%s", diff)
	}
}

func testLargePages(t *testing.T, open openVault) {
	a, b := open(t)
	sealed := make([]byte, tenant.MaxSealed)
	for i := range sealed {
		sealed[i] = byte(i)
	}
	const count = 40
	for i := range count {
		keep(t, a, ofUser("acme", "weather", fmt.Sprint(i)), string(sealed), 0)
	}
	page, err := b.Secrets(t.Context(), tenant.VaultKey{}, tenant.MaxVaultPage)
	if err != nil || len(page) != count {
		t.Fatalf("Secrets: %d values, %v, want %d", len(page), err, count)
	}
	for _, one := range page {
		if !bytes.Equal(one.Sealed, sealed) {
			t.Errorf("the value of %q is another one", one.Key)
		}
	}
}

func testOneSecretWins(t *testing.T, open openVault) {
	a, b := open(t)
	key := ofUser("acme", "weather", "alice")
	expect := uint64(0)
	for round := range 5 {
		var won atomic.Int32
		var revision atomic.Uint64
		var writers sync.WaitGroup
		for i := range 8 {
			v := []tenant.Vault{a, b}[i%2]
			writers.Go(func() {
				switch next, err := v.PutSecret(context.Background(), key, fmt.Append(nil, i), expect); {
				case err == nil:
					won.Add(1)
					revision.Store(next)
				case !errors.Is(err, tenant.ErrConflict):
					t.Errorf("PutSecret: %v", err)
				}
			})
		}
		writers.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d writers have won, want 1", round, n)
		}
		expect = revision.Load()
	}
}

// testNoSecretLost has several writers add to one value, each by what it reads.
func testNoSecretLost(t *testing.T, open openVault) {
	a, b := open(t)
	key := ofUser("acme", "weather", "alice")
	const writers, each = 4, 5
	deadline := time.Now().Add(patience)
	var group sync.WaitGroup
	for i := range writers {
		v := []tenant.Vault{a, b}[i%2]
		group.Go(func() {
			for n := 0; n < each && time.Now().Before(deadline); {
				old, err := v.Secret(context.Background(), key)
				if err != nil && !errors.Is(err, tenant.ErrNotFound) {
					t.Errorf("Secret: %v", err)
					return
				}
				_, err = v.PutSecret(context.Background(), key, append(old.Sealed, 'x'), old.Revision)
				if err == nil {
					n++
				} else if !errors.Is(err, tenant.ErrConflict) {
					t.Errorf("PutSecret: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	if got, err := a.Secret(t.Context(), key); err != nil || len(got.Sealed) != writers*each {
		t.Errorf("%d of %d updates are there, %v", len(got.Sealed), writers*each, err)
	}
}

// testSecretsGo holds which values go with a tenant.
func testSecretsGo(t *testing.T, open openVault) {
	a, b := open(t)
	const other = 1 << 60 // a revision that nothing has
	names := []string{"acme", "acme0", "acme-2", "acm", "filed", "zoo"}
	revisions := map[string]uint64{}
	for _, name := range names {
		if name != "filed" { // which is not registered
			put(t, a, named(name, 1), 0)
		}
		revisions[name] = keep(t, a, ofUser(name, "weather", "alice"), "sealed", 0)
		keep(t, a, tenant.VaultKey{Tenant: name, Kind: "registration"}, "sealed", 0)
	}
	left := func(want ...string) {
		t.Helper()
		var got []string
		for _, key := range walk(t, b, 3, nil) {
			got = append(got, key.Tenant)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("tenants with values (-want +got):\n%s", diff)
		}
	}
	mustBe(t, "Delete of another revision", a.Delete(t.Context(), "acme", other), tenant.ErrConflict)
	left(names...)
	mustBe(t, "Delete", a.Delete(t.Context(), "acme", tenant.Any), nil)
	left("acme0", "acme-2", "acm", "filed", "zoo")
	if next := keep(t, a, ofUser("acme", "weather", "alice"), "again", 0); next <= revisions["acme"] {
		t.Errorf("revision %d of a value that came back, after %d", next, revisions["acme"])
	}
	mustKeepNone(t, b, tenant.VaultKey{Tenant: "acme", Kind: "registration"})

	s := &tenant.Snapshot{Tenants: []*tenant.Tenant{named("acme0", 1), named("acm", 2), named("new", 1)}}
	_, err := a.Import(t.Context(), s, other)
	mustBe(t, "Import over another revision", err, tenant.ErrConflict)
	left("acme", "acme0", "acme-2", "acm", "filed", "zoo")
	if _, err := a.Import(t.Context(), s, tenant.Any); err != nil {
		t.Fatal(err)
	}
	left("acme", "acme0", "acm", "filed") // acme has come back without being registered
	mustKeep(t, b, ofUser("acm", "weather", "alice"), "sealed", revisions["acm"])
}

// testSecretsApart holds that values are no part of what the registry exports, and
// that nobody is told of them.
func testSecretsApart(t *testing.T, open openVault) {
	a, b := open(t)
	fill(t, a)
	await(t, "the tenants", func() bool { return len(export(t, b).Keys) == 3 })
	before := export(t, a)
	told := []<-chan string{follow(t, a), follow(t, b)}
	key := ofUser("acme", "weather", "alice")
	revision := keep(t, a, key, "sealed", 0)
	revision = keep(t, b, key, "sealed again", revision)
	if diff := cmp.Diff(before, export(t, a)); diff != "" {
		t.Errorf("a value has changed the export (-want +got):\n%s", diff)
	}
	if _, err := a.Import(t.Context(), before, before.Revision); err != nil {
		t.Errorf("Import after a value: %v", err)
	}
	mustKeep(t, b, key, "sealed again", revision)
	mustTell(t, a, told)
	mustBe(t, "DeleteSecret", a.DeleteSecret(t.Context(), key, revision), nil)
}
