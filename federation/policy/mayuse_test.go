package policy

import (
	"fmt"
	"path"
	"testing"

	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestMayUse holds which upstreams are known to be of no use, by examples of alice,
// who is in the groups finance and staff, and the upstream travel with the tag eu.
func TestMayUse(t *testing.T) {
	allow := func(when string) tenant.Rule { return tenant.Rule{Name: when, When: when, Effect: tenant.EffectAllow} }
	deny := func(when string) tenant.Rule { return tenant.Rule{Name: when, When: when, Effect: tenant.EffectDeny} }
	set := func(s tenant.Toolset) tenant.Toolset { s.Name = "set"; return s }
	tests := []struct {
		name    string
		def     tenant.Effect
		rules   []tenant.Rule
		toolset tenant.Toolset // used unless it has no name
		bare    bool
		want    bool
	}{
		{name: "default allow", def: tenant.EffectAllow, want: true},
		{name: "default deny", def: tenant.EffectDeny, want: false},
		{name: "rules about others", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`item.alias == "ledger"`), allow(`tool.alias in ["ledger", "mail"] && tool.name != "x"`)}, want: false},
		{name: "a rule about it", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`item.alias == "travel"`)}, want: true},
		{name: "a rule about its tag", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`"eu" in item.tags`)}, want: true},
		{name: "a rule about other tags", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`item.tags.exists(t, t == "us")`)}, want: false},
		{name: "a group that she has", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`"staff" in principal.groups && tool.alias == "travel"`)}, want: true},
		{name: "a group that she lacks", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`"admin" in principal.groups && tool.alias == "travel" && tool.name.startsWith("travel_")`)}, want: false},
		{name: "a group that she lacks, the other way round", def: tenant.EffectAllow, rules: []tenant.Rule{deny(`!("admin" in principal.groups) && item.alias == "travel"`)}, want: false},
		{name: "a denial of tools alone", def: tenant.EffectAllow, rules: []tenant.Rule{deny(`tool.alias == "travel"`)}, want: true},
		{name: "a denial of each kind", def: tenant.EffectAllow, rules: []tenant.Rule{deny(`tool.alias == "travel"`), deny(`prompt.alias == "travel"`), deny(`kind == "resource"`)}, want: false},
		{name: "a denial by method", def: tenant.EffectAllow, rules: []tenant.Rule{deny(`request.method in ["tools/call", "prompts/get", "resources/read"]`)}, want: false},
		{name: "a rule about names", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`item.name == "ledger_pay"`)}, want: true},
		{name: "a denial of names", def: tenant.EffectAllow, rules: []tenant.Rule{deny(`item.name != ""`)}, want: true},
		{name: "a rule about titles", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`has(item.title)`)}, want: true},
		{name: "a rule about no titles", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`!has(item.title)`)}, want: true},
		{name: "a rule about annotations", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`tool.annotations.readOnlyHint == true`)}, want: true},
		{name: "a rule about annotations of others", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`tool.annotations.readOnlyHint == true && tool.alias == "ledger"`)}, want: false},
		{name: "a rule about templates", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`resource.template && resource.uri == "x"`)}, want: true},
		{name: "a rule about arguments", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`request.arguments.a == 1`)}, want: true},
		{name: "a rule about arguments of others", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`item.alias == "ledger" && request.arguments.a == 1`)}, want: false},
		{name: "a dynamic alias is in doubt", def: tenant.EffectDeny, rules: []tenant.Rule{allow(`dyn(item).alias == "ledger"`)}, want: true},
		{name: "a rule that fails", def: tenant.EffectAllow, rules: []tenant.Rule{allow(`item.tags[7] == "x"`)}, want: false},
		{name: "a rule that needs scopes", def: tenant.EffectDeny, rules: []tenant.Rule{{Name: "it", When: "true", Effect: tenant.EffectAllow, Scopes: []string{"none"}}}, want: true},

		{name: "toolset of all", def: tenant.EffectAllow, toolset: set(tenant.Toolset{}), want: true},
		{name: "toolset with a tag", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Tags: []string{"us", "eu"}}), want: true},
		{name: "toolset with other tags", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Tags: []string{"us"}}), want: false},
		{name: "toolset with its names", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"travel_book*"}}), want: true},
		{name: "toolset with any names", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"*Hotel"}}), want: true},
		{name: "toolset with its resources", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"travel+file:///*"}}), want: true},
		{name: "toolset with its user interfaces", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"ui://travel+a/*"}}), want: true},
		{name: "toolset with other names", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"ledger_*", "ledger+*", "travelling_*", "trave", "[a-s]*"}}), want: false},
		{name: "toolset with other names, and it has no prefix", def: tenant.EffectAllow, toolset: set(tenant.Toolset{Include: []string{"ledger_*"}}), bare: true, want: true},
		{name: "toolset with an expression about others", def: tenant.EffectAllow, toolset: set(tenant.Toolset{When: `item.alias != "travel"`}), want: false},
		{name: "toolset with an expression about annotations", def: tenant.EffectAllow, toolset: set(tenant.Toolset{When: `tool.annotations.readOnlyHint == true`}), want: true},
		{name: "toolset of tools where none are allowed", def: tenant.EffectAllow, toolset: set(tenant.Toolset{When: `kind == "tool"`}), rules: []tenant.Rule{deny(`tool.alias == "travel"`)}, want: false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := compiled(t, tt.def, tt.rules, named(tt.toolset)...)
			for _, time := range []string{"first", "again"} {
				if got := p.MayUse(alice(), tt.toolset.Name, "travel", []string{"eu"}, tt.bare); got != tt.want {
					t.Errorf("%s time: got %v, want %v", time, got, tt.want)
				}
			}
		})
	}
	if p := compiled(t, tenant.EffectAllow, nil); p.MayUse(alice(), "unknown", "travel", nil, false) {
		t.Error("an unknown toolset: got true")
	}
}

// TestMayUseInDoubt holds that what costs too much without a name, and little with
// some, hides nothing.
func TestMayUseInDoubt(t *testing.T) {
	var rules []tenant.Rule
	for i := range 20 {
		rules = append(rules, tenant.Rule{Name: fmt.Sprint("rule", i), When: fmt.Sprintf(`item.name == "x" && item.tags.all(t, t + "%d" != "x")`, i), Effect: tenant.EffectDeny})
	}
	p := compiled(t, tenant.EffectDeny, append(rules, tenant.Rule{Name: "it", When: `item.alias == "travel"`, Effect: tenant.EffectAllow}))
	it := bookHotel()
	for i := range 7000 {
		it.Tags = append(it.Tags, fmt.Sprint("tag", i))
	}
	if d := p.Decide(alice(), "", it, nil); !d.Allowed {
		t.Fatalf("got %+v, want it allowed", d)
	}
	if !p.MayUse(alice(), "", it.Alias, it.Tags, false) {
		t.Error("the upstream is of no use")
	}
}

// TestNothingOfNoUse holds that a list shows nothing of an upstream of no use.
func TestNothingOfNoUse(t *testing.T) {
	useless := 0
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{T: t, maxKeys: 2}
		p := w.program()
		who := w.principal()
		for range 3 {
			it := w.item()
			bare := rapid.Bool().Draw(t, "bare")
			if !bare {
				it.Name = exposed(it)
			}
			for _, set := range []string{"", "set"} {
				if p.MayUse(who, set, it.Alias, it.Tags, bare) {
					continue
				}
				useless++
				for _, call := range append(w.calls(it), nil) {
					if p.Decide(who, set, it, call).Allowed {
						t.Fatalf("of no use, but it is allowed\n%s", describe(p, who, set, it, call))
					}
				}
			}
		}
	})
	if useless == 0 {
		t.Error("no upstream was of no use")
	}
}

// exposed gives the item's name with a prefix.
func exposed(it *Item) string {
	if it.Kind == KindResource {
		return it.Alias + "+" + it.URI
	}
	return it.Alias + "_" + it.OwnName
}

// TestMayMatch holds that a glob which matches a name may match all that the name
// starts with, and which others may not.
func TestMayMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`([ab/é_]|\*|\?|\[[ab/]\]|\[\^a\]|\[\^\\\]b\]|\[a-b\]|\\\*){0,8}`).Draw(t, "glob")
		name := rapid.StringMatching(`[ab/é_*\]]{0,8}`).Draw(t, "name")
		matches, err := path.Match(glob, name)
		if err != nil {
			t.Fatalf("%q: %v", glob, err)
		}
		for i := range name {
			if matches && !mayMatch(glob, name[:i]) {
				t.Fatalf("%q matches %q, but not what starts with %q", glob, name, name[:i])
			}
		}
		// What follows may be anything, so that one try tells little; without stars the
		// rest of the glob must be the rest of the name.
		if !matches && glob == name && mayMatch(glob, name+"x") {
			t.Fatalf("%q may match what starts with %q", glob, name+"x")
		}
	})
	for _, tt := range []struct {
		glob, start string
		want        bool
	}{
		{"", "a", false}, {"", "", true}, {"*", "ab_", true}, {"*", "ab/", false}, {"*/x", "ab/", true},
		{"a?c", "ab", true}, {"a?c", "abd", false}, {"a[^b]*", "ab", false}, {"a[^b]*", "ac", true},
		{`a\*b`, "a*", true}, {`a\*b`, "ab", false}, {"**a**b", "xxa", true}, {"a", "a_", false},
		{"[\\]]x", "]", true}, {"[\\]]x", "[", false},
	} {
		if got := mayMatch(tt.glob, tt.start); got != tt.want {
			t.Errorf("mayMatch(%q, %q) = %v, want %v", tt.glob, tt.start, got, tt.want)
		}
	}
}

// TestSame holds when a program stays that of its tenant.
func TestSame(t *testing.T) {
	made := func() *tenant.Tenant {
		return &tenant.Tenant{
			Name:     "acme",
			Policy:   &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{{Name: "a", When: "true", Effect: tenant.EffectAllow, Scopes: []string{"s"}}, {Name: "b", Effect: tenant.EffectDeny}}},
			Toolsets: []tenant.Toolset{{Name: "x", Include: []string{"a*"}, Tags: []string{"t"}, When: "true", Scopes: []string{"s"}}, {Name: "y"}},
		}
	}
	p, err := Compile(made())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*tenant.Tenant)
		want   bool
	}{
		"nothing":         {func(*tenant.Tenant) {}, true},
		"upstreams":       {func(n *tenant.Tenant) { n.Upstreams = []tenant.Upstream{{Alias: "a"}} }, true},
		"limits":          {func(n *tenant.Tenant) { n.Toolsets[0].Limits.CallsPerMinute = 1 }, true},
		"no policy":       {func(n *tenant.Tenant) { n.Policy = nil }, false},
		"default":         {func(n *tenant.Tenant) { n.Policy.Default = tenant.EffectAllow }, false},
		"effect":          {func(n *tenant.Tenant) { n.Policy.Rules[0].Effect = tenant.EffectDeny }, false},
		"when":            {func(n *tenant.Tenant) { n.Policy.Rules[0].When = "false" }, false},
		"rule name":       {func(n *tenant.Tenant) { n.Policy.Rules[0].Name = "c" }, false},
		"rule scopes":     {func(n *tenant.Tenant) { n.Policy.Rules[0].Scopes = nil }, false},
		"order of rules":  {func(n *tenant.Tenant) { r := n.Policy.Rules; r[0], r[1] = r[1], r[0] }, false},
		"another rule":    {func(n *tenant.Tenant) { n.Policy.Rules = append(n.Policy.Rules, n.Policy.Rules[0]) }, false},
		"toolset":         {func(n *tenant.Tenant) { n.Toolsets[1].Name = "z" }, false},
		"toolset twice":   {func(n *tenant.Tenant) { n.Toolsets[1] = n.Toolsets[0] }, false},
		"include":         {func(n *tenant.Tenant) { n.Toolsets[0].Include = []string{"b"} }, false},
		"tags":            {func(n *tenant.Tenant) { n.Toolsets[0].Tags = nil }, false},
		"toolset scopes":  {func(n *tenant.Tenant) { n.Toolsets[1].Scopes = []string{"q"} }, false},
		"toolset when":    {func(n *tenant.Tenant) { n.Toolsets[1].When = "false" }, false},
		"another toolset": {func(n *tenant.Tenant) { n.Toolsets = append(n.Toolsets, tenant.Toolset{Name: "z"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := made()
			tt.change(n)
			if got := p.Same(n); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	none, err := Compile(&tenant.Tenant{})
	if err != nil || !none.Same(&tenant.Tenant{Policy: &tenant.Policy{Default: tenant.EffectAllow}}) {
		t.Errorf("no policy and one that allows all are not the same: %v", err)
	}
}

// TestMayUseIsRemembered holds that the memo keeps upstreams and callers apart.
func TestMayUseIsRemembered(t *testing.T) {
	p := compiled(t, tenant.EffectDeny, []tenant.Rule{{Name: "a", When: `"eu" in item.tags && "staff" in principal.groups`, Effect: tenant.EffectAllow}},
		tenant.Toolset{Name: "set", Include: []string{"x*"}})
	nobody := &tenant.Principal{}
	for range 2 {
		got := fmt.Sprint(
			p.MayUse(alice(), "", "travel", []string{"eu"}, false), p.MayUse(nobody, "", "travel", []string{"eu"}, false), p.MayUse(alice(), "", "travel", nil, false),
			p.MayUse(alice(), "set", "travel", []string{"eu"}, false), p.MayUse(alice(), "set", "travel", []string{"eu"}, true), p.MayUse(alice(), "set", "xy", []string{"eu"}, false))
		if want := "true false false false true true"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
