package auth_test

import (
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
