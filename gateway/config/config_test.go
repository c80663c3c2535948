package config_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

func equateNetip() cmp.Option {
	return cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
}

// env gives a LookupEnv over a map.
func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// TestExample holds the documented example: each value arrives where it belongs.
func TestExample(t *testing.T) {
	got, err := config.Loader{}.Load("testdata/causeway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	minute, zero := time.Minute, time.Duration(0)
	// Those of the process, which the file sets.
	inherited := tenant.Timeouts{
		Connect: 2 * time.Second, List: 2 * time.Second, Call: time.Minute, CallMax: 10 * time.Minute,
	}
	inheritedCache := tenant.CacheTimes{ListTTL: &minute, Stale: 5 * time.Minute, StaleIfError: time.Hour}
	want := &config.Config{
		Listen: "127.0.0.1:8080", PublicURL: "http://127.0.0.1:8080",
		Admin: config.Admin{Listen: "127.0.0.1:9090"}, DataDir: "./data",
		Store: config.Store{
			Type: config.StoreRedis, Prefix: "causeway",
			Connection: config.Connection{
				URL:  config.URL{From: config.Secret{Env: "CAUSEWAY_STORE_URL"}},
				Mode: "standalone", Username: "registry", Password: config.Secret{File: "./store-password"},
				TLS: config.TLS{CA: "./ca.pem"},
			},
		},
		Redis: &config.Redis{
			Connection: config.Connection{
				URL:  config.URL{Text: "rediss://10.0.0.1:26379/0?addr=10.0.0.2:26379"},
				Mode: "sentinel", Master: "causeway",
				Username: "causeway", Password: config.Secret{Env: "CAUSEWAY_REDIS_PASSWORD"},
				TLS: config.TLS{CA: "./ca.pem", Cert: "./client.pem", Key: "./client-key.pem", ServerName: "redis.example.com"},
			},
			Prefix: "causeway", Timeout: 25 * time.Millisecond, Limits: config.LimitsOpen,
		},
		Peer: config.Peer{Listen: "0.0.0.0:9091", Address: "10.0.0.11:9091"},
		Keys: []config.Key{
			{ID: "k2", Secret: config.Secret{Env: "CAUSEWAY_KEY"}},
			{ID: "k1", Secret: config.Secret{File: "./old-key"}},
		},
		AllowedOrigins: []string{"https://app.example.com"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Egress:         config.Egress{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd12:3456::1/128")}},
		Log:            config.Log{Level: slog.LevelInfo, Format: config.FormatJSON},
		Server: config.Server{
			HeaderTimeout: 10 * time.Second, BodyTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			WriteTimeout: 10 * time.Second, KeepAlive: 15 * time.Second,
			DrainDelay: 3 * time.Second, ShutdownGrace: 25 * time.Second,
		},
		Limits: config.Limits{
			Header: 64 << 10, Body: 4 << 20, Message: 32 << 20, Depth: 256, BufferedBytes: 512 << 20, CacheBytes: 64 << 20,
			PageSize: 1000, Pages: 1000, Items: 20000, ListBytes: 64 << 20, Instructions: 4 << 10,
			InFlight: 2000, ListenStreams: 1000, ListenQueue: 64, Watches: 5000, Streams: 20000, StreamsPerPrincipal: 1000,
			StreamLifetime: 12 * time.Hour, StateTTL: 10 * time.Minute, Coalesce: 100 * time.Millisecond,
			PollInterval: 30 * time.Second, TenantIdle: 15 * time.Minute,
			Sessions: 1000, Processes: 32, SessionIdle: 5 * time.Minute,
			ParkMax: 5 * time.Minute, Parked: 1000, ParkedPerPrincipal: 32,
			ClientSessions: 100000, ClientSessionLifetime: 24 * time.Hour, Asking: 10000, AskingPerPrincipal: 1000,
		},
		Timeouts: config.Timeouts{
			Connect: 2 * time.Second, List: 2 * time.Second, Revalidate: 250 * time.Millisecond,
			Call: time.Minute, CallMax: 10 * time.Minute, Idle: 4 * time.Second,
		},
		Cache:   config.Cache{ListTTL: &minute, Stale: 5 * time.Minute, StaleIfError: time.Hour},
		Breaker: config.Breaker{Failures: 5, Open: 5 * time.Second},
		Tenants: []*tenant.Tenant{
			{
				Name: "default", Separator: "_",
				Auth: tenant.Auth{Mode: tenant.AuthNone},
				Upstreams: []tenant.Upstream{
					{
						Alias: "weather", URL: "http://127.0.0.1:7001/mcp", Prefix: tenant.PrefixAlias, ManagedBy: "file",
						Timeouts: inherited, Cache: inheritedCache,
					},
					{
						Alias: "files", Prefix: tenant.PrefixAlias, ManagedBy: "file", Era: "handshake",
						Process: &tenant.Process{
							Command: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "."},
							Env: []tenant.Variable{
								{Name: "API_KEY", FromEnv: "FILES_API_KEY"}, {Name: "CERT", FromFile: "./files.pem"},
								{Name: "LOG_LEVEL", Value: "debug"},
							},
							Dir: "testdata/files", // relative to the file
						},
						Timeouts: inherited, Cache: inheritedCache,
					},
				},
			},
			{
				Name: "acme", Separator: "__", PageSize: 200,
				Auth: tenant.Auth{
					Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Implies: map[string][]string{"admin": {"mcp", "read"}},
					Issuers: []tenant.Issuer{
						{
							Issuer: "https://idp.example.com", Audiences: []string{"api://causeway"}, GroupsClaim: "realm_access.roles",
							TenantClaim: "org", TenantValue: "acme-corp", ScopeClaim: "permissions", Algorithms: []string{"RS256", "ES256"},
							JWKSURL: "https://idp.example.com/keys",
							Login: &tenant.Login{
								ClientID: "causeway-pages", ClientSecret: tenant.Secret{Env: "LOGIN_SECRET"}, Scopes: []string{"profile"},
							},
						},
						{
							Issuer: "http://10.0.0.7:9000", Private: true,
							Introspection: &tenant.Introspection{
								URL: "http://10.0.0.7:9000/introspect", ClientID: "causeway", ClientSecret: tenant.Secret{Env: "IDP_SECRET"},
							},
						},
					},
				},
				Limits: tenant.Limits{
					Quota: tenant.Quota{CallsPerMinute: 6000, InFlight: 200}, ListenStreams: 500,
					Principal: tenant.Quota{CallsPerMinute: 600, InFlight: 20},
				},
				Discovery: tenant.Discovery{
					Mode: tenant.DiscoveryAuto, AutoThresholdTokens: 8000, FromURL: true,
					Pinned: []string{"ledger_balance", "ledger_get_*"},
				},
				Hosts: []tenant.Host{{Name: "mcp.acme.example", URL: "https://mcp.acme.example"}},
				Policy: &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{
					{Name: "no-payments-by-robots", When: `tool.name == "ledger_pay" && principal.subject.startsWith("bot-")`, Effect: tenant.EffectDeny},
					{Name: "finance", When: `"finance" in principal.groups && item.alias == "ledger"`, Effect: tenant.EffectAllow, Scopes: []string{"ledger"}},
				}},
				Toolsets: []tenant.Toolset{{
					Name: "readonly", Include: []string{"ledger_*"}, Tags: []string{"finance"}, When: "tool.annotations.readOnlyHint == true",
					Scopes: []string{"read"}, Limits: tenant.Quota{CallsPerMinute: 600, InFlight: 20}, Discovery: tenant.Discovery{Mode: tenant.DiscoveryFull},
				}},
				Upstreams: []tenant.Upstream{{
					Alias: "ledger", URL: "https://ledger.example.com/mcp", Prefix: tenant.PrefixNone,
					Description: "The general ledger", Tags: []string{"finance", "internal"},
					ForwardHeaders: []string{"X-Request-Id"},
					Auth: tenant.Credential{
						Mode: tenant.CredentialExchange, Issuer: "https://idp.example.com", TokenURL: "https://idp.example.com/token",
						Audience: "https://ledger.example.com", Resource: "https://ledger.example.com/mcp", ClientID: "causeway",
						ClientSecret: tenant.Secret{Env: "LEDGER_SECRET"}, Scopes: []string{"ledger.read", "ledger.write"}, Registration: tenant.RegistrationStatic,
					},
					Pinning: tenant.PinAll,
					Pins:    map[string]string{"balance": "sha256:0f343b0931126a20f133d67c2b018a3b5d0d1e4e0a0e0c0d0e0f0a0b0c0d0e0f"},
					Timeouts: tenant.Timeouts{
						Connect: time.Second, List: time.Second, Call: 30 * time.Second, CallMax: 5 * time.Minute,
					},
					Cache:    tenant.CacheTimes{ListTTL: &zero, Stale: time.Minute, StaleIfError: 10 * time.Minute},
					InFlight: 50, ManagedBy: "file", Limits: tenant.Quota{CallsPerMinute: 3000, InFlight: 100},
					Sessions: tenant.Sessions{
						Max: 4, Idle: time.Minute,
						ParkMax: 2 * time.Minute, Parked: 100, ParkedPerPrincipal: 5,
					},
				}},
			},
		},
	}
	ignoreVersion := cmpopts.IgnoreFields(tenant.Upstream{}, "Version")
	if diff := cmp.Diff(want, got, equateNetip(), ignoreVersion); diff != "" {
		t.Errorf("the example (-want +got):\n%s", diff)
	}
	for _, tn := range got.Tenants {
		for _, u := range tn.Upstreams {
			if u.Version == "" || u.Version != u.Digest() {
				t.Errorf("version of %s is %q, want its digest", u.Alias, u.Version)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "{}", "listen:\ntenants:\nadmin: {}\nlimits: ~\n"} {
		got, err := config.Parse([]byte(text))
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			continue
		}
		if diff := cmp.Diff(config.Default(), got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", text, diff)
		}
	}
	want := &config.Config{
		Listen: "127.0.0.1:8080", Admin: config.Admin{Listen: "127.0.0.1:9090"}, DataDir: "./data",
		Log: config.Log{Format: "text"},
	}
	if diff := cmp.Diff(want, config.Default()); diff != "" {
		t.Errorf("Default() (-want +got):\n%s", diff)
	}
}

func TestValues(t *testing.T) {
	tests := []struct {
		name, text string
		get        func(c *config.Config) any
		want       any
	}{
		{"size without unit", "limits: {body: 1000}", func(c *config.Config) any { return c.Limits.Body }, int64(1000)},
		{"size in B", "limits: {body: 7B}", func(c *config.Config) any { return c.Limits.Body }, int64(7)},
		{"size in KiB", "limits: {body: 2KiB}", func(c *config.Config) any { return c.Limits.Body }, int64(2048)},
		{"size in MB", "limits: {body: 2 MB}", func(c *config.Config) any { return c.Limits.Body }, int64(2_000_000)},
		{"size in GiB", "limits: {bufferedBytes: 1GiB}", func(c *config.Config) any { return c.Limits.BufferedBytes }, int64(1 << 30)},
		{"duration of two units", "timeouts: {call: 1m30s}", func(c *config.Config) any { return c.Timeouts.Call }, 90 * time.Second},
		{"level", "log: {level: WARN}", func(c *config.Config) any { return c.Log.Level }, slog.LevelWarn},
		{"proxy address", "trustedProxies: [192.0.2.7]", func(c *config.Config) any { return c.TrustedProxies[0].String() }, "192.0.2.7/32"},
		{"proxy network is masked", "trustedProxies: [10.1.2.3/8]", func(c *config.Config) any { return c.TrustedProxies[0].String() }, "10.0.0.0/8"},
		{"anchor and alias", "tenants: [{name: a, pageSize: &p 7}, {name: b, pageSize: *p}]",
			func(c *config.Config) any { return c.Tenants[1].PageSize }, 7},
		{"merge key gives way to own keys", "tenants:\n- {name: a, limits: &l {inFlight: 1, listenStreams: 2}}\n- name: b\n  limits: {<<: *l, inFlight: 9}",
			func(c *config.Config) any { return c.Tenants[1].Limits }, tenant.Limits{Quota: tenant.Quota{InFlight: 9}, ListenStreams: 2}},
		{"allowed on all addresses", "listen: :8080\nallowUnauthenticated: true\ntenants: [{name: a}]",
			func(c *config.Config) any { return c.Listen }, ":8080"},
		{"reachable with authentication", "listen: :8080\ntenants: [{name: a, auth: {mode: keys}}]", func(c *config.Config) any { return c.Listen }, ":8080"},
		{"reachable without tenants", "listen: :8080", func(c *config.Config) any { return c.Listen }, ":8080"},
		{"IPv6 loopback", "listen: '[::1]:8080'\ntenants: [{name: a}]", func(c *config.Config) any { return c.Listen }, "[::1]:8080"},
		{"shared sessions", up("sessions: shared"), func(c *config.Config) any { return c.Tenants[0].Upstreams[1].Sessions.Shared }, true},
		{"sessions of their own", up("sessions: perPrincipal"), func(c *config.Config) any { return c.Tenants[0].Upstreams[1].Sessions.Shared }, false},
		{"program in a directory of its own", "tenants: [{name: a, upstreams: [{alias: b, command: [x], dir: /srv}]}]",
			func(c *config.Config) any { return c.Tenants[0].Upstreams[0].Process.Dir }, "/srv"},
		{"JSON is YAML", `{"tenants":[{"name":"a","upstreams":[{"alias":"b","url":"http://h/"}]}]}`,
			func(c *config.Config) any { return c.Tenants[0].Upstreams[0].URL }, "http://h/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tt.get(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverrides(t *testing.T) {
	const text = "listen: 127.0.0.1:1\nlog: {level: error}\nadmin:\ntrustedProxies: [10.0.0.0/8]\n"
	l := config.Loader{
		LookupEnv: env(map[string]string{
			"CAUSEWAY_LISTEN": "0.0.0.0:2", "CAUSEWAY_PUBLIC_URL": "https://mcp.example.com",
			"CAUSEWAY_ADMIN_LISTEN": "127.0.0.1:3", "CAUSEWAY_DATA_DIR": "/var/lib/causeway",
			"CAUSEWAY_LOG_LEVEL": "debug", "CAUSEWAY_LOG_FORMAT": "json",
			"CAUSEWAY_ALLOWED_ORIGINS": "https://a.example.com, https://b.example.com",
			"CAUSEWAY_TRUSTED_PROXIES": "", "CAUSEWAY_ALLOW_UNAUTHENTICATED": "true",
		}),
		Flags: map[string]string{"listen": "127.0.0.1:4", "publicURL": ""},
	}
	got, err := l.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &config.Config{
		Listen: "127.0.0.1:4", PublicURL: "https://mcp.example.com", Admin: config.Admin{Listen: "127.0.0.1:3"},
		DataDir: "/var/lib/causeway", Log: config.Log{Level: slog.LevelDebug, Format: "json"},
		AllowedOrigins:       []string{"https://a.example.com", "https://b.example.com"},
		TrustedProxies:       []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		AllowUnauthenticated: true,
	}
	if diff := cmp.Diff(want, got, equateNetip()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOverridesAreKnown sets each override alone: its key must exist, and a bad
// value must be reported with its variable.
func TestOverridesAreKnown(t *testing.T) {
	for _, o := range config.Overrides() {
		t.Run(o.Env, func(t *testing.T) {
			_, err := config.Loader{LookupEnv: env(map[string]string{o.Env: "\x00"})}.Parse(nil)
			switch {
			case o.Secret:
				if err == nil || strings.Contains(err.Error(), o.Key) {
					t.Errorf("error %v, want one about other keys: the value is not looked at here", err)
				}
				return
			case o.Key == "store.dataDir":
				if err != nil {
					t.Errorf("error %v, want none: every text is a path", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "(environment "+o.Env+")") {
				t.Errorf("error %v, want one that names the variable", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "causeway.yaml")
	if _, err := config.Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("listen: 127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CAUSEWAY_LOG_LEVEL", "warn")
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9" || c.Log.Level != slog.LevelWarn {
		t.Errorf("Load = %+v", c)
	}
	if err := os.Truncate(path, config.MaxFileSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("Load of a large file: %v", err)
	}
}

func TestSecretValue(t *testing.T) {
	dir := t.TempDir()
	full, blank := filepath.Join(dir, "full"), filepath.Join(dir, "blank")
	for path, text := range map[string]string{full: " s3cret\n", blank: " \n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vars := env(map[string]string{"KEY": "from env", "EMPTY": ""})
	tests := []struct {
		name      string
		secret    config.Secret
		lookup    func(string) (string, bool)
		want, err string
	}{
		{"environment", config.Secret{Env: "KEY"}, vars, "from env", ""},
		{"file", config.Secret{File: full}, nil, "s3cret", ""},
		{"unset", config.Secret{Env: "NO"}, vars, "", "environment variable NO is not set"},
		{"no environment", config.Secret{Env: "KEY"}, nil, "", "environment variable KEY is not set"},
		{"empty", config.Secret{Env: "EMPTY"}, vars, "", "the secret in environment variable EMPTY is empty"},
		{"blank", config.Secret{File: blank}, vars, "", "the secret in file " + blank + " is empty"},
		{"no file", config.Secret{File: filepath.Join(dir, "no")}, vars, "", "read secret: open " + filepath.Join(dir, "no") + ": no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.secret.Value(tt.lookup)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if string(got) != tt.want || text != tt.err {
				t.Errorf("Value = %q, %q, want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
}
