package tenant_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// valid gives a tenant with something in every field that may be from a store.
func valid() *tenant.Tenant {
	ttl := 90 * time.Second
	return &tenant.Tenant{
		Name: "acme-2", Separator: "__", PageSize: 10,
		Discovery: tenant.Discovery{Mode: tenant.DiscoveryAuto, AutoThresholdTokens: 8000, Pinned: []string{"ledger_*"}, FromURL: true},
		Limits: tenant.Limits{
			Quota:         tenant.Quota{CallsPerMinute: 6000, InFlight: 200},
			ListenStreams: 1000, Principal: tenant.Quota{CallsPerMinute: 60, InFlight: 2},
		},
		Auth: tenant.Auth{
			Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Implies: map[string][]string{"admin": {"mcp", "read"}},
			Issuers: []tenant.Issuer{{
				Issuer: "https://idp.example.com/", Audiences: []string{"api://causeway"}, GroupsClaim: "realm.groups",
				TenantClaim: "org", TenantValue: "Acme", ScopeClaim: "permissions", Algorithms: []string{"ES256"},
				JWKSURL:       "https://idp.example.com/keys",
				Introspection: &tenant.Introspection{URL: "https://idp.example.com/introspect", ClientID: "causeway", ClientSecret: tenant.Secret{Sealed: "k1.AA"}},
				Login:         &tenant.Login{ClientID: "causeway", ClientSecret: tenant.Secret{Sealed: "k1.AB"}, Scopes: []string{"email"}},
			}},
		},
		Upstreams: []tenant.Upstream{{
			Alias: "weather", URL: "https://127.0.0.1:7001/mcp?x=1", Era: "modern", Prefix: tenant.PrefixNone,
			Sessions:    tenant.Sessions{Shared: true, Max: 1, Idle: time.Second, ParkMax: time.Minute, Parked: 3, ParkedPerPrincipal: 1},
			Description: "Wetter für alle \u2028 <&>", Tags: []string{"a/b", "c.d"}, ForwardHeaders: []string{"X-Tenant"},
			Timeouts: tenant.Timeouts{Connect: 1500 * time.Millisecond, List: 1, Call: time.Minute, CallMax: time.Hour},
			Cache:    tenant.CacheTimes{ListTTL: &ttl, Stale: time.Second, StaleIfError: time.Hour},
			Auth: tenant.Credential{
				Mode: tenant.CredentialClient, Issuer: "https://idp.example.com/", TokenURL: "https://idp.example.com/token",
				Resource: "https://ledger.example.com/mcp", ClientID: "causeway",
				ClientSecret: tenant.Secret{Sealed: "k1.AC"}, Scopes: []string{"ledger.read"}, Registration: tenant.RegistrationStatic,
			},
			Pinning: tenant.PinAll, Pins: map[string]string{"rates.read": "sha256:" + strings.Repeat("0a", 32)},
			InFlight: 7, Limits: tenant.Quota{CallsPerMinute: 5, InFlight: 4},
		}},
		Toolsets: []tenant.Toolset{{
			Name: "readonly", Include: []string{"ledger_*"}, Tags: []string{"a/b"}, When: "tool.annotations.readOnlyHint == true",
			Scopes: []string{"read"}, Limits: tenant.Quota{CallsPerMinute: 1, InFlight: 1},
			Discovery: tenant.Discovery{Mode: tenant.DiscoverySearch, AutoThresholdTokens: 1, Pinned: []string{"ledger_pay"}, FromURL: true},
		}},
		Hosts: []tenant.Host{{Name: "mcp.acme.example", URL: "https://mcp.acme.example"}},
		Policy: &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{
			{Name: "finance", When: `"finance" in principal.groups`, Effect: tenant.EffectAllow, Scopes: []string{"f"}},
		}},
	}
}

func TestValidate(t *testing.T) {
	negative := -time.Second
	tests := []struct {
		name string
		edit func(one *tenant.Tenant)
		want []string // faults
	}{
		{"valid", func(*tenant.Tenant) {}, nil},
		{"empty", func(one *tenant.Tenant) { *one = tenant.Tenant{} }, []string{"name: is required", `separator: "" must be "_" or "__"`}},
		{"name", func(one *tenant.Tenant) { one.Name = "-a" }, []string{`name: "-a" must match ^[a-z0-9][a-z0-9-]{0,62}$`}},
		{"long name", func(one *tenant.Tenant) { one.Name = strings.Repeat("a", 63) }, nil},
		{"page size", func(one *tenant.Tenant) { one.PageSize = 100_001 }, []string{"pageSize: 100001 must be between 0 and 100000"}},
		{"limits", func(one *tenant.Tenant) {
			one.Limits.CallsPerMinute, one.Limits.ListenStreams, one.Limits.Principal.InFlight = -1, -2, math.MaxInt
		}, []string{
			"limits.callsPerMinute: -1 must be between 0 and 2147483647", "limits.listenStreams: -2 must be between 0 and 2147483647",
			"limits.principal.inFlight: 9223372036854775807 must be between 0 and 2147483647",
		}},
		{"aliases", func(one *tenant.Tenant) {
			for _, alias := range []string{"", "1a", "Weather", "weather", "git", "a23456789012345678901"} {
				one.Upstreams = append(one.Upstreams, tenant.Upstream{Alias: alias, URL: "http://h/", Prefix: "alias"})
			}
		}, []string{
			"upstreams[1].alias: is required", `upstreams[2].alias: "1a" must match ^[a-z][a-z0-9]{0,19}$`,
			`upstreams[3].alias: "Weather" must match ^[a-z][a-z0-9]{0,19}$`, `upstreams[4].alias: "weather" is that of upstreams[0] too`,
			`upstreams[5].alias: "git" is reserved`, `upstreams[6].alias: "a23456789012345678901" must match ^[a-z][a-z0-9]{0,19}$`,
		}},
		{"upstream", func(one *tenant.Tenant) {
			u := &one.Upstreams[0]
			u.Era, u.Prefix, u.Tags, u.InFlight = "old", "", []string{"a", "a", "b c"}, -1
			u.ForwardHeaders = []string{"mcp-session-id", "X y", "authorization", "X-Good"}
		}, []string{
			`upstreams[0].era: "old" must be auto, modern or handshake`, `upstreams[0].prefix: "" must be alias or none`,
			`upstreams[0].tags[1]: "a" is there twice`, `upstreams[0].tags[2]: "b c" must match ^[A-Za-z0-9._:/-]{1,63}$`,
			`upstreams[0].forwardHeaders[0]: "mcp-session-id" is made anew by the gateway and cannot be forwarded`,
			`upstreams[0].forwardHeaders[1]: "X y" is not a header name`,
			`upstreams[0].forwardHeaders[2]: "authorization" is made anew by the gateway and cannot be forwarded`,
			"upstreams[0].inFlight: -1 must be between 0 and 2147483647",
		}},
		{"times", func(one *tenant.Tenant) {
			u := &one.Upstreams[0]
			u.Timeouts.Call, u.Timeouts.CallMax, u.Cache.ListTTL, u.Sessions.Idle = time.Hour, time.Minute, &negative, -1
		}, []string{
			"upstreams[0].sessions.idle: -1ns must not be negative",
			"upstreams[0].timeouts.call: call (1h0m0s) must not be longer than callMax (1m0s)",
			"upstreams[0].cache.listTTL: -1s must not be negative",
		}},
		{"texts", func(one *tenant.Tenant) {
			one.Upstreams[0].Description, one.Toolsets[0].When = "\xff", strings.Repeat("x", 16385)
		}, []string{
			"upstreams[0].description: is not valid UTF-8", "toolsets[0].when: has 16385 bytes, at most 16384 are allowed",
		}},
		{"toolsets", func(one *tenant.Tenant) {
			one.Toolsets = append(one.Toolsets, tenant.Toolset{Name: "readonly", Include: []string{""}}, tenant.Toolset{Name: "A"})
		}, []string{
			`toolsets[1].name: "readonly" is that of toolsets[0] too`, `toolsets[1].include[0]: "" must be a name or a pattern such as ledger_*`,
			`toolsets[2].name: "A" must match ^[a-z0-9][a-z0-9-]{0,62}$`,
		}},
		{"policy", func(one *tenant.Tenant) {
			one.Policy = &tenant.Policy{Rules: []tenant.Rule{{Effect: "maybe"}, {Name: "r", When: "true", Effect: "deny"}, {Name: "r", When: "true", Effect: "deny"}}}
		}, []string{
			`policy.default: "" must be allow or deny`, "policy.rules[0].name: is required",
			"policy.rules[0].when: is required; true holds for everything", `policy.rules[0].effect: "maybe" must be allow or deny`,
			`policy.rules[2].name: "r" is that of policy.rules[1] too`,
		}},
		{"modes", func(one *tenant.Tenant) { one.Auth = tenant.Auth{Mode: "basic"} }, []string{`auth.mode: "basic" must be none, oauth or keys`}},
		{"keys", func(one *tenant.Tenant) { one.Auth = tenant.Auth{Mode: tenant.AuthKeys, Scopes: []string{"a"}} }, nil},
		{"nobody is asked", func(one *tenant.Tenant) { one.Auth.Mode = "" }, []string{
			"auth.mode: none asks for no scopes; oauth and keys do", "auth.issuers: are for the mode oauth",
		}},
		{"no issuer", func(one *tenant.Tenant) { one.Auth.Issuers = nil }, []string{"auth.issuers: must name an issuer whose tokens are accepted"}},
		{"issuers", func(one *tenant.Tenant) {
			a := &one.Auth
			a.Issuers = append(a.Issuers, a.Issuers[0], tenant.Issuer{Issuer: "http://127.0.0.1:1/?x", TenantValue: "a"},
				tenant.Issuer{Issuer: "http://127.0.0.1:1", Private: true, JWKSURL: "http://u:hush@h/", Algorithms: []string{"HS256", "ES256", "ES256", "none"}})
			a.Issuers[2].Introspection = &tenant.Introspection{URL: "http://h/", ClientSecret: tenant.Secret{Env: "A", Sealed: "hush"}}
		}, []string{
			`auth.issuers[1].issuer: "https://idp.example.com/" is that of issuers[0] too`,
			"auth.issuers[1].introspection: issuers[0] has it too: an opaque token does not say which of them to ask",
			"auth.issuers[2].issuer: must be an https URL; http is for an issuer with private: true",
			"auth.issuers[2].issuer: must not have a query",
			"auth.issuers[2].tenantValue: is what a tenantClaim must hold, and there is none",
			"auth.issuers[2].introspection.url: must be an https URL; http is for an issuer with private: true",
			"auth.issuers[2].introspection.clientID: is required",
			"auth.issuers[2].introspection.clientSecret: must be one of env, file and, in a registry, sealed",
			"auth.issuers[2].introspection: issuers[0] has it too: an opaque token does not say which of them to ask",
			"auth.issuers[3].jwksURL: must not hold a user or password",
			`auth.issuers[3].algorithms[0]: "HS256" must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA`,
			`auth.issuers[3].algorithms[2]: "ES256" is there twice`,
			`auth.issuers[3].algorithms[3]: "none" must be one of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA`,
		}},
		{"scopes", func(one *tenant.Tenant) {
			one.Auth.Scopes = []string{"a b", "offline_access"}
			one.Auth.Implies = map[string][]string{"": {"x"}, "y": {"\""}}
		}, []string{
			`auth.scopes[0]: "a b" is not a scope`, `auth.scopes[1]: "offline_access" is for the issuer alone and never needed by a resource`,
			`auth.implies[""]: is not a scope`, `auth.implies.y[0]: "\"" is not a scope`,
		}},
		{"program", func(one *tenant.Tenant) {
			one.Upstreams[0] = tenant.Upstream{Alias: "p", Prefix: "alias", Process: &tenant.Process{
				Command: []string{"npx", "x"}, Dir: "d", Env: []tenant.Variable{{Name: "A", Value: "secret"}},
			}}
		}, nil},
		{"faulty program", func(one *tenant.Tenant) {
			one.Upstreams[0] = tenant.Upstream{Alias: "p", Prefix: "alias", ForwardHeaders: []string{"X-A"}, Process: &tenant.Process{
				Command: []string{"", "\x00"}, Dir: "\x00", Env: []tenant.Variable{{Name: "1", Value: "secret"}, {Name: "A", Value: "secret\x00"}},
			}}
		}, []string{
			"upstreams[0].process.command: must name a program", "upstreams[0].process.command[1]: must not contain a null character",
			"upstreams[0].process.dir: must not contain a null character",
			"upstreams[0].process.env[0].name: the name of a variable must match ^[A-Za-z_][A-Za-z0-9_]{0,255}$",
			"upstreams[0].process.env[1].value: must not contain a null character", "upstreams[0].forwardHeaders: a program takes no headers",
		}},
		{"program and url", func(one *tenant.Tenant) {
			one.Upstreams[0].Process = &tenant.Process{Command: []string{"x"}}
		}, []string{"upstreams[0].process: is for an upstream without a url"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := valid()
			tt.edit(one)
			err := tenant.Validate(one)
			var faults tenant.Faults
			if errors.As(err, &faults) != (err != nil) {
				t.Fatalf("the error is no Faults: %v", err)
			}
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateURL(t *testing.T) {
	const form = "must be an http or https URL such as http://127.0.0.1:7001/mcp"
	tests := []struct{ name, url, want string }{
		{"plain", "http://h", ""}, {"IPv6", "http://[::1]:80/x", ""}, {"empty", "", "is required"},
		{"other scheme", "ftp://h/", form}, {"relative", "/mcp", form}, {"no host", "http:///x", form}, {"port 0", "http://h:0/", form},
		{"empty port", "http://h:/", form}, {"port too high", "http://h:65536/", form}, {"not a URL", "http://h/%zz", form},
		{"password", "http://u:p@h/", "must not hold a user or password"}, {"user", "http://u@h/", "must not hold a user or password"},
		{"fragment", "http://h/#f", "must not have a fragment"}, {"empty fragment", "http://h/#", "must not have a fragment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := valid()
			one.Upstreams[0].URL = tt.url
			got := ""
			if err := tenant.Validate(one); err != nil {
				got = strings.TrimPrefix(err.Error(), "upstreams[0].url: ")
			}
			if got != tt.want {
				t.Errorf("fault %q, want %q", got, tt.want)
			}
		})
	}
}

func TestValidateKey(t *testing.T) {
	good := tenant.APIKey{ID: "k.1_-", Tenant: "acme", Hash: make([]byte, 32), Subject: "s"}
	if err := tenant.ValidateKey(&good); err != nil {
		t.Errorf("a valid key: %v", err)
	}
	bad := tenant.APIKey{
		ID: "a/b", Tenant: "A", Name: "\xff", Hash: make([]byte, 31), Scopes: []string{""},
		Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	want := `id: "a/b" must match ^[A-Za-z0-9._-]{1,64}$
tenant: "A" must match ^[a-z0-9][a-z0-9-]{0,62}$
name: is not valid UTF-8
hash: has 31 bytes, a SHA-256 has 32
subject: is required
scopes[0]: must not be empty
expires: the year 10000 cannot be written (RFC 3339)`
	if err := tenant.ValidateKey(&bad); err == nil || err.Error() != want {
		t.Errorf("faults (-want +got):\n%s", cmp.Diff(want, err.Error()))
	}
}
