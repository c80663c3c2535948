package broker_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// realRig is a consentRig whose servers are real ones.
func realRig(t *testing.T) *consentRig {
	t.Helper()
	node := gatewaytest.NewNode(t)
	script, err := os.ReadFile("../../testdata/node/upstreamidp.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "upstreamidp.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(node.Modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	r := newConsentRig(t)
	r.idp.URL = gatewaytest.StartNode(t, node, "", "PORT", filepath.Join(dir, "upstreamidp.mjs"))
	r.as.URL = gatewaytest.StartNode(t, node, "", "PORT", filepath.Join(dir, "upstreamidp.mjs"))
	r.edit(func(t *tenant.Tenant) {
		t.Auth.Issuers[0].Issuer = r.idp.URL
		t.Upstreams[0].Auth.Issuer, t.Upstreams[0].Auth.ClientID = r.as.URL, "" // so it registers itself
	})
	return r
}

// register makes the gateway a client of the tenant's issuer, as an operator does.
func (r *consentRig) register(rep *replica) (id, secret string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{
		"redirect_uris": []string{rep.site.URL + "/oauth/signed-in"}, "grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "client_secret_basic", "application_type": "native",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.Post(r.idp.URL+"/reg", "application/json", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.ID == "" {
		r.t.Fatalf("register at the issuer: status %d, %v", resp.StatusCode, err)
	}
	return made.ID, made.Secret
}

// claimsOf gives those of an access token that is a JWT.
func claimsOf(t *testing.T, access string) (c struct {
	Subject  string `json:"sub"`
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
}) {
	t.Helper()
	parts := strings.Split(access, ".")
	if len(parts) != 3 {
		t.Fatalf("the access token is no JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRealServers has two users with two accounts go all the way through two real
// authorization servers: sign-in, registration, consent, refresh, step-up and
// withdrawal. A stolen link helps nobody.
func TestRealServers(t *testing.T) {
	r := realRig(t)
	var secret string
	rep := r.replica(func(o *broker.Options) {
		o.Secrets = func(tenant.Secret) ([]byte, error) { return []byte(secret), nil }
	})
	var id string
	id, secret = r.register(rep)
	r.edit(func(t *tenant.Tenant) {
		login := *t.Auth.Issuers[0].Login
		login.ClientID, login.Scopes = id, nil
		t.Auth.Issuers[0].Login = &login
	})
	ann, bob := r.person("ann-at-idp", "ann-at-travel"), r.person("bob-at-idp", "bob-at-travel")
	mustHave(t, bob.open(rep.link("ann-at-idp", "editor")), http.StatusForbidden, "This link is for another user")
	ann.connect(rep.link("ann-at-idp", "editor"))
	bob.connect(rep.link("bob-at-idp", "editor"))
	type claims struct{ Subject, Audience, Scope string }
	see := func(user string) claims {
		c := claimsOf(t, rep.token(user, "editor"))
		if c.Issuer != r.as.URL {
			t.Errorf("the token of %s is from %s", user, c.Issuer)
		}
		return claims{c.Subject, c.Audience, c.Scope}
	}
	want := map[string]claims{
		"ann-at-idp": {"ann-at-travel", "http://127.0.0.1:9/mcp", "trips"}, "bob-at-idp": {"bob-at-travel", "http://127.0.0.1:9/mcp", "trips"},
	}
	if diff := cmp.Diff(want, map[string]claims{"ann-at-idp": see("ann-at-idp"), "bob-at-idp": see("bob-at-idp")}); diff != "" {
		t.Errorf("what the upstream is shown (-want +got):\n%s", diff)
	}
	for range 3 { // each with the refresh token that the one before gave
		before := rep.token("ann-at-idp", "editor")
		r.clock.advance(6 * time.Minute)
		if rep.token("ann-at-idp", "editor") == before {
			t.Error("the token was not refreshed")
		}
	}
	if got := see("ann-at-idp"); got != want["ann-at-idp"] {
		t.Errorf("after three refreshes: %+v", got)
	}
	_, err := rep.refuse(rep.token("ann-at-idp", "editor"), http.StatusForbidden, `Bearer error="insufficient_scope", scope="pay"`)
	ann.connect(linkOf(t, err))
	if got := see("ann-at-idp"); got.Scope != "trips pay" || got.Subject != "ann-at-travel" {
		t.Errorf("after the step-up: %+v", got)
	}
	to, fields := ann.open(rep.site.URL + "/oauth/connections?tenant=acme").form(t)
	s := ann.send(to, fields, nil)
	mustHave(t, s, http.StatusOK, "Withdrawn")
	if strings.Contains(s.body, "could not be told") {
		t.Errorf("the server did not take it:\n%s", r.log)
	}
	if _, err := rep.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("after the withdrawal: %v", err)
	}
	see("bob-at-idp")
}
