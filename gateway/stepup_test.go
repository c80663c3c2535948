package gateway_test

import (
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestStepUpOfRules holds that a call for which scopes lack is listed, refused with all
// that it needs at once, and answered when a token has them: those of the tenant, of the
// toolset and of the rule.
func TestStepUpOfRules(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	g.register(func(t *tenant.Tenant) {
		t.Policy = &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{
			{Name: "tools", When: `tool.alias == "a"`, Effect: tenant.EffectAllow, Scopes: []string{"tools.use", "mcp"}},
		}}
		t.Toolsets = []tenant.Toolset{{Name: "some", Include: []string{"a_*"}, Scopes: []string{"some"}}}
	})
	r := g.start()
	for _, tt := range []struct{ path, scopes string }{
		{"/mcp", "mcp tools.use"}, {"/t/default/mcp", "mcp tools.use"}, {"/t/default/s/some/mcp", "mcp some tools.use"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			client := newRawClient(t, r.url+tt.path)
			if got := client.send(ask("tools/list", ""), g.as("ann", tt.path)); got.status != 200 || !strings.Contains(got.last(), `"a_x"`) {
				t.Errorf("the list: %d %q", got.status, got.messages)
			}
			want := `Bearer error="insufficient_scope", error_description="the token lacks a scope", resource_metadata="` +
				publicURL + "/.well-known/oauth-protected-resource" + tt.path + `", scope="` + tt.scopes + `"`
			before := len(up.requests("tools/call"))
			if got := client.send(callOf("a_x"), g.as("ann", tt.path)); got.status != 403 || got.header.Get("WWW-Authenticate") != want {
				t.Errorf("the call: %d %s\nwant %s", got.status, got.header.Get("WWW-Authenticate"), want)
			}
			if len(up.requests("tools/call")) != before {
				t.Error("the upstream was asked")
			}
			token := g.issuer.token("ann", tt.path, map[string]any{"scope": tt.scopes})
			if got := client.send(callOf("a_x"), "Authorization: Bearer "+token); got.status != 200 {
				t.Errorf("with the scopes: %d %q", got.status, got.messages)
			}
			old := newOldUser(t, r.url+tt.path, "2025-11-25", "{}", g.issuer.token("ann", tt.path, nil))
			if status, text := old.status("POST", oldRequest(1, "tools/call", `"name":"a_x"`)); status != 403 || !strings.Contains(text, `"code":-32600`) {
				t.Errorf("a handshake client: %d %s", status, text)
			}
		})
	}
}

// TestPolicyReachesStreams holds that a change of the policy alone tells those who listen
// and see something else from then on, and ends no stream.
func TestPolicyReachesStreams(t *testing.T) {
	up := newScripted(t)
	up.tools("x")
	g := newGuarded(t, nil, upstreamAt("a", up.URL))
	r := g.start()
	client := newRawClient(t, r.url+"/mcp")
	client.send(ask("tools/list", ""), g.as("ann", "/mcp"))
	stream := client.open(ask("subscriptions/listen", `"notifications":{"toolsListChanged":true}`), g.as("ann", "/mcp"))
	stream.next()
	g.register(func(t *tenant.Tenant) { t.Policy = &tenant.Policy{Default: tenant.EffectDeny} })
	if got := stream.next(); !strings.Contains(got, "notifications/tools/list_changed") {
		t.Errorf("after the policy changed came %s", got)
	}
	if got := client.send(ask("tools/list", ""), g.as("ann", "/mcp")); got.status != 200 || strings.Contains(got.last(), "a_x") {
		t.Errorf("%d %q", got.status, got.messages)
	}
	g.register(func(t *tenant.Tenant) { t.Policy = nil })
	if got := stream.next(); !strings.Contains(got, "notifications/tools/list_changed") {
		t.Errorf("after the policy went came %s", got)
	}
}
