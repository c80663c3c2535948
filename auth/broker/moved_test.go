package broker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// guardedServer is an upstream that says where its users sign in. Its own address has the
// registration endpoint of all authorization servers.
type guardedServer struct {
	*httptest.Server
	mu      sync.Mutex
	issuer  string   // of its authorization server
	clients []string // what was registered
}

// newGuardedServer makes one whose server is that of the rig, and puts it into the
// tenant.
func newGuardedServer(r *consentRig) *guardedServer {
	up := &guardedServer{issuer: r.as.URL}
	const known = "/.well-known/oauth-protected-resource/mcp"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+known, func(w http.ResponseWriter, _ *http.Request) {
		up.mu.Lock()
		defer up.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{
			"resource": up.URL + "/mcp", "authorization_servers": []string{up.issuer}, "scopes_supported": []string{"everything"},
		})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			return
		}
		w.Header().Set("WWW-Authenticate", up.challenge())
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		up.mu.Lock()
		defer up.mu.Unlock()
		id := "client-" + strconv.Itoa(len(up.clients)+1)
		up.clients = append(up.clients, id)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"client_id": id, "client_secret": "of " + id})
	})
	up.Server = httptest.NewServer(mux)
	r.t.Cleanup(up.Close)
	up.registersAt(r.as)
	r.edit(func(t *tenant.Tenant) {
		t.Upstreams[0].URL, t.Upstreams[0].Auth = up.URL+"/mcp", tenant.Credential{Mode: tenant.CredentialUser}
	})
	return up
}

func (up *guardedServer) challenge() string {
	return `Bearer scope="trips", resource_metadata="` + up.URL + `/.well-known/oauth-protected-resource/mcp"`
}

// registersAt has an authorization server register clients.
func (up *guardedServer) registersAt(as *authServer) {
	as.set(func() { as.metadata = map[string]any{"registration_endpoint": up.URL + "/register"} })
}

// TestUsersFollowAMove holds that users are sent to the authorization server that the
// upstream names, and with the scopes that it asks for; and to another one, as another
// client and with no token of the first, as soon as the upstream refuses their token
// since it has moved (2026-07-28, basic/authorization/client-registration, Authorization
// Server Binding).
func TestUsersFollowAMove(t *testing.T) {
	r := newConsentRig(t)
	up := newGuardedServer(r)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "cli"))
	first := rep.token("ann-at-idp", "cli")
	old := r.as
	if asked := old.asked[0]; asked.Get("scope") != "trips" || asked.Get("client_id") != "client-1" || asked.Get("resource") != up.URL+"/mcp" {
		t.Errorf("the first server was asked %v", asked)
	}

	r.as = newAuthServer(t, r.clock.Now)
	up.registersAt(r.as)
	up.mu.Lock()
	up.issuer = r.as.URL
	up.mu.Unlock()
	src := rep.source("ann-at-idp", "cli")
	again, err := src.Refused(t.Context(), http.Header{"Authorization": {"Bearer " + first}}, http.StatusUnauthorized, []string{up.challenge()})
	if again {
		t.Error("another token of the old server is tried")
	}
	ann.connect(linkOf(t, err))
	if second := rep.token("ann-at-idp", "cli"); r.as.account(second) != "ann-at-travel" {
		t.Error("the new token is not of the new server")
	}
	if asked := r.as.asked[0]; asked.Get("client_id") != "client-2" {
		t.Errorf("the new server was asked %v", asked)
	}
	for _, form := range r.as.posted {
		if strings.Contains(form.Encode(), "client-1") || form.Get("grant_type") != "authorization_code" {
			t.Errorf("the new server was sent %v", form)
		}
	}
	if n := old.refreshes(); n != 0 || len(old.asked) != 1 {
		t.Errorf("the old server was asked for %d refreshes, and %d sign-ins", n, len(old.asked))
	}
}
