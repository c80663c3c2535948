package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Values that random principals, items and arguments have. The same ones everywhere,
// so that they meet.
var values = []string{"v", "w", "z"}

// writer writes random expressions.
type writer struct {
	*rapid.T
	keys        int  // arguments that were read so far
	maxKeys     int  // that may be read
	independent bool // each condition about arguments reads one of its own
}

func (w *writer) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(w.T, label)
}

func (w *writer) value() string { return w.pick("value", values...) }

// atom writes a condition about items of the kind, "" for any.
func (w *writer) atom(k Kind) string {
	variable := varItem
	if k != "" && rapid.Bool().Draw(w.T, "own variable") {
		variable = string(k)
	}
	v, u := w.value(), w.value()
	all := []string{
		fmt.Sprintf("%q in principal.groups", v),
		fmt.Sprintf("%q in principal.scopes", v),
		fmt.Sprintf("principal.subject == %q", v),
		fmt.Sprintf("principal.subject != %q", v),
		fmt.Sprintf("%q != principal.clientID", v),
		fmt.Sprintf("principal.issuer in [%q, %q]", v, u),
		fmt.Sprintf("principal.groups.exists(g, g == %q)", v),
		fmt.Sprintf("principal.groups[0] == %q", v),
		"size(principal.scopes) > 1",
		"principal.subject == principal.clientID",
		fmt.Sprintf("dyn(principal).issuer == %q", v),
		fmt.Sprintf("%s.alias == %q", variable, v),
		fmt.Sprintf("%q in %s.tags", v, variable),
		fmt.Sprintf("%s.name == %q", variable, v),
		fmt.Sprintf("%s.title == %q", variable, v),
		fmt.Sprintf("has(%s.title)", variable),
		fmt.Sprintf("%s.ownName == principal.subject", variable),
		fmt.Sprintf("dyn(item).alias == %q", v),
		`kind == "tool"`,
		`request.method == "tools/call"`,
		`request.method == "resources/subscribe"`,
		"true",
	}
	if variable != string(KindPrompt) {
		all = append(all,
			fmt.Sprintf("%s.annotations.k == %q", variable, v),
			fmt.Sprintf("%s.annotations.readOnlyHint == true", variable))
	}
	if variable == varItem || k == KindResource {
		all = append(all, fmt.Sprintf("%s.uri == %q", variable, v))
	}
	if w.keys < w.maxKeys && rapid.Bool().Draw(w.T, "arguments") {
		key := fmt.Sprint("request.arguments.k", w.keys)
		if w.independent {
			w.keys++
		} else {
			key = fmt.Sprint("request.arguments.k", rapid.IntRange(0, w.maxKeys-1).Draw(w.T, "key"))
		}
		all = []string{
			fmt.Sprintf("%s == %q", key, v),
			fmt.Sprintf("has(%s)", key),
			fmt.Sprintf("%s.title == %s", variable, key),
			fmt.Sprintf("%s.startsWith(%s.title)", key, variable),
			fmt.Sprintf("principal.groups.exists(g, g == %s)", key),
			fmt.Sprintf("%s in principal.groups", key),
		}
	}
	return w.pick("atom", all...)
}

func (w *writer) expression(k Kind, depth int) string {
	operator := w.pick("operator", "atom", "atom", "&&", "||", "!", "?")
	if depth == 0 {
		operator = "atom"
	}
	switch operator {
	case "atom":
		return w.atom(k)
	case "!":
		return "!(" + w.expression(k, depth-1) + ")"
	case "?":
		return "(" + w.expression(k, depth-1) + " ? " + w.expression(k, depth-1) + " : " + w.expression(k, depth-1) + ")"
	default:
		return "(" + w.expression(k, depth-1) + " " + operator + " " + w.expression(k, depth-1) + ")"
	}
}

// program compiles a random policy, with a toolset named set.
func (w *writer) program() *Program {
	effect := func() tenant.Effect {
		return rapid.SampledFrom([]tenant.Effect{tenant.EffectAllow, tenant.EffectDeny}).Draw(w.T, "effect")
	}
	t := &tenant.Tenant{Policy: &tenant.Policy{Default: effect()}}
	for i := range rapid.IntRange(0, 5).Draw(w.T, "rules") {
		r := tenant.Rule{Name: fmt.Sprint("rule", i), Effect: effect()}
		k := rapid.SampledFrom([]Kind{"", KindTool, KindPrompt, KindResource}).Draw(w.T, "kind")
		r.When = w.expression(k, 3)
		if r.Effect == tenant.EffectAllow {
			r.Scopes = w.some("scopes")
		}
		t.Policy.Rules = append(t.Policy.Rules, r)
	}
	arguments := w.maxKeys
	w.maxKeys = 0
	t.Toolsets = []tenant.Toolset{{Name: "set", Include: w.globs(), Tags: w.some("tags"), When: w.expression(KindTool, 1), Scopes: w.some("scopes")}}
	w.maxKeys = arguments
	p, err := Compile(t)
	if err != nil {
		w.Fatalf("compile: %v", err)
	}
	return p
}

// some gives some values.
func (w *writer) some(label string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, 2, rapid.ID).Draw(w.T, label)
}

// globs gives some globs for the names of a toolset.
func (w *writer) globs() []string {
	globs := append(w.some("include"), "v*", "?_w", "*z", "[^v]+*")
	return rapid.SliceOfNDistinct(rapid.SampledFrom(globs), 0, 2, rapid.ID).Draw(w.T, "globs")
}

func (w *writer) principal() *tenant.Principal {
	return &tenant.Principal{Issuer: w.value(), Subject: w.value(), ClientID: w.value(), Scopes: w.some("scopes"), Groups: w.some("groups")}
}

// near gives a principal that differs in one field, if at all.
func (w *writer) near(who *tenant.Principal) *tenant.Principal {
	p := *who
	switch rapid.IntRange(0, 4).Draw(w.T, "field") {
	case 0:
		p.Issuer = w.value()
	case 1:
		p.Subject = w.value()
	case 2:
		p.ClientID = w.value()
	case 3:
		p.Scopes = w.some("scopes")
	case 4:
		p.Groups = w.some("groups")
	}
	return &p
}

func (w *writer) item() *Item {
	it := &Item{
		Kind: rapid.SampledFrom([]Kind{KindTool, KindPrompt, KindResource}).Draw(w.T, "kind"),
		Name: w.value(), OwnName: w.value(), Alias: w.value(), Tags: w.some("tags"),
		Title: w.pick("title", "", "v"),
	}
	if it.Kind != KindPrompt {
		it.Annotations = []byte(w.pick("annotations", "", `{}`, `{"k":"v"}`, `{"readOnlyHint":true}`, `{"k":`))
	}
	if it.Kind == KindResource {
		it.URI = w.value()
	}
	return it
}

// calls gives a call with each combination of arguments.
func (w *writer) calls(it *Item) []*Call {
	var calls []*Call
	n := 1
	for range w.maxKeys {
		n *= len(values) + 1
	}
	for i := range n {
		args := map[string]string{}
		for k := range w.maxKeys {
			if v := i % (len(values) + 1); v < len(values) {
				args[fmt.Sprint("k", k)] = values[v]
			}
			i /= len(values) + 1
		}
		raw, err := json.Marshal(args)
		if err != nil {
			w.Fatal(err)
		}
		calls = append(calls, &Call{Method: it.Kind.method(), Arguments: raw})
	}
	return calls
}

// fresh makes a decision anew.
func fresh(p *Program, who *tenant.Principal, toolset string, it *Item, call *Call) Decision {
	return newScope(p, who, it, call).decide(p.toolset(toolset), nil).of(who)
}

// scopeless gives a decision without what is about scopes.
func scopeless(d Decision) Decision {
	d.Missing, d.Needed = nil, nil
	return d
}

// same compares decisions.
func same(a, b Decision) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }))
}

// TestSeenIsCallable holds that a list shows exactly what can be called with some
// arguments, where conditions about arguments do not hang together, and never hides
// what can be called.
func TestSeenIsCallable(t *testing.T) {
	for _, independent := range []bool{true, false} {
		t.Run(fmt.Sprint("independent ", independent), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := &writer{T: t, maxKeys: 3, independent: independent}
				p := w.program()
				who, it := w.principal(), w.item()
				for _, set := range []string{"", "set"} {
					seen := p.Decide(who, set, it, nil)
					callable := slices.ContainsFunc(w.calls(it), func(c *Call) bool { return p.Decide(who, set, it, c).Allowed })
					if callable && !seen.Allowed || independent && seen.Allowed && !callable {
						t.Fatalf("toolset %q: seen %v, callable %v\n%s", set, seen.Allowed, callable, describe(p, who, set, it, nil))
					}
				}
			})
		})
	}
}

// TestFactsDecide holds that equal facts mean equal decisions but for missing scopes,
// and that decisions
// which are remembered are those that would be made.
func TestFactsDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t, maxKeys: 1}
		p := w.program()
		a := w.principal()
		b := w.near(a)
		for range 3 {
			it := w.item()
			for _, set := range []string{"", "set"} {
				equal := p.Facts(a, set) == p.Facts(b, set)
				for _, call := range append(w.calls(it), nil, &Call{Method: "resources/subscribe"}) {
					if equal && !same(scopeless(fresh(p, a, set, it, call)), scopeless(fresh(p, b, set, it, call))) {
						t.Fatalf("facts are equal, decisions are not\n%s\n%s", describe(p, a, set, it, call), describe(p, b, set, it, call))
					}
					for _, who := range []*tenant.Principal{a, b} {
						if got, want := p.Decide(who, set, it, call), fresh(p, who, set, it, call); !same(got, want) {
							t.Fatalf("remembered %+v, want %+v\n%s", got, want, describe(p, who, set, it, call))
						}
					}
				}
			}
		}
	})
}

// TestExplainAgrees holds that the steps of an explanation lead to the decision.
func TestExplainAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t, maxKeys: 1}
		p := w.program()
		who, it := w.principal(), w.item()
		for _, call := range append(w.calls(it), nil) {
			steps, d := p.Explain(who, "set", it, call), p.Decide(who, "set", it, call)
			last := steps[len(steps)-1]
			rule := ""
			if last.Part == PartRule {
				rule = last.Name
			}
			allows := last.Part != PartToolset && last.Effect == tenant.EffectAllow && (last.Outcome == Holds || last.Outcome == MayHold)
			if !last.Decides || d.Rule != rule || d.Allowed != allows || fmt.Sprint(d.Err) != fmt.Sprint(last.Err) {
				t.Fatalf("decision %+v\n%s", d, describe(p, who, "set", it, call))
			}
			checkScopes(t, who, steps, d)
			if slices.ContainsFunc(steps[:len(steps)-1], func(s Step) bool { return s.Decides }) {
				t.Fatalf("an earlier step decides\n%s", describe(p, who, "set", it, call))
			}
		}
	})
}

// checkScopes holds that a decision names the scopes of its toolset, the first of the
// steps, and of what decided, if any of them is missing.
func checkScopes(t *rapid.T, who *tenant.Principal, steps []Step, d Decision) {
	needed := map[string]bool{}
	for _, scope := range slices.Concat(steps[0].Scopes, steps[len(steps)-1].Scopes) {
		needed[scope] = d.Allowed
	}
	missing := map[string]bool{}
	for scope, is := range needed {
		if is && !slices.Contains(who.Scopes, scope) {
			missing[scope] = true
		}
	}
	if len(missing) == 0 {
		needed = nil
	}
	set := func(list []string) map[string]bool {
		made := map[string]bool{}
		for _, scope := range list {
			made[scope] = true
		}
		if len(list) != len(made) {
			t.Fatalf("%q has a scope twice", list)
		}
		return made
	}
	if !maps.Equal(set(d.Missing), missing) || !maps.Equal(set(d.Needed), needed) {
		t.Fatalf("missing %q and needed %q, want %v and %v", d.Missing, d.Needed, missing, needed)
	}
}

// describe says what led to a decision.
func describe(p *Program, who *tenant.Principal, set string, it *Item, call *Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n%+v annotations %s\n", who, it, it.Annotations)
	if call != nil {
		fmt.Fprintf(&b, "%s %s\n", call.Method, call.Arguments)
	}
	for _, s := range p.Explain(who, set, it, call) {
		fmt.Fprintf(&b, "%s %s %s: %s: %s (%v)\n", s.Part, s.Name, s.Effect, s.When, s.Outcome, s.Err)
	}
	return b.String()
}
