package broker

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestTokenRequests holds what token endpoints are sent.
func TestTokenRequests(t *testing.T) {
	tests := []struct {
		name       string
		conf       tenant.Credential
		methods    any // that the server supports
		challenges []string
		basic      string // user and password; empty for none
		want       url.Values
	}{
		{
			name: "client_secret_basic", conf: staticClient(tenant.Credential{Mode: tenant.CredentialClient, Scopes: []string{"a", "b"}}),
			basic: "gate%3Away top+secret", // RFC 6749, section 2.3.1
			want:  url.Values{"grant_type": {"client_credentials"}, "resource": {mcpURL}, "scope": {"a b"}},
		},
		{
			name: "client_secret_post", conf: staticClient(tenant.Credential{Mode: tenant.CredentialClient}), methods: []string{"private_key_jwt", "client_secret_post"},
			want: url.Values{"grant_type": {"client_credentials"}, "resource": {mcpURL}, "client_id": {"gate:way"}, "client_secret": {"top secret"}},
		},
		{
			name: "no secret", conf: tenant.Credential{Mode: tenant.CredentialClient, Issuer: issuerURL, ClientID: "pub"},
			want: url.Values{"grant_type": {"client_credentials"}, "resource": {mcpURL}, "client_id": {"pub"}},
		},
		{
			name: "scopes of the challenge", conf: staticClient(tenant.Credential{Mode: tenant.CredentialClient, Resource: "https://api.example.com"}),
			challenges: []string{`Bearer scope="read write read"`}, basic: "gate%3Away top+secret",
			want: url.Values{"grant_type": {"client_credentials"}, "resource": {"https://api.example.com"}, "scope": {"read write"}},
		},
		{
			name: "only a token endpoint", conf: tenant.Credential{
				Mode: tenant.CredentialClient, TokenURL: "https://as.example.com/token", ClientID: "gw", ClientSecret: tenant.Secret{Env: "SECRET"},
			},
			basic: "gw top+secret", want: url.Values{"grant_type": {"client_credentials"}, "resource": {mcpURL}},
		},
		{
			name: "exchange", conf: staticClient(tenant.Credential{Mode: tenant.CredentialExchange, Audience: "api", Scopes: []string{"a"}}), basic: "gate%3Away top+secret",
			want: url.Values{
				"grant_type": {grantExchange}, "resource": {mcpURL}, "audience": {"api"}, "scope": {"a"},
				"subject_token": {"user token"}, "subject_token_type": {typeAccessToken}, "requested_token_type": {typeAccessToken},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tt.conf)
			if tt.methods != nil {
				s.metadata["token_endpoint_auth_methods_supported"] = tt.methods
			}
			src := s.source(ann())
			if taker, ok := src.(interface{ Take(string, time.Time) }); ok {
				taker.Take("user token", time.Now().Add(time.Hour))
			}
			if tt.challenges != nil {
				refuse(t, src, "", http.StatusUnauthorized, tt.challenges...)
			}
			show(t, src)
			all := s.world.to("https://as.example.com/token")
			if len(all) != 1 {
				t.Fatalf("%d requests", len(all))
			}
			if diff := cmp.Diff(tt.want, all[0].Form); diff != "" {
				t.Errorf("form (-want +got):\n%s", diff)
			}
			r := http.Request{Header: all[0].Header}
			user, password, _ := r.BasicAuth()
			if got := strings.TrimSpace(user + " " + password); got != tt.basic {
				t.Errorf("authenticated by %q, want %q", got, tt.basic)
			}
		})
	}
}

// TestTokenAnswers holds what is taken for a token, and that a refusal tells nothing of
// what was sent or answered but its code.
func TestTokenAnswers(t *testing.T) {
	good := func(name string, v any) object {
		o := accessToken(1, 3600)
		if o[name] = v; v == nil {
			delete(o, name)
		}
		return o
	}
	const evil = "top secret"
	tests := []struct {
		name   string
		status int // 0 for 200
		body   any
		want   string // in the error; empty for a token
	}{
		{name: "a token", body: good("x", 1)},
		{name: "Bearer in capitals", body: good("token_type", "BEARER")},
		{name: "no end", body: good("expires_in", nil)},
		{name: "the end in a string", body: good("expires_in", "3600")},
		{name: "an exchanged token", body: good("issued_token_type", typeAccessToken)},
		{name: "an exchanged SAML assertion", body: good("issued_token_type", "urn:ietf:params:oauth:token-type:saml2"), want: "no access token"},
		{name: "no type", body: good("token_type", nil), want: "no bearer token"},
		{name: "DPoP", body: good("token_type", "DPoP"), want: "no bearer token"},
		{name: "N_A", body: good("token_type", "N_A"), want: "no bearer token"},
		{name: "no token", body: good("access_token", ""), want: "no token that can be used"},
		{name: "two lines", body: good("access_token", "x\r\nX-Evil: 1"), want: "no token that can be used"},
		{name: "two words", body: good("access_token", "x y"), want: "no token that can be used"},
		{name: "a huge token", body: good("access_token", strings.Repeat("x", maxToken+1)), want: "no token that can be used"},
		{name: "a number", body: good("access_token", 7), want: "no token that can be used"},
		{name: "ended", body: good("expires_in", 0), want: "no token that can be used"},
		{name: "ended long ago", body: good("expires_in", -5), want: "no token that can be used"},
		{name: "an end that is no number", body: good("expires_in", "soon"), want: "no token that can be used"},
		{name: "a bad refresh token", body: good("refresh_token", "a\nb"), want: "no token that can be used"},
		{name: "not an object", body: []string{"x"}, want: "no token that can be used"},
		{name: "refused", status: 400, body: object{"error": "invalid_scope", "error_description": evil}, want: "invalid_scope"},
		{name: "refused with 401", status: 401, body: object{"error": "invalid_client"}, want: "invalid_client"},
		{name: "refused with 200", body: object{"error": "bad_verification_code", "error_description": evil}, want: "bad_verification_code"},
		{name: "refused with what was sent", status: 400, body: object{"error": evil}, want: "status 400"},
		{name: "refused in text", status: 403, body: evil, want: "status 403"},
		{name: "a redirect", status: 307, body: evil, want: "status 307"},
		{name: "down", status: 502, body: evil, want: "status 502"},
		{name: "a huge answer", body: good("x", strings.Repeat(evil, 1<<16)), want: "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
			s.answer(func(url.Values, int) (int, any) { return max(tt.status, 200), tt.body })
			got, err := s.source(nil).Credential(t.Context())
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "" && got.Get("Authorization") != "Bearer at-1":
				t.Errorf("shows %v", got)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
			for _, text := range []string{evil, "top+secret", "at-1"} {
				if err != nil && strings.Contains(err.Error(), text) || strings.Contains(s.log.String(), text) {
					t.Errorf("%q is told: %v; log:\n%s", text, err, s.log)
				}
			}
		})
	}
}

// TestNoRedirects holds that what was sent to a token endpoint goes nowhere else.
func TestNoRedirects(t *testing.T) {
	s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
	s.world.host("https://as.example.com", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			http.Redirect(w, r, "https://as.example.com/other", http.StatusTemporaryRedirect)
			return
		}
		s.serve(w, r)
	})
	if _, err := s.source(nil).Credential(t.Context()); err == nil {
		t.Error("a token came")
	}
	if got := s.world.to("https://as.example.com/other"); len(got) > 0 {
		t.Errorf("sent %+v elsewhere", got)
	}
}

// TestLives holds for how long tokens are used.
func TestLives(t *testing.T) {
	tests := []struct {
		name    string
		expires any
		want    time.Duration
	}{
		{"an hour", 3600, time.Hour - leeway},
		{"short", 20, 18 * time.Second},
		{"not told", nil, defaultLife - leeway},
		{"for ever", 1e18, maxLife - leeway},
		{"a fraction", 100.9, 100*time.Second - leeway},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
				s.answer(func(_ url.Values, n int) (int, any) {
					if n > 1 {
						return http.StatusServiceUnavailable, nil
					}
					return http.StatusOK, object{"access_token": "x", "token_type": "Bearer", "expires_in": tt.expires}
				})
				src := s.source(nil)
				show(t, src)
				time.Sleep(tt.want - time.Second)
				show(t, src)
				time.Sleep(time.Second)
				if _, err := src.Credential(t.Context()); err == nil {
					t.Errorf("still shown after %v", tt.want)
				}
			})
		})
	}
}
