package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// tenantWith gives a file with one tenant that has these keys, each in a line of its
// own; the first is line 4.
func tenantWith(keys ...string) string {
	return "publicURL: https://h\ntenants:\n- name: a\n  " + strings.Join(keys, "\n  ") + "\n"
}

// TestFaultsOfPolicy holds what is wrong with policies, toolsets and hosts, with the
// place of each fault.
func TestFaultsOfPolicy(t *testing.T) {
	tests := []faultCase{
		{"empty policy", tenantWith("policy: {}"), []string{`tenants[0].policy.default: "" must be allow or deny (line 4)`}},
		{"unknown keys", tenantWith("policy: {Default: deny, rules: [{expr: x}]}", "toolsets: [{name: x, globs: []}]", "hosts: [{host: h}]"), []string{
			`tenants[0].policy.Default: unknown key; did you mean "default"? (line 4)`,
			"tenants[0].policy.rules[0].expr: unknown key (line 4)",
			`tenants[0].policy.default: "" must be allow or deny (line 4)`,
			"tenants[0].policy.rules[0].name: is required (line 4)",
			"tenants[0].policy.rules[0].when: is required; true holds for everything (line 4)",
			`tenants[0].policy.rules[0].effect: "" must be allow or deny (line 4)`,
			"tenants[0].toolsets[0].globs: unknown key (line 5)",
			"tenants[0].hosts[0].host: unknown key (line 6)",
			"tenants[0].hosts[0].name: is required (line 6)",
			"tenants[0].hosts[0].url: is required (line 6)",
		}},
		{"types", tenantWith("policy: deny", "toolsets: {name: x}", "hosts: h"), []string{
			"tenants[0].policy: must be a mapping, not a string (line 4)",
			"tenants[0].toolsets: must be a list, not a mapping (line 5)",
			"tenants[0].hosts: must be a list, not a string (line 6)",
		}},
		{"rules", tenantWith("policy:", "  default: maybe", "  rules:", "  - {effect: allow}", "  - {name: r, when: 'true', effect: permit, scopes: [offline_access]}", "  - {name: r, when: '', effect: deny, scopes: [x]}"), []string{
			`tenants[0].policy.default: "maybe" must be allow or deny (line 5)`,
			"tenants[0].policy.rules[0].name: is required (line 7)",
			"tenants[0].policy.rules[0].when: is required; true holds for everything (line 7)",
			`tenants[0].policy.rules[1].effect: "permit" must be allow or deny (line 8)`,
			`tenants[0].policy.rules[1].scopes[0]: "offline_access" is for the issuer alone and never needed by a resource (line 8)`,
			`tenants[0].policy.rules[2].name: "r" is that of policy.rules[1] too (line 9)`,
			"tenants[0].policy.rules[2].when: is required; true holds for everything (line 9)",
			"tenants[0].policy.rules[2].scopes: are for the effect allow: what is denied needs none (line 9)",
		}},
		{"expressions", tenantWith("policy:", "  default: deny", "  rules:", "  - {name: good, when: 'true', effect: allow}", "  - name: typo", "    effect: allow",
			"    when: principal.groops == []", "  - {name: number, when: '1 + 1', effect: deny}", "  - name: lines", "    effect: deny", "    when: |", "      true &&", "        tool.nome == 'x'",
			"toolsets:", "- {name: x, when: 'request.arguments.a == 1'}", "- {name: y, when: 'tool.name =='}"), []string{
			`tenants[0].policy.rules[1].when: rule "typo": 1:10: undefined field 'groops' (line 10)`,
			`tenants[0].policy.rules[2].when: rule "number": 1:3: gives int, not bool (line 11)`,
			`tenants[0].policy.rules[3].when: rule "lines": 2:7: undefined field 'nome' (line 14)`,
			`tenants[0].toolsets[0].when: toolset "x": a toolset cannot depend on arguments (line 18)`,
			`tenants[0].toolsets[1].when: toolset "y": 1:13: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (line 19)`,
		}},
		{"toolsets", tenantWith("toolsets:", "- {name: Read, include: ['[a'], tags: [a b]}", "- name: read", "  scopes: [a b]", "  discovery: {mode: fast, pinned: ['']}", "- name: read", "  limits: {inFlight: 0}"), []string{
			`tenants[0].toolsets[0].name: "Read" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 5)`,
			`tenants[0].toolsets[0].include[0]: "[a" must be a name or a pattern such as ledger_* (line 5)`,
			`tenants[0].toolsets[0].tags[0]: "a b" must match ^[A-Za-z0-9._:/-]{1,63}$ (line 5)`,
			`tenants[0].toolsets[1].scopes[0]: "a b" is not a scope (line 7)`,
			`tenants[0].toolsets[1].discovery.mode: "fast" must be full, search or auto (line 8)`,
			`tenants[0].toolsets[1].discovery.pinned[0]: "" must be a name or a pattern such as ledger_* (line 8)`,
			`tenants[0].toolsets[2].name: "read" is that of toolsets[1] too (line 9)`,
			"tenants[0].toolsets[2].limits.inFlight: 0 must be between 1 and 2147483647 (line 10)",
		}},
		{"hosts", tenantWith("hosts:", "- {name: h, url: 'https://h'}", "- {name: B.example, url: 'http://b.example'}", "- {name: c.example, url: 'https://c.example/'}", "- {name: c.example, url: 'https://u:hush@c'}") +
			"- {name: b, hosts: [{name: d.example, url: 'https://d.example'}, {name: c.example, url: 'https://c.example'}]}", []string{
			`tenants[0].hosts[0].name: "h" is the host of publicURL, which leads to all tenants (line 5)`,
			`tenants[0].hosts[1].name: "B.example" must be a host name such as mcp.example.com, in small letters and without a port (line 6)`,
			"tenants[0].hosts[1].url: must be an https URL; http is for loopback addresses (line 6)",
			"tenants[0].hosts[2].url: must be a URL such as https://mcp.example.com, in small letters and without a path (line 7)",
			`tenants[0].hosts[3].name: "c.example" is that of hosts[2] too (line 8)`,
			"tenants[0].hosts[3].url: must not hold a user or password (line 8)",
			`tenants[1].hosts[1].name: "c.example" is a name of tenants[0] too (line 9)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestFaultsOfCredentials holds what is wrong with what upstreams are shown.
func TestFaultsOfCredentials(t *testing.T) {
	const reference = "must be a reference: either {env: NAME} or {file: path}"
	tests := []faultCase{
		{"unknown keys", up("auth: {mode: none, tokenUrl: x, client_id: c}"), []string{
			`tenants[0].upstreams[1].auth.tokenUrl: unknown key; did you mean "tokenURL"? (line 7)`,
			`tenants[0].upstreams[1].auth.client_id: unknown key; did you mean "clientID"? (line 7)`,
		}},
		{"unknown mode", up("auth: {mode: basic}"), []string{
			`tenants[0].upstreams[1].auth.mode: "basic" must be none, bearer, headers, client_credentials, token_exchange, user_oauth or forward (line 7)`,
		}},
		{"literal secrets", up("auth:", "  mode: headers", "  token: hush", "  clientSecret: hush", "  headers:", "    X-Key: hush"), []string{
			"tenants[0].upstreams[1].auth.token: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 9)",
			"tenants[0].upstreams[1].auth.clientSecret: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 10)",
			"tenants[0].upstreams[1].auth.headers.X-Key: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 12)",
		}},
		{"sealed secret", up("auth: {mode: bearer, token: {sealed: k1.hush}}"), []string{"tenants[0].upstreams[1].auth.token.sealed: unknown key (line 7)"}},
		{"bearer", up("auth: {mode: bearer}"), []string{"tenants[0].upstreams[1].auth.token: " + reference + " (line 7)"}},
		{"what the mode has no use for", up("auth:", "  mode: bearer", "  token: {env: A}", "  scopes: [x]", "  forward: [X-A]"), []string{
			"tenants[0].upstreams[1].auth.scopes: is for the mode client_credentials, token_exchange or user_oauth (line 10)",
			"tenants[0].upstreams[1].auth.forward: is for the mode forward (line 11)",
		}},
		{"headers", up("forwardHeaders: [X-Key]", "auth:", "  mode: headers", "  headers:", "    Mcp-Name: {env: A}", "    X-A: {env: A, file: b}", "    x-a: {env: A}", "    x-key: {env: A}", "    'X B': {env: A}"), []string{
			`tenants[0].upstreams[1].auth.headers.Mcp-Name: "Mcp-Name" is made by the gateway and cannot be set (line 11)`,
			"tenants[0].upstreams[1].auth.headers.X-A: " + reference + " (line 12)",
			`tenants[0].upstreams[1].auth.headers.x-a: "x-a" is there twice (line 13)`,
			`tenants[0].upstreams[1].auth.headers.x-key: "x-key" is in forwardHeaders too: clients could replace it (line 14)`,
			`tenants[0].upstreams[1].auth.headers["X B"]: "X B" is not a header name (line 15)`,
		}},
		{"forward", up("auth:", "  mode: forward", "  forward:", "  - X-Ok", "  - Authorization", "  - Mcp-Session-Id"), []string{
			`tenants[0].upstreams[1].auth.forward[1]: "Authorization" is made anew by the gateway and cannot be forwarded (line 11)`,
			`tenants[0].upstreams[1].auth.forward[2]: "Mcp-Session-Id" is made anew by the gateway and cannot be forwarded (line 12)`,
		}},
		{"users of a tenant that asks nobody", up("auth: {mode: user_oauth}", "sessions: shared"), []string{
			"tenants[0].upstreams[1].auth.mode: user_oauth shows each user apart, who then cannot share sessions (line 7)",
			"tenants[0].upstreams[1].auth.mode: user_oauth is for users who sign in: it needs a tenant whose auth.mode is oauth (line 7)",
		}},
		{"users who cannot sign in", who("mode: oauth", "issuers: [{issuer: 'https://i', login: {clientSecret: {env: A}}}, {issuer: 'https://j'}]") +
			"  upstreams: [{alias: u, url: 'http://u', auth: {mode: user_oauth}}]", []string{
			"tenants[0].auth.issuers[0].login.clientID: is required (line 6)",
		}},
		{"no login", who("mode: oauth", "issuers: [{issuer: 'https://i'}]") + "  upstreams: [{alias: u, url: 'http://u', auth: {mode: user_oauth}}]", []string{
			"tenants[0].upstreams[0].auth.mode: user_oauth needs an issuer of the tenant with a login, so that its pages can tell who opens them (line 7)",
		}},
		{"users who would sign in without TLS", strings.Replace(who("mode: oauth", "issuers: [{issuer: 'https://i', login: {clientID: c}}]"), "https://h", "http://h", 1) +
			"  upstreams: [{alias: u, url: 'http://u', auth: {mode: user_oauth}}]", []string{
			"tenants[0].upstreams[0].auth.mode: user_oauth needs a publicURL that is an https one, or of this machine: users sign in there (line 7)",
		}},
		{"program", "tenants:\n- name: a\n  upstreams:\n  - {alias: p, command: [x], auth: {mode: bearer, token: {env: A}}}", []string{
			"tenants[0].upstreams[0].auth.mode: a program takes no headers: its secrets are in its environment (line 4)",
		}},
		{"pins", up("pinning: first", "pins:", "  ok: 'sha256:"+strings.Repeat("0a", 32)+"'", "  a.b: 'md5:00'", "  c: 5"), []string{
			`tenants[0].upstreams[1].pinning: "first" must be all, or not be there (line 7)`,
			`tenants[0].upstreams[1].pins["a.b"]: must be sha256: and 64 hexadecimal digits, in small letters (line 10)`,
			"tenants[0].upstreams[1].pins.c: must be a string in quotes, not an integer (line 11)",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestCredentials holds what each mode is read into. The file may name any address.
func TestCredentials(t *testing.T) {
	tests := []struct {
		name, auth string
		want       tenant.Credential
	}{
		{"none", "{}", tenant.Credential{}},
		{"bearer", "{mode: bearer, token: {file: ./t}}", tenant.Credential{Mode: tenant.CredentialBearer, Token: tenant.Secret{File: "./t"}}},
		{"headers are sorted", "{mode: headers, headers: {X-B: {env: B}, Authorization: {env: A}}}", tenant.Credential{
			Mode: tenant.CredentialHeaders,
			Headers: []tenant.SecretHeader{
				{Name: "Authorization", Value: tenant.Secret{Env: "A"}}, {Name: "X-B", Value: tenant.Secret{Env: "B"}},
			},
		}},
		{"client", "{mode: client_credentials, issuer: 'http://10.0.0.1', tokenURL: 'http://10.0.0.1/t', clientID: c, clientSecret: {env: S}, scopes: [x]}", tenant.Credential{
			Mode: tenant.CredentialClient, Issuer: "http://10.0.0.1", TokenURL: "http://10.0.0.1/t", ClientID: "c", ClientSecret: tenant.Secret{Env: "S"}, Scopes: []string{"x"},
		}},
		{"user", "{mode: user_oauth, resource: 'https://r/', registration: dynamic}", tenant.Credential{
			Mode: tenant.CredentialUser, Resource: "https://r/", Registration: tenant.RegistrationDynamic,
		}},
		{"forward", "{mode: forward, forward: [X-Region]}", tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"X-Region"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse([]byte(who("mode: oauth", "issuers: [{issuer: 'https://i', login: {clientID: c}}]") +
				"  upstreams: [{alias: u, url: 'http://u', auth: " + tt.auth + "}]"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, c.Tenants[0].Upstreams[0].Auth); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckCredentials holds that secrets which are not there are told with their
// places.
func TestCheckCredentials(t *testing.T) {
	c, err := config.Parse([]byte(who("mode: oauth", "issuers: [{issuer: 'https://i', login: {clientID: c, clientSecret: {env: LOGIN}}}, {issuer: 'https://j', login: {clientID: c}}]") +
		"  upstreams:\n  - {alias: a, url: 'http://u', auth: {mode: bearer, token: {env: TOKEN}}}\n" +
		"  - {alias: b, url: 'http://u', auth: {mode: headers, headers: {X-Key: {env: KEY}}}}\n" +
		"  - {alias: c, url: 'http://u', auth: {mode: client_credentials, issuer: 'https://i', clientID: c, clientSecret: {env: CLIENT}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := env(map[string]string{"LOGIN": "x", "TOKEN": "x", "KEY": "x", "CLIENT": "x"})
	if err := errors.Join(c.CheckIssuers(all), c.CheckCredentials(all)); err != nil {
		t.Error(err)
	}
	want := "tenants[0].auth.issuers[0].login.clientSecret: environment variable LOGIN is not set\n" +
		"tenants[0].upstreams[0].auth.token: environment variable TOKEN is not set\n" +
		"tenants[0].upstreams[1].auth.headers.X-Key: environment variable KEY is not set\n" +
		"tenants[0].upstreams[2].auth.clientSecret: environment variable CLIENT is not set"
	if err := errors.Join(c.CheckIssuers(nil), c.CheckCredentials(nil)); err == nil || err.Error() != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, err.Error()))
	}
}

// TestDesignExample holds that the example of the design is understood.
func TestDesignExample(t *testing.T) {
	const text = `
publicURL: https://mcp.example.com
tenants:
  - name: acme
    auth:
      mode: oauth
      issuers: [{issuer: https://idp.example.com, groupsClaim: groups, tenantClaim: tenant}]
      scopes: [mcp]
    discovery: {mode: auto, autoThresholdTokens: 10000, pinned: []}
    policy:
      default: deny
      rules: [{name: finance, when: '"finance" in principal.groups && tool.alias == "ledger"', effect: allow}]
    limits: {callsPerMinute: 6000, inFlight: 200, listenStreams: 1000}
    toolsets: [{name: readonly, include: ["ledger_*"], when: 'tool.annotations.readOnlyHint == true'}]
    upstreams:
      - alias: ledger
        url: https://ledger.internal/mcp
        auth: {mode: token_exchange, tokenURL: https://idp.example.com/token, audience: https://ledger.internal/mcp, clientID: causeway, clientSecret: {env: LEDGER_SECRET}}
        timeouts: {connect: 2s, list: 2s, call: 60s, callMax: 10m}
`
	if _, err := config.Parse([]byte(text)); err != nil {
		t.Error(err)
	}
}

// TestCheckPolicy holds that who writes a registry is told of faulty expressions,
// together with all else, in the order of what is written.
func TestCheckPolicy(t *testing.T) {
	read := func(text string) string {
		_, err := tenant.DecodeSnapshot([]byte(text), config.CheckPolicy)
		var faults tenant.Faults
		if err == nil {
			return ""
		}
		if !errors.As(err, &faults) {
			t.Fatalf("the error is a %T, want Faults", err)
		}
		return err.Error()
	}
	if got := read(`{"version":1,"tenants":[{"name":"a","policy":{"default":"deny","rules":[{"name":"r","when":"true","effect":"allow"}]}}]}`); got != "" {
		t.Error(got)
	}
	got := read(`{"version":1,"tenants":[{"name":"z","policy":{"default":"deny","rules":[{"name":"r","when":"nobody.knows","effect":"allow"},` +
		`{"name":"s","when":7,"effect":"allow"},{"name":"t","when":"true","effect":"maybe"}]}},{"name":"a","toolsets":[{"name":"x","when":"1"}]}]}`)
	want := "tenants[0].policy.rules[1].when: must be a string\n" +
		`tenants[0].policy.rules[2].effect: "maybe" must be allow or deny` + "\n" +
		"tenants[0].policy.rules[0].when: rule \"r\": 1:1: undeclared reference to 'nobody'\n" +
		`tenants[1].toolsets[0].when: toolset "x": 1:1: gives int, not bool`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
