package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

const (
	mcpURL    = "https://mcp.example.com/team/mcp"
	issuerURL = "https://as.example.com/one"
)

type object = map[string]any

// sent is one request that a server of the world was sent.
type sent struct {
	Method, URL string
	Header      http.Header
	Body        string
	Form        url.Values
}

// world is all servers there are: it is a transport, so that tests can have a time of
// their own.
type world struct {
	mu    sync.Mutex
	hosts map[string]http.HandlerFunc // by scheme and host
	sent  []sent
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	s := sent{Method: req.Method, URL: req.URL.String(), Header: req.Header.Clone()}
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		s.Body = string(raw)
		s.Form, _ = url.ParseQuery(s.Body)
	}
	w.mu.Lock()
	w.sent = append(w.sent, s)
	h := w.hosts[req.URL.Scheme+"://"+req.URL.Host]
	w.mu.Unlock()
	if h == nil {
		return nil, errors.New("no such host")
	}
	in := httptest.NewRequest(req.Method, req.URL.String(), strings.NewReader(s.Body)).WithContext(req.Context())
	in.Header = req.Header
	out := httptest.NewRecorder()
	h(out, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := out.Result()
	resp.Request = req
	return resp, nil
}

// to gives what was sent to addresses that begin so.
func (w *world) to(prefix string) []sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []sent
	for _, s := range w.sent {
		if strings.HasPrefix(s.URL, prefix) {
			found = append(found, s)
		}
	}
	return found
}

// asked gives the addresses that were read.
func (w *world) asked() []string {
	var list []string
	for _, s := range w.to("") {
		list = append(list, s.Method+" "+s.URL)
	}
	return list
}

// host gives a server of the world.
func (w *world) host(origin string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[origin] = h
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// pagesOf gives a server that answers at some paths only.
func pagesOf(list map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch body := list[r.URL.Path].(type) {
		case nil:
			http.NotFound(w, r)
		case func(http.ResponseWriter, *http.Request):
			body(w, r)
		default:
			reply(w, http.StatusOK, body)
		}
	}
}

// stage is a Broker in a world with one authorization server.
type stage struct {
	*Broker
	world   *world
	t       *tenant.Tenant
	u       *tenant.Upstream
	shared  *cache.MemoryShared
	vault   *tenant.MemoryRegistry
	ring    *seal.Ring
	log     *logged
	secrets *secretStore

	mu       sync.Mutex
	metadata object                                  // of the authorization server
	token    func(form url.Values, n int) (int, any) // n counts from 1
	tokens   int
	register func(n int) (int, any)
	clients  int
}

// secretStore holds secrets by the names of their variables.
type secretStore struct {
	mu     sync.Mutex
	values map[string]string
	reads  int
}

func (s *secretStore) open(of tenant.Secret) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	v, ok := s.values[of.Env]
	if !ok {
		return nil, errors.New(of.Env + " is not set")
	}
	return []byte(v), nil
}

func (s *secretStore) set(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[name] = value
}

// logged is a log that can be read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newStage makes one, whose upstream has the credential.
func newStage(t *testing.T, conf tenant.Credential) *stage {
	t.Helper()
	s := &stage{
		world: &world{hosts: map[string]http.HandlerFunc{}}, shared: cache.NewShared(), vault: tenant.NewMemoryRegistry(),
		ring: seal.NewRandom(), log: &logged{}, secrets: &secretStore{values: map[string]string{"SECRET": "top secret", "TOKEN": "tok-1"}},
	}
	s.u = &tenant.Upstream{Alias: "files", URL: mcpURL, Auth: conf, ManagedBy: tenant.ManagedByStore}
	s.t = &tenant.Tenant{Name: "acme", Upstreams: []tenant.Upstream{*s.u}}
	s.metadata = object{
		"issuer": issuerURL, "token_endpoint": "https://as.example.com/token", "authorization_endpoint": "https://as.example.com/authorize",
		"registration_endpoint":            "https://as.example.com/register",
		"code_challenge_methods_supported": []string{"S256"},
	}
	s.world.host("https://as.example.com", s.serve)
	s.world.host("https://mcp.example.com", pagesOf(map[string]any{
		"/.well-known/oauth-protected-resource/team/mcp": object{"resource": mcpURL, "authorization_servers": []string{issuerURL}},
	}))
	s.Broker = s.replica(t)
	return s
}

// replica makes another Broker that shares what replicas share.
func (s *stage) replica(t *testing.T) *Broker {
	t.Helper()
	b, err := New(Options{
		Tenant: func(_ context.Context, name string) (*tenant.Tenant, error) {
			if name == s.t.Name {
				return s.t, nil
			}
			return nil, tenant.ErrNotFound
		},
		Vault: s.vault, Values: s.shared, Leases: s.shared, Ring: s.ring, Secrets: s.secrets.open,
		Client:    func(bool) *http.Client { return &http.Client{Transport: s.world} },
		PublicURL: "https://gateway.example.com/",
		Logger:    slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// serve is the authorization server.
func (s *stage) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server/one":
		reply(w, http.StatusOK, s.metadata)
	case "/token":
		s.tokens++
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		give := s.token
		if give == nil {
			give = func(_ url.Values, n int) (int, any) { return http.StatusOK, accessToken(n, 3600) }
		}
		status, body := give(form, s.tokens)
		reply(w, status, body)
	case "/register":
		s.clients++
		if s.register == nil {
			reply(w, http.StatusCreated, object{"client_id": "dyn-" + string(rune('0'+s.clients)), "client_secret": "dynamic secret", "client_secret_expires_at": 0})
			return
		}
		status, body := s.register(s.clients)
		reply(w, status, body)
	default:
		http.NotFound(w, r)
	}
}

// answer sets what the token endpoint answers; nil means a token.
func (s *stage) answer(give func(form url.Values, n int) (int, any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = give
}

// counted gives how many tokens were asked for.
func (s *stage) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// accessToken is an answer of a token endpoint.
func accessToken(n, seconds int) object {
	return object{"access_token": "at-" + string(rune('0'+n)), "token_type": "bearer", "expires_in": seconds}
}

// source gives that of the upstream for the gateway itself, or a user.
func (s *stage) source(who *tenant.Principal) Source { return s.Source(s.t, s.u, who) }

// show gives the Authorization line that a source shows.
func show(t *testing.T, s Source) string {
	t.Helper()
	h, err := s.Credential(t.Context())
	if err != nil {
		t.Fatalf("no credential: %v", err)
	}
	return h.Get("Authorization")
}

// refuse tells a source that a line was refused.
func refuse(t *testing.T, s Source, line string, status int, challenges ...string) bool {
	t.Helper()
	again, err := s.Refused(t.Context(), http.Header{"Authorization": {line}}, status, challenges)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return again
}

func ann() *tenant.Principal {
	return &tenant.Principal{Tenant: "acme", Issuer: "https://idp.example.com", Subject: "ann", ClientID: "ide"}
}

func bob() *tenant.Principal {
	return &tenant.Principal{Tenant: "acme", Issuer: "https://idp.example.com", Subject: "bob", ClientID: "ide"}
}

func staticClient(conf tenant.Credential) tenant.Credential {
	conf.Issuer, conf.ClientID, conf.ClientSecret = issuerURL, "gate:way", tenant.Secret{Env: "SECRET"}
	return conf
}
