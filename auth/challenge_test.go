package auth_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

func TestInsufficientScope(t *testing.T) {
	tests := []struct {
		name    string
		edit    func(r *rig, req *auth.Request)
		missing []string
		want    string
	}{
		{"one", nil, []string{"write"}, `resource_metadata="` + metadata + `", scope="mcp write"`},
		{"all that is needed, each once", func(_ *rig, req *auth.Request) { req.Scopes = []string{"read", "mcp"} },
			[]string{"write", "read", "write"}, `resource_metadata="` + metadata + `", scope="mcp read write"`},
		{"never offline_access, nor what is none", func(_ *rig, req *auth.Request) { req.Scopes = []string{"offline_access", "a b", `"`, ""} },
			[]string{"write\r\nX: y"}, `resource_metadata="` + metadata + `", scope="mcp"`},
		{"quoting", func(_ *rig, req *auth.Request) { req.Metadata = "https://h/\"\\\r\n\x00é?x" }, nil,
			`resource_metadata="https://h/\"\\?x", scope="mcp"`},
		{"no metadata", func(_ *rig, req *auth.Request) { req.Metadata = "" }, nil, `scope="mcp"`},
		{"what some of the endpoint needs", func(_ *rig, req *auth.Request) { req.Wanted = []string{"read", "mcp"} },
			[]string{"write", "read"}, `resource_metadata="` + metadata + `", scope="mcp read write"`},
		{"keys only", func(r *rig, _ *auth.Request) { r.tenant.Auth.Mode = tenant.AuthKeys }, []string{"write"}, `scope="mcp write"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			req := r.request()
			if tt.edit != nil {
				tt.edit(r, req)
			}
			got := r.InsufficientScope(r.tenant, req, tt.missing)
			want := &auth.Refusal{
				Status: 403, Reason: "scope",
				Challenge: `Bearer error="insufficient_scope", error_description="the token lacks a scope", ` + tt.want,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if n := r.failures(t, "scope"); n != 1 {
				t.Errorf("%v failures are counted", n)
			}
		})
	}
}

// TestLacking holds that whoever shows a key is not sent to an issuer, which cannot give
// it more scopes.
func TestLacking(t *testing.T) {
	r := newRig(t)
	plain, _ := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
	for _, tt := range []struct{ name, token, want string }{
		{"a token", r.idp.token(nil), `resource_metadata="` + metadata + `", scope="mcp write"`},
		{"a key", plain, `scope="mcp write"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := r.request("Bearer " + tt.token)
			c, refusal := r.send(t.Context(), req)
			if refusal != nil {
				t.Fatal(refusal)
			}
			const head = `Bearer error="insufficient_scope", error_description="the token lacks a scope", `
			if got := r.Lacking(req, c, []string{"write"}); got.Status != 403 || got.Challenge != head+tt.want {
				t.Errorf("%d %s, want %s", got.Status, got.Challenge, head+tt.want)
			}
			req.Scopes = []string{"write"}
			if _, got := r.send(t.Context(), req); got == nil || got.Challenge != head+tt.want {
				t.Errorf("at the door: %+v, want %s", got, head+tt.want)
			}
		})
	}
}

// TestRefusalText holds what people are told, also where clients are told only what they
// need.
func TestRefusalText(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, header, want string
	}{
		{"nothing", "", "this needs an access token or an API key"},
		{"another scheme", "Basic YTpi", "this needs an access token or an API key, as Authorization: Bearer"},
		{"an unknown key", "Bearer cwk_nobody", "the key is not valid"},
		{"nothing that we know", "Bearer hush", "the token is not valid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := r.request()
			if tt.header != "" {
				req = r.request(tt.header)
			}
			if _, got := r.send(t.Context(), req); got == nil || got.Text() != tt.want {
				t.Errorf("refusal %+v, want %s", got, tt.want)
			}
		})
	}
}

// TestTokenOf holds whose token Caller.Token gives.
func TestTokenOf(t *testing.T) {
	r := newRig(t)
	plain, _ := r.key(t, tenant.APIKey{Scopes: []string{"mcp"}})
	token := r.idp.token(nil)
	for shown, want := range map[string]string{token: token, plain: ""} {
		req := r.request("Bearer " + shown)
		c, refusal := r.send(t.Context(), req)
		if refusal != nil || c.Token(req.HTTP) != want {
			t.Errorf("%.12s: %v %v", shown, refusal, c)
		}
	}
	var nobody *auth.Caller
	for _, c := range []*auth.Caller{nobody, {Principal: tenant.Principal{Tenant: "acme"}}} {
		if got := c.Token(r.request("Bearer " + token).HTTP); got != "" {
			t.Errorf("of anybody: %q", got)
		}
	}
}

// TestPagesArePaused holds that failures at pages pause their source there alone.
func TestPagesArePaused(t *testing.T) {
	r := newRig(t)
	source := netip.MustParseAddr("192.0.2.9")
	for n := range perMinute {
		if wait := r.Pause(source); wait != 0 {
			t.Fatalf("paused for %s after %d failures", wait, n)
		}
		r.Failed(source)
	}
	if r.Pause(source) <= 0 || r.Pause(netip.MustParseAddr("192.0.2.10")) != 0 {
		t.Error("the wrong source is paused")
	}
	if got := r.from(t, source.String(), r.idp.token(nil)); got != nil {
		t.Errorf("with a token: %v", got)
	}
}

func TestChallengeWithoutToken(t *testing.T) {
	r := newRig(t)
	_, refusal := r.send(t.Context(), r.request())
	if want := `Bearer resource_metadata="` + metadata + `", scope="mcp"`; refusal.Challenge != want {
		t.Errorf("challenge = %s, want %s", refusal.Challenge, want)
	}
	r = newRig(t, func(one *tenant.Tenant) { one.Auth = tenant.Auth{Mode: tenant.AuthKeys} })
	if _, refusal = r.send(t.Context(), r.request()); refusal.Challenge != "Bearer" {
		t.Errorf("challenge = %s, want Bearer", refusal.Challenge)
	}
}

func TestMetadata(t *testing.T) {
	tests := []struct {
		name   string
		auth   tenant.Auth
		scopes []string
		want   string // empty for none
	}{
		{"all", tenant.Auth{Mode: tenant.AuthOAuth, Scopes: []string{"mcp", "offline_access"}, Issuers: []tenant.Issuer{{Issuer: issuerURL}, {Issuer: "https://two.example.com"}, {Issuer: issuerURL}}},
			[]string{"read", "mcp"},
			`{"resource":"` + resource + `","authorization_servers":["` + issuerURL + `","https://two.example.com"],"scopes_supported":["mcp","read"],"bearer_methods_supported":["header"]}`},
		{"least", tenant.Auth{Mode: tenant.AuthOAuth, Issuers: []tenant.Issuer{{Issuer: issuerURL}}}, nil,
			`{"resource":"` + resource + `","authorization_servers":["` + issuerURL + `"],"bearer_methods_supported":["header"]}`},
		{"keys only", tenant.Auth{Mode: tenant.AuthKeys, Scopes: []string{"mcp"}}, nil, ""},
		{"anybody", tenant.Auth{}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := auth.Metadata(&tenant.Tenant{Name: "acme", Auth: tt.auth}, resource, tt.scopes...)
			if string(got) != tt.want || (got == nil) != (tt.want == "") {
				t.Errorf("Metadata = %s, want %s", got, tt.want)
			}
		})
	}
}
