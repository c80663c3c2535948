package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// scene is a tenant with a policy and toolsets, the items of its upstreams, and who
// calls.
type scene struct {
	reg   tenant.Tenant
	items map[string][kindDiscover][]string // raw, by alias and kind
	who   []tenant.Principal
	// arguments tells that rules may read arguments, and names that they may read how
	// an item is called.
	arguments, names bool
}

// scenes draws scenes.
func scenes(arguments bool) *rapid.Generator[scene] {
	return rapid.Custom(func(t *rapid.T) scene {
		d := drawer{T: t, scene: scene{arguments: arguments, items: map[string][kindDiscover][]string{}}}
		d.names = rapid.Bool().Draw(t, "names")
		d.reg = tenant.Tenant{Separator: "_", PageSize: rapid.SampledFrom([]int{0, 2}).Draw(t, "page size")}
		d.reg.Discovery = tenant.Discovery{FromURL: true, Pinned: d.some("pinned", "a_x", "b_*", "y")}
		for _, alias := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "upstreams")] {
			d.upstream(alias)
		}
		d.rules()
		for range rapid.IntRange(1, 2).Draw(t, "principals") {
			d.who = append(d.who, tenant.Principal{
				Issuer: "https://idp.example.com", Subject: d.pick("subject", "ann", "bob"),
				Groups: d.some("groups", "g1", "g2"), Scopes: d.some("scopes", "s1", "s2"),
			})
		}
		return d.scene
	})
}

type drawer struct {
	*rapid.T
	scene
}

func (d *drawer) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.T, label)
}

func (d *drawer) some(label string, from ...string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, len(from), rapid.ID).Draw(d.T, label)
}

func (d *drawer) upstream(alias string) {
	u := fakeUp(alias)
	u.Prefix = tenant.Prefix(d.pick("prefix", string(tenant.PrefixAlias), string(tenant.PrefixAlias), string(tenant.PrefixNone)))
	u.Tags = d.some("tags", "eu", "us")
	if rapid.IntRange(0, 3).Draw(d.T, "own") == 0 {
		u.Auth.Mode = tenant.CredentialUser
	}
	d.reg.Upstreams = append(d.reg.Upstreams, u)
	var items [kindDiscover][]string
	for _, name := range d.some("tools", "x", "y", "a_x", "büro") {
		annotations := d.pick("annotations", `{}`, `{"readOnlyHint":true}`, `{"readOnlyHint":false}`)
		items[kindTools] = append(items[kindTools], fmt.Sprintf(`{"name":%q,"description":"A thing.","inputSchema":{"type":"object"},"annotations":%s%s}`, name, annotations, d.title()))
	}
	for _, name := range d.some("prompts", "x", "p") {
		items[kindPrompts] = append(items[kindPrompts], fmt.Sprintf(`{"name":%q%s}`, name, d.title()))
	}
	for _, uri := range d.some("resources", "doc://1", "doc://2", "ui://app/1") {
		items[kindResources] = append(items[kindResources], fmt.Sprintf(`{"uri":%q,"name":%q%s}`, uri, d.pick("name", "x", "r"), d.title()))
	}
	for _, uri := range d.some("templates", "doc://{id}", "doc://{id}{?q}", "tmpl://{x}/y") {
		items[kindTemplates] = append(items[kindTemplates], fmt.Sprintf(`{"uriTemplate":%q,"name":%q%s}`, uri, d.pick("name", "x", "r"), d.title()))
	}
	d.items[alias] = items
}

func (d *drawer) title() string { return d.pick("title", ``, `,"title":"T"`) }

// rules draws the policy and a toolset.
func (d *drawer) rules() {
	effect := func() tenant.Effect {
		return tenant.Effect(d.pick("effect", string(tenant.EffectAllow), string(tenant.EffectDeny)))
	}
	d.reg.Policy = &tenant.Policy{Default: effect()}
	for i := range rapid.IntRange(0, 4).Draw(d.T, "rules") {
		r := tenant.Rule{Name: fmt.Sprint("r", i), Effect: effect(), When: d.expression(d.pick("variable", "item", "item", "tool", "prompt", "resource"), 2)}
		if r.Effect == tenant.EffectAllow {
			r.Scopes = d.some("needed", "s1", "s2")
		}
		d.reg.Policy.Rules = append(d.reg.Policy.Rules, r)
	}
	set := tenant.Toolset{Name: "set", Tags: d.some("set's tags", "eu", "us"), Scopes: d.some("set's scopes", "s1")}
	if d.names {
		set.Include = d.some("include", "a_*", "*x", "b+*", "y", "*doc*")
	}
	if rapid.Bool().Draw(d.T, "when") {
		arguments := d.arguments
		d.arguments = false
		set.When = d.expression("item", 1)
		d.arguments = arguments
	}
	d.reg.Toolsets = []tenant.Toolset{set}
}

// expression writes a condition that reads a variable, of some depth.
func (d *drawer) expression(variable string, depth int) string {
	switch op := d.pick("operator", "", "", "&&", "||", "!"); {
	case op == "" || depth == 0:
		return d.condition(variable)
	case op == "!":
		return "!(" + d.expression(variable, depth-1) + ")"
	default:
		return "(" + d.expression(variable, depth-1) + " " + op + " " + d.expression(variable, depth-1) + ")"
	}
}

func (d *drawer) condition(variable string) string {
	all := []string{
		`"g1" in principal.groups`, `"g2" in principal.groups`, `principal.subject == "ann"`, `"s1" in principal.scopes`,
		variable + `.alias == "a"`, variable + `.alias != "b"`, `"eu" in ` + variable + `.tags`, `has(` + variable + `.title)`,
		`request.method == "tools/call"`,
	}
	if variable == "tool" {
		all = append(all, `tool.annotations.readOnlyHint == true`)
	}
	if variable == "item" {
		all = append(all, `kind == "tool"`, `kind != "resource"`)
	}
	if d.names {
		all = append(all, variable+`.name == "a_x"`, variable+`.name.startsWith("b")`, variable+`.ownName == "x"`)
		if variable == "resource" {
			all = append(all, `resource.uri == "doc://1"`, `resource.template`)
		}
	}
	if d.arguments && variable != "resource" {
		all = append(all, `request.arguments.k == "v"`, `has(request.arguments.k)`, `has(request.arguments.k) && request.arguments.k == "w"`)
	}
	return d.pick("condition", all...)
}

// guarded is a Federation that serves a scene: as the tenant default, and without its
// policy as the tenant open.
type guarded struct {
	*rig
	scene
	mu      sync.Mutex
	reached []string // the requests of callers that came to an upstream
}

// guard starts one.
func (s scene) guard(t *testing.T) (*guarded, func()) {
	t.Helper()
	g := &guarded{scene: s}
	of := map[string]*fake{}
	for alias, items := range s.items {
		p := newFake(t)
		of[alias] = p
		for k := range kindDiscover {
			p.list(k, items[k]...)
		}
		for method, result := range map[string]string{
			mcp.MethodToolsCall: `{"resultType":"complete","content":[]}`, mcp.MethodPromptsGet: `{"resultType":"complete","messages":[]}`,
			mcp.MethodResourcesRead: `{"resultType":"complete","contents":[]}`, mcp.MethodComplete: `{"resultType":"complete","completion":{"values":[]}}`,
		} {
			p.handle(method, func(_ context.Context, m *mcp.Request) (*answer, error) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.reached = append(g.reached, strings.Join([]string{alias, method, m.Name.Value + m.URI.Value + m.Ref.Name.Value + m.Ref.URI.Value}, " "))
				return says(http.StatusOK, resultFor(m, result)), nil
			})
		}
	}
	r, stop := newFakeRig(t, fakes(of), func(o *Options) {
		guarded, open := s.reg, s.reg
		guarded.Name, open.Name, open.Policy = "default", "open", nil
		open.Toolsets = []tenant.Toolset{{Name: "set"}}
		o.Store, o.Credentials = tenant.NewMemory([]*tenant.Tenant{&guarded, &open}), newKeeper().source
	})
	g.rig = r
	d := r.load(t).current()
	for i := range s.who {
		for _, m := range d.seenBy(caller{who: &s.who[i]}).own.members {
			for k := range kinds {
				// Which names are taken follows from all that is known.
				if _, err := m.refresh(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return g, stop
}

// endpoints are those of the scene.
func (g *guarded) endpoints() []Endpoint {
	all := []Endpoint{{Tenant: "default"}, {Tenant: "default", Toolset: "set"}}
	for _, u := range g.reg.Upstreams {
		all = append(all, Endpoint{Tenant: "default", Alias: u.Alias})
	}
	return all
}

// send sends a request, and gives the body or the error, and what came to upstreams.
func (g *guarded) send(who *tenant.Principal, at Endpoint, method, params string) (body string, reached []string, err error) {
	g.t.Helper()
	c := g.callOf("", method, params)
	c.Endpoint, c.Principal = at, *who
	c.NoHeaders = true
	g.mu.Lock()
	g.reached = nil
	g.mu.Unlock()
	body, err = g.try(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	return body, g.reached, err
}

// all lists all pages; nothing where there is no such endpoint.
func (g *guarded) all(who *tenant.Principal, at Endpoint, k kind) []string {
	g.t.Helper()
	out, cursor, scope := []string{}, "", ""
	for {
		body, _, err := g.send(who, at, k.method(), cursor)
		if errors.Is(err, ErrNoEndpoint) && at.Alias != "" {
			return out
		}
		if err != nil {
			g.t.Fatalf("%s at %+v: %v", k.method(), at, err)
		}
		out = append(out, names(g.t, k, body)...)
		now := field(g.t, body, "result", "cacheScope")
		if scope != "" && now != scope {
			g.t.Errorf("%s at %+v: a page is %s, the one before was %s", k.method(), at, now, scope)
		}
		scope = now
		next := field(g.t, body, "result", "nextCursor")
		if next == "" {
			return out
		}
		cursor = `"cursor":` + next
	}
}

// outcome is what becomes of a request about an item.
type outcome string

const (
	goes   outcome = "reaches its upstream"
	scopes outcome = "needs scopes"
	absent outcome = "is not there"
)

// visible tells whether an item of which that becomes is to be listed.
func (o outcome) visible() bool { return o != absent }

// outcome sends a request and gives what becomes of it. name is what the request names, and
// nothing is something that is not there, which must be refused in the same way.
func (g *guarded) outcome(who *tenant.Principal, at Endpoint, method, name string, params func(name string) string) outcome {
	g.t.Helper()
	_, reached, err := g.send(who, at, method, params(name))
	var needs *ScopeError
	switch {
	case err == nil && len(reached) == 1:
		return goes
	case errors.As(err, &needs) && len(reached) == 0:
		if slices.Equal(needs.Needed, g.held(who, needs.Needed)) {
			g.t.Errorf("%s of %s at %+v needs %v, which %+v has", method, name, at, needs.Needed, who)
		}
		return scopes
	case err == nil || len(reached) > 0:
		g.t.Errorf("%s of %s at %+v came to %v, with the error %v", method, name, at, reached, err)
		return goes
	}
	// Where one upstream has no prefix, it has all URIs that no other one has.
	const nothing = "zz_nothing"
	_, reached, other := g.send(who, at, method, params(nothing))
	taken := len(reached) > 0 || errors.As(other, &needs)
	if got, want := told(err), strings.ReplaceAll(told(other), nothing, name); got != want && !taken {
		g.t.Errorf("%s of %s at %+v is refused with %s, and of what is not there with %s", method, name, at, got, want)
	}
	if !errors.Is(err, ErrNoEndpoint) {
		wantCode(g.t, err, mcp.CodeInvalidParams)
	}
	return absent
}

// held gives those scopes that somebody has.
func (g *guarded) held(who *tenant.Principal, scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return !slices.Contains(who.Scopes, s) })
}

// told is all that a client is told of an error.
func told(err error) string {
	var e *mcp.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%d %s %s", e.Code, e.Message, e.Data)
	}
	return fmt.Sprint(err)
}
