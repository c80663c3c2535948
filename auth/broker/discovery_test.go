package broker

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

const (
	wellKnown = "/.well-known/oauth-protected-resource"
	ofServer  = "https://as.example.com/.well-known/oauth-authorization-server/one"
)

// TestResourceDiscovery holds where the authorization server of an upstream is looked
// for, and which resource the token is for (RFC 9728; 2026-07-28,
// basic/authorization/authorization-server-discovery).
func TestResourceDiscovery(t *testing.T) {
	about := func(resource string) object {
		return object{"resource": resource, "authorization_servers": []string{issuerURL}, "scopes_supported": []string{"read", "bad scope"}}
	}
	challenged := func(place string) []string {
		return []string{`Basic realm="x"`, `Bearer error="invalid_token", resource_metadata="` + place + `"`}
	}
	// knocked answers whoever comes without credentials.
	knocked := func(method, challenge string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Add("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	const named, meta = `Bearer resource_metadata="https://mcp.example.com/meta"`, "GET https://mcp.example.com/meta"
	const inserted, root = "GET https://mcp.example.com" + wellKnown + "/team/mcp", "GET https://mcp.example.com" + wellKnown
	tests := []struct {
		name       string
		pages      map[string]any
		challenges []string
		edit       func(*tenant.Credential)
		want       string   // the resource; empty for an error
		asked      []string // besides the upstream itself, before the authorization server
		scopes     string   // that are asked for
	}{
		{name: "inserted", pages: map[string]any{wellKnown + "/team/mcp": about(mcpURL), wellKnown: about("https://mcp.example.com")}, want: mcpURL, asked: []string{inserted}, scopes: "read"},
		{name: "root", pages: map[string]any{wellKnown: about("https://mcp.example.com")}, want: "https://mcp.example.com", asked: []string{inserted, root}},
		{name: "challenge", pages: map[string]any{"/meta": about(mcpURL), wellKnown + "/team/mcp": about("https://mcp.example.com")}, challenges: challenged("https://mcp.example.com/meta"), want: mcpURL, asked: []string{meta}},
		{name: "challenge of no use", pages: map[string]any{wellKnown: about("https://mcp.example.com")}, challenges: challenged("https://mcp.example.com/meta"), asked: []string{meta}},
		{name: "named when knocked", pages: map[string]any{"/meta": about(mcpURL), "/team/mcp": knocked("POST", named), wellKnown: about("https://mcp.example.com")}, want: mcpURL, asked: []string{meta}},
		{name: "named by a server of HTTP+SSE", pages: map[string]any{"/meta": about(mcpURL), "/team/mcp": knocked("GET", named)}, want: mcpURL, asked: []string{meta}},
		{name: "named elsewhere since", pages: map[string]any{"/meta": about(mcpURL), "/team/mcp": knocked("POST", named)}, challenges: challenged("https://mcp.example.com/old"), want: mcpURL, asked: []string{meta}},
		{name: "scopes are named", pages: map[string]any{wellKnown + "/team/mcp": about(mcpURL), "/team/mcp": knocked("POST", `Bearer scope="list call"`)}, want: mcpURL, asked: []string{inserted}, scopes: "list call"},
		{name: "open to all", pages: map[string]any{wellKnown + "/team/mcp": about(mcpURL), "/team/mcp": object{}}, want: mcpURL, asked: []string{inserted}, scopes: "read"},
		{name: "a part that holds it", pages: map[string]any{wellKnown + "/team/mcp": about("https://mcp.example.com/team")}, want: "https://mcp.example.com/team", asked: []string{inserted}},
		{name: "small letters", pages: map[string]any{wellKnown + "/team/mcp": about("HTTPS://MCP.example.com:443/team/mcp")}, want: "HTTPS://MCP.example.com:443/team/mcp", asked: []string{inserted}},
		{name: "a neighbour", pages: map[string]any{wellKnown + "/team/mcp": about("https://mcp.example.com/other")}},
		{name: "a name that begins alike", pages: map[string]any{wellKnown + "/team/mcp": about("https://mcp.example.com/te")}},
		{name: "dots", pages: map[string]any{wellKnown + "/team/mcp": about("https://mcp.example.com/team/mcp/../mcp")}},
		{name: "another host", pages: map[string]any{wellKnown + "/team/mcp": about("https://honest.example.com/team/mcp")}},
		{name: "another scheme", pages: map[string]any{wellKnown + "/team/mcp": about("http://mcp.example.com/team/mcp")}},
		{name: "another port", pages: map[string]any{wellKnown + "/team/mcp": about("https://mcp.example.com:8443/team/mcp")}},
		{name: "a query", pages: map[string]any{wellKnown + "/team/mcp": about(mcpURL + "?x")}},
		{name: "a fragment", pages: map[string]any{wellKnown + "/team/mcp": about(mcpURL + "#x")}},
		{name: "no resource", pages: map[string]any{wellKnown + "/team/mcp": object{"authorization_servers": []string{issuerURL}}}},
		{name: "another letter case of the name", pages: map[string]any{wellKnown + "/team/mcp": object{"Resource": mcpURL, "authorization_servers": []string{issuerURL}}}},
		{name: "no server", pages: map[string]any{wellKnown + "/team/mcp": object{"resource": mcpURL}}},
		{name: "too many servers", pages: map[string]any{wellKnown + "/team/mcp": object{"resource": mcpURL, "authorization_servers": slices.Repeat([]string{issuerURL}, maxAuthorizationServers+1)}}},
		{name: "the second server", pages: map[string]any{wellKnown + "/team/mcp": object{"resource": mcpURL, "authorization_servers": []string{"https://gone.example.com", issuerURL}}}, want: mcpURL},
		{name: "not JSON", pages: map[string]any{wellKnown + "/team/mcp": "x"}},
		{name: "nothing", pages: nil},
		{
			name: "a configured resource", pages: map[string]any{wellKnown + "/team/mcp": about("https://api.example.com")},
			edit: func(c *tenant.Credential) { c.Resource = "https://api.example.com" }, want: "https://api.example.com",
		},
		{
			name: "a configured issuer", edit: func(c *tenant.Credential) { c.Issuer = issuerURL }, want: mcpURL, asked: []string{},
		},
		{
			name: "all configured", edit: func(c *tenant.Credential) { c.TokenURL, c.Resource = "https://as.example.com/token", "urn:x" }, want: "urn:x", asked: []string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient})
			if tt.edit != nil {
				tt.edit(&s.u.Auth)
			}
			s.world.host("https://mcp.example.com", pagesOf(tt.pages))
			got, err := s.serverOf(t.Context(), s.t, s.u, tt.challenges)
			if tt.want == "" {
				if err == nil {
					t.Fatalf("found %+v", got)
				}
			} else if err != nil || got.Resource != tt.want || got.TokenEndpoint != "https://as.example.com/token" {
				t.Fatalf("found %+v, %v", got, err)
			}
			if tt.asked != nil {
				asked := slices.DeleteFunc(s.world.asked(), func(a string) bool { return strings.Contains(a, "as.example.com") || strings.HasSuffix(a, " "+mcpURL) })
				if diff := cmp.Diff(append([]string{}, tt.asked...), append([]string{}, asked...)); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			}
			if tt.scopes != "" && strings.Join(got.ScopesSupported, " ") != tt.scopes {
				t.Errorf("scopes %q, want %s", got.ScopesSupported, tt.scopes)
			}
			for _, one := range s.world.to("") {
				if one.Header.Get("Authorization") != "" || one.Header.Get("Cookie") != "" {
					t.Errorf("%s was shown credentials", one.URL)
				}
			}
		})
	}
}

// TestServerMetadata holds what is used of an authorization server's metadata.
func TestServerMetadata(t *testing.T) {
	tests := []struct {
		name   string
		change object
		user   bool // of user_oauth
		file   bool // the upstream is of the operator's file
		want   bool
	}{
		{name: "as it is", want: true},
		{name: "for users", user: true, want: true},
		{name: "of another issuer", change: object{"issuer": "https://honest.example.com"}},
		{name: "of another issuer by a slash", change: object{"issuer": issuerURL + "/"}},
		{name: "of nobody", change: object{"issuer": nil}},
		{name: "no PKCE, for users", change: object{"code_challenge_methods_supported": nil}, user: true},
		{name: "plain PKCE, for users", change: object{"code_challenge_methods_supported": []string{"plain", "s256"}}, user: true},
		{name: "no PKCE, for the gateway", change: object{"code_challenge_methods_supported": nil}, want: true},
		{name: "no authorization endpoint, for users", change: object{"authorization_endpoint": nil}, user: true},
		{name: "no authorization endpoint, for the gateway", change: object{"authorization_endpoint": nil}, want: true},
		{name: "no token endpoint", change: object{"token_endpoint": nil}},
		{name: "a token endpoint without TLS", change: object{"token_endpoint": "http://as.example.com/token"}},
		{name: "a token endpoint without TLS at the file's own origin", change: object{"token_endpoint": "http://mcp.example.com:80/token"}, file: true},
		{name: "an authorization endpoint of a script", change: object{"authorization_endpoint": "javascript:alert(1)"}, user: true},
		{name: "a registration endpoint with a password", change: object{"registration_endpoint": "https://u:p@as.example.com/"}},
		{name: "a token endpoint with a fragment", change: object{"token_endpoint": "https://as.example.com/token#x"}},
		{name: "a relative token endpoint", change: object{"token_endpoint": "/token"}},
		{name: "another type", change: object{"token_endpoint": 1}},
		{name: "a long list", change: object{"scopes_supported": make([]string, maxList+1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient})
			if tt.user {
				s.u.Auth.Mode = tenant.CredentialUser
			}
			if tt.file {
				s.u.ManagedBy = tenant.ManagedByFile
			}
			for name, v := range tt.change {
				s.metadata[name] = v
			}
			got, err := s.serverOf(t.Context(), s.t, s.u, nil)
			if (err == nil) != tt.want {
				t.Errorf("found %+v, %v", got, err)
			}
		})
	}
}

// TestMetadataIsKept holds how often metadata is read, and what happens when it cannot
// be read.
func TestMetadataIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient})
		find := func() error {
			_, err := s.serverOf(t.Context(), s.t, s.u, nil)
			return err
		}
		read := func() int { return len(s.world.to(ofServer)) }
		s.world.host("https://as.example.com", nil)
		for range 20 {
			if find() == nil {
				t.Fatal("found")
			}
		}
		if got := read(); got != 1 {
			t.Fatalf("a server that is down was asked %d times at once", got)
		}
		s.world.host("https://as.example.com", s.serve)
		time.Sleep(askInterval)
		for range 20 {
			if err := find(); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(); got != 2 {
			t.Errorf("it was asked %d times", got)
		}
		s.world.host("https://as.example.com", nil)
		time.Sleep(freshTime)
		if err := find(); err != nil || read() != 3 {
			t.Errorf("old metadata is of no use: %v; asked %d times", err, read())
		}
		time.Sleep(staleTime)
		if find() == nil {
			t.Error("very old metadata is used")
		}
	})
}

// TestNewPlaces holds that a challenge which names another place is followed at once,
// and one that changes all the time is not.
func TestNewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient})
		pages := map[string]any{}
		s.world.host("https://mcp.example.com", pagesOf(pages))
		if _, err := s.serverOf(t.Context(), s.t, s.u, nil); err == nil {
			t.Fatal("found")
		}
		pages["/meta"] = object{"resource": mcpURL, "authorization_servers": []string{issuerURL}}
		if _, err := s.serverOf(t.Context(), s.t, s.u, []string{`Bearer resource_metadata="https://mcp.example.com/meta"`}); err != nil {
			t.Error(err)
		}
		for n := range 50 {
			_, _ = s.serverOf(t.Context(), s.t, s.u, []string{fmt.Sprintf(`Bearer resource_metadata="https://mcp.example.com/%d"`, n)})
		}
		if got := len(s.world.to("https://mcp.example.com/")); got > 7 {
			t.Errorf("%d documents were read", got)
		}
	})
}

// TestServerMoves holds that a refused token leads to a look at whether the
// authorization server is another one by now.
func TestServerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient, Registration: tenant.RegistrationDynamic})
		src := s.source(nil)
		show(t, src)
		s.world.host("https://mcp.example.com", pagesOf(map[string]any{
			wellKnown + "/team/mcp": object{"resource": mcpURL, "authorization_servers": []string{"https://new.example.com"}},
		}))
		s.world.host("https://new.example.com", pagesOf(map[string]any{
			"/.well-known/oauth-authorization-server": object{"issuer": "https://new.example.com", "token_endpoint": "https://new.example.com/token", "registration_endpoint": "https://new.example.com/register"},
			"/register": func(w http.ResponseWriter, r *http.Request) {
				reply(w, http.StatusCreated, object{"client_id": "new", "client_secret": "new secret"})
			},
			"/token": func(w http.ResponseWriter, r *http.Request) {
				if id, secret, _ := r.BasicAuth(); id != "new" || secret != "new+secret" {
					reply(w, http.StatusUnauthorized, object{"error": "invalid_client"})
					return
				}
				reply(w, http.StatusOK, accessToken(9, 60))
			},
		}))
		if !refuse(t, src, "Bearer at-1", http.StatusUnauthorized) || show(t, src) != "Bearer at-9" {
			t.Error("the new server's token is not shown")
		}
	})
}
