package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// explained is a configuration with some of everything that decides.
const explained = `
publicURL: http://127.0.0.1:8080
tenants:
  - name: default
    auth:
      mode: oauth
      issuers: [{issuer: https://idp.example.com}]
      scopes: [mcp]
      implies: {admin: [mcp, book]}
    policy:
      default: deny
      rules:
        - name: no large payments
          when: tool.name.endsWith("_pay") && request.arguments.amount > 100
          effect: deny
        - name: finance
          when: '"finance" in principal.groups && item.alias in ["ledger", "travel"]'
          effect: allow
          scopes: [book]
        - {name: harmless, when: tool.annotations.readOnlyHint == true, effect: allow}
        - {name: broken, when: 'item.tags[0] == "none"', effect: allow}
    toolsets:
      - {name: hotels, include: ["*Hotel*"], when: tool.annotations.openWorldHint == true, scopes: [read]}
      - {name: eu, tags: [eu]}
    upstreams:
      - {alias: travel, url: "http://127.0.0.1:1/", tags: [eu]}
      - {alias: ledger, url: "http://127.0.0.1:1/"}
      - {alias: bare, url: "http://127.0.0.1:1/", prefix: none, tags: [none]}
  - name: open
    policy: {default: allow, rules: [{name: titled, when: has(item.title), effect: allow}]}
    upstreams: [{alias: a, url: "http://127.0.0.1:1/"}]
allowUnauthenticated: true
`

// TestExplain holds what people are told. STEP stands for lines that repeat.
func TestExplain(t *testing.T) {
	const (
		finance = `{"groups":["finance"],"scopes":["mcp"]}`
		when1   = "      when tool.name.endsWith(\"_pay\") && request.arguments.amount > 100\n"
		when2   = "      when \"finance\" in principal.groups && item.alias in [\"ledger\", \"travel\"]\n      needs book\n"
		when3   = "      when tool.annotations.readOnlyHint == true\n"
		when4   = "      when item.tags[0] == \"none\"\n"
		server  = "      reads what the upstream says of itself, which nobody vouches for\n"
		list    = "for a list; a call is explained with --arguments\n"
		nobody  = "as somebody of whom nothing is known\n"
		closed  = "any use of the tenant needs mcp, which the token lacks\n"
	)
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"as in the documentation", []string{"--as", `{"groups":["finance"]}`, "--tool", "travel_bookHotel"}, "tool travel_bookHotel of the upstream travel, tenant default\n" +
			"as {\"groups\":[\"finance\"]}\n" + list +
			"  rule no large payments (deny): does not hold\n" + when1 + "> rule finance (allow): holds\n" + when2 +
			"allowed by the rule finance\na call is refused until the token has book\n" + closed},
		{"a scope that stands for others", []string{"--as", `{"groups":["finance"],"scopes":["admin"]}`, "--tool", "travel_bookHotel"}, "tool travel_bookHotel of the upstream travel, tenant default\n" +
			"as {\"scopes\":[\"admin\",\"mcp\",\"book\"],\"groups\":[\"finance\"]}\n" + list +
			"  rule no large payments (deny): does not hold\n" + when1 + "> rule finance (allow): holds\n" + when2 + "allowed by the rule finance\n"},
		{"what is not known", []string{"--tool", "travel_bookHotel"}, "tool travel_bookHotel of the upstream travel, tenant default\n" + nobody + list +
			"  rule no large payments (deny): does not hold\n" + when1 + "  rule finance (allow): does not hold\n" + when2 +
			"  rule harmless (allow): may hold, depending on annotations (not known)\n" + when3 + server +
			"  rule broken (allow): does not hold\n" + when4 + "  default (deny)\n" +
			"it depends: give --annotations to find out\n" + closed},
		{"what is given", []string{"--tool", "travel_bookHotel", "--annotations", `{"readOnlyHint":true}`}, "tool travel_bookHotel of the upstream travel, tenant default\n" + nobody + list +
			"  rule no large payments (deny): does not hold\n" + when1 + "  rule finance (allow): does not hold\n" + when2 +
			"> rule harmless (allow): holds\n" + when3 + server + "allowed by the rule harmless\n" + closed},
		{"a rule that fails", []string{"--prompt", "ledger_plan"}, "prompt ledger_plan of the upstream ledger, tenant default\n" + nobody + list +
			"  rule no large payments (deny): is about another kind\n" + when1 + "  rule finance (allow): does not hold\n" + when2 +
			"  rule harmless (allow): is about another kind\n" + when3 + "> rule broken (allow): fails\n" + when4 +
			"      rule \"broken\": 1:10: index out of bounds: 0\n" + "denied by the rule broken, since it fails\n" + closed},
		{"a list", []string{"--as", finance, "--tool", "ledger_pay"}, "tool ledger_pay of the upstream ledger, tenant default\nas {\"scopes\":[\"mcp\"],\"groups\":[\"finance\"]}\n" + list +
			"  rule no large payments (deny): may hold, depending on arguments\n" + when1 + "> rule finance (allow): holds\n" + when2 +
			"allowed by the rule finance\na call is refused until the token has book\n"},
		{"a call", []string{"--as", finance, "--tool", "ledger_pay", "--arguments", `{"amount":200}`}, "tool ledger_pay of the upstream ledger, tenant default\n" +
			"as {\"scopes\":[\"mcp\"],\"groups\":[\"finance\"]}\n> rule no large payments (deny): holds\n" + when1 + "denied by the rule no large payments\n"},
		{"a toolset", []string{"--as", finance, "--toolset", "hotels", "--tool", "travel_bookHotel", "--annotations", "{}"}, "tool travel_bookHotel of the upstream travel, tenant default\n" +
			"as {\"scopes\":[\"mcp\"],\"groups\":[\"finance\"]}\n" + list + "  toolset hotels: holds\n      when tool.annotations.openWorldHint == true\n" + server + "      needs read\n" +
			"  rule no large payments (deny): does not hold\n" + when1 + "> rule finance (allow): holds\n" + when2 +
			"allowed by the rule finance\na call is refused until the token has read and book\n"},
		{"a toolset of others", []string{"--as", finance, "--toolset", "eu", "--tool", "ledger_pay"}, "tool ledger_pay of the upstream ledger, tenant default\n" +
			"as {\"scopes\":[\"mcp\"],\"groups\":[\"finance\"]}\n" + list + "> toolset eu: has other tags\ndenied: the toolset eu does not have it\n"},
		{"a resource", []string{"--as", finance, "--resource", "travel+file:///terms"}, "resource travel+file:///terms of the upstream travel, tenant default\n" +
			"as {\"scopes\":[\"mcp\"],\"groups\":[\"finance\"]}\n" +
			"  rule no large payments (deny): is about another kind\n" + when1 + "> rule finance (allow): holds\n" + when2 +
			"allowed by the rule finance\na call is refused until the token has book\n"},
		{"without a prefix", []string{"--prompt", "plan"}, "prompt plan of the upstream bare, tenant default\n" + nobody + list +
			"  rule no large payments (deny): is about another kind\n" + when1 + "  rule finance (allow): does not hold\n" + when2 +
			"  rule harmless (allow): is about another kind\n" + when3 + "> rule broken (allow): holds\n" + when4 + "allowed by the rule broken\n" + closed},
		{"all the same", []string{"--tenant", "open", "--alias", "store", "--tool", "store_x"}, "tool store_x of the upstream store, tenant open\n" + nobody + list +
			"  rule titled (allow): may hold, depending on title (not known)\n      when has(item.title)\n" + server + "  default (allow)\n" +
			"it depends: give --title to find out\n"},
	}
	path := writeFile(t, "causeway.yaml", explained)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, append([]string{"check", "--explain", "--config", path}, tt.args...)...)
			if diff := cmp.Diff(outcome{0, tt.want, ""}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestExplainFaults holds what is refused. FILE stands for the path of the file.
func TestExplainFaults(t *testing.T) {
	tests := []struct {
		name, text string
		args       []string
		want       outcome
	}{
		{"nothing asked for", explained, nil, outcome{2, "", "causeway check: --explain needs one of --tool, --prompt and --resource\n"}},
		{"two things asked for", explained, []string{"--tool", "a", "--prompt", "b"}, outcome{2, "", "causeway check: --explain needs one of --tool, --prompt and --resource\n"}},
		{"not JSON", explained, []string{"--tool", "travel_x", "--as", `{"groups":[}`}, outcome{2, "", "causeway check: --as: is not JSON\n"}},
		{"not an object", explained, []string{"--tool", "travel_x", "--arguments", `[1]`}, outcome{2, "", "causeway check: --arguments: must be a JSON object\n"}},
		{"unknown field of a principal", explained, []string{"--tool", "travel_x", "--as", `{"Groups":[]}`}, outcome{
			2, "", "causeway check: --as: \"Groups\" is no field of a principal: it has issuer, subject, clientID, scopes and groups\n",
		}},
		{"type of a field", explained, []string{"--tool", "travel_x", "--as", `{"groups":[1]}`}, outcome{
			2, "", "causeway check: --as: \"groups\" has the wrong type: scopes and groups are lists of strings, the others strings\n",
		}},
		{"arguments of a resource", explained, []string{"--resource", "travel+x:y", "--arguments", `{}`}, outcome{2, "", "causeway check: --arguments: a resource takes none\n"}},
		{"annotations of a prompt", explained, []string{"--prompt", "travel_x", "--annotations", `{}`}, outcome{2, "", "causeway check: --annotations: a prompt has none\n"}},
		{"no such tenant", explained, []string{"--tool", "travel_x", "--tenant", "b"}, outcome{1, "", "causeway check: the file has no tenant \"b\"; it has default, open\n"}},
		{"no such toolset", explained, []string{"--tool", "travel_x", "--toolset", "b"}, outcome{1, "", "causeway check: the tenant default has no toolset \"b\"\n"}},
		{"no tenant", "", []string{"--tool", "travel_x"}, outcome{1, "", "causeway check: the file has no tenants; those of the registry are not in it\n"}},
		{"which tenant", "tenants: [{name: a}, {name: b}]", []string{"--tool", "travel_x"}, outcome{1, "", "causeway check: --tenant is needed: the file has a, b\n"}},
		{"which upstream", "tenants: [{name: a}]", []string{"--tool", "x"}, outcome{
			1, "", "causeway check: the name \"x\" does not tell which upstream of the tenant a has it: say so with --alias\n",
		}},
		{"faulty file", "tenants: [{name: a, policy: {default: deny, rules: [{name: r, when: 'tool.x', effect: allow}]}}]", []string{"--tool", "x"}, outcome{
			1, "", "FILE: 1 fault\n  tenants[0].policy.rules[0].when: rule \"r\": 1:5: undefined field 'x' (line 1)\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "causeway.yaml", tt.text)
			got := invoke(t, append([]string{"check", "--explain", "--config", path}, tt.args...)...)
			got.Stderr = strings.ReplaceAll(got.Stderr, path, "FILE")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	path := writeFile(t, "causeway.yaml", explained)
	want := outcome{2, "", "causeway check: --as, --tool: only with --explain\n"}
	if got := invoke(t, "check", "--config", path, "--tool", "x", "--as", "{}"); got != want {
		t.Errorf("without --explain: %+v, want %+v", got, want)
	}
}

// TestExplainJSON holds what programs are told.
func TestExplainJSON(t *testing.T) {
	path := writeFile(t, "causeway.yaml", explained)
	ask := func(args ...string) (v map[string]any) {
		t.Helper()
		got := invoke(t, append([]string{"check", "--explain", "--json", "--config", path, "--tool", "travel_bookHotel"}, args...)...)
		if err := json.Unmarshal([]byte(got.Stdout), &v); err != nil || got.Code != 0 || got.Stderr != "" {
			t.Fatalf("%+v: %v", got, err)
		}
		return v
	}
	v := ask("--as", `{"groups":["finance"]}`)
	steps, ok := v["steps"].([]any)
	if !ok || len(steps) != 2 {
		t.Fatalf("steps %v, want two", v["steps"])
	}
	want := map[string]any{
		"part": "rule", "name": "finance", "when": `"finance" in principal.groups && item.alias in ["ledger", "travel"]`,
		"effect": "allow", "outcome": "holds", "scopes": []any{"book"}, "decides": true,
	}
	if diff := cmp.Diff(want, steps[1]); diff != "" {
		t.Errorf("the last step (-want +got):\n%s", diff)
	}
	delete(v, "steps")
	want = map[string]any{
		"tenant": "default", "upstream": "travel", "kind": "tool", "name": "travel_bookHotel", "as": map[string]any{"groups": []any{"finance"}},
		"unknown": []any{"title", "annotations"}, "allowed": true, "neededScopes": []any{"book"}, "missingScopes": []any{"book"}, "missingTenantScopes": []any{"mcp"},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v := ask(); v["allowed"] != nil {
		t.Errorf("allowed is %v where it is not known, want null", v["allowed"])
	}
}
