package federation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// A tenant whose registration asks for guards that cannot be made is not served
// without them: neither when it is loaded, nor when it gets them while it runs.
func TestTenantThatCannotBeGuarded(t *testing.T) {
	tests := []struct {
		name   string
		change func(*tenant.Tenant)
		want   string
	}{
		{"policy", func(t *tenant.Tenant) {
			t.Policy = &tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{{Name: "typo", When: `principal.group == "x"`, Effect: tenant.EffectDeny}}}
		}, "policy cannot be enforced"},
		{"toolset", func(t *tenant.Tenant) { t.Toolsets = []tenant.Toolset{{Name: "readonly", When: `tool.name ==`}} }, "policy cannot be enforced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newFake(t)
			p.list(kindTools, tool("x"))
			p.listens("")
			p.result(mcp.MethodToolsCall, `{"content":[]}`)
			guarded := registered(fakeUp("a"))
			tt.change(guarded[0])
			store := tenant.NewMemory(guarded)
			r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Store = store })
			defer stop()

			refused := func() {
				t.Helper()
				for _, alias := range []string{"", "a"} {
					for _, c := range []*Call{
						r.callOf(alias, mcp.MethodToolsList, ""),
						r.callOf(alias, mcp.MethodToolsCall, `"name":"x"`),
						r.callOf(alias, mcp.MethodDiscover, ""),
					} {
						if _, err := r.try(c); err == nil || !strings.Contains(err.Error(), tt.want) {
							t.Errorf("%s of %q: error = %v, want %q", c.Request.Method, alias, err, tt.want)
						}
					}
					_, err := r.fed.Listen(context.Background(), r.callOf(alias, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
					if err == nil || errors.Is(err, ErrNoEndpoint) {
						t.Errorf("listen of %q: error = %v", alias, err)
					}
				}
			}
			refused()
			if n := p.count(mcp.MethodToolsList) + p.count(mcp.MethodDiscover); n != 0 {
				t.Errorf("its upstream was asked %d times", n)
			}

			store.Replace(registered(fakeUp("a")))
			r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
			s, err := r.fed.Listen(context.Background(), r.callOf("", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()

			store.Replace(guarded)
			for _, open := awaitNext(t, s); open; _, open = awaitNext(t, s) {
			}
			refused()
			if got := r.log.String(); !strings.Contains(got, tt.want) || !strings.Contains(got, "tenant=default") {
				t.Errorf("the log does not say why: %s", got)
			}
		})
	}
}

// One tenant that cannot be guarded is no other's business.
func TestTenantBesideOneThatCannotBeGuarded(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	all := append(registered(fakeUp("a")), &tenant.Tenant{Name: "guarded", Policy: &tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{{Name: "typo", When: "no such thing", Effect: tenant.EffectDeny}}}})
	r, stop := newFakeRig(t, map[string]upstream.Doer{"a": p}, func(o *Options) { o.Store = tenant.NewMemory(all) })
	defer stop()
	if err := r.fed.Check(context.Background(), Endpoint{Tenant: "guarded"}); !errors.Is(err, errUnenforced) {
		t.Errorf("error = %v", err)
	}
	if got, _ := r.listed("", kindTools); len(got) != 1 {
		t.Errorf("tools = %v", got)
	}
}
