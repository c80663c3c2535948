package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// list gives n copies of s in a list.
func list(s string, n int) string { return "[" + strings.Repeat(s+",", n-1) + s + "]" }

// TestAttacks holds that expressions which cost too much are refused, or cut off.
// That the test comes to an end is part of it.
func TestAttacks(t *testing.T) {
	numbers := `{"a":` + list("1", 9000) + `}`
	text := `{"s":"` + strings.Repeat("x", 900_000) + `","n":` + list(`"x"`, 500) + `}`
	tests := []struct {
		name, when, arguments string
		want                  error // nil where the expression is refused
	}{
		{"loops over what is read", `request.arguments.a.all(x, request.arguments.a.all(y, x + y == 2))`, numbers, errCost},
		{"loops over what is made", list("1", 100) + `.map(x, ` + list("2", 100) + `.map(y, ` + list("3", 100) + `.map(z, x + y + z))) == []`, `{}`, nil},
		{"one long loop", `request.arguments.a.map(x, request.arguments.a).map(y, y.map(z, y)) == []`, numbers, errSize},
		{"text that is doubled", `["0123456789012345"].exists(a, [` + sum("a", 50) + `].exists(b, [` + sum("b", 50) + `].exists(c, [` + sum("c", 50) + `].exists(d, d == ""))))`, `{}`, nil},
		{"text of arguments that is doubled", `[request.arguments.s].exists(a, [` + sum("a", 50) + `].exists(b, [` + sum("b", 50) + `].exists(c, c == "")))`, text, errCost},
		{"lists that are doubled", `[` + list("1", 500) + `].exists(a, [` + list("a", 500) + `].exists(b, [` + list("b", 500) + `].exists(c, [` + list("c", 500) + `].exists(d, d == d))))`, `{}`, errSize},
		{"lists that are added", `[` + list("1", 500) + `].exists(a, [` + sum("a", 50) + `].exists(b, [` + sum("b", 50) + `].exists(c, [` + sum("c", 50) + `].exists(d, 0 in d))))`, `{}`, nil},
		{"pattern", `request.arguments.n.all(x, request.arguments.s.matches("(x+x+)+y") == false)`, text, errCost},
		{"pattern from arguments", `"x".matches("(" + request.arguments.p + "){1000}")`, `{"p":"((((((a{9}){9}){9}){9}){9}){9}){9}"}`, errArguments},
		{"search", `request.arguments.n.all(x, !request.arguments.s.contains(request.arguments.s + x))`, text, errCost},
		{"comparison", `request.arguments.n.all(x, request.arguments.s < request.arguments.s + x)`, text, errCost},
		{"conversion", `request.arguments.n.all(x, string(bytes(request.arguments.s)) != x)`, text, errCost},
		{"large arguments", `request.arguments.s == ""`, `{"s":"` + strings.Repeat("x", maxJSON) + `"}`, &valueError{"arguments", "are longer than 1048576 bytes"}},
		{"many arguments", `request.arguments.s == ""`, `{"s":` + list("1", maxValues) + `}`, &valueError{"arguments", "hold more than 10000 values"}},
		{"deep arguments", `request.arguments.s == ""`, `{"s":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`, &valueError{"arguments", "are nested deeper than 64"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Compile(&tenant.Tenant{Policy: &tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{{Name: "it", When: tt.when, Effect: tenant.EffectDeny}}}})
			if tt.want == nil {
				if err == nil || !strings.Contains(err.Error(), "cost") {
					t.Errorf("got %v, want a refusal for its cost", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("compile: %v", err)
			}
			d := p.Decide(alice(), "", bookHotel(), arguments(tt.arguments))
			if d.Allowed || d.Err == nil || !errors.Is(d.Err, tt.want) && !strings.HasSuffix(d.Err.Error(), tt.want.Error()) {
				t.Errorf("got %+v, want %v", d, tt.want)
			}
		})
	}
}

// sum adds n copies of s.
func sum(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+"+", n), "+") }

// TestDecisionIsBounded holds that many rules which cost nearly too much each are
// cut off together.
func TestDecisionIsBounded(t *testing.T) {
	var rules []tenant.Rule
	for i := range 50 {
		rules = append(rules, tenant.Rule{Name: fmt.Sprint("rule", i), When: fmt.Sprintf(`request.arguments.a.all(x, x != %d) == false`, i+2), Effect: tenant.EffectDeny})
	}
	p := compiled(t, tenant.EffectAllow, rules)
	d := p.Decide(alice(), "", bookHotel(), arguments(`{"a":`+list("1", 9000)+`}`))
	if d.Allowed || !errors.Is(d.Err, errDecision) || d.Rule == "rule0" || d.Rule == "rule49" {
		t.Errorf("got %+v, want a denial by a rule between", d)
	}
}

// TestInterrupted holds that a loop which takes too long denies, and that this is
// not remembered.
func TestInterrupted(t *testing.T) {
	p := allowing(t, list("1", 1000)+`.all(x, x == 1)`)
	p.rules[0].when.program.most = 0
	if d := p.Decide(alice(), "", bookHotel(), nil); d.Allowed || !errors.Is(d.Err, errTime) {
		t.Errorf("got %+v, want %v", d, errTime)
	}
	p.rules[0].when.program.most = maxTime
	if d := p.Decide(alice(), "", bookHotel(), nil); !d.Allowed {
		t.Errorf("later: got %+v, want it allowed", d)
	}
}
