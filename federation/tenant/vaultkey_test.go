package tenant_test

import (
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// FuzzVaultKey holds that encoded keys are in the order of the keys, and that no text
// is read as a key that would be written otherwise.
func FuzzVaultKey(f *testing.F) {
	f.Add("a", "b", "c", "d", "a/b", "", "c", "d")
	f.Add("a", "\x00", "c", "", "a\x00", "", "c", "")
	f.Add("a\x00\x01", "", "c", "", "a", "\x00\xff", "c", "\x01")
	f.Fuzz(func(t *testing.T, t1, a1, k1, n1, t2, a2, k2, n2 string) {
		one := tenant.VaultKey{Tenant: t1, Alias: a1, Kind: k1, Name: n1}
		two := tenant.VaultKey{Tenant: t2, Alias: a2, Kind: k2, Name: n2}
		x, y := one.Encode(), two.Encode()
		if got, want := strings.Compare(x, y), one.Compare(two); got != want {
			t.Errorf("%q and %q are encoded in the order %d, want %d", one, two, got, want)
		}
		if got, err := tenant.DecodeVaultKey(x); err != nil || got != one {
			t.Errorf("%q is read as %q, %v", one, got, err)
		}
		if got, want := strings.HasPrefix(x, tenant.VaultPrefix(t2)), t1 == t2; got != want {
			t.Errorf("the prefix of %q fits %q: %t", t2, one, got)
		}
		for _, text := range []string{t1, t1 + a1, x + n1, t1 + x, x[:len(x)-1]} {
			if got, err := tenant.DecodeVaultKey(text); err == nil && got.Encode() != text {
				t.Errorf("%q is read as %q", text, got)
			}
		}
	})
}
