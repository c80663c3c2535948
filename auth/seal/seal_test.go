package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
)

func key(id string, fill byte) seal.Key {
	return seal.Key{ID: id, Secret: bytes.Repeat([]byte{fill}, seal.MinSecret)}
}

// golden is what key("k1", 1) sealed for "cursor" and "b": "plain".
const golden = "ATnFfUH8WCMHovunSTI52s56LGxCy1cNK-aNrWfXwykYScbdU4dugQ8f"

func ring(t testing.TB, keys ...seal.Key) *seal.Ring {
	t.Helper()
	r, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	tests := []struct {
		name           string
		purpose        string
		plain, binding []byte
	}{
		{"text", "cursor", []byte("travel_searchFlights"), []byte("acme /mcp")},
		{"empty", "cursor", nil, nil},
		{"no purpose", "", []byte("x"), []byte("y")},
		{"binary", "requestState", []byte{0, 1, 0xff, '\n'}, []byte{0}},
		{"long", "secret", bytes.Repeat([]byte("0123456789"), 10_000), nil},
	}
	r := ring(t, key("k1", 1))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := r.Seal(tt.purpose, tt.plain, tt.binding)
			if i := strings.IndexFunc(token, func(c rune) bool {
				return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", c)
			}); i >= 0 {
				t.Errorf("token has %q, which is not URL-safe", token[i])
			}
			got, err := r.Open(tt.purpose, token, tt.binding)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, tt.plain) {
				t.Errorf("got %q, want %q", got, tt.plain)
			}
			if again := r.Seal(tt.purpose, tt.plain, tt.binding); again == token {
				t.Error("two tokens of one text are equal")
			}
		})
	}
}

// Tokens rest in stores and in clients' hands: later versions must open them.
func TestGolden(t *testing.T) {
	got, err := ring(t, key("k1", 1)).Open("cursor", golden, []byte("b"))
	if err != nil || string(got) != "plain" {
		t.Errorf("Open = %q, %v, want plain", got, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	r := ring(t, key("k1", 1))
	token := r.Seal("cursor", []byte("plain"), []byte("tenant"))
	tests := []struct {
		name    string
		ring    *seal.Ring
		purpose string
		token   string
		binding string
	}{
		{"other purpose", r, "session", token, "tenant"},
		{"other binding", r, "cursor", token, "tenant2"},
		{"no binding", r, "cursor", token, ""},
		{"byte moved from purpose to binding", r, "curso", token, "rtenant"},
		{"other secret under the same id", ring(t, key("k1", 2)), "cursor", token, "tenant"},
		{"same secret under another id", ring(t, key("k2", 1)), "cursor", token, "tenant"},
		{"random ring", seal.NewRandom(), "cursor", token, "tenant"},
		{"empty", r, "cursor", "", "tenant"},
		{"padding", r, "cursor", token + "=", "tenant"},
		{"line end after", r, "cursor", token + "\n", "tenant"},
		{"line end within", r, "cursor", token[:9] + "\r\n" + token[9:], "tenant"},
		{"space", r, "cursor", " " + token, "tenant"},
		{"longer", r, "cursor", token + "AAAA", "tenant"},
	}
	for n := range len(token) {
		tests = append(tests, struct {
			name    string
			ring    *seal.Ring
			purpose string
			token   string
			binding string
		}{"cut", r, "cursor", token[:n], "tenant"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.ring.Open(tt.purpose, tt.token, []byte(tt.binding))
			if !errors.Is(err, seal.ErrInvalid) || got != nil {
				t.Errorf("Open(%q) = %q, %v, want ErrInvalid", tt.token, got, err)
			}
		})
	}
}

// Every bit of the bytes and every character of the text counts.
func TestTampering(t *testing.T) {
	r := ring(t, key("k1", 1), key("k2", 2))
	token := r.Seal("cursor", []byte("plain"), nil)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			if _, err := r.Open("cursor", base64.RawURLEncoding.EncodeToString(bad), nil); !errors.Is(err, seal.ErrInvalid) {
				t.Errorf("byte %d, bit %d: %v, want ErrInvalid", i, bit, err)
			}
		}
	}
	for i := range len(token) {
		for c := range 256 {
			if token[i] == byte(c) {
				continue
			}
			bad := token[:i] + string([]byte{byte(c)}) + token[i+1:]
			if _, err := r.Open("cursor", bad, nil); !errors.Is(err, seal.ErrInvalid) {
				t.Errorf("character %d as %q: %v, want ErrInvalid", i, byte(c), err)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	old, next := key("2026-01", 1), key("2026-02", 2)
	before := ring(t, old).Seal("session", []byte("s"), nil)

	both := ring(t, next, old)
	if got, err := both.Open("session", before, nil); err != nil || string(got) != "s" {
		t.Errorf("the old key's token: %q, %v", got, err)
	}
	after := both.Seal("session", []byte("s"), nil)
	if got, err := ring(t, next).Open("session", after, nil); err != nil || string(got) != "s" {
		t.Errorf("the first key does not seal: %q, %v", got, err)
	}
	if _, err := ring(t, next).Open("session", before, nil); !errors.Is(err, seal.ErrInvalid) {
		t.Errorf("a removed key still opens: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	short := seal.Key{ID: "short", Secret: make([]byte, seal.MinSecret-1)}
	tests := []struct {
		name string
		keys []seal.Key
		want []string // parts of the message
	}{
		{"no keys", nil, []string{"no keys"}},
		{"short secret", []seal.Key{short}, []string{`key 0 ("short"): secret has 31 bytes, at least 32 are needed`}},
		{"no id", []seal.Key{key("", 1)}, []string{`key 0: id ""`}},
		{"long id", []seal.Key{key(strings.Repeat("a", 33), 1)}, []string{"key 0: id"}},
		{"bad character", []seal.Key{key("a/b", 1)}, []string{`id "a/b"`}},
		{"non-ASCII id", []seal.Key{key("schlüssel", 1)}, []string{`id "schlüssel"`}},
		{"double id", []seal.Key{key("a", 1), key("a", 2)}, []string{`key 1: id "a" is there twice`}},
		{"all together", []seal.Key{short, key("a b", 1), key("c", 1), key("c", 2)},
			[]string{`key 0 ("short")`, `key 1: id "a b"`, `key 3: id "c"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := seal.New(tt.keys)
			if err == nil || r != nil {
				t.Fatalf("New = %v, %v, want an error", r, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestNewKeepsNoSecret(t *testing.T) {
	k := key("k1", 1)
	r := ring(t, k)
	token := r.Seal("cursor", []byte("plain"), nil)
	clear(k.Secret)
	if _, err := r.Open("cursor", token, nil); err != nil {
		t.Errorf("the ring depends on the caller's slice: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := ring(t, key("k1", 1))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, purpose := range []string{"a", "b", "c"} {
				token := r.Seal(purpose, []byte(purpose), nil)
				got, err := r.Open(purpose, token, nil)
				if diff := cmp.Diff(purpose, string(got)); err != nil || diff != "" {
					t.Errorf("%v, %s", err, diff)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	r := ring(f, key("k1", 1))
	for _, seed := range []string{"", "AQ", golden, golden[:12], golden + "A", "\n", "!"} {
		f.Add("cursor", seed, []byte("b"))
	}
	f.Add("session", golden, []byte{})
	f.Fuzz(func(t *testing.T, purpose, token string, binding []byte) {
		got, err := r.Open(purpose, token, binding)
		if token == golden && purpose == "cursor" && string(binding) == "b" {
			if err != nil || string(got) != "plain" {
				t.Fatalf("the good token: %q, %v", got, err)
			}
			return
		}
		if !errors.Is(err, seal.ErrInvalid) || got != nil {
			t.Fatalf("opened %q", token)
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	r := ring(b, key("k1", 1))
	plain, binding := make([]byte, 200), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open("cursor", r.Seal("cursor", plain, binding), binding); err != nil {
			b.Fatal(err)
		}
	}
}

// goldenSeed begins what key("k1", 1) derives for "peer", in hexadecimal.
const goldenSeed = "bab4107cb8a500e7"

// Seeds are equal for processes with the same keys, in the order of the ring, and
// for nothing else.
func TestDerive(t *testing.T) {
	k1, k2 := key("k1", 1), key("k2", 2)
	one, two := ring(t, k1), ring(t, k2, k1)
	seed := one.Derive("peer")[0]
	if got := hex.EncodeToString(seed[:8]); got != goldenSeed {
		t.Errorf("the seed begins with %s, want %s: replicas of two versions would not know one another", got, goldenSeed)
	}
	got := two.Derive("peer")
	if len(got) != 2 || got[1] != seed || got[0] != ring(t, k2).Derive("peer")[0] {
		t.Error("the seeds of a ring are not those of its keys, in their order")
	}
	if diff := cmp.Diff(got, two.Derive("peer")); diff != "" {
		t.Errorf("a second call gave others:\n%s", diff)
	}
	for _, other := range [][32]byte{got[0], one.Derive("other")[0], one.Derive("")[0], ring(t, key("k1", 3)).Derive("peer")[0]} {
		if other == seed {
			t.Error("two secrets or purposes have the same seed")
		}
	}
}
