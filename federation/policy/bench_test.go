package policy

import (
	"fmt"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// tenRules gives a program of ten rules of usual kinds, of which the last decides
// about bookHotel.
func tenRules(b testing.TB) *Program {
	var rules []tenant.Rule
	for i := range 8 {
		rules = append(rules, tenant.Rule{Name: fmt.Sprint("group", i), When: fmt.Sprintf(`"group%d" in principal.groups && tool.alias == "ledger%d"`, i, i), Effect: tenant.EffectAllow})
	}
	rules = append(rules,
		tenant.Rule{Name: "harmful", When: `tool.annotations.readOnlyHint == false && !("staff" in principal.groups)`, Effect: tenant.EffectDeny},
		tenant.Rule{Name: "travel", When: `item.alias == "travel" && principal.issuer == "https://idp.example.com"`, Effect: tenant.EffectAllow, Scopes: []string{"mcp"}},
	)
	return compiled(b, tenant.EffectDeny, rules)
}

func BenchmarkDecide(b *testing.B) {
	p, who, it, call := tenRules(b), alice(), bookHotel(), &Call{Method: "tools/call", Arguments: []byte(`{"city":"Paris"}`)}
	if d := p.Decide(who, "", it, call); d.Rule != "travel" || !d.Allowed {
		b.Fatalf("got %+v", d)
	}
	b.Run("remembered", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Decide(who, "", it, call)
		}
	})
	b.Run("remembered, parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				p.Decide(who, "", it, call)
			}
		})
	})
	b.Run("evaluated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh(p, who, "", it, call)
		}
	})
	b.Run("may use", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.MayUse(who, "", it.Alias, it.Tags, false)
		}
	})
	b.Run("facts", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Facts(who, "")
		}
	})
}

// TestRememberedDecisionsAllocateNothing holds what a warm request costs.
func TestRememberedDecisionsAllocateNothing(t *testing.T) {
	p, who, it, call := tenRules(t), alice(), bookHotel(), arguments(`{"city":"Paris"}`)
	for name, decide := range map[string]func(){
		"a call":      func() { p.Decide(who, "", it, call) },
		"a list":      func() { p.Decide(who, "", it, nil) },
		"an upstream": func() { p.MayUse(who, "", it.Alias, it.Tags, false) },
	} {
		if n := testing.AllocsPerRun(100, decide); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tenRules(b)
	}
}
