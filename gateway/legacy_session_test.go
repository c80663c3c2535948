package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestSessionID(t *testing.T) {
	ring, now := seal.NewRandom(), time.UnixMilli(1_800_000_000_000)
	at := federation.Endpoint{Tenant: "acme", Alias: "weather"}
	who := tenant.Principal{Tenant: "acme", Issuer: "https://idp.example", Subject: "u1", ClientID: "app"}
	want := &session{
		id: "S", revision: revision202506, capabilities: []byte(`{"roots":{}}`), client: []byte(`{"name":"ä","version":"1"}`),
		expires: now.Add(time.Hour),
	}
	token, err := sealSession(ring, want, at, &who)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []byte(token) {
		if c < 0x21 || c > 0x7e {
			t.Fatalf("%q is not visible ASCII", token)
		}
	}
	got, err := openSession(ring, token, at, &who, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(session{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The same user with another token of the same issuer, from another client.
	other := tenant.Principal{Tenant: "acme", Issuer: "https://idp.example", Subject: "u1", ClientID: "other", Scopes: []string{"x"}}
	if _, err := openSession(ring, token, at, &other, now); err != nil {
		t.Errorf("a refreshed token loses the session: %v", err)
	}
	tests := []struct {
		name  string
		ring  *seal.Ring
		token string
		at    federation.Endpoint
		who   tenant.Principal
		now   time.Time
	}{
		{"another endpoint", ring, token, federation.Endpoint{Tenant: "acme"}, who, now},
		{"another tenant", ring, token, federation.Endpoint{Tenant: "other", Alias: "weather"}, who, now},
		{"another subject", ring, token, at, tenant.Principal{Tenant: "acme", Issuer: who.Issuer, Subject: "u2"}, now},
		{"another issuer", ring, token, at, tenant.Principal{Tenant: "acme", Issuer: "https://evil.example", Subject: "u1"}, now},
		{"fields that run into each other", ring, token, at, tenant.Principal{Tenant: "acme", Issuer: who.Issuer + "u", Subject: "1"}, now},
		{"expired", ring, token, at, who, want.expires},
		{"another key", seal.NewRandom(), token, at, who, now},
		{"another purpose", ring, ring.Seal("cursor", []byte("x"), sessionBinding(at, &who)), at, who, now},
		{"empty", ring, "", at, who, now},
		{"too long", ring, strings.Repeat("A", maxSessionID+1), at, who, now},
		{"sealed nonsense", ring, ring.Seal(sessionPurpose, []byte("nonsense"), sessionBinding(at, &who)), at, who, now},
		{"changed", ring, token[:len(token)-4] + "AAAA", at, who, now},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if s, err := openSession(tt.ring, tt.token, tt.at, &tt.who, tt.now); err != errSessionInvalid {
				t.Errorf("opened: %+v, %v", s, err)
			}
		})
	}
	large := *want
	large.client = make([]byte, maxSessionID)
	if _, err := sealSession(ring, &large, at, &who); err != errSessionTooLarge {
		t.Errorf("too much: %v", err)
	}
}

func TestCapabilitiesOf(t *testing.T) {
	big := `{"x":{"y":"` + strings.Repeat("z", maxKeptCapability) + `"}}`
	tests := []struct{ name, revision, declared, want string }{
		{"nothing", revision202511, `{}`, `{}`},
		{"roots", revision202511, `{"roots":{"listChanged":true}}`, `{"roots":{}}`},
		{"no objects", revision202511, `{"roots":true,"sampling":null,"elicitation":1}`, `{}`},
		{"sampling", revision202511, `{"sampling":{}}`, `{"sampling":{}}`},
		{"sampling with all", revision202511, `{"sampling":{"tools":{},"context":{},"more":{}}}`, `{"sampling":{"context":{},"tools":{}}}`},
		{"earlier sampling", revision202506, `{"sampling":{"tools":{}}}`, `{"sampling":{"context":{}}}`},
		{"elicitation", revision202511, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation by URL", revision202511, `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{"elicitation with both", revision202511, `{"elicitation":{"url":{},"form":{}}}`, `{"elicitation":{"form":{},"url":{}}}`},
		{"earlier elicitation", revision202506, `{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`},
		{"no elicitation yet", revision202503, `{"elicitation":{},"roots":{}}`, `{"roots":{}}`},
		{"tasks", revision202511, `{"tasks":{"list":{}},"unknown":{}}`, `{}`},
		{"experimental", revision202511, `{"experimental":{"a":{"b": 1e400}}}`, `{"experimental":{"a":{"b": 1e400}}}`},
		{"large experimental", revision202511, `{"roots":{},"experimental":` + big + `}`, `{"roots":{}}`},
		{"extensions", revision202511, `{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}}`},
		{"large extensions", revision202511, `{"extensions":` + big + `}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := []byte(tt.declared)
			if got := string(capabilitiesOf(raw, mcp.Span{End: len(raw)}, tt.revision)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestLacks(t *testing.T) {
	tests := []struct{ name, declared, method, params, want string }{
		{"roots", `{"roots":{}}`, methodRoots, ``, ``},
		{"no roots", `{}`, methodRoots, ``, `{"roots":{}}`},
		{"form", `{"elicitation":{"form":{}}}`, methodElicit, `{}`, ``},
		{"form by name", `{"elicitation":{"url":{}}}`, methodElicit, `{"mode":"form"}`, `{"elicitation":{"form":{}}}`},
		{"URL", `{"elicitation":{"form":{}}}`, methodElicit, `{"mode":"url"}`, `{"elicitation":{"url":{}}}`},
		{"no elicitation", `{}`, methodElicit, `{}`, `{"elicitation":{"form":{}}}`},
		{"sampling", `{"sampling":{}}`, methodSampling, `{"includeContext":"none"}`, ``},
		{"no sampling", `{}`, methodSampling, `{}`, `{"sampling":{}}`},
		{"tools", `{"sampling":{"context":{}}}`, methodSampling, `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{"tool choice", `{"sampling":{}}`, methodSampling, `{"toolChoice":{}}`, `{"sampling":{"tools":{}}}`},
		{"context", `{"sampling":{"tools":{}}}`, methodSampling, `{"tools":[],"includeContext":"thisServer"}`, `{"sampling":{"context":{}}}`},
		{"all of it", `{"sampling":{"tools":{},"context":{}}}`, methodSampling, `{"tools":[],"includeContext":"thisServer"}`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := session{capabilities: []byte(tt.declared)}
			raw := []byte(tt.params)
			if got := s.lacks(raw, tt.method, mcp.Span{End: len(raw)}); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzParseSession holds that the inside of a token is read without harm, and that
// what is read can be sealed again.
func FuzzParseSession(f *testing.F) {
	ring, at, who := seal.NewRandom(), federation.Endpoint{Tenant: "t"}, tenant.Principal{Tenant: "t"}
	token, err := sealSession(ring, &session{id: "S", revision: revision202503, capabilities: []byte(`{}`)}, at, &who)
	if err != nil {
		f.Fatal(err)
	}
	plain, err := ring.Open(sessionPurpose, token, sessionBinding(at, &who))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add([]byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, plain []byte) {
		s, ok := parseSession(plain)
		if !ok {
			return
		}
		token, err := sealSession(ring, s, at, &who)
		if err != nil {
			return // it does not fit into a header
		}
		again, err := openSession(ring, token, at, &who, s.expires.Add(-time.Millisecond))
		if err != nil || again.id != s.id || again.revision != s.revision || !again.expires.Equal(s.expires) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}

// FuzzOpenSession holds that a token that this process did not make opens nothing.
func FuzzOpenSession(f *testing.F) {
	ring, at, who := seal.NewRandom(), federation.Endpoint{Tenant: "t"}, tenant.Principal{Tenant: "t"}
	f.Add("")
	f.Add(seal.NewRandom().Seal(sessionPurpose, []byte("x"), nil))
	f.Fuzz(func(t *testing.T, token string) {
		if s, err := openSession(ring, token, at, &who, time.Time{}); err == nil {
			t.Errorf("%q opens %+v", token, s)
		}
	})
}
