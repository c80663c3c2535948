package auth_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

const (
	issuerURL = "https://idp.example.com/realms/one"
	resource  = "https://gateway.example.com/t/acme/mcp"
	metadata  = "https://gateway.example.com/.well-known/oauth-protected-resource/t/acme/mcp"
)

// rig is an Authenticator with an issuer and a tenant that trusts it.
type rig struct {
	*auth.Authenticator
	idp    *idp
	tenant *tenant.Tenant
	keys   *countedKeys
	log    *syncBuffer
	reg    *prometheus.Registry
}

// newRig makes one; edit changes the registration before it is used.
func newRig(t *testing.T, edit ...func(*tenant.Tenant)) *rig {
	t.Helper()
	r := &rig{idp: newIDP(t, issuerURL), log: &syncBuffer{}, reg: prometheus.NewRegistry()}
	r.tenant = &tenant.Tenant{Name: "acme", Auth: tenant.Auth{
		Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Implies: map[string][]string{"admin": {"write"}, "write": {"mcp", "write"}},
		Issuers: []tenant.Issuer{{Issuer: issuerURL, GroupsClaim: "groups"}},
	}}
	for _, e := range edit {
		e(r.tenant)
	}
	r.keys = &countedKeys{MemoryRegistry: tenant.NewMemoryRegistry()}
	for _, name := range []string{"acme", "other"} {
		if _, err := r.keys.Put(t.Context(), &tenant.Tenant{Name: name}, tenant.Any); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	r.Authenticator, err = auth.New(auth.Options{
		Keys: r.keys, Registerer: r.reg, FailuresPerMinute: 1000,
		Logger:  slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secrets: func(s tenant.Secret) ([]byte, error) { return []byte("s:" + s.Env), nil },
		Client:  func(bool) *http.Client { return &http.Client{Transport: r.idp} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// request gives a request with the given Authorization headers.
func (r *rig) request(authorization ...string) *auth.Request {
	req := &http.Request{Method: http.MethodPost, Header: http.Header{}}
	if authorization != nil {
		req.Header["Authorization"] = authorization
	}
	return &auth.Request{
		Tenant: r.tenant, Resource: resource, Metadata: metadata, HTTP: req, Source: netip.MustParseAddr("192.0.2.1"),
	}
}

// authenticate sends a bearer token.
func (r *rig) authenticate(ctx context.Context, token string) (*auth.Caller, *auth.Refusal) {
	return r.send(ctx, r.request("Bearer "+token))
}

func (r *rig) send(ctx context.Context, req *auth.Request) (*auth.Caller, *auth.Refusal) {
	c, err := r.Authenticate(ctx, req)
	var refusal *auth.Refusal
	if err != nil && !errors.As(err, &refusal) {
		panic(err)
	}
	return c, refusal
}

// mustAccept fails unless the token is accepted.
func (r *rig) mustAccept(t *testing.T, token string) *auth.Caller {
	t.Helper()
	c, refusal := r.authenticate(t.Context(), token)
	if refusal != nil {
		t.Fatalf("refused: %d %s; log:\n%s", refusal.Status, refusal.Reason, r.log)
	}
	return c
}

// mustRefuse fails unless the token is refused for that reason.
func (r *rig) mustRefuse(t *testing.T, token, reason string) *auth.Refusal {
	t.Helper()
	c, refusal := r.authenticate(t.Context(), token)
	switch {
	case refusal == nil:
		t.Fatalf("accepted as %+v, want a refusal for %s", c.Principal, reason)
	case refusal.Reason != reason:
		t.Fatalf("refused for %s, want %s; log:\n%s", refusal.Reason, reason, r.log)
	}
	return refusal
}

// failures gives how often requests were refused for a reason.
func (r *rig) failures(t *testing.T, reason string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "causeway_auth_failures_total" && m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no series for %q", reason)
	return 0
}

// key registers an API key and gives it.
func (r *rig) key(t *testing.T, k tenant.APIKey) (string, tenant.APIKey) {
	t.Helper()
	if k.Tenant == "" {
		k.Tenant = "acme"
	}
	if k.Subject == "" {
		k.Subject = "robot"
	}
	plain, k := auth.NewKey(k)
	if err := r.keys.PutKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return plain, k
}

// countedKeys counts what is asked of a registry.
type countedKeys struct {
	*tenant.MemoryRegistry
	mu    sync.Mutex
	reads int
	fail  func(id string) error                      // of Key; nil for never
	touch func(ctx context.Context, id string) error // before TouchKey; nil for nothing
}

func (c *countedKeys) Key(ctx context.Context, of, id string) (tenant.APIKey, error) {
	c.mu.Lock()
	c.reads++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if err := fail(id); err != nil {
			return tenant.APIKey{}, err
		}
	}
	return c.MemoryRegistry.Key(ctx, of, id)
}

func (c *countedKeys) setFail(fail func(id string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

func (c *countedKeys) TouchKey(ctx context.Context, of, id string, used time.Time) error {
	c.mu.Lock()
	touch := c.touch
	c.mu.Unlock()
	if touch != nil {
		if err := touch(ctx, id); err != nil {
			return err
		}
	}
	return c.MemoryRegistry.TouchKey(ctx, of, id, used)
}

func (c *countedKeys) setTouch(touch func(ctx context.Context, id string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch = touch
}

func (c *countedKeys) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// window is how much of a token may be seen anywhere.
const window = 8

// leaked tells whether more than window characters of a secret are in text.
func leaked(secret, text string) bool {
	for i := 0; i+window < len(secret); i++ {
		if strings.Contains(text, secret[i:i+window+1]) {
			return true
		}
	}
	return false
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
