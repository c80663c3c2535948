package auth_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

func past() time.Time { return time.Now().Add(-time.Second) }

// tenantContext is for what cannot end.
func (r *rig) tenantContext() context.Context { return context.Background() }

type object = map[string]any

// badForms are tokens whose signature, header or form is wrong.
func badForms() []bad {
	typ := object{"typ": "at+jwt"}
	// with signs good claims under a header.
	with := func(header object) func(r *rig) string {
		return func(r *rig) string { return r.idp.key.sign(header, r.idp.claims(nil)) }
	}
	// part changes one part of a good token.
	part := func(i int, change func(part string) string) func(r *rig) string {
		return func(r *rig) string {
			parts := strings.Split(r.idp.token(nil), ".")
			parts[i] = change(parts[i])
			return strings.Join(parts, ".")
		}
	}
	// hs256 signs with an HMAC whose secret is what anybody knows.
	hs256 := func(secret func(r *rig) []byte) func(r *rig) string {
		return func(r *rig) string {
			input := b64(`{"alg":"HS256","typ":"at+jwt","kid":"k1"}`) + "." + b64(mustJSON(r.idp.claims(nil)))
			mac := hmac.New(sha256.New, secret(r))
			mac.Write([]byte(input))
			return input + "." + b64(string(mac.Sum(nil)))
		}
	}
	// stranger signs with a key of its own.
	stranger := func(kid any, header func(s *signer) object) func(r *rig) string {
		return func(r *rig) string {
			s := newES256(r.idp.t, "k1")
			head := object{"typ": "at+jwt", "kid": kid}
			if header != nil {
				for name, v := range header(s) {
					head[name] = v
				}
			}
			return s.sign(head, r.idp.claims(nil))
		}
	}
	der := func(r *rig) []byte { return must(x509.MarshalPKIXPublicKey(r.idp.key.key.Public())) }
	return []bad{
		{name: "opaque", token: func(*rig) string { return "qZ7xVw0PmKd83hhTz" }, want: "malformed"},
		{name: "two parts", token: func(r *rig) string { return r.idp.token(nil)[:strings.LastIndex(r.idp.token(nil), ".")] }, want: "malformed"},
		{name: "four parts", token: func(r *rig) string { return r.idp.token(nil) + ".qZ7xVw0PmKd83" }, want: "malformed"},
		{name: "encrypted", token: func(*rig) string { return b64(`{"alg":"dir","enc":"A256GCM"}`) + "..qZ7xVw0PmKd8.qZ7xVw0PmKd.q" }, want: "malformed"},
		{name: "header not base64", token: part(0, func(p string) string { return p[:len(p)-1] + "~" }), want: "malformed"},
		{name: "header in standard base64", token: part(0, func(string) string {
			return base64.StdEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"k1","x":"??>>"}`))
		}), want: "request", status: http.StatusBadRequest, code: "invalid_request"},
		{name: "header not JSON", token: part(0, func(string) string { return b64("alg=ES256") }), want: "malformed"},
		{name: "header a list", token: part(0, func(string) string { return b64(`["ES256"]`) }), want: "malformed"},
		{name: "header null", token: part(0, func(string) string { return b64(`null`) }), want: "malformed"},
		{name: "header without alg", token: with(object{"alg": nil}), want: "malformed"},
		{name: "alg twice", token: func(r *rig) string {
			return r.idp.key.signText(`{"alg":"none","alg":"ES256","kid":"k1"}`, mustJSON(r.idp.claims(nil)))
		}, want: "malformed"},
		{name: "alg in other letters", token: func(r *rig) string {
			return r.idp.key.signText(`{"Alg":"ES256","kid":"k1"}`, mustJSON(r.idp.claims(nil)))
		}, want: "malformed"},
		{name: "alg a number", token: with(object{"alg": 256}), want: "malformed"},
		{name: "kid a list", token: with(object{"kid": []string{"k1"}}), want: "malformed"},
		{name: "claims not JSON", token: func(r *rig) string { return r.idp.key.signText(`{"alg":"ES256","kid":"k1"}`, "sub=alice-4f2b9c") }, want: "malformed"},
		{name: "claims a list", token: func(r *rig) string { return r.idp.key.signText(`{"alg":"ES256","kid":"k1"}`, "[]") }, want: "malformed"},
		{name: "claims empty", token: part(1, func(string) string { return "" }), want: "malformed"},
		{name: "audience twice", token: func(r *rig) string {
			text := mustJSON(r.idp.claims(nil))
			return r.idp.key.signText(`{"alg":"ES256","kid":"k1"}`, `{"aud":"x",`+text[1:])
		}, want: "malformed"},
		{name: "claim with raw bytes", token: func(r *rig) string {
			return r.idp.key.signText(`{"alg":"ES256","kid":"k1"}`, strings.Replace(mustJSON(r.idp.claims(nil)), "alice", "\xff", 1))
		}, want: "malformed"},
		{name: "padding", token: part(1, func(p string) string { return p + "=" }), want: "request", status: http.StatusBadRequest, code: "invalid_request"},

		{name: "alg none", token: func(r *rig) string {
			return b64(`{"alg":"none","typ":"at+jwt"}`) + "." + b64(mustJSON(r.idp.claims(nil))) + "."
		}, want: "algorithm"},
		{name: "alg none with a signature", token: with(object{"alg": "none"}), want: "algorithm"},
		{name: "alg nOnE", token: with(object{"alg": "nOnE"}), want: "algorithm"},
		{name: "alg empty", token: with(object{"alg": ""}), want: "algorithm"},
		{name: "HS256 with the public key", token: hs256(func(r *rig) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der(r)})
		}), want: "algorithm"},
		{name: "HS256 with the key in DER", token: hs256(der), want: "algorithm"},
		{name: "HS256 with the key's JSON", token: hs256(func(r *rig) []byte { return must(r.idp.key.public().MarshalJSON()) }), want: "algorithm"},
		{name: "HS256 with nothing", token: hs256(func(*rig) []byte { return nil }), want: "algorithm"},
		{name: "HS256, configured", token: hs256(der), edit: issuer(func(is *tenant.Issuer) { is.Algorithms = []string{"HS256", "ES256"} }), want: "algorithm"},
		{name: "algorithm that is not pinned", token: with(object{"alg": "ES512"}), want: "algorithm"},
		{name: "RS256 in front of an EC key", token: with(object{"alg": "RS256"}), want: "unknown_key"},
		{name: "unknown extension", token: with(object{"crit": []string{"exp"}, "exp": 1}), want: "algorithm"},
		{name: "payload that is not encoded", token: with(object{"crit": []string{"b64"}, "b64": false}), want: "algorithm"},

		{name: "unknown kid", token: stranger("k-unknown-77", nil), want: "unknown_key"},
		{name: "kid that is a path", token: stranger("../../keys/k1", nil), want: "unknown_key"},
		{name: "signed by a stranger", token: stranger("k1", nil), want: "signature"},
		{name: "signed by a stranger without a name", token: stranger(nil, nil), want: "signature"},
		{name: "key in the header", token: stranger("k1", func(s *signer) object { return object{"jwk": s.public()} }), want: "signature"},
		{name: "key elsewhere", token: stranger("k1", func(*signer) object { return object{"jku": "https://evil.example.com/keys"} }), want: "signature"},
		{name: "certificate elsewhere", token: stranger("k1", func(*signer) object { return object{"x5u": "https://evil.example.com/x5"} }), want: "signature"},
		{name: "no signature", token: part(2, func(string) string { return "" }), want: "signature"},
		{name: "signature of zeros", token: part(2, func(string) string { return b64(string(make([]byte, 64))) }), want: "signature"},
		{name: "signature in DER", token: part(2, func(p string) string {
			raw := must(base64.RawURLEncoding.DecodeString(p))
			return b64(string(must(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])}))))
		}), want: "signature"},
		{name: "signature of another token", token: func(r *rig) string {
			one, two := r.idp.token(nil), r.idp.token(object{"sub": "mallory"})
			return two[:strings.LastIndex(two, ".")] + one[strings.LastIndex(one, "."):]
		}, want: "signature"},
		{name: "changed header", token: func(r *rig) string {
			_, rest, _ := strings.Cut(r.idp.token(nil), ".")
			return b64(`{"alg":"ES256","kid":"k1","typ":"JWT"}`) + "." + rest
		}, want: "signature"},
		{name: "key for encryption", token: func(r *rig) string {
			s := newES256(r.idp.t, "enc")
			pub := s.public()
			pub.Use = "enc"
			r.idp.set(func(i *idp) { i.keys = append(i.keys, pub) })
			return s.sign(typ, r.idp.claims(nil))
		}, want: "unknown_key"},
		{name: "type of a logout token", token: with(object{"typ": "logout+jwt"}), want: "type"},
		{name: "type of a DPoP proof", token: with(object{"typ": "dpop+jwt"}), want: "type"},
		{name: "type of an event", token: with(object{"typ": "secevent+jwt"}), want: "type"},
		{name: "type of an introspection answer", token: with(object{"typ": "token-introspection+jwt"}), want: "type"},
	}
}

// issuer changes the first issuer of a tenant.
func issuer(change func(is *tenant.Issuer)) func(one *tenant.Tenant) {
	return func(one *tenant.Tenant) { change(&one.Auth.Issuers[0]) }
}

// badClaims are tokens that are signed as they should be and say something wrong.
func badClaims() []bad {
	says := func(changes object) func(r *rig) string { return func(r *rig) string { return r.idp.token(changes) } }
	plain := func(changes object) func(r *rig) string {
		return func(r *rig) string { return r.idp.key.sign(object{"typ": "JWT"}, r.idp.claims(changes)) }
	}
	org := issuer(func(is *tenant.Issuer) { is.TenantClaim = "org.id" })
	api := issuer(func(is *tenant.Issuer) { is.Audiences = []string{"editor-77ac"} })
	now := time.Now().Unix()
	rows := []bad{}
	for reason, list := range map[string]map[string]object{
		"expired": {"expired": {"exp": now - 1}, "expired long ago": {"exp": 1}, "expires now": {"exp": float64(now)}},
		"early":   {"not valid yet": {"nbf": now + 90}, "issued later": {"iat": now + 90}},
		"claims": {
			"no expiry": {"exp": nil}, "expiry a string": {"exp": "9999999999"}, "expiry null": {"exp": []int{}},
			"negative expiry": {"exp": -1}, "endless expiry": {"exp": 1e300}, "expiry zero": {"exp": 0},
			"start a string": {"nbf": "0"}, "issue date true": {"iat": true},
			"no subject": {"sub": nil}, "empty subject": {"sub": ""}, "subject a number": {"sub": 7},
			"subject too long": {"sub": strings.Repeat("s", 2000)}, "client a list": {"client_id": []string{"x"}},
			"scopes a number": {"scope": 1}, "scopes with objects": {"scope": []any{"mcp", object{}}}, "scopes with a space": {"scope": []string{"mcp read"}},
			"scopes with quotes":  {"scope": `mcp "admin"`},
			"groups with objects": {"groups": []any{"a", object{"name": "b"}}}, "groups an object": {"groups": object{"a": true}},
			"too many groups": {"groups": make([]string, 1001)},
		},
		"issuer": {
			"other issuer with the same key": {"iss": "https://idp.example.com/realms/two"},
			"no issuer":                      {"iss": nil}, "empty issuer": {"iss": ""}, "issuer with a slash": {"iss": issuerURL + "/"},
			"issuer in other letters": {"iss": strings.ToUpper(issuerURL)},
		},
		"malformed": {"issuer a list": {"iss": []string{issuerURL}}},
		"audience": {
			"wrong audience": {"aud": "https://other.example.com/mcp"}, "no audience": {"aud": nil}, "empty audience": {"aud": ""},
			"no audiences": {"aud": []string{}}, "audience of the other tenant": {"aud": "https://gateway.example.com/t/other/mcp"},
			"audience of a toolset": {"aud": "https://gateway.example.com/t/acme/s/readonly/mcp"}, "audience the origin": {"aud": "https://gateway.example.com"},
			"audience with a slash": {"aud": resource + "/"}, "audience with a query": {"aud": resource + "?x"}, "audience with a fragment": {"aud": resource + "#"},
			"audience in other letters behind the host": {"aud": strings.Replace(resource, "mcp", "MCP", 1)}, "audience with a user": {"aud": "https://x@gateway.example.com/t/acme/mcp"},
			"audience a number": {"aud": 7}, "audience with a number": {"aud": []any{resource, 7}}, "audience an object": {"aud": object{resource: true}},
			"audience of another scheme": {"aud": strings.Replace(resource, "https", "http", 1)}, "audience the client": {"aud": "editor-77ac"},
		},
		"bound": {
			"bound to a certificate": {"cnf": object{"x5t#S256": "qZ7xVw0PmKd83hhTz"}}, "bound to a proof": {"cnf": object{"jkt": "qZ7xVw0PmKd83hhTz"}},
			"bound to a key": {"cnf": object{"jwk": object{}}}, "bound to nothing": {"cnf": object{}}, "bound oddly": {"cnf": "x"},
		},
	} {
		for name, changes := range list {
			rows = append(rows, bad{name: name, token: says(changes), want: reason})
		}
	}
	for name, changes := range map[string]object{
		"ID token with a nonce": {"nonce": "n"}, "ID token with at_hash": {"at_hash": "x"}, "ID token with c_hash": {"c_hash": "x"},
		"ID token of Keycloak": {"typ": "ID"}, "refresh token of Keycloak": {"typ": "Refresh"}, "ID token of Cognito": {"token_use": "id"},
		"logout token": {"events": object{}}, "typ a number": {"typ": 1},
	} {
		rows = append(rows, bad{name: name, token: plain(changes), want: "type"})
	}
	for name, changes := range map[string]object{
		"another tenant": {"org": object{"id": "other"}}, "no tenant": {}, "tenant a number": {"org": object{"id": 7}}, "tenant in no object": {"org": "acme"},
		"tenant in other letters": {"org": object{"id": "Acme"}},
	} {
		rows = append(rows, bad{name: name, token: says(changes), edit: org, want: "tenant"})
	}
	for name, changes := range map[string]object{"no scope": {"scope": nil}, "another scope": {"scope": "reader mcp2"}, "an empty scope": {"scope": ""}, "a part of the scopes": {"scope": "mcp"}} {
		rows = append(rows, bad{name: name, token: says(changes), want: "scope", status: http.StatusForbidden, code: "insufficient_scope"})
	}
	return append(rows,
		bad{name: "ID token for a configured audience", edit: api, want: "type",
			token: plain(object{"aud": "editor-77ac", "client_id": nil, "scope": nil, "name": "Alice"})},
		bad{name: "ID token for a configured audience and party", edit: api, want: "type",
			token: plain(object{"aud": "editor-77ac", "azp": "editor-77ac", "client_id": nil, "scope": nil})},
	)
}
