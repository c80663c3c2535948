package seal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/auth/seal"
)

func TestReseal(t *testing.T) {
	first, second := key("first", 1), key("second", 2)
	before, both, after := ring(t, first), ring(t, second, first), ring(t, second)
	old := before.Seal("secret", []byte("plain"), []byte("b"))
	current := both.Seal("secret", []byte("plain"), []byte("b"))
	tests := []struct {
		name           string
		ring           *seal.Ring
		purpose, token string
		binding        string
		changed, fails bool
	}{
		{"by another key", both, "secret", old, "b", true, false},
		{"by the first key", both, "secret", current, "b", false, false},
		{"by the only key", before, "secret", old, "b", false, false},
		{"other order of keys", ring(t, first, second), "secret", current, "b", true, false},
		{"key that is gone", after, "secret", old, "b", false, true},
		{"key that is not there yet", before, "secret", current, "b", false, true},
		{"other secret under the id of the first key", ring(t, key("first", 9)), "secret", old, "b", false, true},
		{"other purpose", both, "vault", old, "b", false, true},
		{"other binding", both, "secret", old, "c", false, true},
		{"nothing", both, "secret", "", "b", false, true},
		{"cut", both, "secret", old[:20], "b", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, changed, err := tt.ring.Reseal(tt.purpose, tt.token, []byte(tt.binding))
			if changed != tt.changed || tt.fails != errors.Is(err, seal.ErrInvalid) || tt.fails != (got == "") {
				t.Fatalf("Reseal = %q, %t, %v", got, changed, err)
			}
			if tt.fails {
				return
			}
			if !tt.ring.Current(got) || (got == tt.token) == tt.changed {
				t.Errorf("the token is sealed by the first key: %t; it is the same: %t", tt.ring.Current(got), got == tt.token)
			}
			if plain, err := tt.ring.Open(tt.purpose, got, []byte(tt.binding)); err != nil || string(plain) != "plain" {
				t.Errorf("Open = %q, %v", plain, err)
			}
		})
	}
	if both.Keys() != 2 || after.Keys() != 1 {
		t.Errorf("the rings have %d and %d keys", both.Keys(), after.Keys())
	}
	resealed, _, err := both.Reseal("secret", old, []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := after.Open("secret", resealed, []byte("b")); err != nil || string(plain) != "plain" {
		t.Errorf("without the old key: %q, %v", plain, err)
	}
}

func TestCurrent(t *testing.T) {
	r := ring(t, key("k2", 2), key("k1", 1))
	token := r.Seal("cursor", nil, nil)
	for _, tt := range []struct {
		name, token string
		want        bool
	}{
		{"sealed now", token, true},
		{"header alone", token[:12], true},
		{"sealed by the second key", golden, false},
		{"cut header", token[:11], false},
		{"empty", "", false},
		{"line end", "\n" + token, false},
		{"line end within", token[:4] + "\n" + token[4:], false},
		{"no base64", strings.Repeat("!", len(token)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Current(tt.token); got != tt.want {
				t.Errorf("Current(%q) = %t, want %t", tt.token, got, tt.want)
			}
		})
	}
}

// FuzzReseal holds that what is sealed anew is what was sealed, and that nothing else
// is.
func FuzzReseal(f *testing.F) {
	both := ring(f, key("k2", 2), key("k1", 1))
	f.Add(golden, []byte("b"))
	f.Add(both.Seal("cursor", []byte("p"), []byte("b")), []byte("b"))
	f.Add(golden[:12], []byte{})
	f.Fuzz(func(t *testing.T, token string, binding []byte) {
		plain, err := both.Open("cursor", token, binding)
		got, changed, rerr := both.Reseal("cursor", token, binding)
		if (err == nil) != (rerr == nil) {
			t.Fatalf("Open says %v and Reseal %v", err, rerr)
		}
		if err != nil {
			return
		}
		again, err := both.Open("cursor", got, binding)
		if err != nil || string(again) != string(plain) || !both.Current(got) || changed == both.Current(token) {
			t.Fatalf("%q became %q (changed: %t): %q, %v", token, got, changed, again, err)
		}
	})
}
