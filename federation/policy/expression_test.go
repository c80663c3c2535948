package policy

import (
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestExpressions holds what an expression sees, by what a rule that allows comes
// to: "holds", "does not hold", "is about another kind", or the text of its error.
func TestExpressions(t *testing.T) {
	tool, prompt, resource := bookHotel(), planTrip(), terms()
	bare := &Item{Kind: KindTool, Name: "travel_x", OwnName: "x", Alias: "travel"}
	template := &Item{Kind: KindResource, Name: "travel+file:///{path}", OwnName: "files", Alias: "travel", URI: "file:///{path}", Template: true}
	tests := []struct {
		name, when string
		item       *Item
		call       *Call
		want       string
	}{
		{name: "group", when: `"finance" in principal.groups`, item: tool, want: "holds"},
		{name: "other group", when: `"sales" in principal.groups`, item: tool, want: "does not hold"},
		{name: "group by a loop", when: `principal.groups.exists(g, g.startsWith("fin"))`, item: tool, want: "holds"},
		{name: "all of principal", when: `principal.tenant == "acme" && principal.issuer == "https://idp.example.com" && principal.subject == "alice" && principal.clientID == "cli" && principal.scopes == ["mcp", "read"]`, item: tool, want: "holds"},
		{name: "not that subject", when: `principal.subject != "alice"`, item: tool, want: "does not hold"},
		{name: "the opposite of the opposite", when: `principal.subject == "alice" && !(principal.subject != "alice")`, item: tool, want: "holds"},
		{name: "one of some subjects", when: `principal.subject in ["bob", "alice"]`, item: tool, want: "holds"},
		{name: "subject of a pattern", when: `principal.subject.matches("^al[i-k]ce$")`, item: tool, want: "holds"},
		{name: "dynamic principal", when: `dyn(principal).subject == "alice" && has(dyn(principal).groups)`, item: tool, want: "holds"},
		{name: "dynamic principal without the field", when: `dyn(principal).password == ""`, item: tool, want: `rule "it": 1:15: no such field: password`},
		{name: "principal in a list", when: `[principal].exists(p, p.subject == "alice") && principal == principal`, item: tool, want: "holds"},
		{name: "leading dot", when: `"finance" in .principal.groups`, item: tool, want: "holds"},

		{name: "kind of tool", when: `kind == "tool"`, item: tool, want: "holds"},
		{name: "kind of prompt", when: `kind == "prompt" && item.name == "travel_plan"`, item: prompt, want: "holds"},
		{name: "kind of resource", when: `kind == "resource" && item.uri == "file:///terms.txt"`, item: resource, want: "holds"},
		{name: "tool", when: `tool.name == "travel_bookHotel" && tool.ownName == "bookHotel" && tool.alias == "travel" && "eu" in tool.tags && tool.title == "Book a hotel"`, item: tool, want: "holds"},
		{name: "prompt", when: `prompt.ownName == "plan" && prompt.tags == ["eu"] && !has(prompt.title)`, item: prompt, want: "holds"},
		{name: "resource", when: `resource.uri.startsWith("file:") && !resource.template && resource.annotations.audience == ["user"]`, item: resource, want: "holds"},
		{name: "template", when: `resource.template && resource.uri == "file:///{path}"`, item: template, want: "holds"},
		{name: "tool for a prompt", when: `tool.alias == "travel"`, item: prompt, want: "is about another kind"},
		{name: "no tool for a prompt", when: `!(tool.alias == "travel")`, item: prompt, want: "is about another kind"},
		{name: "tool or anything for a prompt", when: `true || tool.alias == "travel"`, item: prompt, want: "is about another kind"},
		{name: "resource for a tool", when: `resource.uri == ""`, item: tool, want: "is about another kind"},
		{name: "absent title", when: `tool.title == ""`, item: bare, want: `rule "it": 1:5: the tool has no title`},
		{name: "absent title that is asked for", when: `has(tool.title) && tool.title == ""`, item: bare, want: "does not hold"},
		{name: "no URI of a tool", when: `item.uri == "x"`, item: tool, want: `rule "it": 1:5: the tool has no uri`},
		{name: "no URI of a tool, where it does not matter", when: `item.uri == "x" || kind == "tool"`, item: tool, want: "holds"},

		{name: "hint", when: `tool.annotations.readOnlyHint == false`, item: tool, want: "holds"},
		{name: "hints by default", when: `tool.annotations == {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}`, item: bare, want: "holds"},
		{name: "hints of a tool that only reads", when: `!tool.annotations.destructiveHint && tool.annotations.idempotentHint`, item: &Item{Kind: KindTool, Annotations: []byte(`{"readOnlyHint":true}`)}, want: "holds"},
		{name: "hint of another type", when: `tool.annotations.readOnlyHint == true`, item: &Item{Kind: KindTool, Annotations: []byte(`{"readOnlyHint":"true"}`)}, want: "does not hold"},
		{name: "hint of another type as a bool", when: `tool.annotations.readOnlyHint && true`, item: &Item{Kind: KindTool, Annotations: []byte(`{"readOnlyHint":"true"}`)}, want: `rule "it": 1:31: no such overload`},
		{name: "nested annotation", when: `tool.annotations.x.n[1] > 2 && tool.annotations["x"].n[0] == 1`, item: tool, want: "holds"},
		{name: "absent annotation", when: `tool.annotations.y == 1`, item: tool, want: `rule "it": 1:17: no such key: y`},
		{name: "absent annotation that is asked for", when: `has(tool.annotations.y) || has(tool.annotations.x.m)`, item: tool, want: "does not hold"},
		{name: "annotations of a prompt", when: `item.annotations == {}`, item: prompt, want: "holds"},
		{name: "broken annotations", when: `tool.annotations.x == 1`, item: &Item{Kind: KindTool, Annotations: []byte(`{"x":1,"x":2}`)}, want: `rule "it": 1:17: the annotations have a name twice`},
		{name: "broken annotations that are not read", when: `tool.name == ""`, item: &Item{Kind: KindTool, Annotations: []byte(`{"x":1,"x":2}`)}, want: "holds"},

		{name: "method of a list", when: `request.method == "tools/call"`, item: tool, want: "holds"},
		{name: "method of a list of prompts", when: `request.method == "prompts/get"`, item: prompt, want: "holds"},
		{name: "method of a list of resources", when: `request.method == "resources/read"`, item: resource, want: "holds"},
		{name: "method of a call", when: `request.method == "resources/subscribe"`, item: resource, call: &Call{Method: "resources/subscribe"}, want: "holds"},
		{name: "argument", when: `request.arguments.city == "Paris"`, item: tool, call: arguments(`{"city":"Paris"}`), want: "holds"},
		{name: "other argument", when: `request.arguments.city == "Paris"`, item: tool, call: arguments(`{"city":"Rome"}`), want: "does not hold"},
		{name: "absent argument", when: `request.arguments.city == "Paris"`, item: tool, call: arguments(`{}`), want: `rule "it": 1:18: fails with the arguments of this call`},
		{name: "no arguments", when: `request.arguments == {}`, item: tool, call: &Call{Method: "tools/call"}, want: "holds"},
		{name: "arguments of a resource", when: `request.arguments == {}`, item: resource, call: arguments(`{"a":1}`), want: "holds"},
		{name: "arguments of a list of resources", when: `request.arguments == {}`, item: resource, want: "holds"},
		{name: "large number", when: `request.arguments.id == 9007199254740993`, item: tool, call: arguments(`{"id":9007199254740992}`), want: "does not hold"},
		{name: "larger number", when: `request.arguments.id == 18446744073709551615u && request.arguments.f < 2`, item: tool, call: arguments(`{"id":18446744073709551615,"f":1.5}`), want: "holds"},
		{name: "argument twice", when: `request.arguments.a == 1`, item: tool, call: arguments(`{"a":1,"a":2}`), want: `rule "it": 1:18: the arguments have a name twice`},
		{name: "arguments that are no object", when: `request.arguments == {}`, item: tool, call: arguments(`[1]`), want: `rule "it": 1:8: the arguments are not an object`},
		{name: "value of an argument in an error", when: `request.arguments[request.arguments.key] == 1`, item: tool, call: arguments(`{"key":"secret"}`), want: `rule "it": 1:18: fails with the arguments of this call`},
		{name: "conversion of an argument", when: `int(request.arguments.n) == 1`, item: tool, call: arguments(`{"n":"secret"}`), want: `rule "it": 1:4: fails with the arguments of this call`},

		{name: "second line", when: "tool.alias == \"travel\" &&\n  tool.annotations.y == 1", item: tool, want: `rule "it": 2:19: no such key: y`},
		{name: "sides swapped", when: `"alice" == principal.subject`, item: tool, want: "holds"},
		{name: "division by zero", when: `1 / (size(tool.tags) - 2) == 1`, item: tool, want: `rule "it": 1:3: division by zero`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps := allowing(t, tt.when).Explain(alice(), "", tt.item, tt.call)
			got := string(steps[0].Outcome)
			if steps[0].Err != nil {
				got = steps[0].Err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// arguments gives a call of a tool.
func arguments(s string) *Call { return &Call{Method: "tools/call", Arguments: []byte(s)} }

// TestFaults holds that every fault is told, with its place.
func TestFaults(t *testing.T) {
	tests := []struct{ name, when, want string }{
		{"typing mistake", `"a" in principal.group`, `1:17: undefined field 'group'`},
		{"unknown variable", `user.name == "a"`, `1:1: undeclared reference to 'user'`},
		{"no bool", `principal.subject`, `1:10: gives string, not bool`},
		{"dynamic", `tool.annotations.readOnlyHint`, `1:17: gives dyn, not bool`},
		{"types that cannot be equal", `principal.groups == "a"`, `1:18: found no matching overload for '_==_'`},
		{"syntax", `principal.subject ==`, `1:21: Syntax error`},
		{"two kinds", `tool.alias == "a" || prompt.alias == "a"`, `is about [tool prompt] at once and never holds`},
		{"field of another kind", `prompt.annotations == {}`, `1:7: undefined field 'annotations'`},
		{"URI of a tool", `tool.uri == ""`, `1:5: undefined field 'uri'`},
		{"bad pattern", `principal.subject.matches("(")`, `invalid matches argument`},
		{"pattern that is too large", `principal.subject.matches("(((a{20}){20}){20}){20}")`, `1:27: `},
		{"clock", `timestamp("2026-01-01T00:00:00Z").getHours("Europe/Paris") == 1`, `undeclared reference to 'timestamp'`},
		{"duration", `duration("1h") == duration("1h")`, `undeclared reference to 'duration'`},
		{"object", `causeway.Tool{name: "x"} == item`, `found no matching overload`},
		{"object of our own", `causeway.Tool{name: "x"}.name == "x"`, `objects cannot be made`},
		{"object of protocol buffers", `google.protobuf.Timestamp{seconds: 1} == null`, `unexpected failed resolution of 'google.protobuf.Timestamp'`},
		{"loop variable", `["a"].exists(tool, tool == "a")`, `tool is a variable already`},
		{"blank", ` `, `Syntax error`},
		{"comment only", `// nothing`, `Syntax error`},
		{"fact by name", "`@0`", `Syntax error`},
		{"loops within loops", `principal.groups.exists(a, principal.groups.exists(b, principal.groups.exists(c, ["a"].exists(d, ["b"].exists(e, a + b + c + d + e == "")))))`, `comprehension exceeds nesting limit`},
		{"loops that cost too much", `principal.groups.exists(a, principal.groups.exists(b, principal.groups.exists(c, a + b + c == "")))`, `may cost`},
		{"many literals in loops", `[` + strings.Repeat("1,", 60) + `1].all(a, [` + strings.Repeat("1,", 60) + `1].all(b, [` + strings.Repeat("1,", 60) + `1].all(c, a + b + c == 3)))`, `may cost`},
		{"long", `"` + strings.Repeat("a", maxExpression) + `" == ""`, `expression code point size exceeds limit`},
		{"deep", strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), `recursion limit exceeded`},
		{"many nodes", `[` + strings.Repeat("1,", maxNodes) + `1] == []`, `node`},
		{"none", `[1,2].map(a, [a, a]).filter(a, a == [1]).exists(a, a == [])`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Compile(&tenant.Tenant{Policy: &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{{Name: "it", When: tt.when, Effect: tenant.EffectAllow}}}})
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), `policy.rules[0].when: rule "it": `) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want one with %q", err, tt.want)
			}
		})
	}
}
