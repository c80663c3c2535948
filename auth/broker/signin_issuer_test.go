package broker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestIDTokens holds which ID tokens tell who somebody is (OpenID Connect Core 1.0,
// section 3.1.3.7).
func TestIDTokens(t *testing.T) {
	set := func(name string, value any) func(*consentRig) func(map[string]any) {
		return func(*consentRig) func(map[string]any) { return func(c map[string]any) { c[name] = value } }
	}
	for _, tt := range []struct {
		name   string
		claims func(r *consentRig) func(c map[string]any)
		sign   func(r *consentRig) func(token string) string
		good   bool
	}{
		{name: "right", good: true},
		{name: "another issuer", claims: set("iss", "https://other.example.com")},
		{name: "the issuer with a slash", claims: func(r *consentRig) func(map[string]any) {
			return func(c map[string]any) { c["iss"] = r.idp.URL + "/" }
		}},
		{name: "another client", claims: set("aud", "another-client")},
		{name: "no audience", claims: set("aud", nil)},
		{name: "two audiences, for this client", claims: func(*consentRig) func(map[string]any) {
			return func(c map[string]any) { c["aud"], c["azp"] = []string{"gateway-login", "x"}, "gateway-login" }
		}, good: true},
		{name: "two audiences, for another client", claims: func(*consentRig) func(map[string]any) {
			return func(c map[string]any) { c["aud"], c["azp"] = []string{"gateway-login", "x"}, "x" }
		}},
		{name: "two audiences, for nobody in particular", claims: set("aud", []string{"gateway-login", "x"})},
		{name: "another nonce", claims: set("nonce", "another")},
		{name: "no nonce", claims: set("nonce", nil)},
		{name: "expired", claims: func(r *consentRig) func(map[string]any) {
			return func(c map[string]any) { c["exp"] = r.clock.Now().Add(-time.Second).Unix() }
		}},
		{name: "no subject", claims: set("sub", nil)},
		{name: "an empty subject", claims: set("sub", "")},
		{name: "a huge subject", claims: set("sub", strings.Repeat("x", 600))},
		{name: "a subject in other letters", claims: set("sub", "Ann-at-idp")},
		{name: "not signed", sign: func(*consentRig) func(string) string {
			return func(token string) string {
				parts := strings.Split(token, ".")
				return "eyJhbGciOiJub25lIn0." + parts[1] + "."
			}
		}},
		{name: "signed by another", sign: func(*consentRig) func(string) string {
			return func(token string) string { return flipped(token, len(token)-10) }
		}},
		{name: "none", sign: func(*consentRig) func(string) string { return func(string) string { return "" } }},
		{name: "nonsense", sign: func(*consentRig) func(string) string { return func(string) string { return "x.y.z" } }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newConsentRig(t)
			rep := r.replica()
			if tt.claims != nil {
				r.idp.claims = tt.claims(r)
			}
			if tt.sign != nil {
				r.idp.sign = tt.sign(r)
			}
			ann := r.person("ann-at-idp", "ann-at-travel")
			s := ann.open(rep.link("ann-at-idp", "editor"))
			if got := strings.Contains(s.body, "<form"); got != tt.good || tt.good != (s.status == http.StatusOK) {
				t.Errorf("the user sees the form: %v, want %v\n%d %s", got, tt.good, s.status, s.body)
			}
			if strings.Contains(s.body, "ann-at") || strings.Contains(r.log.String(), "ann-at") {
				t.Errorf("the page or the log names the user:\n%s\n%s", s.body, r.log)
			}
		})
	}
}

// TestLoginClient holds how the gateway shows the issuer who it is, and that a server
// which fails is told as that.
func TestLoginClient(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	var user, password string
	r.idp.tokens = func(_ http.ResponseWriter, req *http.Request) bool {
		user, password, _ = req.BasicAuth()
		return false
	}
	ann := r.person("ann-at-idp", "ann-at-travel")
	mustHave(t, ann.open(rep.link("ann-at-idp", "editor")), http.StatusOK, "<form")
	if user != "gateway-login" || password != "secret+of+LOGIN" {
		t.Errorf("the gateway shows %q and %q", user, password)
	}
	r.idp.tokens = func(w http.ResponseWriter, _ *http.Request) bool { refuse(w); return true }
	s := r.person("ann-at-idp", "x").open(rep.link("ann-at-idp", "editor"))
	mustHave(t, s, http.StatusBadGateway, "You cannot be signed in")
	if strings.Contains(s.body, "sentence-of-the-server") {
		t.Errorf("the page shows what the server said:\n%s", s.body)
	}
	r.edit(func(t *tenant.Tenant) { t.Auth.Issuers[0].Private = false })
	mustHave(t, r.person("ann-at-idp", "x").open(rep.link("ann-at-idp", "editor")), http.StatusBadGateway, "You cannot be signed in")
}

// TestSessionIsForOneTenant has a browser that is known at one tenant, or at one issuer,
// open the link of another one.
func TestSessionIsForOneTenant(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	mustHave(t, ann.open(rep.link("ann-at-idp", "editor")), http.StatusOK, "<form")
	mustHave(t, ann.open(rep.link("ann-at-idp", "editor")), http.StatusOK, "<form")
	if n := len(r.idp.asked); n != 1 {
		t.Errorf("the issuer was asked %d times, want once", n)
	}
	two := newAuthServer(t, r.clock.Now)
	r.edit(func(t *tenant.Tenant) {
		t.Auth.Issuers = append(t.Auth.Issuers, tenant.Issuer{Issuer: two.URL, Private: true, Login: &tenant.Login{ClientID: "gateway-at-two"}})
	})
	reg := r.registration()
	_, err := rep.Source(reg, &reg.Upstreams[0], &tenant.Principal{Tenant: "acme", Issuer: two.URL, Subject: "ann-at-idp", ClientID: "editor"}).Credential(t.Context())
	s := ann.open(linkOf(t, err))
	if len(two.asked) != 1 {
		t.Error("the other issuer was not asked")
	}
	mustHave(t, s, http.StatusOK, "<form")
	r.edit(func(t *tenant.Tenant) { t.Name = "other" })
	reg = r.registration()
	_, err = rep.Source(reg, &reg.Upstreams[0], &tenant.Principal{Tenant: "other", Issuer: r.idp.URL, Subject: "ann-at-idp", ClientID: "editor"}).Credential(t.Context())
	before := len(r.idp.asked)
	mustHave(t, ann.open(linkOf(t, err)), http.StatusOK, "<form")
	if len(r.idp.asked) != before+1 {
		t.Error("the session of one tenant was good for another one")
	}
}
