package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

const challenged = `Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"`

// invalid is the challenge for a token that is not accepted.
func invalid(description string) string {
	return strings.Replace(challenged, "Bearer ", `Bearer error="invalid_token", error_description="`+description+`", `, 1)
}

// TestAuthentication holds how the endpoint answers who may not use it, and that all
// endpoints and methods ask.
func TestAuthentication(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	r := g.start()
	is := g.issuer
	bearer := func(more map[string]any) string { return "Authorization: Bearer " + is.token("ann", "/mcp", more) }
	tests := []struct {
		name, path string
		header     []string
		status     int
		challenge  string
	}{
		{"a token for the endpoint", "/mcp", []string{g.as("ann", "/mcp")}, 200, ""},
		{"a token for another endpoint", "/mcp", []string{g.as("ann", "/t/default/mcp")}, 401, invalid("the token is for another resource")},
		{"the tenant's own path", "/t/default/mcp", []string{g.as("ann", "/t/default/mcp")}, 200, ""},
		{"one upstream", "/t/default/u/a/mcp", []string{g.as("ann", "/t/default/u/a/mcp")}, 200, ""},
		{"a token of the whole for one upstream", "/t/default/u/a/mcp", []string{g.as("ann", "/t/default/mcp")}, 401,
			strings.Replace(invalid("the token is for another resource"), "resource/mcp", "resource/t/default/u/a/mcp", 1)},
		{"no token", "/mcp", nil, 401, challenged},
		{"another scheme", "/mcp", []string{"Authorization: Basic YTpi"}, 401, challenged},
		{"no token that was ever made", "/mcp", []string{"Authorization: Bearer hush"}, 401, invalid("the token is not valid")},
		{"expired", "/mcp", []string{bearer(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})}, 401, invalid("the token has expired")},
		{"no scope", "/mcp", []string{bearer(map[string]any{"scope": "other"})}, 403,
			`Bearer error="insufficient_scope", error_description="the token lacks a scope", resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"`},
		{"a token in the query", "/mcp?access_token=hush", []string{g.as("ann", "/mcp")}, 400,
			`Bearer error="invalid_request", error_description="send one token, in one Authorization header, and nowhere else", resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp"`},
		{"no such endpoint", "/t/nobody/mcp", nil, 404, ""},
		{"no such upstream", "/t/default/u/b/mcp", nil, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(up.requests("tools/call"))
			got := newRawClient(t, r.url+tt.path).send(callOf(map[bool]string{true: "x", false: "a_x"}[strings.Contains(tt.path, "/u/")]), tt.header...)
			if got.status != tt.status || got.header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%d %s\nwant %d %s", got.status, got.header.Get("WWW-Authenticate"), tt.status, tt.challenge)
			}
			if reached := len(up.requests("tools/call")) > before; reached != (tt.status == 200) {
				t.Errorf("the upstream was asked: %t", reached)
			}
			if tt.status >= 400 && tt.status != 404 && !strings.HasPrefix(got.last(), `{"jsonrpc":"2.0","error":{"code":-32600,"message":"`+http.StatusText(tt.status)+`: `) {
				t.Errorf("body %s", got.last())
			}
		})
	}
	t.Run("every method", func(t *testing.T) {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodOptions, http.MethodHead} {
			req := newRawClient(t, r.url+"/mcp").request("")
			req.Method = method
			res, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %d", method, res.StatusCode)
			}
		}
	})
	if log := g.logs(r); strings.Contains(log, "eyJ") || strings.Contains(log, "hush") {
		t.Errorf("a token is in the log:\n%s", log)
	}
}

// logs gives what a replica has logged.
func (g *guarded) logs(r *replica) string {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.b.String()
}

// TestPagesAuthenticate holds what pages of an allowed origin need: a preflight without
// a token, and the challenge.
func TestPagesAuthenticate(t *testing.T) {
	g := newGuarded(t, nil)
	r := g.start()
	client := newRawClient(t, r.url+"/mcp")
	req := client.request("", "Origin: "+publicURL, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
	req.Method = http.MethodOptions
	if got, err := client.do(req); err != nil || got.status != http.StatusNoContent || got.header.Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %+v, %v", got, err)
	}
	got := client.send(ask("tools/list", ""), "Origin: "+publicURL)
	if got.status != 401 || got.header.Get("Access-Control-Allow-Origin") != publicURL ||
		!strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("challenge: %d %v", got.status, got.header)
	}
	if got := client.send(ask("tools/list", ""), "Origin: https://evil.example"); got.status != 403 {
		t.Errorf("another origin: %d", got.status)
	}
}

// TestMetadata holds where the metadata of endpoints is, and what it says.
func TestMetadata(t *testing.T) {
	up := newScripted(t)
	g := newGuarded(t, func(o *gateway.Options) { o.PublicURL = "HTTPS://GW.example.com:443/base/" }, upstreamAt("a", up.URL))
	r := g.start()
	const root = "/.well-known/oauth-protected-resource"
	of := func(path string) string {
		return `{"resource":"https://gw.example.com/base` + path + `","authorization_servers":["` + g.issuer.URL + `"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"]}`
	}
	tests := []struct{ path, want string }{
		{root, of("/mcp")},
		{root + "/mcp", of("/mcp")},
		{root + "/base/mcp", of("/mcp")},
		{root + "/t/default/mcp", of("/t/default/mcp")},
		{root + "/base/t/default/u/a/mcp", of("/t/default/u/a/mcp")},
		{root + "/t/nobody/mcp", ""}, {root + "/t/default/u/b/mcp", ""}, {root + "/x", ""}, {root + "/", ""},
		{root + "/t//mcp", ""}, {root + "/t/default/mcp/", ""}, {root + "/base", ""}, {root + "/base/base/mcp", ""},
	}
	for _, tt := range tests {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(method+" "+tt.path, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), method, r.url+tt.path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = "whatever.example" // resources come from the configuration
				res, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				if res.Header.Get("Access-Control-Allow-Origin") != "*" {
					t.Errorf("headers %v", res.Header)
				}
				switch {
				case tt.want == "":
					if res.StatusCode != 404 {
						t.Errorf("%d %s", res.StatusCode, body)
					}
				case method == http.MethodGet && string(body) != tt.want, method == http.MethodHead && len(body) > 0,
					res.StatusCode != 200, res.Header.Get("Cache-Control") == "", res.ContentLength != int64(len(tt.want)):
					t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
				}
			})
		}
	}
	got := newRawClient(t, r.url+"/mcp").send(ask("tools/list", ""))
	if want := `resource_metadata="https://gw.example.com` + root + `/base/mcp"`; !strings.Contains(got.header.Get("WWW-Authenticate"), want) {
		t.Errorf("challenge %s, want %s", got.header.Get("WWW-Authenticate"), want)
	}
	g.register(func(t *tenant.Tenant) { t.Auth = tenant.Auth{Mode: tenant.AuthKeys} })
	if res, err := http.Get(r.url + root); err != nil || res.StatusCode != 404 || res.Body.Close() != nil {
		t.Errorf("of a tenant without issuers: %v, %v", res, err)
	}
}

// TestAPIKey holds that a key opens its tenant's endpoints until it is taken away, also
// those that are open already.
func TestAPIKey(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	plain, key := auth.NewKey(tenant.APIKey{Tenant: "default", Subject: "ci", Scopes: []string{"mcp"}})
	if err := g.keys.PutKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r := g.start()
	client := newRawClient(t, r.url+"/mcp")
	with := "Authorization: Bearer " + plain
	if got := client.send(ask("tools/list", ""), with); got.status != 200 || !strings.Contains(got.last(), "a_x") {
		t.Fatalf("%d %q", got.status, got.messages)
	}
	stream := client.open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), with)
	stream.next()
	if err := g.keys.DeleteKey(t.Context(), "default", key.ID); err != nil {
		t.Fatal(err)
	}
	g.register(func(t *tenant.Tenant) { t.PageSize = 9 }) // the registry is not the store of these tests
	if last := stream.next(); !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("the stream ended with %s", last)
	}
	if got := client.send(ask("tools/list", ""), with); got.status != 401 {
		t.Errorf("afterwards: %d", got.status)
	}
}

// TestStreamsEndWithTheToken holds that no stream outlives what opened it, in either
// era, and ends gracefully.
func TestStreamsEndWithTheToken(t *testing.T) {
	g := newGuarded(t, nil)
	r := g.start()
	exp := time.Now().Add(3 * time.Second)
	token := g.issuer.token("ann", "/mcp", map[string]any{"exp": exp.Unix()})
	stream := newRawClient(t, r.url+"/mcp").open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), "Authorization: Bearer "+token)
	old := newOldUser(t, r.url+"/mcp", "2025-11-25", "{}", token)
	get := old.do(old.request(http.MethodGet, ""))
	defer get.Body.Close()
	stream.next()
	if last := stream.next(); !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("the stream ended with %s", last)
	}
	if text, err := io.ReadAll(get.Body); get.StatusCode != 200 || err != nil {
		t.Errorf("the GET stream: %d, then %s, %v", get.StatusCode, text, err)
	}
	if now := time.Now(); now.Before(exp.Truncate(time.Second)) {
		t.Errorf("they ended %s early", exp.Sub(now))
	}
}

// TestStreamsEndWithThePermission holds that a change of who may use a tenant ends the
// streams of those who may not go on, and of nobody else.
func TestStreamsEndWithThePermission(t *testing.T) {
	g := newGuarded(t, nil)
	r := g.start()
	client := newRawClient(t, r.url+"/mcp")
	listen := ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	broad := client.open(listen, "Authorization: Bearer "+g.issuer.token("ann", "/mcp", map[string]any{"scope": "mcp more"}))
	narrow := client.open(listen, g.as("bob", "/mcp"))
	broad.next()
	narrow.next()
	g.register(func(t *tenant.Tenant) { t.Auth.Scopes = []string{"mcp", "more"} })
	if last := narrow.next(); !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("the stream of who lacks a scope ended with %s", last)
	}
	g.register(func(t *tenant.Tenant) {
		t.Auth.Issuers = []tenant.Issuer{{Issuer: g.issuer.URL, Private: true, Audiences: []string{"x"}}}
	})
	if last := broad.next(); !strings.Contains(last, `"resultType":"complete"`) {
		t.Errorf("after a change of the issuer the stream ended with %s", last)
	}
}

// TestTokenStaysHere holds that nothing that names the client to the gateway reaches an
// upstream, whatever its registration wants.
func TestTokenStaysHere(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	one := upstreamAt("a", up.URL)
	one.ForwardHeaders = []string{"X-Mine"}
	g := newGuarded(t, nil, one)
	r := g.start()
	token := g.issuer.token("ann", "/mcp", nil)
	client := newRawClient(t, r.url+"/mcp")
	header := []string{"Authorization: Bearer " + token, "Cookie: sid=" + token, "Proxy-Authorization: Bearer " + token, "X-Api-Key: " + token, "X-Mine: 1"}
	for _, body := range []string{callOf("a_x"), ask("tools/list", ""), ask("server/discover", "")} {
		if got := client.send(body, header...); got.status != 200 {
			t.Errorf("%d %q", got.status, got.messages)
		}
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	mine := 0
	for _, a := range up.seen {
		raw, err := json.Marshal(a.header)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw)+a.body, token[:20]) || a.header.Get("Authorization") != "" {
			t.Errorf("%s got %s %s", a.Method, raw, a.body)
		}
		if a.header.Get("X-Mine") == "1" {
			mine++
		}
	}
	if len(up.seen) < 2 || mine == 0 {
		t.Errorf("%d requests, %d with what is forwarded", len(up.seen), mine)
	}
}

// TestOpenTenantBesideTheWorld holds that a tenant without authentication is not served
// where other machines reach the gateway, and one with it is.
func TestOpenTenantBesideTheWorld(t *testing.T) {
	g := newGuarded(t, func(o *gateway.Options) { o.Listen = "0.0.0.0:0" })
	r := g.start()
	url := strings.Replace(r.url, "[::]", "127.0.0.1", 1)
	client := newRawClient(t, url+"/mcp")
	if got := client.send(ask("tools/list", ""), g.as("ann", "/mcp")); got.status != 200 {
		t.Errorf("with a token: %d %q", got.status, got.messages)
	}
	g.register(func(t *tenant.Tenant) { t.Auth = tenant.Auth{} })
	if got := client.send(ask("tools/list", ""), g.as("ann", "/mcp")); got.status != 403 || !strings.Contains(got.last(), "no authentication") {
		t.Errorf("open: %d %q", got.status, got.messages)
	}
}

// TestQuotaOfUsers holds that what one user uses up is nobody else's.
func TestQuotaOfUsers(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	g := newGuarded(t, func(o *gateway.Options) { o.Limits.StreamsPerPrincipal = 1 }, upstreamAt("a", up.URL))
	g.register(func(t *tenant.Tenant) { t.Limits.Principal.CallsPerMinute = 1 })
	r := g.start()
	client := newRawClient(t, r.url+"/mcp")
	over := func(user string) bool {
		got := client.send(callOf("a_x"), g.as(user, "/mcp"))
		return strings.Contains(got.last(), "-31029")
	}
	if got := []bool{over("ann"), over("ann"), over("bob")}; !cmp.Equal(got, []bool{false, true, false}) {
		t.Errorf("over quota: %v", got)
	}
	listen := ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	client.open(listen, g.as("ann", "/mcp")).next()
	if got := client.send(listen, g.as("ann", "/mcp")); !strings.Contains(got.last(), "-31029") {
		t.Errorf("a second stream: %q", got.messages)
	}
	if first := client.open(listen, g.as("bob", "/mcp")).next(); !strings.Contains(first, "acknowledged") {
		t.Errorf("another user's stream: %s", first)
	}
}
