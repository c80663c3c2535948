package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/lru"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

type addr = netip.Addr

func v4(n int) addr { return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}) }

func newRegistry() prometheus.Registerer { return prometheus.NewRegistry() }

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// jwks is a client whose server has one key.
type jwks struct{ key jose.JSONWebKey }

func (j jwks) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	raw, err := j.key.MarshalJSON()
	fmt.Fprintf(w, `{"keys":[%s]}`, raw)
	return w.Result(), err
}

// benchmark gives a request that is accepted. Its token is as large as those of most
// issuers.
func benchmark(b *testing.B) (*Authenticator, *Request) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	a, err := New(Options{
		Client: func(bool) *http.Client {
			return &http.Client{Transport: jwks{jose.JSONWebKey{Key: key.Public(), KeyID: "k"}}}
		},
		Registerer: newRegistry(), Logger: discard(), Keys: tenant.NewMemoryRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Close)
	claims := fmt.Sprintf(`{"iss":"https://i","aud":"https://h/mcp","sub":"s","scope":"mcp","exp":%d,"groups":["a","b"],"x":"%s"}`,
		time.Now().Add(24*time.Hour).Unix(), strings.Repeat("x", 600))
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(`{"alg":"ES256","kid":"k","typ":"at+jwt"}`)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	token := input + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	return a, &Request{
		Tenant: &tenant.Tenant{Name: "acme", Auth: tenant.Auth{
			Mode: tenant.AuthOAuth, Scopes: []string{"mcp"},
			Issuers: []tenant.Issuer{{Issuer: "https://i", JWKSURL: "https://i/keys", GroupsClaim: "groups"}},
		}},
		Resource: "https://h/mcp", Source: v4(1),
		HTTP: &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}},
	}
}

// BenchmarkAuthenticateWarm is a request whose token is remembered.
func BenchmarkAuthenticateWarm(b *testing.B) {
	a, req := benchmark(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAuthenticateKey is one with an API key that is remembered.
func BenchmarkAuthenticateKey(b *testing.B) {
	a, req := benchmark(b)
	registry := tenant.NewMemoryRegistry()
	a.keys, a.touches.keys = registry, registry
	if _, err := registry.Put(b.Context(), &tenant.Tenant{Name: "acme"}, tenant.Any); err != nil {
		b.Fatal(err)
	}
	plain, k := NewKey(tenant.APIKey{Tenant: "acme", Subject: "s", Scopes: []string{"mcp"}})
	if err := registry.PutKey(b.Context(), k); err != nil {
		b.Fatal(err)
	}
	req.HTTP.Header["Authorization"] = []string{"Bearer " + plain}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAuthenticateCold is one whose token is verified, with a key that is known.
func BenchmarkAuthenticateCold(b *testing.B) {
	a, req := benchmark(b)
	b.ReportAllocs()
	for b.Loop() {
		a.seen = lru.New[shown, verified](maxVerified)
		if _, err := a.Authenticate(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
