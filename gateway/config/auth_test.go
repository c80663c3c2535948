package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// who gives a file with one tenant whose auth has these keys, each in a line of its
// own; the first is line 4.
func who(keys ...string) string {
	return "publicURL: https://h\ntenants:\n- name: a\n  auth:\n    " + strings.Join(keys, "\n    ") + "\n"
}

// TestFaultsOfAuth holds what is wrong with who may use a tenant.
func TestFaultsOfAuth(t *testing.T) {
	const reference = "must be a reference: either {env: NAME} or {file: path}"
	opaque := func(secret string) string {
		return "issuers: [{issuer: 'https://i', introspection: {clientID: c" + secret + "}}]"
	}
	tests := []faultCase{
		{"no public URL", "tenants: [{name: a, auth: {mode: oauth, issuers: [{issuer: 'https://i'}]}}]", []string{
			"tenants[0].auth.mode: oauth needs publicURL: access tokens are for a resource below it (line 1)",
		}},
		{"unknown keys", who("mode: oauth", "issuers: [{issuer: 'https://i', JWKSurl: x, introspection: {client_id: x}}]", "scope: [x]"), []string{
			`tenants[0].auth.issuers[0].JWKSurl: unknown key; did you mean "jwksURL"? (line 6)`,
			`tenants[0].auth.issuers[0].introspection.client_id: unknown key; did you mean "clientID"? (line 6)`,
			"tenants[0].auth.issuers[0].introspection.clientID: is required (line 6)",
			"tenants[0].auth.issuers[0].introspection.clientSecret: " + reference + " (line 6)",
			"tenants[0].auth.scope: unknown key; did you mean \"scopes\"? (line 7)",
		}},
		{"literal secret", who("mode: oauth", opaque(", clientSecret: hush")), []string{
			"tenants[0].auth.issuers[0].introspection.clientSecret: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 6)",
		}},
		{"sealed secret", who("mode: oauth", opaque(", clientSecret: {sealed: k1.hush}")), []string{
			"tenants[0].auth.issuers[0].introspection.clientSecret.sealed: unknown key (line 6)",
		}},
		{"two references", who("mode: oauth", opaque(", clientSecret: {env: A, file: b}")), []string{
			"tenants[0].auth.issuers[0].introspection.clientSecret: " + reference + " (line 6)",
		}},
		{"issuers", who("mode: oauth", "issuers:", "- issuer: http://i", "- {issuer: 'https://u:hush@i'}", "- {issuer: 'https://i', algorithms: [none, HS256]}", "- {issuer: 'https://i'}"), []string{
			"tenants[0].auth.issuers[0].issuer: must be an https URL; http is for an issuer with private: true (line 7)",
			"tenants[0].auth.issuers[1].issuer: must not hold a user or password (line 8)",
			`tenants[0].auth.issuers[2].algorithms[0]: "none" must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA (line 9)`,
			`tenants[0].auth.issuers[2].algorithms[1]: "HS256" must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA (line 9)`,
			`tenants[0].auth.issuers[3].issuer: "https://i" is that of issuers[2] too (line 10)`,
		}},
		{"types", who("mode: [oauth]", "implies: [a]", "scopes: {a: b}"), []string{
			"tenants[0].auth.mode: must be a string, not a list (line 5)",
			"tenants[0].auth.implies: must be a mapping, not a list (line 6)",
			"tenants[0].auth.scopes: must be a list, not a mapping (line 7)",
		}},
		{"scopes", who("mode: keys", "scopes: [a b, offline_access]", "implies: {x: ['\"']}"), []string{
			`tenants[0].auth.scopes[0]: "a b" is not a scope (line 6)`,
			`tenants[0].auth.scopes[1]: "offline_access" is for the issuer alone and never needed by a resource (line 6)`,
			`tenants[0].auth.implies.x[0]: "\"" is not a scope (line 7)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestWarnings holds that two tenants which one token would open are told.
func TestWarnings(t *testing.T) {
	file := func(more string) string {
		return "publicURL: https://h\ntenants:\n" +
			"- {name: a, auth: {mode: oauth, issuers: [{issuer: 'https://i', audiences: [x, y]}]}}\n" +
			"- {name: b, auth: {mode: oauth, issuers: [{issuer: 'https://i', audiences: [y]" + more + "}]}}\n"
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"the same audience", file(""), []string{
			"tenants[1].auth.issuers[0].audiences[0]: tenant a accepts this audience of this issuer too: without a tenantClaim their users' tokens are good for both",
		}},
		{"told apart by a claim", file(", tenantClaim: org"), nil},
		{"another issuer", strings.Replace(file(""), "https://i'", "https://j'", 1), nil},
		{"scopes where nobody has any", "tenants: [{name: a, policy: {default: deny, rules: [{name: r, when: 'true', effect: allow, scopes: [x]}]}, toolsets: [{name: s, scopes: [x]}, {name: t}]}]", []string{
			"tenants[0].policy.rules[0].scopes: nobody has scopes where auth.mode is none: no call can be made",
			"tenants[0].toolsets[0].scopes: nobody has scopes where auth.mode is none: no call can be made",
		}},
		{"and where some have", "tenants: [{name: a, auth: {mode: keys}, toolsets: [{name: s, scopes: [x]}]}]", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range c.Warnings() {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckIssuers holds that a secret which is not there is told with its place.
func TestCheckIssuers(t *testing.T) {
	c, err := config.Parse([]byte(who("mode: oauth", "issuers: [{issuer: 'https://i', introspection: {clientID: c, clientSecret: {env: IDP}}}]")))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckIssuers(env(map[string]string{"IDP": "x"})); err != nil {
		t.Error(err)
	}
	want := "tenants[0].auth.issuers[0].introspection.clientSecret: environment variable IDP is not set"
	if err := c.CheckIssuers(nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
