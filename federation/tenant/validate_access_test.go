package tenant_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// faultsOf gives the lines of an error.
func faultsOf(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// TestValidateCredentials holds what each mode of a credential needs, and what it has
// no use for. Paths begin at upstreams[0].auth.
func TestValidateCredentials(t *testing.T) {
	sealed := tenant.Secret{Sealed: "k1.hush"}
	lines := func(names ...string) (headers []tenant.SecretHeader) {
		for _, name := range names {
			headers = append(headers, tenant.SecretHeader{Name: name, Value: sealed})
		}
		return headers
	}
	tests := []struct {
		name string
		auth tenant.Credential
		want []string
	}{
		{"absent", tenant.Credential{}, nil},
		{"none", tenant.Credential{Mode: tenant.CredentialNone}, nil},
		{"none with a token", tenant.Credential{Token: sealed}, []string{"token: is for the mode bearer"}},
		{"unknown", tenant.Credential{Mode: "basic", Token: sealed}, []string{
			`mode: "basic" must be none, bearer, headers, client_credentials, token_exchange, user_oauth or forward`,
		}},

		{"bearer", tenant.Credential{Mode: tenant.CredentialBearer, Token: sealed}, nil},
		{"bearer without a token", tenant.Credential{Mode: tenant.CredentialBearer}, []string{"token: must be one of env, file and, in a registry, sealed"}},
		{"bearer with all else", tenant.Credential{
			Mode: tenant.CredentialBearer, Token: sealed, Headers: lines("X-Key"), Forward: []string{"X-Key"}, Issuer: "https://i", TokenURL: "https://i/t",
			Audience: "a", Resource: "https://r", ClientID: "c", ClientSecret: sealed, Scopes: []string{"s"}, Registration: tenant.RegistrationStatic,
		}, []string{
			"headers: is for the mode headers", "forward: is for the mode forward",
			"issuer: is for the mode client_credentials, token_exchange or user_oauth", "tokenURL: is for the mode client_credentials or token_exchange",
			"audience: is for the mode token_exchange", "resource: is for the mode client_credentials, token_exchange or user_oauth",
			"clientID: is for the mode client_credentials, token_exchange or user_oauth",
			"clientSecret: is for the mode client_credentials, token_exchange or user_oauth",
			"scopes: is for the mode client_credentials, token_exchange or user_oauth",
			"registration: is for the mode client_credentials, token_exchange or user_oauth",
		}},

		{"headers", tenant.Credential{Mode: tenant.CredentialHeaders, Headers: lines("Authorization", "X-Key", "Cookie")}, nil},
		{"no headers", tenant.Credential{Mode: tenant.CredentialHeaders}, []string{"headers: must name a header"}},
		{"faulty headers", tenant.Credential{Mode: tenant.CredentialHeaders, Headers: append(
			lines("X Key", "mcp-name", "Connection", "HOST", "Content-Type", "Te", "X-Key", "x-key", "x-tenant"), tenant.SecretHeader{Name: "X-None"},
		)}, []string{
			`headers[0].name: "X Key" is not a header name`, `headers[1].name: "mcp-name" is made by the gateway and cannot be set`,
			`headers[2].name: "Connection" is made by the gateway and cannot be set`, `headers[3].name: "HOST" is made by the gateway and cannot be set`,
			`headers[4].name: "Content-Type" is made by the gateway and cannot be set`, `headers[5].name: "Te" is made by the gateway and cannot be set`,
			`headers[7].name: "x-key" is there twice`, `headers[8].name: "x-tenant" is in forwardHeaders too: clients could replace it`,
			"headers[9].value: must be one of env, file and, in a registry, sealed",
		}},
		{"too many headers", tenant.Credential{Mode: tenant.CredentialHeaders, Headers: slices.Repeat(lines("X-Key"), 51)}, append(
			[]string{"headers: has 51 items, at most 50 are allowed"}, repeated(`headers[%d].name: "X-Key" is there twice`, 1, 50)...,
		)},

		{"forward", tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"X-Region"}}, nil},
		{"forward nothing", tenant.Credential{Mode: tenant.CredentialForward}, []string{"forward: must name a header"}},
		{"forward what is the gateway's", tenant.Credential{
			Mode: tenant.CredentialForward, Forward: []string{"authorization", "COOKIE", "Proxy-Authorization", "Mcp-Session-Id", "te", "X-A", "x-a", "a b"},
		}, []string{
			`forward[0]: "authorization" is made anew by the gateway and cannot be forwarded`,
			`forward[1]: "COOKIE" is made anew by the gateway and cannot be forwarded`,
			`forward[2]: "Proxy-Authorization" is made anew by the gateway and cannot be forwarded`,
			`forward[3]: "Mcp-Session-Id" is made anew by the gateway and cannot be forwarded`,
			`forward[4]: "te" is made anew by the gateway and cannot be forwarded`,
			`forward[6]: "x-a" is there twice`, `forward[7]: "a b" is not a header name`,
		}},

		{"client credentials of an issuer", tenant.Credential{
			Mode: tenant.CredentialClient, Issuer: "https://i", ClientID: "c", ClientSecret: sealed, Scopes: []string{"offline_access"}, Registration: tenant.RegistrationStatic,
		}, nil},
		{"client credentials for a server that the upstream names", tenant.Credential{
			Mode: tenant.CredentialClient, ClientID: "c", ClientSecret: sealed,
		}, []string{"issuer: is required with a clientID, which one authorization server knows and others must not see"}},
		{"no client", tenant.Credential{Mode: tenant.CredentialClient, Registration: tenant.RegistrationDynamic}, []string{
			`registration: "dynamic" must be static with the mode client_credentials`, "clientID: is required with the mode client_credentials",
			"clientSecret: is required with the mode client_credentials",
		}},
		{"faulty URLs", tenant.Credential{
			Mode: tenant.CredentialClient, ClientID: "c", ClientSecret: sealed,
			Issuer: "https://i?x", TokenURL: "http://i/token", Resource: "/mcp", Scopes: []string{"a b"},
		}, []string{
			"issuer: must not have a query", "tokenURL: must be an https URL; http is for the configuration file only",
			"resource: must be an absolute URI such as https://ledger.example.com/mcp", `scopes[0]: "a b" is not a scope`,
		}},
		{"passwords in URLs", tenant.Credential{
			Mode: tenant.CredentialClient, ClientID: "c", ClientSecret: sealed,
			Issuer: "https://u:hush@i", TokenURL: "https://u:hush@i", Resource: "https://u:hush@i",
		}, []string{
			"issuer: must not hold a user or password", "tokenURL: must not hold a user or password", "resource: must not hold a user or password",
		}},
		{"fragment of a resource", tenant.Credential{Mode: tenant.CredentialClient, Issuer: "https://i", ClientID: "c", ClientSecret: sealed, Resource: "urn:x#"}, []string{
			"resource: must not have a fragment",
		}},

		{"exchange", tenant.Credential{Mode: tenant.CredentialExchange, TokenURL: "https://i/t", Audience: "a", ClientID: "c"}, nil},
		{"exchange with an issuer", tenant.Credential{Mode: tenant.CredentialExchange, Issuer: "https://i/t", ClientID: "c", ClientSecret: sealed}, nil},
		{"exchange with whom", tenant.Credential{Mode: tenant.CredentialExchange, ClientSecret: sealed}, []string{
			"tokenURL: is required, or issuer in its place: users' tokens are shown to no server that an upstream chose",
			"clientSecret: is that of a clientID, and there is none", "clientID: is required with the mode token_exchange",
		}},

		{"user", tenant.Credential{Mode: tenant.CredentialUser}, nil},
		{"user with a client", tenant.Credential{Mode: tenant.CredentialUser, Issuer: "https://i", ClientID: "c", ClientSecret: sealed}, nil},
		{"user with a client that is made", tenant.Credential{Mode: tenant.CredentialUser, ClientID: "c", Registration: tenant.RegistrationDynamic, TokenURL: "https://i/t"}, []string{
			"tokenURL: is for the mode client_credentials or token_exchange", "clientID: is for registration: static",
		}},
		{"user without the client", tenant.Credential{Mode: tenant.CredentialUser, Registration: tenant.RegistrationStatic}, []string{
			"clientID: is required with registration: static",
		}},
		{"user with whatever", tenant.Credential{Mode: tenant.CredentialUser, Registration: "magic"}, []string{
			`registration: "magic" must be static, metadata or dynamic`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := valid()
			one.Upstreams[0].Auth, one.Upstreams[0].Sessions.Shared = tt.auth, false
			got := faultsOf(tenant.Validate(one))
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], "upstreams[0].auth.")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if strings.Contains(strings.Join(got, ""), "hush") {
				t.Error("a fault shows a secret")
			}
		})
	}
}

// repeated gives a text for each number from one to the other.
func repeated(text string, from, to int) (lines []string) {
	for i := from; i <= to; i++ {
		lines = append(lines, strings.Replace(text, "%d", strconv.Itoa(i), 1))
	}
	return lines
}

// TestValidateAccess holds the other rules about who may use what.
func TestValidateAccess(t *testing.T) {
	perUser := tenant.Credential{Mode: tenant.CredentialUser}
	digest := "sha256:" + strings.Repeat("0a", 32)
	tests := []struct {
		name string
		edit func(one *tenant.Tenant)
		want []string
	}{
		{"users of a tenant that asks nobody", func(one *tenant.Tenant) {
			one.Auth = tenant.Auth{}
			one.Upstreams[0].Auth, one.Upstreams[0].Sessions.Shared = perUser, false
		}, []string{"upstreams[0].auth.mode: user_oauth is for users who sign in: it needs a tenant whose auth.mode is oauth"}},
		{"users of a tenant with keys", func(one *tenant.Tenant) {
			one.Auth = tenant.Auth{Mode: tenant.AuthKeys}
			one.Upstreams[0].Sessions.Shared = false
			one.Upstreams[0].Auth = tenant.Credential{Mode: tenant.CredentialExchange, Issuer: "https://i", ClientID: "c"}
		}, []string{"upstreams[0].auth.mode: token_exchange is for users who sign in: it needs a tenant whose auth.mode is oauth"}},
		{"users who cannot sign in", func(one *tenant.Tenant) {
			one.Auth.Issuers[0].Login = nil
			one.Upstreams[0].Auth, one.Upstreams[0].Sessions.Shared = perUser, false
		}, []string{"upstreams[0].auth.mode: user_oauth needs an issuer of the tenant with a login, so that its pages can tell who opens them"}},
		{"users who share a session", func(one *tenant.Tenant) { one.Upstreams[0].Auth = perUser }, []string{
			"upstreams[0].auth.mode: user_oauth shows each user apart, who then cannot share sessions",
		}},
		{"program", func(one *tenant.Tenant) {
			u := &one.Upstreams[0]
			u.URL, u.ForwardHeaders, u.Process = "", nil, &tenant.Process{Command: []string{"x"}}
		}, []string{"upstreams[0].auth.mode: a program takes no headers: its secrets are in its environment"}},
		{"login", func(one *tenant.Tenant) {
			one.Auth.Issuers[0].Login = &tenant.Login{ClientSecret: tenant.Secret{Env: "A", Sealed: "hush"}, Scopes: []string{"openid", "a b"}}
		}, []string{
			"auth.issuers[0].login.clientID: is required", "auth.issuers[0].login.clientSecret: must be one of env, file and, in a registry, sealed",
			`auth.issuers[0].login.scopes[1]: "a b" is not a scope`,
		}},
		{"login of a public client", func(one *tenant.Tenant) { one.Auth.Issuers[0].Login = &tenant.Login{ClientID: "c"} }, nil},
		{"hosts", func(one *tenant.Tenant) {
			one.Hosts = []tenant.Host{
				{Name: "a.example", URL: "https://a.example:8443"}, {Name: "127.0.0.1", URL: "http://127.0.0.1:8080"}, {Name: "acme.localhost", URL: "http://acme.localhost"},
				{}, {Name: "A.example", URL: "https://A.example"}, {Name: "a.example:80", URL: "https://a.example/"}, {Name: "a.example", URL: "http://a.example"},
				{Name: "-a", URL: "https://u:hush@a"}, {Name: "a..b", URL: "https://a?x"}, {Name: "b.", URL: "ftp://a"}, {Name: strings.Repeat("a.", 126) + "aa", URL: "https://a"},
			}
		}, []string{
			"hosts[3].name: is required", "hosts[3].url: is required",
			`hosts[4].name: "A.example" must be a host name such as mcp.example.com, in small letters and without a port`,
			"hosts[4].url: must be a URL such as https://mcp.example.com, in small letters and without a path",
			`hosts[5].name: "a.example:80" must be a host name such as mcp.example.com, in small letters and without a port`,
			"hosts[5].url: must be a URL such as https://mcp.example.com, in small letters and without a path",
			`hosts[6].name: "a.example" is that of hosts[0] too`, "hosts[6].url: must be an https URL; http is for loopback addresses",
			`hosts[7].name: "-a" must be a host name such as mcp.example.com, in small letters and without a port`,
			"hosts[7].url: must not hold a user or password",
			`hosts[8].name: "a..b" must be a host name such as mcp.example.com, in small letters and without a port`,
			"hosts[8].url: must be a URL such as https://mcp.example.com, in small letters and without a path",
			`hosts[9].name: "b." must be a host name such as mcp.example.com, in small letters and without a port`,
			"hosts[9].url: must be an http or https URL such as https://mcp.example.com",
			`hosts[10].name: "` + strings.Repeat("a.", 126) + `aa" must be a host name such as mcp.example.com, in small letters and without a port`,
		}},
		{"toolset", func(one *tenant.Tenant) {
			one.Toolsets[0] = tenant.Toolset{
				Name: "x", Include: []string{"a_*", "[", "\xff"}, Tags: []string{"a b"}, Scopes: []string{"offline_access", "é"}, Limits: tenant.Quota{InFlight: -1},
				Discovery: tenant.Discovery{Mode: "some", Pinned: []string{""}},
			}
		}, []string{
			`toolsets[0].include[1]: "[" must be a name or a pattern such as ledger_*`, "toolsets[0].include[2]: is not valid UTF-8",
			`toolsets[0].tags[0]: "a b" must match ^[A-Za-z0-9._:/-]{1,63}$`, `toolsets[0].scopes[1]: "é" is not a scope`,
			`toolsets[0].scopes[0]: "offline_access" is for the issuer alone and never needed by a resource`,
			"toolsets[0].limits.inFlight: -1 must be between 0 and 2147483647",
			`toolsets[0].discovery.mode: "some" must be full, search or auto`, `toolsets[0].discovery.pinned[0]: "" must be a name or a pattern such as ledger_*`,
		}},
		{"rules", func(one *tenant.Tenant) {
			one.Policy.Rules = append(one.Policy.Rules, tenant.Rule{Name: "a\nb", When: "true", Effect: "allow", Scopes: []string{"offline_access"}},
				tenant.Rule{Name: strings.Repeat("x", 201), When: "true", Effect: "deny", Scopes: []string{"x"}})
		}, []string{
			"policy.rules[1].name: must not contain control characters",
			`policy.rules[1].scopes[0]: "offline_access" is for the issuer alone and never needed by a resource`,
			"policy.rules[2].name: has 201 bytes, at most 200 are allowed",
			"policy.rules[2].scopes: are for the effect allow: what is denied needs none",
		}},
		{"pins", func(one *tenant.Tenant) {
			u := &one.Upstreams[0]
			u.Pinning = "first"
			u.Pins = map[string]string{
				"ok": digest, "a.b": strings.ToUpper(digest), "": digest, "c": digest[:70], "d": strings.TrimPrefix(digest, "sha256:"), "e": digest[:70] + "g",
			}
		}, []string{
			`upstreams[0].pinning: "first" must be all, or not be there`, `upstreams[0].pins[""]: must be the name of a tool`,
			`upstreams[0].pins["a.b"]: must be sha256: and 64 hexadecimal digits, in small letters`,
			"upstreams[0].pins.c: must be sha256: and 64 hexadecimal digits, in small letters",
			"upstreams[0].pins.d: must be sha256: and 64 hexadecimal digits, in small letters",
			"upstreams[0].pins.e: must be sha256: and 64 hexadecimal digits, in small letters",
		}},
		{"too many", func(one *tenant.Tenant) {
			one.Toolsets = slices.Repeat(one.Toolsets, 1001)[:1001]
			for i := range one.Toolsets {
				one.Toolsets[i].Name = strconv.Itoa(i)
			}
			one.Auth.Scopes = slices.Repeat([]string{"x"}, 1001)
		}, []string{"auth.scopes: has 1001 items, at most 1000 are allowed", "toolsets: has 1001 items, at most 1000 are allowed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := valid()
			tt.edit(one)
			if diff := cmp.Diff(tt.want, faultsOf(tenant.Validate(one))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValidateByKeeper holds what only the configuration file may say, and what only a
// registry keeps.
func TestValidateByKeeper(t *testing.T) {
	of := func(secret tenant.Secret, server string, private bool) *tenant.Tenant {
		one := valid()
		is, u := &one.Auth.Issuers[0], &one.Upstreams[0]
		is.Private, is.Introspection.ClientSecret, is.Login.ClientSecret = private, secret, secret
		u.Auth.Issuer, u.Auth.TokenURL, u.Auth.ClientSecret = server, server, secret
		token := *u
		token.Alias, token.Auth = "token", tenant.Credential{Mode: tenant.CredentialBearer, Token: secret}
		header := *u
		header.Alias, header.Auth = "header", tenant.Credential{Mode: tenant.CredentialHeaders, Headers: []tenant.SecretHeader{{Name: "X-Key", Value: secret}}}
		one.Upstreams = append(one.Upstreams, token, header)
		return one
	}
	secrets := func(message string) []string {
		return []string{
			"auth.issuers[0].introspection.clientSecret: " + message, "auth.issuers[0].login.clientSecret: " + message,
			"upstreams[0].auth.clientSecret: " + message, "upstreams[1].auth.token: " + message, "upstreams[2].auth.headers[0].value: " + message,
		}
	}
	const (
		references = "references come from the configuration file only; a registry keeps sealed secrets"
		https      = "must be an https URL; http is for the configuration file only"
	)
	tests := []struct {
		name, keeper string
		one          *tenant.Tenant
		want         []string
	}{
		{"sealed, of the store", tenant.ManagedByStore, of(tenant.Secret{Sealed: "k1.A"}, "https://i", false), nil},
		{"of the environment, of the store", tenant.ManagedByStore, of(tenant.Secret{Env: "A"}, "https://i", false), secrets(references)},
		{"of a file, of the store", tenant.ManagedByStore, of(tenant.Secret{File: "/etc/passwd", Sealed: "k1.A"}, "https://i", false), secrets(references)},
		{"private, of the store", tenant.ManagedByStore, of(tenant.Secret{Sealed: "k1.A"}, "http://10.0.0.1", true), []string{
			"auth.issuers[0].private: issuers at private addresses come from the configuration file only",
			"upstreams[0].auth.issuer: " + https, "upstreams[0].auth.tokenURL: " + https,
		}},
		{"sealed, of the file", tenant.ManagedByFile, of(tenant.Secret{Sealed: "k1.A"}, "https://i", false),
			secrets("must be a reference: either {env: NAME} or {file: path}")},
		{"references, of the file", tenant.ManagedByFile, of(tenant.Secret{Env: "A"}, "http://10.0.0.1", true), nil},
		{"two references, of the file", tenant.ManagedByFile, of(tenant.Secret{Env: "A", File: "b"}, "https://i", false),
			secrets("must be a reference: either {env: NAME} or {file: path}")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.one.ManagedBy = tt.keeper
			for i := range tt.one.Upstreams {
				tt.one.Upstreams[i].ManagedBy = tt.keeper
			}
			if diff := cmp.Diff(tt.want, faultsOf(tenant.Validate(tt.one))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if tt.keeper != tenant.ManagedByStore {
				return
			}
			tt.one.ManagedBy = tenant.ManagedByFile // which who writes a registry says in vain
			_, err := tenant.Stored(tt.one)
			if diff := cmp.Diff(tt.want, faultsOf(err)); diff != "" {
				t.Errorf("faults of Stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSnapshotHosts holds that no two tenants have one host.
func TestSnapshotHosts(t *testing.T) {
	host := tenant.Host{Name: "a.example", URL: "https://a.example"}
	s := &tenant.Snapshot{Tenants: []*tenant.Tenant{{Name: "a", Hosts: []tenant.Host{host}}, {Name: "b", Hosts: []tenant.Host{{Name: "b.example", URL: "https://b.example"}, host}}}}
	_, err := s.Stored()
	if diff := cmp.Diff([]string{`tenants[1].hosts[1].name: "a.example" is a name of tenants[0] too`}, faultsOf(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// TestStoredHeaders holds that the order in which headers are written means nothing.
func TestStoredHeaders(t *testing.T) {
	one := valid()
	one.Upstreams[0].Auth = tenant.Credential{Mode: tenant.CredentialHeaders, Headers: []tenant.SecretHeader{
		{Name: "X-B", Value: tenant.Secret{Sealed: "k1.B"}}, {Name: "X-A", Value: tenant.Secret{Sealed: "k1.A"}},
	}}
	stored, err := tenant.Stored(one)
	if err != nil {
		t.Fatal(err)
	}
	if h := stored.Upstreams[0].Auth.Headers; h[0].Name != "X-A" || one.Upstreams[0].Auth.Headers[0].Name != "X-B" {
		t.Errorf("stored %v, and what it came from is %v", h, one.Upstreams[0].Auth.Headers)
	}
}
