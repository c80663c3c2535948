package broker

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/egress"
)

// place is a real server on an address of this machine.
type place struct {
	*httptest.Server
	hits  atomic.Int64
	pages map[string]any // by path
}

func newPlace(t *testing.T, ip string, secure bool) *place {
	t.Helper()
	p := &place{pages: map[string]any{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.hits.Add(1)
		pagesOf(p.pages)(w, r)
	}))
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Skipf("no address %s here: %v", ip, err)
	}
	p.Listener.Close()
	p.Listener = l
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

// issuer has the place be an authorization server, all of whose addresses may be
// others.
func (p *place) issuer(change object) {
	o := object{"issuer": p.URL, "token_endpoint": p.URL + "/token", "registration_endpoint": p.URL + "/register"}
	for name, v := range change {
		o[name] = v
	}
	p.pages["/.well-known/oauth-authorization-server"] = o
	p.pages["/register"] = func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusCreated, object{"client_id": "a", "client_secret": "b"})
	}
	p.pages["/token"] = accessToken(1, 600)
}

// checkedStage gives a Broker whose requests are checked as those of a gateway are;
// 127.0.0.2 is as good as public.
func checkedStage(t *testing.T, root *x509.Certificate) *stage {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(root)
	transports := egress.New(egress.Options{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		TLS:          &tls.Config{RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS12},
	})
	t.Cleanup(transports.Close)
	s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient})
	client := func(private bool) *http.Client {
		return transports.Fetcher(egress.FetchOptions{Private: private, HTTP: true})
	}
	s.opts.Client, s.public, s.private = client, client(false), client(true)
	return s
}

// TestServersCannotNamePrivateAddresses holds that an upstream of a registry and its
// authorization server lead the gateway to no address inside (2026-07-28, Security Best
// Practices, Server-Side Request Forgery).
func TestServersCannotNamePrivateAddresses(t *testing.T) {
	victim := newPlace(t, "127.0.0.1", true)
	victim.issuer(nil)
	victimPort := victim.URL[strings.LastIndex(victim.URL, ":"):]
	tests := []struct {
		name   string
		server string // that the upstream names; empty for itself
		change object // of its metadata
		place  string // in the challenge
		moved  string // where the upstream's metadata redirects to
		works  bool
	}{
		{name: "itself", works: true},
		{name: "a loopback address", server: victim.URL},
		{name: "a name of one", server: "https://localhost" + victimPort},
		{name: "a short form", server: "https://127.1" + victimPort},
		{name: "a number", server: "https://2130706433" + victimPort},
		{name: "a hexadecimal number", server: "https://0x7f000001" + victimPort},
		{name: "an octal number", server: "https://0177.0.0.1" + victimPort},
		{name: "a mapped address", server: "https://[::ffff:127.0.0.1]" + victimPort},
		{name: "a translated address", server: "https://[64:ff9b::7f00:1]" + victimPort},
		{name: "no address", server: "https://0.0.0.0" + victimPort},
		{name: "a metadata service", server: "https://169.254.169.254"},
		{name: "a private address", server: "https://10.0.0.1"},
		{name: "without TLS", server: strings.Replace(victim.URL, "https", "http", 1)},
		{name: "its token endpoint", change: object{"token_endpoint": victim.URL + "/token"}},
		{name: "its registration endpoint", change: object{"registration_endpoint": victim.URL + "/register"}},
		{name: "its metadata", place: victim.URL + "/meta"},
		{name: "a file", place: "file:///etc/passwd"},
		{name: "a redirect", moved: victim.URL + "/meta"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newPlace(t, "127.0.0.2", true)
			up.issuer(tt.change)
			server := tt.server
			if server == "" {
				server = up.URL
			}
			up.pages["/.well-known/oauth-protected-resource"] = object{"resource": up.URL, "authorization_servers": []string{server}}
			if tt.moved != "" {
				up.pages["/.well-known/oauth-protected-resource"] = http.RedirectHandler(tt.moved, http.StatusFound).ServeHTTP
			}
			s := checkedStage(t, up.Certificate())
			s.u.URL = up.URL + "/"
			src := s.source(nil)
			if tt.place != "" {
				refuse(t, src, "", http.StatusUnauthorized, `Bearer resource_metadata="`+tt.place+`"`)
			}
			before := victim.hits.Load()
			_, err := src.Credential(t.Context())
			if (err == nil) != tt.works {
				t.Errorf("the error is %v", err)
			}
			if got := victim.hits.Load() - before; got != 0 {
				t.Errorf("it was asked %d times", got)
			}
		})
	}
}

// TestPrivateAddressesOfTheFile holds which private addresses an upstream of the
// operator's file leads to: those of the file's own origins, and those that anybody's
// may lead to.
func TestPrivateAddressesOfTheFile(t *testing.T) {
	tests := []struct {
		name    string
		managed string
		server  string // that the upstream names: "up" or "as"
		conf    func(up, as string) tenant.Credential
		token   string // where the token endpoint is, in place of the server
		want    bool
	}{
		{name: "the upstream is its own server", server: "up", want: true},
		{name: "the same in a registry", managed: tenant.ManagedByStore, server: "up"},
		{name: "a server that only the upstream names", server: "as"},
		{name: "one at a loopback address that may be reached", server: "allowed", want: true},
		{name: "a server of the file", conf: func(_, as string) tenant.Credential { return tenant.Credential{Issuer: as} }, want: true},
		{name: "the same in a registry, by its issuer", managed: tenant.ManagedByStore, conf: func(_, as string) tenant.Credential { return tenant.Credential{Issuer: as} }},
		{name: "its token endpoint elsewhere", conf: func(_, as string) tenant.Credential { return tenant.Credential{Issuer: as} }, token: "other"},
		{name: "its token endpoint at the upstream", conf: func(_, as string) tenant.Credential { return tenant.Credential{Issuer: as} }, token: "up", want: true},
		{
			name: "a token endpoint of the file", conf: func(_, as string) tenant.Credential {
				return tenant.Credential{TokenURL: as + "/token", ClientID: "a", ClientSecret: tenant.Secret{Env: "SECRET"}}
			}, want: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up, as, other := newPlace(t, "127.0.0.1", false), newPlace(t, "127.0.0.1", false), newPlace(t, "127.0.0.1", false)
			all := map[string]*place{"up": up, "as": as, "other": other, "allowed": newPlace(t, "127.0.0.2", false)}
			change := object{}
			if tt.token != "" {
				change["token_endpoint"] = all[tt.token].URL + "/token"
			}
			for _, p := range all {
				p.issuer(change)
			}
			if tt.server != "" {
				up.pages["/.well-known/oauth-protected-resource/mcp"] = object{"resource": up.URL + "/mcp", "authorization_servers": []string{all[tt.server].URL}}
			}
			s := checkedStage(t, newPlace(t, "127.0.0.1", true).Certificate())
			if tt.conf != nil {
				s.u.Auth = tt.conf(up.URL, as.URL)
			}
			s.u.URL, s.u.Auth.Mode, s.u.ManagedBy = up.URL+"/mcp", tenant.CredentialClient, tenant.ManagedByFile
			if tt.managed != "" {
				s.u.ManagedBy = tt.managed
			}
			_, err := s.source(nil).Credential(t.Context())
			if (err == nil) != tt.want {
				t.Errorf("the error is %v", err)
			}
			if got := other.hits.Load(); got != 0 {
				t.Errorf("another server was asked %d times", got)
			}
			if got := as.hits.Load(); got != 0 && !tt.want && tt.token == "" {
				t.Errorf("the server was asked %d times", got)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	tests := []struct{ address, want string }{
		{"https://a.example.com/x", "https://a.example.com:443"},
		{"HTTPS://A.example.com:443", "https://a.example.com:443"},
		{"http://a.example.com", "http://a.example.com:80"},
		{"http://[::1]:8080/", "http://::1:8080"},
		{"ftp://a.example.com", ""},
		{"https://", ""},
		{"https:a.example.com", ""},
		{"//a.example.com", ""},
		{"https://a.example.com https://b.example.com", ""},
		{"%", ""},
	}
	for _, tt := range tests {
		if got := originOf(tt.address); got != tt.want {
			t.Errorf("%q has the origin %q, want %q", tt.address, got, tt.want)
		}
	}
	tr := trustOf(&tenant.Upstream{URL: "http://10.0.0.1:80/mcp", ManagedBy: tenant.ManagedByFile, Auth: tenant.Credential{Issuer: "https://idp.internal"}})
	for address, want := range map[string]bool{
		"http://10.0.0.1/x": true, "https://idp.internal:443": true, "http://10.0.0.1:8": false, "http://10.0.0.1:8080": false,
		"http://0.0.0.1:80": false, "https://10.0.0.1:80": false, "https://p.internal": false, "": false,
	} {
		if tr.allows(address) != want {
			t.Errorf("%q may be private: %v", address, !want)
		}
	}
}

// TestEndpoints holds which addresses of servers can be used at all. Whether they may be
// reached is found out when they are dialled.
func TestEndpoints(t *testing.T) {
	tr := trustOf(&tenant.Upstream{URL: "http://10.0.0.1/mcp", ManagedBy: tenant.ManagedByFile})
	for address, want := range map[string]bool{
		"https://as.example.com/token": true, "http://10.0.0.1/token": true, "https://10.0.0.9/": true, "http://localhost:9000/token": true,
		"http://LOCALHOST/": true, "http://127.8.0.1:9000": true, "http://[::1]:9000/": true,
		"http://as.example.com/token": false, "http://10.0.0.9/": false, "http://localhost.example.com/": false, "http://127.0.0.1.example.com/": false,
		"https://accounts.example.com\u2044login.evil.example/": false, "https://\u0430s.example.com/": false, "https://as.example.com%2Fx.evil.example/": false,
		"https://as.example.com;x/": false, "https://as.example.com%E2%81%84x.evil.example/": false, "https://[fe80::1%25lo]/": false, "https://as_1.example.com:8443/": true,
		"http://2130706433/": false, "http://127.1/": false, "ftp://localhost/": false, "http://a@localhost/": false, "http://localhost/#x": false, "": false,
	} {
		if got := tr.endpoint(address) == nil; got != want {
			t.Errorf("%q can be used: %t", address, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for address, want := range map[string]string{
		"https://MCP.example.com/MCP":                  "https://mcp.example.com/MCP",
		"https://mcp.example.com/":                     "https://mcp.example.com",
		"https://mcp.example.com":                      "https://mcp.example.com",
		"https://mcp.example.com:443/a/":               "https://mcp.example.com/a/",
		"https://mcp.example.com:8443/a%2Fb?key=s#x":   "https://mcp.example.com:8443/a%2Fb",
		"https://user:password@mcp.example.com/server": "https://mcp.example.com/server",
		"mcp.example.com":                              "",
	} {
		if got := canonical(address); got != want {
			t.Errorf("%q is %q, want %q", address, got, want)
		}
	}
}

// FuzzMetadata holds that no metadata has an address that cannot be used, or is of
// another server or resource.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://as.example.com/one","token_endpoint":"http://as.example.com/t","resource":"https://mcp.example.com","authorization_servers":["x"]}`))
	f.Add([]byte(`{"issuer":"https://as.example.com/one","issuer":"x"}`))
	f.Add([]byte(`{"resource":"https://mcp.example.com/team","authorization_servers":["https://as"],"scopes_supported":["a","b c"]}`))
	f.Add([]byte(`[1e400]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseServer(raw, issuerURL, trust{}); err == nil {
			if s.Issuer != issuerURL {
				t.Errorf("is of %q", s.Issuer)
			}
			for _, address := range []string{s.AuthorizationEndpoint, s.TokenEndpoint, s.RegistrationEndpoint, s.RevocationEndpoint, s.JWKSURI} {
				if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
					t.Errorf("has the address %q", address)
				}
			}
		}
		if r, err := parseResource(raw, mcpURL, ""); err == nil {
			if originOf(r.ID) != "https://mcp.example.com:443" {
				t.Errorf("is of %q", r.ID)
			}
			for _, s := range r.Scopes {
				if !isScope(s) {
					t.Errorf("has the scope %q", s)
				}
			}
		}
		if r, err := parseRegistration(raw, methodBasic); err == nil {
			if _, err := json.Marshal(r); err != nil || !isVisible(r.ID, maxClientID) {
				t.Errorf("cannot be kept: %v", err)
			}
		}
	})
}
