package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// tenantOf gives a tenant with the policy and toolsets of a program.
func tenantOf(p *Program) *tenant.Tenant {
	t := &tenant.Tenant{Policy: &tenant.Policy{Default: p.byDef}}
	for _, r := range p.rules {
		t.Policy.Rules = append(t.Policy.Rules, r.Rule)
	}
	t.Toolsets = make([]tenant.Toolset, len(p.toolsets))
	for _, s := range p.toolsets {
		t.Toolsets[s.index-1] = s.Toolset
	}
	return t
}

// TestExplainWithoutNothing holds that an explanation of an item that is known is that
// of its decision.
func TestExplainWithoutNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t, maxKeys: 1}
		p := w.program()
		who, it := w.principal(), w.item()
		for _, call := range append(w.calls(it), nil) {
			e, err := ExplainWithout(tenantOf(p), who, "set", it, call)
			if err != nil {
				t.Fatal(err)
			}
			d := p.Decide(who, "set", it, call)
			if e.MayAllow != d.Allowed || e.MayDeny == d.Allowed || !slices.Equal(e.Missing, d.Missing) || !slices.Equal(e.Needed, d.Needed) {
				t.Fatalf("explanation %+v, decision %+v\n%s", e, d, describe(p, who, "set", it, call))
			}
			if got, want := fmt.Sprintf("%+v", e.Steps), fmt.Sprintf("%+v", p.Explain(who, "set", it, call)); got != want {
				t.Fatalf("steps %s, want %s", got, want)
			}
		}
	})
}

// TestExplainWithoutIsSound holds that whatever an item turns out to be, the decision
// is one that was foreseen, and that a step which is said to decide does.
func TestExplainWithoutIsSound(t *testing.T) {
	unknown := []string{itemTitle.String(), itemAnnotations.String(), itemOwnName.String(), itemURI.String()}
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t, maxKeys: 1}
		p := w.program()
		who, it := w.principal(), w.item()
		blank := *it
		blank.Title, blank.Annotations, blank.OwnName, blank.URI = "", nil, "", ""
		for _, call := range append(w.calls(it), nil) {
			e, err := ExplainWithout(tenantOf(p), who, "set", &blank, call, unknown...)
			if err != nil {
				t.Fatal(err)
			}
			d := p.Decide(who, "set", it, call)
			if d.Allowed && !e.MayAllow || !d.Allowed && !e.MayDeny {
				t.Fatalf("explanation %+v, decision %+v\n%s", e, d, describe(p, who, "set", it, call))
			}
			last := e.Steps[len(e.Steps)-1]
			if last.Decides && last.Part == PartRule && d.Rule != last.Name {
				t.Fatalf("rule %q is said to decide, %q does\n%s", last.Name, d.Rule, describe(p, who, "set", it, call))
			}
			if last.Decides && !e.MayDeny && !(slices.Equal(e.Missing, d.Missing) && slices.Equal(e.Needed, d.Needed)) {
				t.Fatalf("scopes of %+v, want those of %+v\n%s", e, d, describe(p, who, "set", it, call))
			}
		}
	})
}

// TestExplainWithout holds examples of what can be told, and what cannot.
func TestExplainWithout(t *testing.T) {
	rule := func(effect tenant.Effect, when string) tenant.Rule {
		return tenant.Rule{Name: when, When: when, Effect: effect}
	}
	tests := []struct {
		name  string
		def   tenant.Effect
		rules []tenant.Rule
		want  string // steps, and what may be
	}{
		{"a rule that reads none of it", tenant.EffectDeny, []tenant.Rule{rule("allow", `tool.alias == "travel"`)}, "holds! allow"},
		{"a rule that decides otherwise", tenant.EffectDeny, []tenant.Rule{rule("allow", `tool.annotations.readOnlyHint == true`)},
			"may hold [annotations], holds allow deny"},
		{"a rule that would fail, and else allows", tenant.EffectAllow, []tenant.Rule{rule("allow", `tool.title == "x"`)}, "may hold [title], holds allow deny"},
		{"denied in any case", tenant.EffectDeny, []tenant.Rule{rule("deny", `tool.annotations.x == 1 || has(tool.title)`)}, "may hold [title annotations], holds deny"},
		{"what is known is enough", tenant.EffectDeny, []tenant.Rule{
			rule("allow", `tool.alias == "ledger" && tool.annotations.readOnlyHint == true`), rule("allow", `tool.name.startsWith("travel_") || tool.title == "x"`),
		}, "does not hold, holds! allow"},
		{"what is known fails", tenant.EffectAllow, []tenant.Rule{rule("deny", `principal.groups[9] == "x" ? has(item.title) : true`)}, "fails! deny"},
		{"another kind", tenant.EffectAllow, []tenant.Rule{rule("deny", `prompt.title == "x"`)}, "is about another kind, holds! allow"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one := &tenant.Tenant{Policy: &tenant.Policy{Default: tt.def, Rules: tt.rules}}
			e, err := ExplainWithout(one, alice(), "", bookHotel(), &Call{Method: "tools/call"}, "title", "annotations")
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, s := range e.Steps {
				if i > 0 {
					got += ", "
				}
				got += string(s.Outcome)
				if s.Unknown != nil {
					got += fmt.Sprint(" ", s.Unknown)
				}
				if s.Decides {
					got += "!"
				}
			}
			if e.MayAllow {
				got += " allow"
			}
			if e.MayDeny {
				got += " deny"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ExplainWithout(&tenant.Tenant{}, alice(), "", bookHotel(), nil, "colour"); err == nil {
		t.Error("an unknown field was accepted")
	}
	if _, err := ExplainWithout(&tenant.Tenant{Toolsets: []tenant.Toolset{{Name: "x", When: "1"}}}, alice(), "", bookHotel(), nil); err == nil {
		t.Error("a faulty expression was accepted")
	}
	if e, err := ExplainWithout(&tenant.Tenant{}, alice(), "none", bookHotel(), nil); err != nil || e.MayAllow || !e.MayDeny {
		t.Errorf("of no toolset: %+v, %v", e, err)
	}
}
