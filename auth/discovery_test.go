package auth_test

import (
	"crypto/rsa"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestDiscovery holds where metadata is looked for, and what of it is used.
func TestDiscovery(t *testing.T) {
	const (
		oauth = "/.well-known/oauth-authorization-server"
		oidc  = "/.well-known/openid-configuration"
		path  = "https://idp.example.com/realms/one"
		root  = "https://idp.example.com"
	)
	tests := []struct {
		name, issuer string
		place        string // the only one that answers
		change       object // of the document
		private      bool
		want         string // the reason; empty where keys are found
		asked        int    // how many places
	}{
		{name: "RFC 8414, inserted", issuer: path, place: oauth + "/realms/one", asked: 1},
		{name: "OIDC, inserted", issuer: path, place: oidc + "/realms/one", asked: 2},
		{name: "OIDC, appended", issuer: path, place: "/realms/one" + oidc, asked: 3},
		{name: "RFC 8414, appended", issuer: path, place: "/realms/one" + oauth, asked: 4},
		{name: "RFC 8414 at the root", issuer: root, place: oauth, asked: 1},
		{name: "OIDC at the root", issuer: root, place: oidc, asked: 2},
		{name: "a slash at the end", issuer: root + "/", place: oidc, asked: 2},
		{name: "a path with a slash at the end", issuer: path + "/", place: "/realms/one" + oidc, asked: 3},
		{name: "nowhere", issuer: path, place: "/nowhere", want: "unavailable", asked: 4},
		{name: "another issuer's", issuer: path, change: object{"issuer": "https://honest.example.com"}, want: "unavailable", asked: 4},
		{name: "another issuer's by a slash", issuer: path, change: object{"issuer": path + "/"}, want: "unavailable", asked: 4},
		{name: "nobody's", issuer: path, change: object{"issuer": nil}, want: "unavailable", asked: 4},
		{name: "without keys", issuer: path, change: object{"jwks_uri": ""}, want: "unavailable", asked: 1},
		{name: "keys without TLS", issuer: path, change: object{"jwks_uri": "http://idp.example.com/keys"}, want: "unavailable", asked: 1},
		{name: "keys in a file", issuer: path, change: object{"jwks_uri": "file:///keys"}, private: true, want: "unavailable", asked: 1},
		{name: "without TLS", issuer: "http://idp.example.com", want: "unavailable", asked: 0},
		{name: "without TLS, private", issuer: "http://idp.example.com", private: true, asked: 1},
		{name: "with a query", issuer: root + "?x=1", want: "unavailable", asked: 0},
		{name: "with a user", issuer: "https://u:p@idp.example.com", want: "unavailable", asked: 0},
		{name: "no URL", issuer: "idp", want: "unavailable", asked: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(one *tenant.Tenant) {
				one.Auth.Issuers = []tenant.Issuer{{Issuer: tt.issuer, Private: tt.private}}
			})
			r.idp.issuer = tt.issuer
			r.idp.document["issuer"] = tt.issuer
			maps.Copy(r.idp.document, tt.change)
			if tt.place != "" {
				r.idp.places = []string{tt.place}
			}
			if tt.private && strings.HasPrefix(tt.issuer, "http:") {
				r.idp.document["jwks_uri"] = "http://idp.example.com/keys"
			}
			if tt.want == "" {
				r.mustAccept(t, r.idp.token(nil))
			} else {
				r.mustRefuse(t, r.idp.token(nil), tt.want)
			}
			asked := 0
			for at, n := range r.idp.asked {
				if strings.Contains(at, "/.well-known/") {
					asked += n
				}
			}
			if asked != tt.asked {
				t.Errorf("asked at %v, want %d places", r.idp.asked, tt.asked)
			}
		})
	}
}

// TestKeySets holds which keys of a set are used.
func TestKeySets(t *testing.T) {
	good := string(must(newES256(t, "other").public().MarshalJSON()))
	set := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	tests := []struct {
		name string
		jwks func(own string) string // own is the key of the token
		want string
	}{
		{"among others", func(own string) string {
			return set(good, `{"kty":"OKP","crv":"Ed448","x":"AA"}`, `{"kty":"new"}`, `{"kty":"EC","crv":"P-256"}`, `7`, own)
		}, ""},
		{"twice, the first broken", func(own string) string { return set(strings.Replace(good, `"other"`, `"k1"`, 1), own) }, ""},
		{"none", func(string) string { return set() }, "unknown_key"},
		{"null", func(string) string { return `{"keys":null}` }, "unavailable"},
		{"no set", func(string) string { return `{}` }, "unavailable"},
		{"not JSON", func(string) string { return `<html>` }, "unavailable"},
		{"for another algorithm", func(own string) string { return set(strings.Replace(own, `"use":"sig"`, `"alg":"ES384"`, 1)) }, "unknown_key"},
		{"for encryption", func(own string) string { return set(strings.Replace(own, `"use":"sig"`, `"use":"enc"`, 1)) }, "unknown_key"},
		{"symmetric", func(string) string {
			return set(`{"kty":"oct","kid":"k1","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
		}, "unknown_key"},
		{"too many", func(own string) string { return set(strings.Repeat(good+",", 200) + own) }, "unavailable"},
		{"too large", func(own string) string { return set(own) + strings.Repeat(" ", 600<<10) }, "unavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.idp.jwks = tt.jwks(string(must(r.idp.key.public().MarshalJSON())))
			if tt.want == "" {
				r.mustAccept(t, r.idp.token(nil))
			} else {
				r.mustRefuse(t, r.idp.token(nil), tt.want)
			}
		})
	}
}

func TestWeakKeys(t *testing.T) {
	r := newRig(t)
	weak := newRSA(t, "RS256", "weak", 1024)
	private := newRSA(t, "RS256", "private", 2048)
	r.idp.keys = []jose.JSONWebKey{weak.public(), {Key: private.key.(*rsa.PrivateKey), KeyID: "private"}}
	r.mustRefuse(t, r.idp.signedBy(weak, nil), "unknown_key")
	r.mustAccept(t, r.idp.signedBy(private, nil)) // its public half is as good as any
}

// A redirect to somebody else is not followed, for keys; a question with a token is
// sent nowhere else at all.
func TestRedirects(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           string
	}{
		{"keys, to the same origin", "/old", "/keys", ""},
		{"keys, to somebody else", "/old", "https://evil.example.com/keys", "unavailable"},
		{"introspection, to the same origin", "/introspect", "/elsewhere", "unavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, issuer(func(is *tenant.Issuer) { is.Introspection = &tenant.Introspection{ClientID: "causeway"} }))
			redirect := http.RedirectHandler(tt.to, http.StatusTemporaryRedirect)
			r.idp.set(func(i *idp) {
				i.forward = handled(func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path == tt.from {
						redirect.ServeHTTP(w, req)
						return
					}
					i.ServeHTTP(w, req)
				})
				i.document["jwks_uri"] = "https://idp.example.com/old"
			})
			token := r.idp.token(nil)
			if tt.from == "/introspect" {
				token = "qZ7xVw0PmKd83hhTz"
			}
			if tt.want == "" {
				r.mustAccept(t, token)
			} else {
				r.mustRefuse(t, token, tt.want)
			}
			if fmt.Sprint(r.idp.hosts["evil.example.com"], r.idp.asked["/elsewhere"]) != "0 0" {
				t.Errorf("asked %v at %v", r.idp.asked, r.idp.hosts)
			}
		})
	}
}
