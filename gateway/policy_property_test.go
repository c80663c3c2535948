package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// policyWorlds is how many tenants are made by chance. Each is the same in every run.
const policyWorlds = 16

// TestVisibleIsCallable holds, for rules, callers and catalogues that are made by chance
// and over HTTP, that what a caller sees is what it can call: with clients of both eras,
// at all kinds of endpoints, directly and through the tools that find tools. What is
// hidden answers as what does not exist, and what lacks scopes is refused with all that
// it needs. A model of its own says what that has to be.
func TestVisibleIsCallable(t *testing.T) {
	g := newGuarded(t, nil)
	auth := g.issuer.auth()
	auth.Issuers[0].GroupsClaim = "groups"
	var worlds []*world
	for seed := range uint64(policyWorlds) {
		worlds = append(worlds, newWorld(seed))
	}
	root := serveWorlds(t, worlds)
	var all []*tenant.Tenant
	for _, w := range worlds {
		all = append(all, w.registration(auth, root))
	}
	g.store.Replace(all)
	r := g.start()
	seen := map[string]int{}
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					reg := all[slices.Index(worlds, w)]
					t.Logf("default %s, rules %+v, toolset %+v\n%s", reg.Policy.Default, reg.Policy.Rules, reg.Toolsets, g.logs(r))
				}
			})
			for _, p := range w.callers {
				for _, at := range []string{"/mcp", "/s/set/mcp", "/u/a/mcp", "/u/b/mcp"} {
					v := &stay{t: t, w: w, p: p, at: at, seen: seen}
					v.token = g.issuer.token(p.name, "/t/"+w.name+at, map[string]any{"groups": p.groups, "scope": strings.Join(p.scopes, " ")})
					v.url = r.url + "/t/" + w.name + at
					v.hold()
				}
			}
		})
	}
	for _, what := range []string{"visible", "hidden", "lacks scopes"} {
		if seen[what] < 100 {
			t.Errorf("%d things were found to be %s: the worlds say little", seen[what], what)
		}
	}
}

// stay is a caller at an endpoint.
type stay struct {
	t          *testing.T
	w          *world
	p          *caller
	at         string
	url, token string
	seen       map[string]int
}

// outcome is what came of a request.
type outcome struct {
	status  int
	scopes  string // of a challenge
	message string
}

// sending sends a request as a client of an era does.
type sending func(method, params string) outcome

// way is a client of an era. In the mode for search lists have the tools that find tools.
type way struct {
	era          string
	full, search sending // nil where the endpoint is not there, or has no such mode
}

// ways gives clients of both eras.
func (v *stay) ways() []way {
	modern := func(url string) sending {
		client := newRawClient(v.t, url)
		if client.send(ask("tools/list", ""), "Authorization: Bearer "+v.token).status == http.StatusNotFound {
			return nil
		}
		return func(method, params string) outcome {
			got := client.send(ask(method, params), "Authorization: Bearer "+v.token)
			return outcome{got.status, scopesOf(got.header), got.last()}
		}
	}
	handshake := func(url string) sending {
		c := newOldUser(v.t, url, "2025-11-25", "{}", v.token)
		return func(method, params string) outcome {
			res := c.post(oldRequest(1, method, params))
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				v.t.Fatal(err)
			}
			return outcome{res.StatusCode, scopesOf(res.Header), string(body)}
		}
	}
	ways := []way{{"modern", modern(v.url), nil}, {"handshake", nil, nil}}
	if ways[0].full == nil { // nothing of the upstream is for the caller
		return ways
	}
	ways[1].full = handshake(v.url)
	if !strings.HasPrefix(v.at, "/u/") {
		ways[0].search, ways[1].search = modern(v.url+"?discovery=search"), handshake(v.url+"?discovery=search")
	}
	return ways
}

// scopesOf gives the scopes that a challenge asks for, sorted.
func scopesOf(h http.Header) string {
	_, rest, _ := strings.Cut(h.Get("WWW-Authenticate"), `scope="`)
	scopes, _, _ := strings.Cut(rest, `"`)
	list := strings.Fields(scopes)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// kindOf says how a kind is listed and used.
type kindOf struct{ kind, list, key, id, method, param string }

func kinds() []kindOf {
	return []kindOf{
		{"tool", "tools/list", "tools", "name", "tools/call", "name"},
		{"prompt", "prompts/list", "prompts", "name", "prompts/get", "name"},
		{"resource", "resources/list", "resources", "uri", "resources/read", "uri"},
	}
}

// hold holds all about a caller at an endpoint.
func (v *stay) hold() {
	v.t.Helper()
	ways := v.ways()
	for _, k := range kinds() {
		for _, way := range ways {
			if way.full == nil {
				if want := v.wanted(k.kind); len(want) > 0 {
					v.t.Errorf("%s has no %s, and %s may use %v", v.at, k.kind, v.p.name, want)
				}
				continue
			}
			v.holdLists(way, k)
			for _, i := range v.w.things {
				if alias, one := strings.CutPrefix(v.at, "/u/"); i.kind == k.kind && (!one || alias == i.alias+"/mcp") {
					v.holdUse(way, k, i)
				}
			}
		}
	}
}

// here gives the name of a thing at the endpoint.
func (v *stay) here(i *thing) string {
	if strings.HasPrefix(v.at, "/u/") {
		return i.own
	}
	return i.name()
}

// wanted gives what the caller may see, sorted.
func (v *stay) wanted(kind string) []string {
	want := []string{}
	for _, i := range v.w.things {
		alias, one := strings.CutPrefix(v.at, "/u/")
		if visible, _ := v.decide(i); visible && i.kind == kind && (!one || alias == i.alias+"/mcp") {
			want = append(want, v.here(i))
		}
	}
	slices.Sort(want)
	return want
}

func (v *stay) decide(i *thing) (visible bool, scopes []string) {
	return v.w.decide(i, v.p, v.at == "/s/set/mcp")
}

// holdLists holds what is listed and found.
func (v *stay) holdLists(way way, k kindOf) {
	v.t.Helper()
	want := v.wanted(k.kind)
	listed := way.full(k.list, "")
	if got := namesIn(v.t, memberOf(v.t, listed.message, "result", k.key), k.id); !slices.Equal(got, want) || strings.Contains(listed.message, "partial") {
		v.t.Errorf("%s of %s at %s: lists %v, want %v\n%s", way.era, v.p.name, v.at, got, want, listed.message)
	}
	if k.kind != "tool" || way.search == nil {
		return
	}
	structured := func(tool, arguments, key string) []string {
		got := way.search("tools/call", `"name":"`+tool+`","arguments":`+arguments)
		list := memberOf(v.t, got.message, "result", "structuredContent", key)
		if key == "unknown" {
			var names []string
			if err := json.Unmarshal(list, &names); list != nil && err != nil {
				v.t.Fatalf("%s: %v", got.message, err)
			}
			slices.Sort(names)
			return names
		}
		return namesIn(v.t, list, "name")
	}
	if got := structured("search_tools", `{"query":"read draw pay send","detail":"name","limit":50}`, "results"); !slices.Equal(got, want) {
		v.t.Errorf("%s of %s at %s: finds %v, want %v", way.era, v.p.name, v.at, got, want)
	}
	names, hidden := []string{`"a_nothing"`}, []string{"a_nothing"}
	for _, i := range v.w.things {
		if i.kind == k.kind {
			names = append(names, `"`+i.name()+`"`)
			if visible, _ := v.decide(i); !visible {
				hidden = append(hidden, i.name())
			}
		}
	}
	slices.Sort(hidden)
	details := `{"names":[` + strings.Join(names, ",") + `]}`
	if got := structured("get_tool_details", details, "tools"); !slices.Equal(got, want) {
		v.t.Errorf("%s of %s at %s: reads about %v, want %v", way.era, v.p.name, v.at, got, want)
	}
	if got := structured("get_tool_details", details, "unknown"); !slices.Equal(got, hidden) {
		v.t.Errorf("%s of %s at %s: is told that %v are unknown, want %v", way.era, v.p.name, v.at, got, hidden)
	}
}

// namesIn gives the names in a list, sorted.
func namesIn(t *testing.T, list json.RawMessage, id string) []string {
	t.Helper()
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		t.Fatalf("%s is no list: %v", list, err)
	}
	names := []string{}
	for _, item := range items {
		names = append(names, strings.Trim(string(item[id]), `"`))
	}
	slices.Sort(names)
	return names
}

// holdUse holds what comes of the use of a thing, directly and through call_tool.
func (v *stay) holdUse(way way, k kindOf, i *thing) {
	v.t.Helper()
	visible, scopes := v.decide(i)
	missing := slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(v.p.scopes, s) })
	nobody := *i
	nobody.own = map[string]string{"resource": "doc://0"}[i.kind]
	if nobody.own == "" {
		nobody.own = "nothing"
	}
	uses := map[string]func(name string) outcome{"directly": func(name string) outcome { return way.full(k.method, fmt.Sprintf(`%q:%q`, k.param, name)) }}
	if k.kind == "tool" && way.search != nil {
		uses["by its name in the mode for search"] = func(name string) outcome { return way.search(k.method, fmt.Sprintf(`%q:%q`, k.param, name)) }
		uses["through call_tool"] = func(name string) outcome {
			return way.search("tools/call", fmt.Sprintf(`"name":"call_tool","arguments":{"name":%q}`, name))
		}
	}
	for how, use := range uses {
		got := use(v.here(i))
		fault := ""
		switch {
		case !visible:
			v.seen["hidden"]++
			unknown := use(v.here(&nobody))
			unknown.message = strings.ReplaceAll(unknown.message, nobody.own, i.own)
			if got != unknown || memberOf(v.t, got.message, "error") == nil || got.scopes != "" {
				fault = fmt.Sprintf("what does not exist: %+v", unknown)
			}
		case missing:
			v.seen["lacks scopes"]++
			if got.status != http.StatusForbidden || got.scopes != strings.Join(scopes, " ") {
				fault = fmt.Sprintf("403 for want of %v", scopes)
			}
		default:
			v.seen["visible"]++
			if got.status != http.StatusOK || memberOf(v.t, got.message, "result") == nil {
				fault = "a result"
			}
		}
		if fault != "" {
			v.t.Errorf("%s of %s %s at %s: %s %s says %+v, want %s", way.era, v.p.name, how, v.at, i.kind, v.here(i), got, fault)
		}
	}
}
