package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// verdict is what an expression comes to. What fails is in between, so that the
// operators of CEL are the smaller and the larger of two.
type verdict int

const (
	no verdict = iota
	fails
	yes
)

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// condition is an expression, and what it comes to, told apart from the code that is
// tested.
type condition struct {
	text  string
	about string // the only kind that it is about; empty for all
	of    func(*thing, *caller) verdict
}

// thing is what a catalogue has.
type thing struct {
	kind, alias, own, title string
	tags                    []string
	readOnly                bool
}

// name gives it as the merged endpoint does: of a resource the URI.
func (i *thing) name() string {
	if i.kind == "resource" {
		return i.alias + "+" + i.own
	}
	return i.alias + "_" + i.own
}

// caller is who asks.
type caller struct {
	name           string
	groups, scopes []string
}

// world is a tenant with its upstreams, made by chance.
type world struct {
	*rand.Rand
	name    string
	things  []*thing
	callers []*caller
	deflt   bool // what no rule is about is allowed
	rules   []rule
	set     toolset
}

// rule is one of a policy.
type rule struct {
	when   condition
	allow  bool
	scopes []string
}

// toolset is the one of a tenant.
type toolset struct {
	include, tags, scopes []string
	when                  *condition
}

// some gives a part of a list, by chance.
func some[T any](w *world, list ...T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(T) bool { return w.IntN(2) == 0 })
}

// newWorld makes one.
func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0)), name: fmt.Sprintf("t%d", seed)}
	for _, alias := range []string{"a", "b"} {
		tags := some(w, "red", "blue")
		slices.Sort(tags)
		for kind, names := range map[string][]string{"tool": {"draw", "pay", "read", "send"}, "prompt": {"pay", "plan"}, "resource": {"doc://1", "doc://2"}} {
			for _, own := range names {
				w.things = append(w.things, &thing{kind: kind, alias: alias, own: own, tags: tags})
			}
		}
	}
	slices.SortFunc(w.things, func(a, b *thing) int { return strings.Compare(a.kind+a.name(), b.kind+b.name()) })
	w.things = slices.DeleteFunc(w.things, func(*thing) bool { return w.IntN(5) == 0 })
	for _, i := range w.things {
		i.readOnly = i.kind == "tool" && w.IntN(2) == 0
		if w.IntN(2) == 0 {
			i.title = "Title"
		}
	}
	for _, name := range []string{"ann", "bob", "eve"} {
		w.callers = append(w.callers, &caller{name, some(w, "g1", "g2"), append([]string{"mcp"}, some(w, "s1", "s2", "s3")...)})
	}
	w.deflt = w.IntN(2) == 0
	for range 1 + w.IntN(4) {
		r := rule{when: w.condition(2), allow: w.IntN(2) == 0}
		if r.allow {
			r.scopes = some(w, "s1", "s2")
		}
		w.rules = append(w.rules, r)
	}
	w.set = toolset{include: some(w, "a_*", "*_pay", "b+doc:*/?"), scopes: some(w, "s2", "s3")}
	if w.IntN(3) == 0 {
		w.set.tags = []string{"red"}
	}
	if w.IntN(2) == 0 {
		c := w.condition(1)
		w.set.when = &c
	}
	return w
}

// condition makes an expression.
func (w *world) condition(depth int) condition {
	if depth == 0 || w.IntN(3) == 0 {
		atoms := atoms()
		return atoms[w.IntN(len(atoms))]
	}
	x := w.condition(depth - 1)
	if w.IntN(4) == 0 {
		return condition{"!(" + x.text + ")", x.about, func(i *thing, p *caller) verdict { return yes - x.of(i, p) }}
	}
	y := w.condition(depth - 1)
	for x.about != "" && y.about != "" && x.about != y.about { // it would be faulty
		y = w.condition(depth - 1)
	}
	both := condition{"(" + x.text + ") && (" + y.text + ")", x.about + y.about, func(i *thing, p *caller) verdict { return min(x.of(i, p), y.of(i, p)) }}
	if w.IntN(2) == 0 {
		both.text = "(" + x.text + ") || (" + y.text + ")"
		both.of = func(i *thing, p *caller) verdict { return max(x.of(i, p), y.of(i, p)) }
	}
	if x.about == y.about {
		both.about = x.about
	}
	return both
}

// atoms are the expressions that others are made of.
func atoms() []condition {
	always := func(of func(*thing, *caller) bool) func(*thing, *caller) verdict {
		return func(i *thing, p *caller) verdict { return verdictOf(of(i, p)) }
	}
	return []condition{
		{`"g1" in principal.groups`, "", always(func(_ *thing, p *caller) bool { return slices.Contains(p.groups, "g1") })},
		{`principal.groups.exists(g, g == "g2")`, "", always(func(_ *thing, p *caller) bool { return slices.Contains(p.groups, "g2") })},
		{`principal.subject == "ann"`, "", always(func(_ *thing, p *caller) bool { return p.name == "ann" })},
		{`"s3" in principal.scopes`, "", always(func(_ *thing, p *caller) bool { return slices.Contains(p.scopes, "s3") })},
		{`item.alias == "a"`, "", always(func(i *thing, _ *caller) bool { return i.alias == "a" })},
		{`"red" in item.tags`, "", always(func(i *thing, _ *caller) bool { return slices.Contains(i.tags, "red") })},
		{`kind == "prompt"`, "", always(func(i *thing, _ *caller) bool { return i.kind == "prompt" })},
		{`item.name.contains("_pay")`, "", always(func(i *thing, _ *caller) bool { return strings.Contains(i.name(), "_pay") })},
		{`item.title == "Title"`, "", func(i *thing, _ *caller) verdict {
			if i.title == "" {
				return fails // the server says nothing
			}
			return yes
		}},
		{`tool.ownName in ["read", "draw"]`, "tool", always(func(i *thing, _ *caller) bool { return i.own == "read" || i.own == "draw" })},
		{`tool.annotations.readOnlyHint == true`, "tool", always(func(i *thing, _ *caller) bool { return i.readOnly })},
		{`resource.uri.endsWith("1")`, "resource", always(func(i *thing, _ *caller) bool { return i.own == "doc://1" })},
		{`prompt.name == "a_plan"`, "prompt", always(func(i *thing, _ *caller) bool { return i.name() == "a_plan" })},
	}
}

// decide tells whether somebody may use a thing, at the endpoint of the toolset or at
// another one, and which scopes that needs.
func (w *world) decide(i *thing, p *caller, inSet bool) (visible bool, scopes []string) {
	scopes = []string{"mcp"}
	if inSet {
		s := &w.set
		named := func(glob string) bool { ok, err := path.Match(glob, i.name()); return ok && err == nil }
		switch {
		case len(s.include) > 0 && !slices.ContainsFunc(s.include, named),
			len(s.tags) > 0 && !slices.Contains(i.tags, s.tags[0]),
			s.when != nil && (s.when.about != "" && s.when.about != i.kind || s.when.of(i, p) != yes):
			return false, nil
		}
		scopes = append(scopes, s.scopes...)
	}
	for _, r := range w.rules {
		if r.when.about != "" && r.when.about != i.kind {
			continue
		}
		switch r.when.of(i, p) {
		case fails:
			return false, nil
		case yes:
			scopes = append(scopes, r.scopes...)
			slices.Sort(scopes)
			return r.allow, slices.Compact(scopes)
		}
	}
	slices.Sort(scopes)
	return w.deflt, slices.Compact(scopes)
}

// registration is the world as a tenant, with its upstreams below a URL.
func (w *world) registration(auth tenant.Auth, root string) *tenant.Tenant {
	effect := map[bool]tenant.Effect{true: tenant.EffectAllow, false: tenant.EffectDeny}
	t := &tenant.Tenant{Name: w.name, Separator: "_", Auth: auth, Policy: &tenant.Policy{Default: effect[w.deflt]}}
	t.Discovery.FromURL = true
	for n, r := range w.rules {
		t.Policy.Rules = append(t.Policy.Rules, tenant.Rule{Name: fmt.Sprint("r", n), When: r.when.text, Effect: effect[r.allow], Scopes: r.scopes})
	}
	set := tenant.Toolset{Name: "set", Include: w.set.include, Tags: w.set.tags, Scopes: w.set.scopes}
	if w.set.when != nil {
		set.When = w.set.when.text
	}
	t.Toolsets = []tenant.Toolset{set}
	for _, alias := range []string{"a", "b"} {
		u := upstreamAt(alias, root+"/"+w.name+"/"+alias)
		for _, i := range w.things {
			if i.alias == alias {
				u.Tags = i.tags
			}
		}
		t.Upstreams = append(t.Upstreams, u)
	}
	return t
}

// serveWorlds gives the root of servers of the Go SDK for the upstreams of worlds: a speaks
// the modern era, b that of the handshake.
func serveWorlds(t *testing.T, worlds []*world) string {
	t.Helper()
	mux := http.NewServeMux()
	var servers []*mcp.Server
	for _, w := range worlds {
		for _, alias := range []string{"a", "b"} {
			server := w.server(alias)
			servers = append(servers, server)
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: alias == "a"})
			mux.HandleFunc("/"+w.name+"/"+alias, func(rw http.ResponseWriter, r *http.Request) {
				if alias == "b" && r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
					http.Error(rw, "unknown version", http.StatusBadRequest)
					return
				}
				handler.ServeHTTP(rw, r)
			})
		}
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		for _, server := range servers {
			for s := range server.Sessions() {
				s.Close()
			}
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// server makes the one that has what the world has of an alias.
func (w *world) server(alias string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: alias, Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
	})
	for _, i := range w.things {
		switch {
		case i.alias != alias:
		case i.kind == "tool":
			tool := &mcp.Tool{Name: i.own, Title: i.title, Description: i.own, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: i.readOnly}}
			mcp.AddTool(server, tool, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
				return toolText("done"), nil, nil
			})
		case i.kind == "prompt":
			server.AddPrompt(&mcp.Prompt{Name: i.own, Title: i.title}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			})
		default:
			server.AddResource(&mcp.Resource{URI: i.own, Name: i.own, Title: i.title}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: i.own, Text: "t"}}}, nil
			})
		}
	}
	return server
}
