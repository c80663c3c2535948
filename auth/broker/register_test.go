package broker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// dynamic is a credential for which the gateway registers itself.
func dynamic() tenant.Credential { return tenant.Credential{Mode: tenant.CredentialClient} }

// clientFor finds the gateway's client at the upstream's server.
func (s *stage) clientFor(t *testing.T) (*client, error) {
	t.Helper()
	server, err := s.serverOf(t.Context(), s.t, s.u, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.clientOf(t.Context(), s.t, s.u, server)
}

// TestWhichClient holds how the gateway becomes a client of a server.
func TestWhichClient(t *testing.T) {
	const document = "https://gateway.example.com/oauth/client.json"
	static := tenant.Credential{ClientID: "gw", ClientSecret: tenant.Secret{Env: "SECRET"}}
	tests := []struct {
		name     string
		conf     tenant.Credential
		mode     tenant.CredentialMode
		metadata object
		public   string // in place of the public URL
		want     client // without an ID for an error
	}{
		{name: "configured", mode: tenant.CredentialUser, conf: staticClient(tenant.Credential{}), want: client{ID: "gate:way", Secret: "top secret", Method: "client_secret_basic"}},
		{name: "configured, where a document would do", mode: tenant.CredentialUser, conf: staticClient(tenant.Credential{}), metadata: object{"client_id_metadata_document_supported": true}, want: client{ID: "gate:way", Secret: "top secret", Method: "client_secret_basic"}},
		{name: "configured for nobody", mode: tenant.CredentialUser, conf: static},
		{name: "configured for another", mode: tenant.CredentialUser, conf: tenant.Credential{ClientID: "gw", Issuer: issuerURL}, want: client{ID: "gw", Method: "none"}},
		{name: "a secret that no way takes", mode: tenant.CredentialUser, conf: staticClient(tenant.Credential{}), metadata: object{"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}}},
		{name: "static, without an ID", mode: tenant.CredentialUser, conf: tenant.Credential{Registration: tenant.RegistrationStatic}},
		{name: "a document", mode: tenant.CredentialUser, metadata: object{"client_id_metadata_document_supported": true}, want: client{ID: document, Method: "none"}},
		{name: "a document, wanted", mode: tenant.CredentialUser, conf: tenant.Credential{Registration: tenant.RegistrationMetadata}, want: client{ID: document, Method: "none"}},
		{name: "a document without TLS", mode: tenant.CredentialUser, conf: tenant.Credential{Registration: tenant.RegistrationMetadata}, public: "http://gateway.example.com"},
		{name: "a document for the gateway itself", mode: tenant.CredentialClient, conf: tenant.Credential{Registration: tenant.RegistrationMetadata}},
		{name: "registered, where a document would do", mode: tenant.CredentialUser, conf: tenant.Credential{Registration: tenant.RegistrationDynamic}, metadata: object{"client_id_metadata_document_supported": true}, want: client{ID: "dyn-1", Secret: "dynamic secret", Method: "client_secret_basic"}},
		{name: "registered", mode: tenant.CredentialUser, want: client{ID: "dyn-1", Secret: "dynamic secret", Method: "client_secret_basic"}},
		{name: "registered for the gateway itself", mode: tenant.CredentialClient, metadata: object{"client_id_metadata_document_supported": true}, want: client{ID: "dyn-1", Secret: "dynamic secret", Method: "client_secret_basic"}},
		{name: "registered with the other way", mode: tenant.CredentialUser, metadata: object{"token_endpoint_auth_methods_supported": []string{"none", "client_secret_post"}}, want: client{ID: "dyn-1", Secret: "dynamic secret", Method: "client_secret_post"}},
		{name: "nobody is registered", mode: tenant.CredentialUser, metadata: object{"registration_endpoint": nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.conf.Mode = tt.mode
			s := newStage(t, tt.conf)
			for name, v := range tt.metadata {
				s.metadata[name] = v
			}
			if tt.public != "" {
				s.opts.PublicURL = tt.public
			}
			got, err := s.clientFor(t)
			if tt.want.ID == "" {
				if err == nil {
					t.Errorf("is %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.ID != tt.want.ID || got.Secret != tt.want.Secret || got.Method != tt.want.Method {
				t.Errorf("is %s by %s, want %s by %s", got.ID, got.Method, tt.want.ID, tt.want.Method)
			}
		})
	}
}

// TestStaticClientStaysAtItsServer holds that an upstream which names another server
// does not get the configured secret there.
func TestStaticClientStaysAtItsServer(t *testing.T) {
	s := newStage(t, tenant.Credential{Mode: tenant.CredentialClient, ClientID: "gw", ClientSecret: tenant.Secret{Env: "SECRET"}})
	if _, err := s.source(nil).Credential(t.Context()); err == nil || !strings.Contains(err.Error(), "issuer") {
		t.Errorf("the error is %v", err)
	}
	for _, one := range s.world.to("") {
		if one.Method != http.MethodGet && one.URL != mcpURL || one.Header.Get("Authorization") != "" {
			t.Errorf("%s was sent %q", one.URL, one.Body)
		}
	}
}

// TestRegistrationRequest holds what the gateway says of itself.
func TestRegistrationRequest(t *testing.T) {
	tests := []struct {
		name, public string
		mode         tenant.CredentialMode
		want         object
	}{
		{
			name: "for users", mode: tenant.CredentialUser, want: object{
				"client_name": "Causeway", "client_uri": "https://gateway.example.com/", "redirect_uris": []any{"https://gateway.example.com/oauth/callback"},
				"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
				"token_endpoint_auth_method": "client_secret_basic", "application_type": "web",
			},
		},
		{
			name: "for users, on one machine", mode: tenant.CredentialUser, public: "http://127.0.0.1:8080", want: object{
				"client_name": "Causeway", "client_uri": "http://127.0.0.1:8080", "redirect_uris": []any{"http://127.0.0.1:8080/oauth/callback"},
				"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
				"token_endpoint_auth_method": "client_secret_basic", "application_type": "native",
			},
		},
		{
			name: "for the gateway itself", mode: tenant.CredentialClient, want: object{
				"client_name": "Causeway", "client_uri": "https://gateway.example.com/", "grant_types": []any{"client_credentials"}, "redirect_uris": []any{}, "response_types": []any{},
				"token_endpoint_auth_method": "client_secret_basic", "scope": "a b",
			},
		},
		{
			name: "to exchange", mode: tenant.CredentialExchange, want: object{
				"client_name": "Causeway", "client_uri": "https://gateway.example.com/", "grant_types": []any{grantExchange}, "redirect_uris": []any{}, "response_types": []any{},
				"token_endpoint_auth_method": "client_secret_basic", "scope": "a b",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tenant.Credential{Mode: tt.mode, Scopes: []string{"a", "b"}})
			if tt.public != "" {
				s.opts.PublicURL = tt.public
			}
			if _, err := s.clientFor(t); err != nil {
				t.Fatal(err)
			}
			var got object
			if err := json.Unmarshal([]byte(s.world.to("https://as.example.com/register")[0].Body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("registered (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRegistrationIsKept holds that replicas and restarts use one registration, that it
// is sealed, and that each tenant has its own.
func TestRegistrationIsKept(t *testing.T) {
	s := newStage(t, dynamic())
	all := []*Broker{s.Broker, s.replica(t), s.replica(t)}
	var group sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	find := func(b *Broker) {
		server, err := b.serverOf(t.Context(), s.t, s.u, nil)
		if err != nil {
			t.Error(err)
			return
		}
		c, err := b.clientOf(t.Context(), s.t, s.u, server)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ids[c.ID] = true
	}
	for _, b := range all { // whoever is first wins
		group.Go(func() { find(b) })
	}
	group.Wait()
	find(s.replica(t)) // and after a restart
	if len(ids) != 1 {
		t.Errorf("clients %v after %d registrations", ids, s.clients)
	}
	values, err := s.vault.Secrets(t.Context(), tenant.VaultKey{}, 10)
	if err != nil || len(values) != 1 || strings.Contains(string(values[0].Sealed), "dynamic") {
		t.Errorf("kept %+v, %v", values, err)
	}
	other := &tenant.Tenant{Name: "other"}
	server, err := s.serverOf(t.Context(), other, s.u, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.clientOf(t.Context(), other, s.u, server); err != nil || ids[c.ID] {
		t.Errorf("another tenant has the same client, or none: %v", err)
	}
}

// TestForgottenRegistration holds that the gateway registers anew, once, when the
// server does not know it any more.
func TestForgottenRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, dynamic())
		known := "dyn-2"
		s.world.host("https://as.example.com", func(w http.ResponseWriter, r *http.Request) {
			if id, _, _ := r.BasicAuth(); r.URL.Path == "/token" && id != known {
				reply(w, http.StatusUnauthorized, object{"error": "invalid_client"})
				return
			}
			s.serve(w, r)
		})
		if _, err := s.clientFor(t); err != nil { // dyn-1
			t.Fatal(err)
		}
		time.Sleep(askInterval)
		if got := show(t, s.source(nil)); got != "Bearer at-1" {
			t.Errorf("%q is shown", got)
		}
		known = "nobody"
		time.Sleep(askInterval)
		s.source(nil).(*clientSource).keeper.refuse("at-1")
		if _, err := s.source(nil).Credential(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid_client") && !strings.Contains(err.Error(), "forgot") {
			t.Errorf("the error is %v", err)
		}
		if s.clients > 3 {
			t.Errorf("registered %d times", s.clients)
		}
	})
}

// TestEndedSecret holds that the gateway registers anew when its secret has ended.
func TestEndedSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, dynamic())
		s.register = func(n int) (int, any) {
			return http.StatusCreated, object{"client_id": "dyn", "client_secret": "s" + string(rune('0'+n)), "client_secret_expires_at": time.Now().Add(time.Hour).Unix()}
		}
		secrets := []string{}
		for range 3 {
			c, err := s.clientFor(t)
			if err != nil {
				t.Fatal(err)
			}
			secrets = append(secrets, c.Secret)
			time.Sleep(40 * time.Minute)
		}
		if diff := cmp.Diff([]string{"s1", "s1", "s2"}, secrets); diff != "" {
			t.Errorf("secrets (-want +got):\n%s", diff)
		}
	})
}

// TestBadRegistrations holds what is not taken for a registration.
func TestBadRegistrations(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   any
		want   string
	}{
		{"refused", 400, object{"error": "invalid_redirect_uri", "error_description": "evil"}, "invalid_redirect_uri"},
		{"down", 503, "evil", "status 503"},
		{"no JSON", 201, "evil", "no registration"},
		{"no ID", 201, object{"client_secret": "x"}, "no client that can be used"},
		{"a bad ID", 201, object{"client_id": "a\nb", "client_secret": "x"}, "no client that can be used"},
		{"no secret", 201, object{"client_id": "a"}, "no client_secret"},
		{"another way", 201, object{"client_id": "a", "client_secret": "x", "token_endpoint_auth_method": "private_key_jwt"}, "way of authentication"},
		{"a huge secret", 201, object{"client_id": "a", "client_secret": strings.Repeat("x", maxSecret+1)}, "no client that can be used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, dynamic())
			s.register = func(int) (int, any) { return tt.status, tt.body }
			for range 5 {
				if c, err := s.clientFor(t); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "evil") {
					t.Fatalf("client %+v, %v; want %q", c, err, tt.want)
				}
			}
			if s.clients != 1 {
				t.Errorf("tried %d times at once", s.clients)
			}
		})
	}
}

// TestClientDocument holds the gateway's Client ID Metadata Document.
func TestClientDocument(t *testing.T) {
	s := newStage(t, tenant.Credential{})
	get := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.serveClientMetadata(w, httptest.NewRequest(method, clientPath, nil))
		return w
	}
	w := get(http.MethodGet)
	var got object
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := object{
		"client_id": "https://gateway.example.com/oauth/client.json", "client_name": "Causeway", "client_uri": "https://gateway.example.com/",
		"redirect_uris": []any{"https://gateway.example.com/oauth/callback"}, "grant_types": []any{"authorization_code", "refresh_token"},
		"response_types": []any{"code"}, "token_endpoint_auth_method": "none",
	}
	if diff := cmp.Diff(want, got); diff != "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s (-want +got):\n%s", w.Header().Get("Content-Type"), diff)
	}
	if w := get(http.MethodHead); w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %d bytes", w.Code, w.Body.Len())
	}
	if w := get(http.MethodPost); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
	for _, none := range []string{"", "http://gateway.example.com/"} {
		s.signIns.site = newSite(none)
		if w := get(http.MethodGet); w.Code != http.StatusNotFound {
			t.Errorf("with the public URL %q: %d", none, w.Code)
		}
	}
}
