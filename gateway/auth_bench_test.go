package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// published answers each request with the same document.
type published []byte

// RoundTrip implements http.RoundTripper.
func (p published) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {typeJSON}},
		Body: io.NopCloser(strings.NewReader(string(p))), Request: r,
	}, nil
}

// guardedRouter serves one tenant, whatever is asked for.
type guardedRouter struct {
	fakeRouter
	tenant *tenant.Tenant
}

func (g *guardedRouter) Tenant(context.Context, federation.Endpoint) (*tenant.Tenant, error) {
	return g.tenant, nil
}

// signed makes an access token for /mcp, and the keys that verify it.
func signed(tb testing.TB) (token string, keys []byte) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		tb.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": "https://idp.example.com", "sub": "ann", "aud": "http://localhost/mcp", "client_id": "c", "scope": "mcp",
		"exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		tb.Fatal(err)
	}
	if token, err = jws.CompactSerialize(); err != nil {
		tb.Fatal(err)
	}
	keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig", Algorithm: "ES256"}}})
	if err != nil {
		tb.Fatal(err)
	}
	return token, keys
}

// BenchmarkAuthenticated tells what a warm request costs at the edge where anybody may
// call, and where it shows an access token.
func BenchmarkAuthenticated(b *testing.B) {
	token, keys := signed(b)
	for _, bc := range []struct {
		name string
		auth tenant.Auth
	}{
		{"anybody", tenant.Auth{}},
		{"JWT", tenant.Auth{Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Issuers: []tenant.Issuer{{
			Issuer: "https://idp.example.com", JWKSURL: "https://idp.example.com/keys",
		}}}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			opts := testOptions()
			opts.PublicURL = "http://localhost"
			r := &guardedRouter{tenant: &tenant.Tenant{Name: "default", Auth: bc.auth}}
			g := newGateway(opts, r, nil, newTestMetrics(b))
			who, err := auth.New(auth.Options{
				Registerer: opts.Registerer, Logger: opts.Logger,
				Client: func(bool) *http.Client { return &http.Client{Transport: published(keys)} },
			})
			if err != nil {
				b.Fatal(err)
			}
			defer who.Close()
			g.edge.auth = who
			mux := publicRoutes(g.edge, nil)
			text := message("tools/call", `"name":"weather_now","arguments":{"city":"Oslo"}`)
			body := strings.NewReader(text)
			req, err := http.NewRequest(http.MethodPost, "http://localhost/mcp", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			req.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"weather_now"},
				"Authorization": {"Bearer " + token},
			}
			req.ContentLength, req.RemoteAddr = int64(len(text)), "192.0.2.1:1"
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(text)
				req.Body = reader{body}
				clear(w.h)
				mux.ServeHTTP(w, req)
			}
			if challenge := w.h.Get("WWW-Authenticate"); challenge != "" {
				b.Fatal(challenge)
			}
		})
	}
}
