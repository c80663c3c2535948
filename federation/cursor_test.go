package federation

import (
	"testing"

	"github.com/causeway-mcp/causeway/auth/seal"
)

func TestCursor(t *testing.T) {
	ring, at := seal.NewRandom(), Endpoint{Tenant: "acme", Alias: "travel"}
	const refused = "cursor is invalid"
	tests := []struct {
		name   string
		cursor cursor
		at     Endpoint
		kind   kind
		public bool // the scope when the cursor comes back
		want   cursor
		ok     bool
	}{
		{name: "public", cursor: cursor{"travel_a", true, false}, at: at, public: true, want: cursor{"travel_a", true, false}, ok: true},
		{name: "private", cursor: cursor{"travel_a", false, false}, at: at, want: cursor{"travel_a", false, false}, ok: true},
		{name: "a walk that began as private stays so", cursor: cursor{"travel_a", false, false}, at: at, public: true, want: cursor{"travel_a", false, false}, ok: true},
		{name: "a list that became private", cursor: cursor{"travel_a", true, false}, at: at},
		{name: "brief", cursor: cursor{"travel_a", true, true}, at: at, public: true, want: cursor{"travel_a", true, true}, ok: true},
		{name: "brief and private", cursor: cursor{"travel_a", false, true}, at: at, public: true, want: cursor{"travel_a", false, true}, ok: true},
		{name: "another mode in the URL", cursor: cursor{"a", true, false}, at: Endpoint{Tenant: "acme", Alias: "travel", Discovery: "full"}, public: true},
		{name: "empty name", cursor: cursor{"", true, false}, at: at, public: true, want: cursor{"", true, false}, ok: true},
		{name: "any name", cursor: cursor{"x://é\x00\xff{+y}", true, false}, at: at, public: true, want: cursor{"x://é\x00\xff{+y}", true, false}, ok: true},
		{name: "another tenant", cursor: cursor{"a", true, false}, at: Endpoint{Tenant: "other", Alias: "travel"}, public: true},
		{name: "another upstream", cursor: cursor{"a", true, false}, at: Endpoint{Tenant: "acme", Alias: "weather"}, public: true},
		{name: "the merged endpoint", cursor: cursor{"a", true, false}, at: Endpoint{Tenant: "acme"}, public: true},
		{name: "names that run into each other", cursor: cursor{"a", true, false}, at: Endpoint{Tenant: "acmetravel"}, public: true},
		{name: "another kind", cursor: cursor{"a", true, false}, at: at, kind: kindPrompts, public: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := sealCursor(ring, at, kindTools, tt.cursor)
			got, err := openCursor(ring, tt.at, tt.kind, token, tt.public)
			if !tt.ok {
				wantRefused(t, err, refused)
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("openCursor = %+v, %v; want %+v", got, err, tt.want)
			}
			if _, err := openCursor(seal.NewRandom(), tt.at, tt.kind, token, tt.public); err == nil {
				t.Error("another ring opens it")
			}
		})
	}
}

func FuzzOpenCursor(f *testing.F) {
	ring := seal.NewRandom()
	at := Endpoint{Tenant: "acme"}
	f.Add("")
	f.Add("garbage")
	f.Add("AQ")
	f.Add(sealCursor(seal.NewRandom(), at, kindTools, cursor{last: "a"}))
	f.Fuzz(func(t *testing.T, s string) {
		// Nothing that was not sealed here opens, and all that was does.
		if c, err := openCursor(ring, at, kindTools, s, true); err == nil {
			t.Fatalf("%q opens as %+v", s, c)
		}
		want := cursor{last: s, public: len(s)%2 == 0, brief: len(s)%3 == 0}
		got, err := openCursor(ring, at, kindTools, sealCursor(ring, at, kindTools, want), true)
		if err != nil || got != want {
			t.Fatalf("%+v comes back as %+v, %v", want, got, err)
		}
	})
}
