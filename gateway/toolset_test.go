package gateway

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

func TestEndpointAt(t *testing.T) {
	of := func(tenant, alias, toolset string) federation.Endpoint {
		return federation.Endpoint{Tenant: tenant, Alias: alias, Toolset: toolset}
	}
	tests := []struct {
		path string
		want federation.Endpoint // without a tenant where there is none
	}{
		{"/mcp", of("default", "", "")},
		{"/t/acme/mcp", of("acme", "", "")},
		{"/t/acme/u/weather/mcp", of("acme", "weather", "")},
		{"/t/acme/s/readonly/mcp", of("acme", "", "readonly")},
		{"/t/mcp/u/mcp/mcp", of("mcp", "mcp", "")},
		{"/t/s/s/s/mcp", of("s", "", "s")},
		{"", of("", "", "")}, {"/", of("", "", "")}, {"/mcp/", of("", "", "")}, {"mcp", of("", "", "")},
		{"/t/mcp", of("", "", "")}, {"/t//mcp", of("", "", "")}, {"/t/acme/", of("", "", "")}, {"/t/acme/mcp/", of("", "", "")},
		{"/t/acme/u/mcp", of("", "", "")}, {"/t/acme/u//mcp", of("", "", "")}, {"/t/acme/s//mcp", of("", "", "")},
		{"/t/acme/u/a/b/mcp", of("", "", "")}, {"/t/acme/x/a/mcp", of("", "", "")}, {"/t/acme/u/a/s/b/mcp", of("", "", "")},
		{"/u/weather/mcp", of("", "", "")}, {"/s/readonly/mcp", of("", "", "")},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			got, ok := endpointAt(tt.path)
			if ok != (tt.want.Tenant != "") || ok && got != tt.want {
				t.Errorf("%+v, %t", got, ok)
			}
			if path := "/t/" + got.Tenant + pathOf(got); ok && tt.path != "/mcp" && path != tt.path {
				t.Errorf("the path of %+v is %s", got, path)
			}
		})
	}
}

// TestToolsetEndpoint holds what the federation is asked at the endpoint of a toolset,
// and who may ask.
func TestToolsetEndpoint(t *testing.T) {
	a := newAcme(t)
	got := make(chan federation.Endpoint, 1)
	a.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got <- c.Endpoint
		return result(c, `{"resultType":"complete"}`), nil
	}
	var log bytes.Buffer
	g, url := a.start(t, func(o *Options) { o.Logger = testLogger(&log) })
	const path = "/t/acme/s/readonly/mcp"
	bearer := func(path string) string { return "Authorization: Bearer ann." + path }
	tests := []struct {
		name, path, header string
		status             int
		want               federation.Endpoint
		challenge          string
	}{
		{"a token for it", path, bearer(path), 200, federation.Endpoint{Tenant: "acme", Toolset: "readonly"}, ""},
		{"with a mode", path + "?discovery=search", bearer(path), 200, federation.Endpoint{Tenant: "acme", Toolset: "readonly", Discovery: tenant.DiscoverySearch}, ""},
		{"a token for the whole", path, bearer("/t/acme/mcp"), 401, federation.Endpoint{}, "the token is for another resource"},
		{"its token for the whole", "/t/acme/mcp", bearer(path), 401, federation.Endpoint{}, "the token is for another resource"},
		{"no token", path, "X: y", 401, federation.Endpoint{}, `Bearer resource_metadata="` + gwURL + pathMetadata + path + `", scope="mcp read"`},
		{"no such toolset", "/t/acme/s/other/mcp", bearer(path), 404, federation.Endpoint{}, ""},
		{"of another tenant", "/t/default/s/readonly/mcp", bearer(path), 404, federation.Endpoint{}, ""},
		{"an upstream in its place", "/t/acme/s/weather/mcp", bearer(path), 404, federation.Endpoint{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := do(t, request(t, url+tt.path, message("tools/list", ""), tt.header))
			if res.StatusCode != tt.status || !strings.Contains(res.Header.Get("WWW-Authenticate"), tt.challenge) {
				t.Errorf("%d %s", res.StatusCode, res.Header.Get("WWW-Authenticate"))
			}
			if tt.status != 200 {
				return
			}
			if diff := cmp.Diff(tt.want, <-got); diff != "" {
				t.Errorf("endpoint (-want +got):\n%s", diff)
			}
		})
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "toolset=readonly") {
		t.Errorf("the toolset is not in the log:\n%s", &log)
	}
}

// TestToolsetMetadata holds what the metadata of a toolset's endpoint says.
func TestToolsetMetadata(t *testing.T) {
	a := newAcme(t)
	_, url := a.start(t, nil)
	doc := func(path, scopes string) string {
		return `{"resource":"` + gwURL + path + `","authorization_servers":["` + a.issuer.URL + `"],"scopes_supported":[` + scopes + `],"bearer_methods_supported":["header"]}`
	}
	for path, want := range map[string]string{
		"/t/acme/s/readonly/mcp": doc("/t/acme/s/readonly/mcp", `"mcp","read"`),
		"/t/acme/mcp":            doc("/t/acme/mcp", `"mcp"`),
		"/t/acme/u/weather/mcp":  doc("/t/acme/u/weather/mcp", `"mcp"`),
		"/t/acme/s/other/mcp":    `{"error":"Not Found"}` + "\n",
		"/s/readonly/mcp":        `{"error":"Not Found"}` + "\n",
	} {
		if _, got := get(t, url+pathMetadata+path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestSessionsStayAtTheirEndpoint holds that the session of one endpoint is none of
// another, of toolsets too.
func TestSessionsStayAtTheirEndpoint(t *testing.T) {
	a := newAcme(t)
	a.tenants["acme"].Auth = tenant.Auth{}
	a.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return result(c, `{"resultType":"complete","capabilities":{}}`), nil
	}
	_, url := a.start(t, nil)
	paths := []string{"/t/acme/mcp", "/t/acme/u/weather/mcp", "/t/acme/s/readonly/mcp"}
	for _, from := range paths {
		res := do(t, request(t, url+from, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "Mcp-Protocol-Version"))
		session := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
		for _, to := range paths {
			want := http.StatusNotFound
			if to == from {
				want = http.StatusOK
			}
			res := do(t, request(t, url+to, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session, "Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-11-25"))
			if res.StatusCode != want {
				t.Errorf("of %s at %s: %d", from, to, res.StatusCode)
			}
		}
	}
}

// TestSessionBinding holds that sessions which were begun before there were toolsets go
// on.
func TestSessionBinding(t *testing.T) {
	at := federation.Endpoint{Tenant: "acme", Alias: "weather", Discovery: tenant.DiscoveryFull}
	p := tenant.Principal{Tenant: "acme", Issuer: "i", Subject: "s"}
	var want []byte
	for _, field := range []string{"acme", "weather", "full", "acme", "i", "s"} {
		want = appendField(want, field)
	}
	if diff := cmp.Diff(want, sessionBinding(at, &p)); diff != "" {
		t.Errorf("binding (-want +got):\n%s", diff)
	}
}

// TestPassedOnWithItsEndpoint holds that a request is answered elsewhere as it would be
// here: at its endpoint, with its token, and with the same challenge.
func TestPassedOnWithItsEndpoint(t *testing.T) {
	a := newAcme(t)
	shared, ring := cache.NewShared(), seal.NewRandom()
	got := make(chan *federation.Call, 1)
	var held *Gateway
	there := &tenantsRouter{tenants: a.tenants}
	there.handle = func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		got <- c
		return nil, needing("write")
	}
	a.handle = func(context.Context, *federation.Call) (*federation.Reply, error) {
		return nil, &federation.Elsewhere{Holder: held.edge.peers.address, Alias: "weather"}
	}
	begin := func(r router) *Gateway {
		opts := clustered(shared, ring)
		opts.PublicURL = gwURL
		return startPeerEdge(t, r, opts, func(e *edge) { e.auth = a.auth })
	}
	held = begin(there)
	front := begin(a)
	const path = "/t/acme/s/readonly/mcp"
	for _, tt := range []struct{ name, token, want, challenge string }{
		{"a token", "ann." + path, "ann." + path, challengeAt(path, "mcp read write")},
		{"a key", a.key(t, "mcp"), "", challengeAt("", "mcp read write")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := do(t, request(t, "http://"+front.Addr().String()+path, message("tools/call", `"name":"x","requestState":"s"`), "Authorization: Bearer "+tt.token))
			c := <-got
			if c.Endpoint != (federation.Endpoint{Tenant: "acme", Toolset: "readonly"}) || c.Token != tt.want || c.Header.Get("Authorization") != "" ||
				(tt.want != "") != (time.Until(c.TokenExpires) > time.Minute) {
				t.Errorf("%+v", c)
			}
			if res.StatusCode != 403 || res.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%d %s\nwant %s", res.StatusCode, res.Header.Get("WWW-Authenticate"), tt.challenge)
			}
		})
	}
}
