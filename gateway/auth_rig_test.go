package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

// publicURL is where the gateways of these tests say that they are.
const publicURL = "https://gw.example.com"

// issuer is an authorization server that publishes its keys, and whose tokens are made
// here. Nothing of package auth is in it.
type issuer struct {
	*httptest.Server
	tb     testing.TB
	signer jose.Signer
	real   *authority // instead, where it is not nil; its tokens have the claims that it gives them
}

func newIssuer(tb testing.TB) *issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	is := &issuer{tb: tb}
	is.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		tb.Fatal(err)
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Use: "sig", Algorithm: "ES256"}}}
	is.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": is.URL, "jwks_uri": is.URL + "/jwks"})
		case "/jwks":
			_ = json.NewEncoder(w).Encode(set)
		default:
			http.NotFound(w, r)
		}
	}))
	tb.Cleanup(is.Close)
	return is
}

// token makes an access token of a user for the endpoint at path. more are claims that
// replace others; nil takes one away.
func (is *issuer) token(user, path string, more map[string]any) string {
	is.tb.Helper()
	if is.real != nil {
		return is.real.token(user, publicURL+path)
	}
	claims := map[string]any{
		"iss": is.URL, "sub": user, "aud": publicURL + path, "client_id": "test", "scope": "mcp",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		is.tb.Fatal(err)
	}
	signed, err := is.signer.Sign(payload)
	if err != nil {
		is.tb.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		is.tb.Fatal(err)
	}
	return text
}

// auth is what a tenant says that trusts the issuer.
func (is *issuer) auth() tenant.Auth {
	return tenant.Auth{
		Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Issuers: []tenant.Issuer{{Issuer: is.URL, Private: true}},
	}
}

// guarded are replicas whose tenant default trusts an issuer.
type guarded struct {
	*several
	issuer *issuer
	keys   *tenant.MemoryRegistry
}

// newGuarded makes replicas in front of upstreams, as newSeveral does.
func newGuarded(tb testing.TB, change func(*gateway.Options), upstreams ...tenant.Upstream) *guarded {
	tb.Helper()
	g := &guarded{issuer: newIssuer(tb), keys: tenant.NewMemoryRegistry()}
	if _, err := g.keys.Put(tb.Context(), &tenant.Tenant{Name: "default", Auth: tenant.Auth{Mode: tenant.AuthKeys}}, 0); err != nil {
		tb.Fatal(err)
	}
	g.several = newSeveral(tb, func(o *gateway.Options) {
		o.PublicURL, o.Keys = publicURL, g.keys
		if change != nil {
			change(o)
		}
	}, upstreams...)
	g.register(func(t *tenant.Tenant) { t.Auth = g.issuer.auth() })
	return g
}

// register changes the registration of the tenant default.
func (g *guarded) register(change func(*tenant.Tenant)) {
	g.tb.Helper()
	now, err := g.store.Tenant(g.tb.Context(), "default")
	if err != nil {
		g.tb.Fatal(err)
	}
	next := *now
	change(&next)
	g.store.Replace([]*tenant.Tenant{&next})
}

// as gives the header line of a user's token for the endpoint at path.
func (g *guarded) as(user, path string) string {
	return "Authorization: Bearer " + g.issuer.token(user, path, nil)
}
