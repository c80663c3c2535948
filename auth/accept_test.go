package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

func TestAccepted(t *testing.T) {
	rsa256 := newRSA(t, "RS256", "r1", 2048)
	pss := &signer{"PS256", "r1", rsa256.key}
	ed := newEd25519(t, "e1")
	nameless := newES256(t, "")
	soon := time.Now().Add(20 * time.Second).Unix()
	type changes = map[string]any
	alice := tenant.Principal{
		Tenant: "acme", Issuer: issuerURL, Subject: "alice-4f2b9c", ClientID: "editor-77ac", Scopes: []string{"mcp"},
	}
	with := func(change func(p *tenant.Principal)) tenant.Principal {
		p := alice
		change(&p)
		return p
	}
	tests := []struct {
		name  string
		token func(r *rig) string
		edit  func(is *tenant.Issuer)
		want  tenant.Principal
	}{
		{name: "as RFC 9068 has it"},
		{name: "long media type", token: func(r *rig) string {
			return r.idp.key.sign(changes{"typ": "application/AT+jwt"}, r.idp.claims(nil))
		}},
		{name: "plain type", token: func(r *rig) string { return r.idp.key.sign(changes{"typ": "JWT"}, r.idp.claims(nil)) }},
		{name: "no type", token: func(r *rig) string { return r.idp.key.sign(nil, r.idp.claims(nil)) }},
		{name: "RS256", token: func(r *rig) string { return rsa256.sign(changes{"typ": "at+jwt"}, r.idp.claims(nil)) }},
		{name: "PS256", token: func(r *rig) string { return pss.sign(changes{"typ": "at+jwt"}, r.idp.claims(nil)) }},
		{name: "EdDSA", token: func(r *rig) string { return ed.sign(changes{"typ": "at+jwt"}, r.idp.claims(nil)) }},
		{name: "no kid", token: func(r *rig) string { return ed.sign(changes{"typ": "at+jwt", "kid": nil}, r.idp.claims(nil)) }},
		{name: "a key without a name", token: func(r *rig) string {
			return nameless.sign(changes{"typ": "at+jwt", "kid": nil}, r.idp.claims(nil))
		}},
		{name: "several audiences", token: func(r *rig) string { return r.idp.token(changes{"aud": []string{"x", resource}}) }},
		{name: "audience in other letters", token: func(r *rig) string {
			return r.idp.token(changes{"aud": "HTTPS://Gateway.example.COM/t/acme/mcp"})
		}},
		{name: "configured audience", token: func(r *rig) string { return r.idp.token(changes{"aud": "api://causeway"}) },
			edit: func(is *tenant.Issuer) { is.Audiences = []string{"api://causeway"} }},
		{name: "configured audience, plain type", token: func(r *rig) string {
			return r.idp.key.sign(nil, r.idp.claims(changes{"aud": "api://causeway", "scope": nil, "scp": "mcp", "client_id": nil}))
		}, edit: func(is *tenant.Issuer) { is.Audiences = []string{"api://causeway"} },
			want: with(func(p *tenant.Principal) { p.ClientID = "" })},
		{name: "a little early", token: func(r *rig) string { return r.idp.token(changes{"nbf": soon, "iat": soon}) }},
		{name: "fractions of seconds", token: func(r *rig) string {
			return r.idp.token(changes{"exp": float64(time.Now().UnixMilli())/1000 + 60.5})
		}},
		{name: "azp", token: func(r *rig) string { return r.idp.token(changes{"client_id": nil, "azp": "app"}) },
			want: with(func(p *tenant.Principal) { p.ClientID = "app" })},
		{name: "Keycloak", token: func(r *rig) string {
			return r.idp.key.sign(changes{"typ": "JWT"}, r.idp.claims(changes{"typ": "Bearer", "nonce": "n", "azp": "app"}))
		}},
		{name: "Cognito", token: func(r *rig) string { return r.idp.key.sign(nil, r.idp.claims(changes{"token_use": "access"})) }},
		{name: "scp and scope", token: func(r *rig) string {
			return r.idp.token(changes{"scp": []string{"mcp", "read"}, "scope": " openid  mcp "})
		}, want: with(func(p *tenant.Principal) { p.Scopes = []string{"mcp", "openid", "read"} })},
		{name: "scopes implied by others", token: func(r *rig) string { return r.idp.token(changes{"scope": "admin"}) },
			want: with(func(p *tenant.Principal) { p.Scopes = []string{"admin", "mcp", "write"} })},
		{name: "configured scope claim", token: func(r *rig) string {
			return r.idp.token(changes{"scope": "nothing", "permissions": []string{"mcp"}})
		}, edit: func(is *tenant.Issuer) { is.ScopeClaim = "permissions" }},
		{name: "groups", token: func(r *rig) string { return r.idp.token(changes{"groups": []string{"b", "a", "b"}}) },
			want: with(func(p *tenant.Principal) { p.Groups = []string{"a", "b"} })},
		{name: "one group", token: func(r *rig) string { return r.idp.token(changes{"groups": "a b"}) },
			want: with(func(p *tenant.Principal) { p.Groups = []string{"a b"} })},
		{name: "groups in an object", token: func(r *rig) string {
			return r.idp.token(changes{"realm_access": changes{"roles.all": []string{"a"}}})
		}, edit: func(is *tenant.Issuer) { is.GroupsClaim = "realm_access.roles.all" },
			want: with(func(p *tenant.Principal) { p.Groups = []string{"a"} })},
		{name: "a claim with dots", token: func(r *rig) string {
			return r.idp.token(changes{"https://acme.example.com/groups": []string{"a"}})
		}, edit: func(is *tenant.Issuer) { is.GroupsClaim = "https://acme.example.com/groups" },
			want: with(func(p *tenant.Principal) { p.Groups = []string{"a"} })},
		{name: "tenant claim", token: func(r *rig) string { return r.idp.token(changes{"org": changes{"id": "acme"}}) },
			edit: func(is *tenant.Issuer) { is.TenantClaim = "org.id" }},
		{name: "tenant claim with a value", token: func(r *rig) string { return r.idp.token(changes{"org": []string{"X", "Acme Ltd"}}) },
			edit: func(is *tenant.Issuer) { is.TenantClaim, is.TenantValue = "org", "Acme Ltd" }},
		{name: "keys without metadata", edit: func(is *tenant.Issuer) { is.JWKSURL = "https://idp.example.com/keys" }},
		{name: "algorithms", edit: func(is *tenant.Issuer) { is.Algorithms = []string{"none", "HS256", "ES256"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(one *tenant.Tenant) {
				if tt.edit != nil {
					tt.edit(&one.Auth.Issuers[0])
				}
			})
			r.idp.keys = append(r.idp.keys, rsa256.public(), ed.public(), nameless.public())
			token := r.idp.token(nil)
			if tt.token != nil {
				token = tt.token(r)
			}
			want := tt.want
			if want.Tenant == "" {
				want = alice
			}
			for range 2 { // the second time from memory
				c := r.mustAccept(t, token)
				if diff := cmp.Diff(want, c.Principal); diff != "" {
					t.Errorf("principal (-want +got):\n%s", diff)
				}
				if c.Mark == [32]byte{} || c.Key != "" || !c.Expires.After(time.Now()) {
					t.Errorf("caller = %+v", c)
				}
			}
		})
	}
}

// Whatever is configured, nothing is accepted that may never be.
func TestNoAlgorithm(t *testing.T) {
	r := newRig(t, func(one *tenant.Tenant) { one.Auth.Issuers[0].Algorithms = []string{"none", "HS256", "RS1"} })
	rsa256 := newRSA(t, "RS256", "r1", 2048)
	r.idp.keys = append(r.idp.keys, rsa256.public())
	r.mustRefuse(t, r.idp.token(nil), "algorithm")
	r.mustRefuse(t, rsa256.sign(nil, r.idp.claims(nil)), "algorithm")
}

func TestSchemeInOtherLetters(t *testing.T) {
	r := newRig(t)
	for _, scheme := range []string{"bearer ", "BEARER ", " Bearer   "} {
		if _, refusal := r.send(t.Context(), r.request(scheme+r.idp.token(nil))); refusal != nil {
			t.Errorf("%q: refused for %s", scheme, refusal.Reason)
		}
	}
}

func TestAnybody(t *testing.T) {
	r := newRig(t, func(one *tenant.Tenant) { one.Auth = tenant.Auth{} })
	for _, lines := range [][]string{nil, {"Bearer x", "Bearer y"}, {"Basic x"}} {
		c, refusal := r.send(t.Context(), r.request(lines...))
		if refusal != nil || !cmp.Equal(c.Principal, tenant.Principal{Tenant: "acme"}) || !c.Expires.IsZero() || c.Mark != [32]byte{} {
			t.Errorf("%q: %+v, %v, want anybody", lines, c, refusal)
		}
	}
}

// Over a real connection, and only where the registration allows it to be without TLS.
func TestOverHTTP(t *testing.T) {
	for _, private := range []bool{true, false} {
		srv := httptest.NewUnstartedServer(nil)
		issuer := "http://" + srv.Listener.Addr().String() + "/one"
		r := newRig(t, func(one *tenant.Tenant) { one.Auth.Issuers = []tenant.Issuer{{Issuer: issuer, Private: private}} })
		key := r.idp.key
		server := newIDP(t, issuer)
		server.key, server.keys = key, []jose.JSONWebKey{key.public()}
		srv.Config.Handler = server
		srv.Start()
		r.idp.set(func(i *idp) { i.forward = http.DefaultTransport })
		if private {
			r.mustAccept(t, server.token(nil))
		} else {
			r.mustRefuse(t, server.token(nil), "unavailable")
		}
		srv.Close()
	}
}
