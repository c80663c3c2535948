package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

// hosted are replicas whose tenant acme has a host of its own beside the tenant default.
type hosted struct {
	*guarded
	up *scripted
}

// newHosted makes them. acme's clients come to https://mcp.acme.example/base.
func newHosted(t *testing.T) *hosted {
	t.Helper()
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	h := &hosted{guarded: newGuarded(t, nil), up: up}
	h.replace(h.acme(tenant.Host{Name: "mcp.acme.example", URL: "https://mcp.acme.example/base"}))
	return h
}

// acme is the tenant.
func (h *hosted) acme(hosts ...tenant.Host) *tenant.Tenant {
	return &tenant.Tenant{Name: "acme", Separator: "_", Auth: h.issuer.auth(), Hosts: hosts, Upstreams: []tenant.Upstream{upstreamAt("a", h.up.URL)}}
}

// replace registers tenants beside the tenant default.
func (h *hosted) replace(tenants ...*tenant.Tenant) {
	h.tb.Helper()
	now, err := h.store.Tenant(h.tb.Context(), "default")
	if err != nil {
		h.tb.Fatal(err)
	}
	h.store.Replace(append(tenants, now))
}

// bearer gives the header line of a token for a resource.
func (h *hosted) bearer(resource string) string {
	return "Authorization: Bearer " + h.issuer.token("ann", "", map[string]any{"aud": resource})
}

// to sends a request to a host.
func (h *hosted) to(r *replica, host, path, body string, header ...string) reply {
	h.tb.Helper()
	return newRawClient(h.tb, r.url+path).send(body, append(header, "Host: "+host)...)
}

// TestHosts holds which endpoints are at the host of a tenant, and which tokens open
// them.
func TestHosts(t *testing.T) {
	h := newHosted(t)
	r := h.start()
	const base = "https://mcp.acme.example/base"
	tests := []struct {
		name, host, path, resource string
		header                     []string
		status                     int
	}{
		{"the tenant's", "mcp.acme.example", "/mcp", base + "/mcp", nil, 200},
		{"with the path of the URL", "mcp.acme.example", "/base/mcp", base + "/mcp", nil, 200},
		{"with a port", "mcp.acme.example:8443", "/mcp", base + "/mcp", nil, 200},
		{"in capitals, with a dot", "MCP.Acme.Example.", "/mcp", base + "/mcp", nil, 200},
		{"one upstream", "mcp.acme.example", "/u/a/mcp", base + "/u/a/mcp", nil, 200},
		{"from a page of its own", "mcp.acme.example", "/mcp", base + "/mcp", []string{"Origin: https://mcp.acme.example"}, 200},
		{"from a page of the gateway", "mcp.acme.example", "/mcp", base + "/mcp", []string{"Origin: " + publicURL}, 200},
		{"from another page", "mcp.acme.example", "/mcp", base + "/mcp", []string{"Origin: https://evil.example"}, 403},
		{"from its page, elsewhere", "gw.example.com", "/t/acme/mcp", publicURL + "/t/acme/mcp", []string{"Origin: https://mcp.acme.example"}, 403},
		{"by the gateway's host", "gw.example.com", "/t/acme/mcp", publicURL + "/t/acme/mcp", nil, 200},
		{"by a name of this machine", "localhost", "/t/acme/mcp", publicURL + "/t/acme/mcp", nil, 200},
		{"a token for the same by the gateway's host", "mcp.acme.example", "/mcp", publicURL + "/t/acme/mcp", nil, 401},
		{"a token of the host at the gateway's", "gw.example.com", "/t/acme/mcp", base + "/mcp", nil, 401},
		{"a token for the whole at one upstream", "mcp.acme.example", "/u/a/mcp", base + "/mcp", nil, 401},
		{"its name below it", "mcp.acme.example", "/t/acme/mcp", base + "/mcp", nil, 404},
		{"another tenant below it", "mcp.acme.example", "/t/default/mcp", publicURL + "/t/default/mcp", nil, 404},
		{"no such upstream", "mcp.acme.example", "/u/b/mcp", base + "/u/b/mcp", nil, 404},
		{"pages", "mcp.acme.example", "/oauth/x", base + "/mcp", nil, 404},
		{"nothing", "mcp.acme.example", "/", base + "/mcp", nil, 404},
		{"an unknown host", "mcp.evil.example", "/mcp", publicURL + "/mcp", nil, 403},
		{"a host that somebody says there was", "gw.example.com", "/mcp", base + "/mcp", []string{"X-Forwarded-Host: mcp.acme.example", "Forwarded: host=mcp.acme.example"}, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := h.to(r, tt.host, tt.path, ask("tools/list", ""), append(tt.header, h.bearer(tt.resource))...)
			if got.status != tt.status || got.status == 200 && !strings.Contains(got.last(), `x"`) {
				t.Errorf("%d %q, want %d", got.status, got.messages, tt.status)
			}
		})
	}
	const where = `resource_metadata="https://mcp.acme.example/.well-known/oauth-protected-resource/base/u/a/mcp"`
	if got := h.to(r, "mcp.acme.example", "/u/a/mcp", ask("tools/list", "")); got.status != 401 || !strings.Contains(got.header.Get("WWW-Authenticate"), where) {
		t.Errorf("challenge %s, want %s", got.header.Get("WWW-Authenticate"), where)
	}
}

// TestHostMetadata holds what is at the well-known paths of a tenant's host.
func TestHostMetadata(t *testing.T) {
	h := newHosted(t)
	r := h.start()
	const root = "/.well-known/oauth-protected-resource"
	of := func(resource string) string {
		return `{"resource":"` + resource + `","authorization_servers":["` + h.issuer.URL + `"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"]}`
	}
	const base = "https://mcp.acme.example/base"
	tests := []struct{ host, path, want string }{
		{"mcp.acme.example", root, of(base + "/mcp")},
		{"mcp.acme.example:443", root + "/base/mcp", of(base + "/mcp")},
		{"mcp.acme.example", root + "/mcp", of(base + "/mcp")},
		{"mcp.acme.example", root + "/base/u/a/mcp", of(base + "/u/a/mcp")},
		{"mcp.acme.example", root + "/t/acme/mcp", ""},
		{"mcp.acme.example", root + "/t/default/mcp", ""},
		{"mcp.acme.example", root + "/base/u/b/mcp", ""},
		{"gw.example.com", root, of(publicURL + "/mcp")},
		{"whatever.example", root + "/t/acme/mcp", of(publicURL + "/t/acme/mcp")},
	}
	for _, tt := range tests {
		t.Run(tt.host+tt.path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+tt.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tt.host
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if tt.want == "" {
				if res.StatusCode != 404 {
					t.Errorf("%d %s", res.StatusCode, body)
				}
				return
			}
			if err != nil || string(body) != tt.want || res.StatusCode != 200 {
				t.Errorf("%d %s, %v\nwant %s", res.StatusCode, body, err, tt.want)
			}
		})
	}
}

// TestHostsChange holds that a host leads to whom it is registered for now, that streams
// which came by it end when it is no more, and who gets one that several want.
func TestHostsChange(t *testing.T) {
	h := newHosted(t)
	r := h.start()
	const name, url = "mcp.acme.example", "https://mcp.acme.example"
	reached := func() string {
		t.Helper()
		got := h.to(r, name, "/mcp", ask("tools/list", ""))
		switch metadata := got.header.Get("WWW-Authenticate"); {
		case got.status == 403:
			return "nobody"
		case got.status == 401 && strings.Contains(metadata, `"`+url+"/.well-known"):
			return "acme"
		case got.status == 200:
			return "other"
		default:
			return metadata
		}
	}
	listen := ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	open := func(host, path, resource string) *openStream {
		t.Helper()
		s := newRawClient(t, r.url+path).open(listen, h.bearer(resource), "Host: "+host)
		s.next()
		return s
	}
	h.replace(h.acme(tenant.Host{Name: name, URL: url}))
	mine, same := open(name, "/mcp", url+"/mcp"), open("gw.example.com", "/t/acme/mcp", publicURL+"/t/acme/mcp")
	other := &tenant.Tenant{Name: "aaa", Separator: "_", Hosts: []tenant.Host{{Name: "MCP.acme.example", URL: url}}, Upstreams: []tenant.Upstream{upstreamAt("a", h.up.URL)}}
	steps := []struct {
		name    string
		tenants []*tenant.Tenant
		want    string
	}{
		{"as it was", nil, "acme"},
		{"a tenant of a lower name wants it too", []*tenant.Tenant{h.acme(tenant.Host{Name: name, URL: url}), other}, "other"},
		{"it belongs to the first one of the file", []*tenant.Tenant{managed(h.acme(tenant.Host{Name: name, URL: url})), other}, "acme"},
		{"that one lets it go", []*tenant.Tenant{h.acme(), other}, "other"},
		{"nobody wants it", []*tenant.Tenant{h.acme()}, "nobody"},
		{"again", []*tenant.Tenant{h.acme(tenant.Host{Name: name, URL: url})}, "acme"},
		{"the tenant goes", []*tenant.Tenant{}, "nobody"},
	}
	for _, step := range steps {
		if step.tenants != nil {
			h.replace(step.tenants...)
		}
		if got := reached(); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if step.name == "a tenant of a lower name wants it too" {
			if last := mine.next(); !strings.Contains(last, `"resultType":"complete"`) {
				t.Errorf("the stream by the host ended with %s", last)
			}
			h.replace(append(step.tenants, &tenant.Tenant{Name: "more"})...)
			if got := r.log.count("host=mcp.acme.example tenant=acme"); got != 1 {
				t.Errorf("%d lines say that acme does not get it", got)
			}
		}
		if step.name == "that one lets it go" {
			h.replace(h.acme(), other)
		}
	}
	if last := same.next(); !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("the stream of the tenant that went ended with %s", last)
	}
}

// managed is a tenant as one of the file.
func managed(t *tenant.Tenant) *tenant.Tenant {
	t.ManagedBy = tenant.ManagedByFile
	return t
}

// TestHostsOfOthers holds that no tenant gets what leads to all, or to another one: not
// the name, and not the URL, which tokens are for.
func TestHostsOfOthers(t *testing.T) {
	h := newHosted(t)
	const mine = "https://mcp.acme.example"
	evil := &tenant.Tenant{Name: "evil", Separator: "_", Auth: h.issuer.auth(), Hosts: []tenant.Host{
		{Name: "GW.example.com", URL: "https://mcp.evil.example"},
		{Name: "a.evil.example", URL: publicURL + "/t/default"},
		{Name: "b.evil.example", URL: "HTTPS://mcp.acme.example:443/"},
		{Name: "c.evil.example", URL: "https://c.evil.example"},
	}}
	h.replace(h.acme(tenant.Host{Name: "mcp.acme.example", URL: mine}), evil)
	r := h.start()
	for _, tt := range []struct {
		host, path, resource string
		status               int
	}{
		{"gw.example.com", "/mcp", publicURL + "/mcp", 200},
		{"mcp.acme.example", "/mcp", mine + "/mcp", 200},
		{"a.evil.example", "/mcp", publicURL + "/t/default/mcp", 403},
		{"b.evil.example", "/mcp", mine + "/mcp", 403},
		{"c.evil.example", "/mcp", "https://c.evil.example/mcp", 200},
	} {
		if got := h.to(r, tt.host, tt.path, ask("tools/list", ""), h.bearer(tt.resource)); got.status != tt.status {
			t.Errorf("%s: %d %q, want %d", tt.host, got.status, got.messages, tt.status)
		}
	}
	if got := r.log.count("a host of a tenant is not served"); got != 3 {
		t.Errorf("%d lines say so", got)
	}
}

// TestHostsOfTheMachine holds that no tenant of a registry gets the addresses by which the
// gateway is reached itself.
func TestHostsOfTheMachine(t *testing.T) {
	h := newHosted(t)
	names := []string{"localhost", "a.localhost", "127.0.0.1", "10.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "0x7f.0x1"}
	evil := &tenant.Tenant{Name: "evil", Separator: "_", Upstreams: []tenant.Upstream{upstreamAt("e", h.up.URL)}}
	for _, name := range names {
		evil.Hosts = append(evil.Hosts, tenant.Host{Name: name, URL: "https://mcp.evil.example"})
	}
	h.replace(evil)
	r := h.start()
	for _, name := range names {
		want := 403 // it is no name of a listener on a loopback address
		if name == "localhost" || name == "127.0.0.1" {
			want = 200
		}
		if got := h.to(r, name, "/mcp", ask("tools/list", ""), h.bearer(publicURL+"/mcp")); got.status != want || strings.Contains(got.last(), "e_x") {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.last(), want)
		}
	}
	h.replace(managed(evil))
	for _, name := range names {
		if got := h.to(r, name, "/mcp", ask("tools/list", "")); got.status != 200 || !strings.Contains(got.last(), "e_x") {
			t.Errorf("of the file, %s: %d %s", name, got.status, got.last())
		}
	}
}

// asking is a Store that counts what it is asked.
type asking struct {
	tenant.Store
	names error
	asked []string
}

func (s *asking) Names(ctx context.Context) ([]string, error) {
	if s.names != nil {
		return nil, s.names
	}
	return s.Store.Names(ctx)
}

func (s *asking) Tenant(ctx context.Context, name string) (*tenant.Tenant, error) {
	s.asked = append(s.asked, name)
	return s.Store.Tenant(ctx, name)
}

// TestHostsAreInMemory holds that a request asks the registry for no host, and that a
// gateway which cannot read the hosts does not start.
func TestHostsAreInMemory(t *testing.T) {
	h := newHosted(t)
	store := &asking{Store: h.store}
	h.change = func(o *gateway.Options) { o.Store, o.PublicURL, o.Keys = store, publicURL, h.keys }
	r := h.start()
	const resource = "https://mcp.acme.example/base/mcp"
	h.to(r, "mcp.acme.example", "/mcp", ask("tools/list", ""), h.bearer(resource)) // loads the tenant
	before := len(store.asked)
	for range 3 {
		h.to(r, "mcp.acme.example", "/mcp", ask("tools/list", ""), h.bearer(resource))
		h.to(r, "unknown.example", "/mcp", ask("tools/list", ""))
	}
	if diff := cmp.Diff([]string{}, store.asked[before:]); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	store.names = errors.New("the registry is away")
	if gw, err := gateway.New(h.options(r)); err == nil || !strings.Contains(err.Error(), "read the hosts of tenants: the registry is away") {
		t.Errorf("New: %v, %v", gw, err)
	}
}
