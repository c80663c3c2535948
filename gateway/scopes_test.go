package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// tenantsRouter is a fakeRouter that serves what is registered.
type tenantsRouter struct {
	fakeRouter
	tenants map[string]*tenant.Tenant
}

func (r *tenantsRouter) Tenant(_ context.Context, e federation.Endpoint) (*tenant.Tenant, error) {
	t := r.tenants[e.Tenant]
	if t == nil ||
		e.Alias != "" && !slices.ContainsFunc(t.Upstreams, func(u tenant.Upstream) bool { return u.Alias == e.Alias }) ||
		e.Toolset != "" && !slices.ContainsFunc(t.Toolsets, func(s tenant.Toolset) bool { return s.Name == e.Toolset }) {
		return nil, federation.ErrNoEndpoint
	}
	return t, nil
}

// gwURL is where the gateways of these tests say that they are.
const gwURL = "https://gw.example.com"

// acme is a tenant whose callers show opaque tokens of an issuer, or keys. The toolset
// readonly needs a scope of its own.
type acme struct {
	*tenantsRouter
	issuer *httptest.Server
	keys   *tenant.MemoryRegistry
	auth   *auth.Authenticator
	reg    *prometheus.Registry
}

// newAcme makes it. A token is the user's name, a dot and the path of the endpoint that
// it is for; all have the scope mcp, and more where a second dot is followed by it.
func newAcme(t *testing.T) *acme {
	t.Helper()
	a := &acme{tenantsRouter: &tenantsRouter{}, keys: tenant.NewMemoryRegistry(), reg: prometheus.NewRegistry()}
	a.issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, rest, _ := strings.Cut(r.PostFormValue("token"), ".")
		path, scope, _ := strings.Cut(rest, ".")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"active": path != "", "iss": a.issuer.URL, "sub": user, "aud": gwURL + path, "scope": "mcp " + scope,
			"client_id": "app", "exp": time.Now().Add(time.Hour).Unix(),
		})
	}))
	t.Cleanup(a.issuer.Close)
	one := &tenant.Tenant{
		Name: "acme", Upstreams: []tenant.Upstream{{Alias: "weather", URL: "http://127.0.0.1:1/mcp"}},
		Toolsets: []tenant.Toolset{{Name: "readonly", Scopes: []string{"read"}}},
		Auth: tenant.Auth{Mode: tenant.AuthOAuth, Scopes: []string{"mcp"}, Issuers: []tenant.Issuer{{
			Issuer: a.issuer.URL, Private: true,
			Introspection: &tenant.Introspection{URL: a.issuer.URL + "/introspect", ClientID: "gw", ClientSecret: tenant.Secret{Env: "S"}},
		}}},
	}
	a.tenants = map[string]*tenant.Tenant{"acme": one, "default": {Name: "default", Auth: tenant.Auth{Mode: tenant.AuthKeys}}}
	if _, err := a.keys.Put(t.Context(), &tenant.Tenant{Name: "acme", Auth: tenant.Auth{Mode: tenant.AuthKeys}}, 0); err != nil {
		t.Fatal(err)
	}
	var err error
	a.auth, err = auth.New(auth.Options{
		Keys: a.keys, Secrets: func(tenant.Secret) ([]byte, error) { return []byte("s"), nil },
		Client:     func(bool) *http.Client { return a.issuer.Client() },
		Registerer: a.reg, Logger: testOptions().Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.auth.Close)
	return a
}

// start runs a gateway in front of it.
func (a *acme) start(t *testing.T, change func(*Options)) (*Gateway, string) {
	t.Helper()
	return startEdge(t, a, func(o *Options) {
		o.PublicURL = gwURL
		if change != nil {
			change(o)
		}
	}, func(e *edge) { e.auth = a.auth })
}

// key makes an API key.
func (a *acme) key(t *testing.T, scopes ...string) string {
	t.Helper()
	plain, k := auth.NewKey(tenant.APIKey{Tenant: "acme", Subject: "ci", Scopes: scopes})
	if err := a.keys.PutKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return plain
}

// challengeAt is the challenge for scopes that lack at the endpoint at a path.
func challengeAt(path, scopes string) string {
	head := `Bearer error="insufficient_scope", error_description="the token lacks a scope"`
	if path != "" {
		head += `, resource_metadata="` + gwURL + pathMetadata + path + `"`
	}
	return head + `, scope="` + scopes + `"`
}

// needing refuses all for scopes.
func needing(scopes ...string) error {
	return fmt.Errorf("call: %w", &federation.ScopeError{Needed: scopes})
}

// TestStepUp holds how a client is told that an operation needs more scopes than its
// token has, in both eras and wherever the answer goes.
func TestStepUp(t *testing.T) {
	a := newAcme(t)
	a.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		if c.Request.Method == "server/discover" {
			return result(c, `{"resultType":"complete","capabilities":{}}`), nil
		}
		return nil, needing("read", "ledger.write", "mcp")
	}
	a.listen = func(context.Context, *federation.Call) (*federation.Subscription, error) {
		return nil, needing("ledger.read")
	}
	_, url := a.start(t, nil)
	key := a.key(t, "mcp")
	const merged, readonly = "/t/acme/mcp", "/t/acme/s/readonly/mcp"
	call := message("tools/call", `"name":"x"`)
	old := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`
	tests := []struct {
		name, path, token, body string
		header                  []string
		challenge               string
	}{
		{"a call", merged, "ann." + merged, call, nil, challengeAt(merged, "mcp read ledger.write")},
		{"a call in a toolset", readonly, "ann." + readonly, call, nil, challengeAt(readonly, "mcp read ledger.write")},
		{"a stream", merged, "ann." + merged, message("subscriptions/listen", `"notifications":{}`), nil, challengeAt(merged, "mcp ledger.read")},
		{"with a key", merged, key, call, nil, challengeAt("", "mcp read ledger.write")},
		{"a handshake client", merged, "ann." + merged, old, []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"}, challengeAt(merged, "mcp read ledger.write")},
		{"a handshake client with a key", merged, key, old, []string{"Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-06-18"}, challengeAt("", "mcp read ledger.write")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := do(t, request(t, url+tt.path, tt.body, append(tt.header, "Authorization: Bearer "+tt.token)...))
			e := decodeError(t, body(t, res))
			if res.StatusCode != http.StatusForbidden || res.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%d %s\nwant %s", res.StatusCode, res.Header.Get("WWW-Authenticate"), tt.challenge)
			}
			if string(e.ID) != "7" || e.Error.Code != -32600 || !strings.HasPrefix(e.Error.Message, "Forbidden: this needs the scopes ") {
				t.Errorf("error %+v", e)
			}
		})
	}
	if n := failuresOf(t, a.reg, "scope"); n != float64(len(tests)) {
		t.Errorf("%v failures are counted, want %d", n, len(tests))
	}
}

// failuresOf gives causeway_auth_failures_total for a reason.
func failuresOf(t *testing.T, reg *prometheus.Registry, reason string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "causeway_auth_failures_total" && m.Label[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// TestStepUpTooLate holds that what needs more scopes is an error of its own where the
// head of the response is gone, or the response is about more than it.
func TestStepUpTooLate(t *testing.T) {
	a := newAcme(t)
	begun := make(chan struct{})
	a.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		if c.Request.Method == "server/discover" {
			return result(c, `{"resultType":"complete","capabilities":{}}`), nil
		}
		if c.Request.Name.Value == "late" {
			<-begun
		}
		return nil, needing("read")
	}
	_, url := a.start(t, func(o *Options) { o.Limits.KeepAlive = time.Millisecond })
	const path = "/t/acme/mcp"
	bearer := "Authorization: Bearer ann." + path
	res := do(t, request(t, url+path, message("tools/call", `"name":"late"`), bearer))
	next := events(res.Body)
	if e, err := next(); e != ":" || err != nil {
		t.Fatalf("%q, %v", e, err)
	}
	close(begun)
	for {
		text, err := next()
		if text == ":" {
			continue
		}
		if e := decodeError(t, text); err != nil || res.StatusCode != 200 || e.Error.Code != -32600 || !strings.Contains(e.Error.Message, "scopes read") {
			t.Errorf("%d %s, %v", res.StatusCode, text, err)
		}
		break
	}

	res = do(t, request(t, url+path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		bearer, "Mcp-Protocol-Version"))
	session := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	res = do(t, request(t, url+path, `[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}},{"jsonrpc":"2.0","id":8,"method":"ping"}]`,
		bearer, session, "Mcp-Protocol-Version", "Accept", "Accept: application/json"))
	if got := body(t, res); res.StatusCode != 200 || !strings.Contains(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Forbidden: this needs the scopes read"}}`) ||
		!strings.Contains(got, `{"jsonrpc":"2.0","id":8,"result":{}}`) {
		t.Errorf("a batch: %d %s", res.StatusCode, got)
	}
}

// TestToken holds of which token the federation is told: that of the request at hand, and
// of no key.
func TestToken(t *testing.T) {
	a := newAcme(t)
	got := make(chan *federation.Call, 1)
	a.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got <- c
		return result(c, `{"resultType":"complete","capabilities":{}}`), nil
	}
	a.listen = func(_ context.Context, c *federation.Call) (*federation.Subscription, error) {
		got <- c
		return nil, federation.ErrNoEndpoint
	}
	var log strings.Builder
	g, url := a.start(t, func(o *Options) { o.Logger = testLogger(&log) })
	const path = "/t/acme/mcp"
	send := func(method, text string, header ...string) *federation.Call {
		t.Helper()
		req := request(t, url+path, text, header...)
		req.Method = method
		do(t, req)
		return <-got
	}
	check := func(what string, c *federation.Call, want string) {
		t.Helper()
		if c.Token != want || c.TokenExpires.IsZero() != (want == "") {
			t.Errorf("%s: %q until %s, want %q", what, c.Token, c.TokenExpires, want)
		}
	}
	const ann, again = "ann." + path, "ann." + path + ".read"
	bearer := func(token string) string { return "Authorization: Bearer " + token }
	check("a call", send(http.MethodPost, message("tools/call", `"name":"x"`), bearer(ann)), ann)
	check("a stream", send(http.MethodPost, message("subscriptions/listen", `"notifications":{}`), bearer(ann)), ann)
	check("a key", send(http.MethodPost, message("tools/list", ""), bearer(a.key(t, "mcp"))), "")

	res := do(t, request(t, url+path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		bearer(ann), "Mcp-Protocol-Version"))
	check("initialize", <-got, ann)
	session := []string{"Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	check("in the session", send(http.MethodPost, list, append(session, bearer(ann))...), ann)
	check("with the next token", send(http.MethodPost, list, append(session, bearer(again))...), again)
	check("the GET stream", send(http.MethodGet, "", append(session, bearer(again), "Content-Type")...), again)
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "ann.") {
		t.Errorf("a token is logged:\n%s", &log)
	}
}

// TestTokenOfNobody holds that what an open tenant is sent is no token of anybody.
func TestTokenOfNobody(t *testing.T) {
	got := make(chan *federation.Call, 1)
	_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got <- c
		return result(c, `{}`), nil
	}}, nil)
	do(t, request(t, url+"/mcp", message("tools/list", ""), "Authorization: Bearer x"))
	if c := <-got; cmp.Or(c.Token, c.TokenExpires.String()) != (time.Time{}).String() {
		t.Errorf("%q until %s", c.Token, c.TokenExpires)
	}
}
