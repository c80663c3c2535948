package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// upSecured is upJSON behind a tenant of Causeway's that wants an access token and has
// a policy.
const upSecured = "secured"

// callSecured is the measurement of calls with an access token, and a policy of
// policyRules rules of which the last decides.
const callSecured = "call-secured"

const policyRules = 10

// tokenLife is longer than any run.
const tokenLife = 24 * time.Hour

// issuer is an authorization server with nothing but metadata and keys.
type issuer struct {
	url    string
	server *http.Server
	signer jose.Signer
}

// startIssuer starts one in this process. close ends it.
func startIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &issuer{url: "http://" + l.Addr().String(), signer: signer}
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}}
	mux := http.NewServeMux()
	answer := func(v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // a gateway that left is no error
		}
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", answer(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"}))
	mux.HandleFunc("/keys", answer(keys))
	i.server = &http.Server{Handler: mux, ReadHeaderTimeout: grace}
	go func() { _ = i.server.Serve(l) }()
	return i, nil
}

func (i *issuer) close() error { return i.server.Close() }

// token makes an access token for a resource (RFC 9068).
func (i *issuer) token(resource string) (string, error) {
	now := time.Now()
	return jwt.Signed(i.signer).Claims(jwt.Claims{
		Issuer: i.url, Subject: "alice", Audience: jwt.Audience{resource},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(tokenLife)),
	}).Claims(map[string]any{"client_id": "loadtest", "scope": "mcp", "groups": []string{"staff", "finance"}}).Serialize()
}

// securedTenant gives the configuration of the tenant.
func securedTenant(issuer, target string) []byte {
	var rules strings.Builder
	for n := 1; n < policyRules; n++ {
		fmt.Fprintf(&rules, `        - {name: "team %[1]d", when: '"team%[1]d" in principal.groups && item.alias == "bench" && tool.annotations.destructiveHint', effect: deny}`+"\n", n)
	}
	fmt.Fprintf(&rules, `        - {name: staff, when: '"staff" in principal.groups && item.alias == "bench"', effect: allow}`+"\n")
	return fmt.Appendf(nil, `  - name: %[1]s
    auth:
      mode: oauth
      scopes: [mcp]
      issuers: [{issuer: %[2]q, groupsClaim: groups, private: true}]
    policy:
      default: deny
      rules:
%[3]s    upstreams: [{alias: bench, url: "http://%[4]s/mcp"}]
`, upSecured, issuer, rules.String(), target)
}
