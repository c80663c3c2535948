package policy

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// outcome puts a decision into one line.
func outcome(d Decision) string {
	s := "denied"
	if d.Allowed {
		s = "allowed"
	}
	if d.Rule != "" {
		s += " by " + d.Rule
	}
	if d.Missing != nil {
		s += " without " + strings.Join(d.Missing, " ") + " of " + strings.Join(d.Needed, " ")
	}
	if d.Err != nil {
		s += ": " + d.Err.Error()
	}
	return s
}

func TestDecide(t *testing.T) {
	allow := func(name, when string, scopes ...string) tenant.Rule {
		return tenant.Rule{Name: name, When: when, Effect: tenant.EffectAllow, Scopes: scopes}
	}
	deny := func(name, when string) tenant.Rule {
		return tenant.Rule{Name: name, When: when, Effect: tenant.EffectDeny}
	}
	tests := []struct {
		name    string
		def     tenant.Effect
		rules   []tenant.Rule
		toolset tenant.Toolset // used unless it has no name
		item    *Item
		want    string
	}{
		{name: "default allow", def: tenant.EffectAllow, want: "allowed"},
		{name: "default deny", def: tenant.EffectDeny, want: "denied"},
		{name: "the first that holds", def: tenant.EffectDeny, rules: []tenant.Rule{deny("a", "false"), allow("b", "true"), deny("c", "true")}, want: "allowed by b"},
		{name: "none holds", def: tenant.EffectAllow, rules: []tenant.Rule{deny("a", "false"), allow("b", "false")}, want: "allowed"},
		{name: "a rule without an expression", def: tenant.EffectDeny, rules: []tenant.Rule{allow("a", "")}, want: "allowed by a"},
		{name: "a rule that fails and allows", def: tenant.EffectAllow, rules: []tenant.Rule{allow("a", "tool.annotations.no == 1"), allow("b", "true")}, want: `denied by a: rule "a": 1:17: no such key: no`},
		{name: "a rule that fails and denies", def: tenant.EffectAllow, rules: []tenant.Rule{deny("a", "tool.annotations.no == 1")}, want: `denied by a: rule "a": 1:17: no such key: no`},
		{name: "a rule that would fail after the one that decides", def: tenant.EffectDeny, rules: []tenant.Rule{allow("a", "true"), deny("b", "tool.annotations.no == 1")}, want: "allowed by a"},
		{name: "a rule about tools for a prompt", def: tenant.EffectAllow, rules: []tenant.Rule{deny("a", "tool.annotations.no == 1 || true")}, item: planTrip(), want: "allowed"},
		{name: "scopes that are there", def: tenant.EffectDeny, rules: []tenant.Rule{allow("a", "true", "read", "mcp")}, want: "allowed by a"},
		{name: "scopes that are missing", def: tenant.EffectDeny, rules: []tenant.Rule{allow("a", "true", "write", "mcp", "admin")}, want: "allowed by a without write admin of write mcp admin"},
		{name: "scopes of a rule that does not hold", def: tenant.EffectAllow, rules: []tenant.Rule{allow("a", "false", "write")}, want: "allowed"},

		{name: "toolset of all", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x"}, want: "allowed"},
		{name: "toolset under a denial", def: tenant.EffectDeny, toolset: tenant.Toolset{Name: "x"}, want: "denied"},
		{name: "toolset with the name", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Include: []string{"ledger_*", "travel_*"}}, want: "allowed"},
		{name: "toolset with other names", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Include: []string{"ledger_*", "bookHotel"}}, want: "denied"},
		{name: "toolset with a tag", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Tags: []string{"us", "eu"}}, want: "allowed"},
		{name: "toolset with other tags", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Tags: []string{"us"}}, want: "denied"},
		{name: "toolset with the name and other tags", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Include: []string{"*"}, Tags: []string{"us"}}, want: "denied"},
		{name: "toolset with an expression", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", When: "tool.annotations.readOnlyHint == false"}, want: "allowed"},
		{name: "toolset with an expression that does not hold", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", When: "tool.annotations.readOnlyHint == true"}, want: "denied"},
		{name: "toolset with an expression that fails", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", When: "tool.annotations.no == true"}, want: `denied: toolset "x": 1:17: no such key: no`},
		{name: "toolset with an expression about tools for a prompt", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", When: "true || tool.name == ''"}, item: planTrip(), want: "denied"},
		{name: "scopes of toolset and rule", def: tenant.EffectDeny, rules: []tenant.Rule{allow("a", "true", "write", "read")}, toolset: tenant.Toolset{Name: "x", Scopes: []string{"admin", "mcp", "write"}}, want: "allowed by a without admin write of admin mcp write read"},
		{name: "scopes of a toolset alone", def: tenant.EffectAllow, toolset: tenant.Toolset{Name: "x", Scopes: []string{"admin"}}, want: "allowed without admin of admin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := compiled(t, tt.def, tt.rules, append([]tenant.Toolset{{Name: "other", When: "false"}}, named(tt.toolset)...)...)
			it := tt.item
			if it == nil {
				it = bookHotel()
			}
			for _, call := range []*Call{nil, arguments(`{}`)} {
				for _, time := range []string{"first", "again"} {
					if got := outcome(p.Decide(alice(), tt.toolset.Name, it, call)); got != tt.want {
						t.Errorf("%s time, call %v: got %q, want %q", time, call, got, tt.want)
					}
				}
			}
		})
	}
}

// named gives the toolset if it has a name.
func named(t tenant.Toolset) []tenant.Toolset {
	if t.Name == "" {
		return nil
	}
	return []tenant.Toolset{t}
}

func TestNoPolicy(t *testing.T) {
	p, err := Compile(&tenant.Tenant{})
	if err != nil {
		t.Fatal(err)
	}
	if got := outcome(p.Decide(alice(), "", bookHotel(), nil)); got != "allowed" || p.Restricts("") || p.Varies("") || p.Facts(alice(), "") != "" {
		t.Errorf("got %s, restricts %v, varies %v", got, p.Restricts(""), p.Varies(""))
	}
	if got := outcome(p.Decide(alice(), "unknown", bookHotel(), nil)); got != "denied: there is no such toolset" || !p.Restricts("unknown") {
		t.Errorf("unknown toolset: got %q, restricts %v", got, p.Restricts("unknown"))
	}
}

// TestLists holds what rules about arguments mean for lists.
func TestLists(t *testing.T) {
	tests := []struct {
		name   string
		def    tenant.Effect
		effect tenant.Effect
		when   string
		want   string
	}{
		{"may allow", tenant.EffectDeny, tenant.EffectAllow, `request.arguments.a == 1`, "allowed by it without s of s"},
		{"may deny", tenant.EffectAllow, tenant.EffectDeny, `request.arguments.a == 1`, "allowed"},
		{"may deny what is denied", tenant.EffectDeny, tenant.EffectDeny, `request.arguments.a == 1`, "denied"},
		{"cannot allow others", tenant.EffectDeny, tenant.EffectAllow, `"sales" in principal.groups && request.arguments.a == 1`, "denied"},
		{"may allow these", tenant.EffectDeny, tenant.EffectAllow, `"staff" in principal.groups && request.arguments.a == 1`, "allowed by it without s of s"},
		{"denies whatever the arguments", tenant.EffectAllow, tenant.EffectDeny, `"staff" in principal.groups || request.arguments.a == 1`, "denied by it"},
		{"fails whatever the arguments", tenant.EffectAllow, tenant.EffectAllow, `tool.annotations.no == request.arguments.a`, `denied by it: rule "it": 1:17: no such key: no`},
		{"fails on the other side", tenant.EffectAllow, tenant.EffectAllow, `request.arguments.a < tool.annotations.no`, `denied by it: rule "it": 1:39: no such key: no`},
		{"fails or does not hold", tenant.EffectAllow, tenant.EffectDeny, `tool.annotations.no == 1 && request.arguments.a == 1`, "allowed"},
		{"fails or holds not, and the default denies", tenant.EffectDeny, tenant.EffectAllow, `tool.annotations.no == 1 && request.arguments.a == 1`, "denied"},
		{"fails or holds", tenant.EffectAllow, tenant.EffectDeny, `tool.annotations.no == 1 || request.arguments.a == 1`, "denied by it"},
		{"the other way round", tenant.EffectAllow, tenant.EffectDeny, `!(request.arguments.a == 1)`, "allowed"},
		{"a choice", tenant.EffectDeny, tenant.EffectAllow, `"staff" in principal.groups ? request.arguments.a == 1 : false`, "allowed by it without s of s"},
		{"a choice of nothing", tenant.EffectDeny, tenant.EffectAllow, `"sales" in principal.groups ? request.arguments.a == 1 : false`, "denied"},
		{"nobody is in an empty list", tenant.EffectDeny, tenant.EffectAllow, `request.arguments.a in principal.groups.filter(g, g == "sales")`, "denied"},
		{"a loop over nothing", tenant.EffectDeny, tenant.EffectAllow, `principal.groups.filter(g, g == "sales").exists(g, request.arguments.a == g)`, "denied"},
		{"all of request", tenant.EffectDeny, tenant.EffectAllow, `dyn(request).arguments.a == 1`, "allowed by it without s of s"},
		{"the method only", tenant.EffectDeny, tenant.EffectAllow, `request.method == "tools/call" && !(dyn(request.method) == 1)`, "allowed by it without s of s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := tenant.Rule{Name: "it", When: tt.when, Effect: tt.effect}
			if tt.effect == tenant.EffectAllow {
				r.Scopes = []string{"s"}
			}
			p := compiled(t, tt.def, []tenant.Rule{r})
			if got := outcome(p.Decide(alice(), "", bookHotel(), nil)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestCompileFaults holds faults of more than expressions.
func TestCompileFaults(t *testing.T) {
	_, err := Compile(&tenant.Tenant{
		Policy: &tenant.Policy{Default: "maybe", Rules: []tenant.Rule{
			{Name: "a", When: "principal.group == 1", Effect: "never"},
			{Name: "b", When: "true", Effect: tenant.EffectDeny, Scopes: []string{"x"}},
			{Name: "c", When: "item.nam == item.titel", Effect: tenant.EffectDeny},
		}},
		Toolsets: []tenant.Toolset{
			{Name: "x", Include: []string{"ok", "[a"}, When: "tool.tag == 1"},
			{Name: "x", When: "request.arguments.a == 1"},
			{},
		},
	})
	want := `policy.default: "maybe" must be allow or deny
policy.rules[0].effect: rule "a": "never" must be allow or deny
policy.rules[0].when: rule "a": 1:10: undefined field 'group'
policy.rules[1].scopes: rule "b": what is denied needs no scopes
policy.rules[2].when: rule "c": 1:5: undefined field 'nam'
policy.rules[2].when: rule "c": 1:17: undefined field 'titel'
toolsets[0].include[1]: toolset "x": "[a" is not a glob
toolsets[0].when: toolset "x": 1:5: undefined field 'tag'
toolsets[1].name: toolset "x": the name must be there and unique
toolsets[1].when: toolset "x": a toolset cannot depend on arguments
toolsets[2].name: toolset "": the name must be there and unique`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if _, err := Compile(&tenant.Tenant{Toolsets: make([]tenant.Toolset, maxToolsets+1)}); err == nil {
		t.Error("more toolsets than allowed: got no error")
	}
}

// TestFacts holds which principals are taken for the same.
func TestFacts(t *testing.T) {
	bob := &tenant.Principal{Tenant: "acme", Issuer: "https://idp.example.com", Subject: "bob", ClientID: "cli", Scopes: []string{"mcp"}, Groups: []string{"staff"}}
	tests := []struct {
		name, when string
		scopes     []string
		want       bool // whether alice and bob are
	}{
		{name: "nothing", when: `item.alias == "x"`, want: true},
		{name: "equal field", when: `principal.clientID.startsWith("x")`, want: true},
		{name: "other field", when: `principal.subject.startsWith("x")`, want: false},
		{name: "a group of both", when: `"staff" in principal.groups`, want: true},
		{name: "a group of one", when: `"finance" in principal.groups`, want: false},
		{name: "a group of none", when: `"sales" in principal.groups`, want: true},
		{name: "groups as a whole", when: `principal.groups.exists(g, g == "sales")`, want: false},
		{name: "a subject of one", when: `principal.subject == "alice"`, want: false},
		{name: "a subject of none", when: `principal.subject != "carol" && !(principal.subject in ["dave", "eve"])`, want: true},
		{name: "a list with both subjects", when: `principal.subject in ["alice", "bob"]`, want: true},
		{name: "presence of a field", when: `has(principal.issuer)`, want: true},
		{name: "principal as a whole", when: `principal == principal`, want: false},
		{name: "principal in a macro", when: `[1].exists(i, dyn(principal).clientID == "cli")`, want: false},
		{name: "a scope of both", when: `true`, scopes: []string{"mcp"}, want: true},
		{name: "a scope of one that is needed", when: `true`, scopes: []string{"read"}, want: true},
		{name: "a scope of one that is read", when: `"read" in principal.scopes`, want: false},
		{name: "a scope of none", when: `true`, scopes: []string{"write"}, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := compiled(t, tenant.EffectDeny, []tenant.Rule{{Name: "it", When: tt.when, Effect: tenant.EffectAllow, Scopes: tt.scopes}},
				tenant.Toolset{Name: "all"}, tenant.Toolset{Name: "own", When: `principal.subject.endsWith("e")`})
			for set, want := range map[string]bool{"": tt.want, "all": tt.want, "own": false} {
				if got := p.Facts(alice(), set) == p.Facts(bob, set); got != want {
					t.Errorf("toolset %q: equal %v, want %v", set, got, want)
				}
			}
			if p.Varies("") != (p.Facts(alice(), "") != "") {
				t.Errorf("varies %v, facts %q", p.Varies(""), p.Facts(alice(), ""))
			}
		})
	}
}

// TestLongFacts holds that long facts make short keys.
func TestLongFacts(t *testing.T) {
	p := allowing(t, `principal.groups.exists(g, g == "x")`)
	keys := map[string]bool{}
	for i := range 3 {
		who := alice()
		for j := range 1000 {
			who.Groups = append(who.Groups, fmt.Sprint("group", j+i))
		}
		key := p.Facts(who, "")
		keys[key] = true
		if len(key) > keySize {
			t.Errorf("a key has %d bytes", len(key))
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d keys of 3 principals", len(keys))
	}
}

func TestReadsArguments(t *testing.T) {
	p := compiled(t, tenant.EffectAllow, []tenant.Rule{
		{Name: "a", When: `tool.name == "a" && request.arguments.x == 1`, Effect: tenant.EffectDeny},
		{Name: "b", When: `resource.uri == "a" && request.arguments == {}`, Effect: tenant.EffectDeny},
	})
	for k, want := range map[Kind]bool{KindTool: true, KindPrompt: false, KindResource: false} {
		if got := p.ReadsArguments(k); got != want {
			t.Errorf("%s: got %v, want %v", k, got, want)
		}
	}
}

// TestMemoForgets holds that a memo stays within its bytes, and that decisions stay
// right when many ask at once.
func TestMemoForgets(t *testing.T) {
	p := allowing(t, `item.name.endsWith("0") && principal.subject == "alice"`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 10_000 {
				it := &Item{Kind: KindTool, Name: fmt.Sprintf("%0100d", i)}
				if got, want := p.Decide(alice(), "", it, nil).Allowed, i%10 == 0; got != want {
					t.Errorf("item %d: got %v, want %v", i, got, want)
					return
				}
			}
		})
	}
	all.Wait()
	size := 0
	for i := range p.memo.shards {
		s := &p.memo.shards[i]
		for _, kept := range []map[string]Decision{s.young, s.old} {
			for key := range kept {
				size += len(key) + memoOverhead
			}
		}
	}
	if size == 0 || size > memoBytes+memoShards*(keySize+memoOverhead) {
		t.Errorf("%d bytes are kept, at most %d should be", size, memoBytes)
	}
}

// TestMemoKeepsTheOld holds that what is asked for outlives newer decisions.
func TestMemoKeepsTheOld(t *testing.T) {
	m := memo{seed: maphash.MakeSeed()}
	asked := []byte("asked for")
	m.put(asked, Decision{Rule: "it"})
	for i := range 50_000 {
		m.put(fmt.Append(nil, "other", i), Decision{})
		if d, ok := m.get(asked); !ok || d.Rule != "it" {
			t.Fatalf("after %d others: got %v, %v", i+1, d, ok)
		}
	}
	if _, ok := m.get([]byte("other0")); ok {
		t.Error("what nobody asks for is kept")
	}
}

// TestExplain holds the steps that people are shown.
func TestExplain(t *testing.T) {
	p := compiled(t, tenant.EffectDeny, []tenant.Rule{
		{Name: "prompts", When: `prompt.name == "x"`, Effect: tenant.EffectDeny},
		{Name: "abroad", When: `request.arguments.country != "FR"`, Effect: tenant.EffectDeny},
		{Name: "harmless", When: `tool.annotations.readOnlyHint == true`, Effect: tenant.EffectAllow},
		{Name: "finance", When: `"finance" in principal.groups`, Effect: tenant.EffectAllow, Scopes: []string{"book"}},
	}, tenant.Toolset{Name: "eu", Tags: []string{"eu"}})
	steps := p.Explain(alice(), "eu", bookHotel(), nil)
	want := []Step{
		{Part: PartToolset, Name: "eu", Outcome: Holds},
		{Part: PartRule, Name: "prompts", When: `prompt.name == "x"`, Effect: tenant.EffectDeny, Outcome: OtherKind},
		{Part: PartRule, Name: "abroad", When: `request.arguments.country != "FR"`, Effect: tenant.EffectDeny, Outcome: MayHold},
		{Part: PartRule, Name: "harmless", When: `tool.annotations.readOnlyHint == true`, Effect: tenant.EffectAllow, Outcome: HoldsNot, Untrusted: true},
		{Part: PartRule, Name: "finance", When: `"finance" in principal.groups`, Effect: tenant.EffectAllow, Outcome: Holds, Scopes: []string{"book"}, Decides: true},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	steps = p.Explain(alice(), "us", bookHotel(), nil)
	if len(steps) != 1 || !steps[0].Decides || steps[0].Err == nil {
		t.Errorf("unknown toolset: got %+v", steps)
	}
}
