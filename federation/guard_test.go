package federation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What a caller sees is what the caller can use, on every endpoint and by every way,
// whatever the policy. The scenes are the same at each run.
func TestVisibleIsCallable(t *testing.T) {
	for _, arguments := range []bool{false, true} {
		t.Run(fmt.Sprint("arguments ", arguments), func(t *testing.T) {
			drawn := scenes(arguments)
			for seed := range 100 {
				if !t.Run(fmt.Sprint("scene ", seed), func(t *testing.T) { drawn.Example(seed).hold(t) }) {
					return
				}
			}
		})
	}
}

// hold checks one scene.
func (s scene) hold(t *testing.T) {
	g, stop := s.guard(t)
	defer stop()
	defer func() {
		if t.Failed() {
			conf, _ := json.MarshalIndent(s.reg, "", " ")
			t.Logf("%s\n%v\n%+v", conf, s.items, s.who)
		}
	}()
	for i := range s.who {
		who := &s.who[i]
		merged := map[string]bool{}
		for _, at := range g.endpoints() {
			v := vision{guarded: g, who: who, at: at}
			v.tools()
			v.prompts()
			v.resources()
			if at.Toolset != "" {
				continue
			}
			v.compare(merged)
		}
	}
}

// vision is how one caller sees one endpoint.
type vision struct {
	*guarded
	who *tenant.Principal
	at  Endpoint
}

// open gives all that the endpoint would list without a policy.
func (v *vision) open(k kind) []string {
	at := v.at
	at.Tenant = "open"
	return v.all(v.who, at, k)
}

// arguments are what calls are tried with, as members of params.
func (v *vision) calls() []string {
	if v.arguments {
		return []string{``, `,"arguments":{"k":"v"}`, `,"arguments":{"k":"w"}`}
	}
	return []string{`,"arguments":{}`}
}

// agree holds what becomes of an item against whether it is listed. exact is false
// where an item may be listed that cannot be used with the arguments that are tried.
func (v *vision) agree(method, name string, listed bool, exact bool, outcomes ...outcome) {
	v.t.Helper()
	usable := slices.ContainsFunc(outcomes, outcome.visible)
	if usable && !listed || exact && listed && !usable {
		v.t.Errorf("%s of %s at %+v by %+v: listed %v, yet it %v", method, name, v.at, v.who, listed, outcomes)
	}
}

func (v *vision) tools() {
	v.t.Helper()
	listed := v.all(v.who, v.at, kindTools)
	for _, name := range v.open(kindTools) {
		var all []outcome
		for _, arguments := range v.calls() {
			params := func(name string) string { return fmt.Sprintf(`"name":%q`, name) + arguments }
			direct := v.outcome(v.who, v.at, mcp.MethodToolsCall, name, params)
			all = append(all, direct)
			if v.at.Alias == "" {
				v.through(name, arguments, direct)
			}
		}
		v.agree(mcp.MethodToolsCall, name, slices.Contains(listed, name), !v.arguments, all...)
	}
	if v.at.Alias == "" {
		v.search(listed)
	}
}

// through holds that a call by call_tool ends as the direct one.
func (v *vision) through(name, arguments string, direct outcome) {
	v.t.Helper()
	at := v.at
	at.Discovery = tenant.DiscoverySearch
	params := func(name string) string {
		return fmt.Sprintf(`"name":"call_tool","arguments":{"name":%q%s}`, name, arguments)
	}
	if got := v.outcome(v.who, at, mcp.MethodToolsCall, name, params); got != direct {
		v.t.Errorf("%s at %+v through call_tool %s, by itself it %s", name, at, got, direct)
	}
}

// search holds what the tools that find tools tell against what is listed.
func (v *vision) search(listed []string) {
	v.t.Helper()
	at := v.at
	at.Discovery = tenant.DiscoverySearch
	meta := func(name, arguments string, out any) {
		v.t.Helper()
		body, _, err := v.send(v.who, at, mcp.MethodToolsCall, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
		if err != nil {
			v.t.Fatalf("%s: %v", name, err)
		}
		if err := json.Unmarshal([]byte(field(v.t, body, "result", "structuredContent")), out); err != nil {
			v.t.Fatalf("%s: %v: %s", name, err, body)
		}
	}
	var found struct {
		Results []struct{ Name, Upstream string }
		Total   int
	}
	meta("search_tools", `{"query":"thing","limit":50}`, &found)
	got, counts := []string{}, map[string]int{}
	for _, r := range found.Results {
		got = append(got, r.Name)
		counts[r.Upstream]++
	}
	slices.Sort(got)
	if diff := cmp.Diff(listed, got); diff != "" || found.Total != len(listed) {
		v.t.Errorf("found at %+v by %+v, %d in all (-listed +found):\n%s", at, v.who, found.Total, diff)
	}
	for _, u := range v.reg.Upstreams {
		body, _, err := v.send(v.who, at, mcp.MethodToolsCall, fmt.Sprintf(`"name":"search_tools","arguments":{"query":"thing","upstream":%q}`, u.Alias))
		if known := err == nil && !strings.Contains(body, "there is no upstream"); known != (counts[u.Alias] > 0) && v.hides() {
			v.t.Errorf("a search at %+v by %+v says of %s: %s, %v", at, v.who, u.Alias, body, err)
		}
	}
	var told struct {
		Upstreams []struct {
			Alias string
			Tools int
		}
	}
	meta("list_upstreams", `{}`, &told)
	have := map[string]int{}
	for _, u := range told.Upstreams {
		if have[u.Alias] = u.Tools; u.Tools == 0 && v.hides() {
			v.t.Errorf("%s is listed at %+v for %+v", u.Alias, at, v.who)
		}
		if u.Tools == 0 {
			delete(have, u.Alias)
		}
	}
	if diff := cmp.Diff(counts, have); diff != "" {
		v.t.Errorf("list_upstreams at %+v (-found +told):\n%s", at, diff)
	}
	for _, name := range v.open(kindTools) {
		body, _, err := v.send(v.who, at, mcp.MethodToolsCall, fmt.Sprintf(`"name":"get_tool_details","arguments":{"names":[%q]}`, name))
		if known := err == nil && field(v.t, body, "result", "isError") != "true"; known != slices.Contains(listed, name) {
			v.t.Errorf("get_tool_details at %+v of %s: %s, %v", at, name, body, err)
		}
	}
}

// hides tells whether something may be hidden at the endpoint.
func (v *vision) hides() bool {
	return v.at.Toolset != "" || len(v.reg.Policy.Rules) > 0 || v.reg.Policy.Default != tenant.EffectAllow
}

func (v *vision) prompts() {
	v.t.Helper()
	listed := v.all(v.who, v.at, kindPrompts)
	for _, name := range v.open(kindPrompts) {
		var all []outcome
		for _, arguments := range v.calls() {
			all = append(all, v.outcome(v.who, v.at, mcp.MethodPromptsGet, name, func(name string) string { return fmt.Sprintf(`"name":%q`, name) + arguments }))
		}
		v.agree(mcp.MethodPromptsGet, name, slices.Contains(listed, name), !v.arguments, all...)
		completed := v.outcome(v.who, v.at, mcp.MethodComplete, name, func(name string) string {
			return fmt.Sprintf(`"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"n","value":""}`, name)
		})
		v.agree(mcp.MethodComplete, name, slices.Contains(listed, name), true, completed)
	}
}

func (v *vision) resources() {
	v.t.Helper()
	read := func(uri string) string { return fmt.Sprintf(`"uri":%q`, uri) }
	complete := func(uri string) string {
		return fmt.Sprintf(`"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"id","value":""}`, uri)
	}
	listed := v.all(v.who, v.at, kindResources)
	for _, uri := range v.open(kindResources) {
		is := slices.Contains(listed, uri)
		becomes := v.outcome(v.who, v.at, mcp.MethodResourcesRead, uri, read)
		v.agree(mcp.MethodResourcesRead, uri, is, true, becomes)
		v.watch(uri, becomes)
	}
	templates, open := v.all(v.who, v.at, kindTemplates), v.open(kindTemplates)
	for _, template := range open {
		is := slices.Contains(templates, template)
		v.agree(mcp.MethodComplete, template, is, true, v.outcome(v.who, v.at, mcp.MethodComplete, template, complete))
		if v.names || !strings.Contains(template, "tmpl://{x}/y") {
			continue // what rules read of an expansion is not what they read of its template, or it belongs to several
		}
		expansion := strings.Replace(template, "{x}", "7", 1)
		becomes := v.outcome(v.who, v.at, mcp.MethodResourcesRead, expansion, read)
		v.agree(mcp.MethodResourcesRead, expansion, is, true, becomes)
		v.watch(expansion, becomes)
	}
}

// watch holds that updates are granted of what may be read, given what becomes of that.
func (v *vision) watch(uri string, read outcome) {
	v.t.Helper()
	c := v.callOf("", mcp.MethodListen, fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]}`, uri))
	c.Endpoint, c.Principal = v.at, *v.who
	s, err := v.fed.Listen(v.t.Context(), c)
	if err != nil {
		if read.visible() {
			v.t.Errorf("listen to %s at %+v: %v", uri, v.at, err)
		}
		return
	}
	defer s.Close()
	if granted := strings.Contains(string(s.Ack), uri); granted != (read == goes) {
		v.t.Errorf("updates of %s at %+v by %+v are granted %v, yet it %s", uri, v.at, v.who, granted, read)
	}
}

// compare holds that the endpoint of one upstream shows what the merged one shows of
// it. The merged one comes first, and notes what it shows in merged.
func (v *vision) compare(merged map[string]bool) {
	v.t.Helper()
	for k := range kindDiscover {
		listed := v.all(v.who, v.at, k)
		for _, name := range v.open(k) {
			if v.at.Alias == "" {
				merged[k.method()+" "+name] = slices.Contains(listed, name)
				continue
			}
			shown := k.method() + " " + v.under(k, name)
			if is, placed := merged[shown]; placed && is != slices.Contains(listed, name) {
				v.t.Errorf("%s of %s is listed %v for %+v, yet at the merged endpoint %v", name, v.at.Alias, !is, v.who, is)
			}
		}
	}
}

// under gives the name that an item certainly has at the merged endpoint, if any.
func (v *vision) under(k kind, name string) string {
	for _, u := range v.reg.Upstreams {
		if u.Alias == v.at.Alias && u.Prefix == tenant.PrefixNone {
			return "?" // another upstream may have taken it
		}
	}
	if k.named() {
		exposed, _ := exposedName(v.at.Alias, "_", name)
		return exposed
	}
	return exposedURI(v.at.Alias, name)
}

// What may be completed as a template may not be read as if it were a resource.
func TestATemplateIsNoResource(t *testing.T) {
	policy := &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{{Name: "r", When: `resource.template`, Effect: tenant.EffectAllow}}}
	policed(t, policy, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTemplates, `{"uriTemplate":"doc://{id}","name":"r"}`)
		p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[]}`)
		p.result(mcp.MethodComplete, `{"resultType":"complete","completion":{"values":[]}}`)
		r.do(r.callOf("", mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"a+doc://{id}"},"argument":{"name":"id","value":""}`).by("ann"))
		for _, uri := range []string{"a+doc://{id}", "a+doc://1"} {
			_, err := r.try(r.callOf("", mcp.MethodResourcesRead, fmt.Sprintf(`"uri":%q`, uri)).by("ann"))
			wantCode(t, err, mcp.CodeInvalidParams)
		}
	})
}
