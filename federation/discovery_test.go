package federation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// metaNames are the tools that find tools.
var metaNames = []string{"call_tool", "get_tool_details", "list_upstreams", "search_tools"}

// discovers changes how the tenant's tools are found.
func (r *rig) discovers(how tenant.Discovery) {
	r.conf.Discovery = how
	r.reconfigure(r.conf.Upstreams...)
}

// in makes the call come over a URL that chooses a mode.
func (c *Call) in(mode tenant.DiscoveryMode) *Call {
	c.Endpoint.Discovery = mode
	return c
}

func TestModes(t *testing.T) {
	all := []string{"a_one", "a_two", "b_three"}
	pinned := []string{"a_one", "call_tool", "get_tool_details", "list_upstreams", "search_tools"}
	tests := []struct {
		name  string
		how   tenant.Discovery
		url   tenant.DiscoveryMode
		alias string
		want  []string
	}{
		{name: "nothing said", want: all},
		{name: "full", how: tenant.Discovery{Mode: "full", Pinned: []string{"a_one"}}, want: all},
		{name: "search", how: tenant.Discovery{Mode: "search"}, want: metaNames},
		{name: "search with a pinned tool", how: tenant.Discovery{Mode: "search", Pinned: []string{"a_one", "a_nothing"}}, want: pinned},
		{name: "search with a pattern", how: tenant.Discovery{Mode: "search", Pinned: []string{"?_t[hw]*"}}, want: slices.Concat([]string{"a_two", "b_three"}, metaNames)},
		{name: "search with all pinned", how: tenant.Discovery{Mode: "search", Pinned: []string{"*"}}, want: slices.Concat(all, metaNames)},
		{name: "auto with few tools", how: tenant.Discovery{Mode: "auto"}, want: all},
		{name: "auto with many tools", how: tenant.Discovery{Mode: "auto", AutoThresholdTokens: 10, Pinned: []string{"a_one"}}, want: pinned},
		{name: "search in the URL", how: tenant.Discovery{FromURL: true}, url: "search", want: metaNames},
		{name: "full in the URL", how: tenant.Discovery{Mode: "search", FromURL: true}, url: "full", want: all},
		{name: "auto in the URL", how: tenant.Discovery{Mode: "search", FromURL: true}, url: "auto", want: all},
		{name: "one upstream alone", how: tenant.Discovery{Mode: "search"}, alias: "b", want: []string{"three"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := newFake(t), newFake(t)
			a.list(kindTools, tool("two"), tool("one"))
			b.list(kindTools, tool("three"))
			for _, p := range []*fake{a, b} {
				p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
			}
			r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), nil)
			defer stop()
			r.discovers(tt.how)
			got := names(t, kindTools, r.do(r.callOf(tt.alias, mcp.MethodToolsList, "").in(tt.url)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			// Prompts are not searched for, and every tool can be called by its name.
			r.do(r.callOf(tt.alias, mcp.MethodPromptsList, "").in(tt.url))
			if tt.alias == "" {
				for _, name := range all {
					r.do(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`"`).in(tt.url))
				}
			}
			// What is listed can be called.
			for _, name := range got {
				if _, err := r.try(r.callOf(tt.alias, mcp.MethodToolsCall, `"name":"`+name+`"`).in(tt.url)); err != nil {
					t.Errorf("%s is listed, and its call gives %v", name, err)
				}
			}
		})
	}
}

// Where all tools are listed, those that find tools are not there.
func TestMetaToolsBelongToTheirModes(t *testing.T) {
	r := newRig(t, nil, up("a", newPeer(t)))
	r.discovers(tenant.Discovery{FromURL: true})
	for _, name := range metaNames {
		call := func(alias string, mode tenant.DiscoveryMode) error {
			_, err := r.try(r.callOf(alias, mcp.MethodToolsCall, `"name":"`+name+`"`).in(mode))
			return err
		}
		wantCode(t, call("", ""), mcp.CodeInvalidParams)
		wantCode(t, call("", "full"), mcp.CodeInvalidParams)
		wantCode(t, call("a", ""), mcp.CodeInvalidParams)
		if err := call("", "search"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := call("", "auto"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, err := r.try(r.callOf("", mcp.MethodPromptsGet, `"name":"`+name+`"`).in("search"))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
}

func TestModesThatAreRefused(t *testing.T) {
	tests := []struct {
		name    string
		fromURL bool
		at      Endpoint
	}{
		{"an unknown mode", true, Endpoint{Tenant: "default", Discovery: "all"}},
		{"another letter case", true, Endpoint{Tenant: "default", Discovery: "Search"}},
		{"two modes", true, Endpoint{Tenant: "default", Discovery: "full,search"}},
		{"the tenant does not allow it", false, Endpoint{Tenant: "default", Discovery: "full"}},
		{"one upstream alone", true, Endpoint{Tenant: "default", Alias: "a", Discovery: "search"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil, up("a", newPeer(t)))
			r.discovers(tenant.Discovery{FromURL: tt.fromURL})
			wantCode(t, r.fed.Check(t.Context(), tt.at), mcp.CodeInvalidRequest)
			c := r.callOf("", mcp.MethodToolsList, "")
			c.Endpoint = tt.at
			_, err := r.try(c)
			wantCode(t, err, mcp.CodeInvalidRequest)
			c = r.callOf("", mcp.MethodListen, `"notifications":{}`)
			c.Endpoint = tt.at
			_, err = r.fed.Listen(t.Context(), c)
			wantCode(t, err, mcp.CodeInvalidRequest)
		})
	}
}

// A list of the tools that find tools waits for no upstream, and whatever becomes of
// the upstreams does not touch it.
func TestSearchListsWaitForNobody(t *testing.T) {
	tests := []struct {
		name     string
		pinned   []string
		want     []string
		partial  string
		wantTook time.Duration
		wantTTL  string
	}{
		{"nothing pinned", nil, metaNames, "", 0, "60000"},
		{"a tool of another upstream", []string{"good_one"}, slices.Concat(metaNames[:2], []string{"good_one"}, metaNames[2:]), "", 0, "30000"},
		{"patterns of another upstream", []string{"good_*", "silent"}, slices.Concat(metaNames[:2], []string{"good_one"}, metaNames[2:]), "", 0, "30000"},
		{"a tool of the silent one", []string{"silent_x"}, metaNames, `[{"alias":"silent","reason":"timeout"}]`, 2 * time.Second, "0"},
		{"a pattern of any", []string{"*x"}, metaNames, `[{"alias":"silent","reason":"timeout"}]`, 2 * time.Second, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent, good := newFake(t), newFake(t)
				for _, method := range []string{mcp.MethodToolsList, mcp.MethodDiscover} {
					silent.hangs(method, time.Hour, upstream.ClassTimeout)
				}
				good.result(mcp.MethodToolsList, listResult(kindTools, 30000, tool("one")))
				r, stop := newFakeRig(t, fakes(map[string]*fake{"silent": silent, "good": good}), nil)
				defer stop()
				r.discovers(tenant.Discovery{Mode: "search", Pinned: tt.pinned})
				start := time.Now()
				body := r.do(r.callOf("", mcp.MethodToolsList, ""))
				if took := time.Since(start); took != tt.wantTook {
					t.Errorf("it took %v, want %v", took, tt.wantTook)
				}
				if diff := cmp.Diff(tt.want, names(t, kindTools, body)); diff != "" {
					t.Errorf("tools (-want +got):\n%s", diff)
				}
				if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != tt.partial {
					t.Errorf("partial = %s, want %s", got, tt.partial)
				}
				if got := field(t, body, "result", "ttlMs"); got != tt.wantTTL {
					t.Errorf("ttlMs = %s, want %s", got, tt.wantTTL)
				}
				if got := field(t, body, "result", "cacheScope"); got != `"public"` {
					t.Errorf("cacheScope = %s", got)
				}
			})
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		p := newFake(t)
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search", Pinned: []string{"a_x"}})
		got, partial := r.listed("", kindTools)
		if !slices.Equal(got, metaNames) || partial != `[{"alias":"a","reason":"connect"}]` {
			t.Errorf("tools %q, partial %s", got, partial)
		}
	})
}

// A walk over pages does not lead from one list into the other.
func TestPagesOfModes(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("x"), tool("y"), tool("z"))
	r := newRig(t, func(l *Limits) { l.PageSize = 2 }, up("d", p))
	how := tenant.Discovery{Mode: "auto", AutoThresholdTokens: 1, Pinned: []string{"d_?"}}
	r.discovers(how)
	var got []string
	cursor := ""
	for range 4 {
		body := r.do(r.callOf("", mcp.MethodToolsList, cursor))
		got = append(got, names(t, kindTools, body)...)
		next := field(t, body, "result", "nextCursor")
		if next == "" {
			break
		}
		cursor = `"cursor":` + next
	}
	want := []string{"call_tool", "d_x", "d_y", "d_z", "get_tool_details", "list_upstreams", "search_tools"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	how.AutoThresholdTokens = 100000
	r.discovers(how)
	_, err := r.try(r.callOf("", mcp.MethodToolsList, cursor))
	wantCode(t, err, mcp.CodeInvalidParams)
}

// No upstream's tool takes the place of those that find tools.
func TestMetaToolsAreNotShadowed(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("search_tools"), tool("call_tool"), tool("mine"))
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[{"type":"text","text":"theirs"}]}`)
	u := up("a", p)
	u.Prefix = tenant.PrefixNone
	r := newRig(t, nil, u)
	r.discovers(tenant.Discovery{Mode: "search", Pinned: []string{"*"}, FromURL: true})
	theirs := []string{"a_call_tool", "a_search_tools", "mine"}
	if got := names(t, kindTools, r.do(r.callOf("", mcp.MethodToolsList, "").in("full"))); !slices.Equal(got, theirs) {
		t.Errorf("all tools: %q, want %q", got, theirs)
	}
	want := slices.Sorted(slices.Values(slices.Concat(theirs, metaNames)))
	if got := names(t, kindTools, r.do(r.callOf("", mcp.MethodToolsList, ""))); !slices.Equal(got, want) {
		t.Errorf("with all pinned: %q, want %q", got, want)
	}
	if a := r.meta("search_tools", `{"query":"search tools"}`); !strings.Contains(a.text, "a_search_tools") {
		t.Errorf("search_tools answers %q", a.text)
	}
	if got := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_search_tools"`)); !strings.Contains(got, "theirs") {
		t.Errorf("a_search_tools answers %s", got)
	}
}

// server/discover tells a model what to do, and nothing that depends on when it is
// asked.
func TestInstructionsOfModes(t *testing.T) {
	p := newPeer(t)
	p.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Ask for a forecast.","ttlMs":60000,"cacheScope":"public"}`)
	r := newRig(t, nil, up("a", p))
	tests := []struct {
		mode tenant.DiscoveryMode
		want string // how they begin
	}{
		{"full", "## a\nAsk for a forecast."},
		{"search", "The tools of this server are not all listed. Find them with search_tools"},
		{"auto", "If search_tools is listed, the other tools of this server are not. Find them with search_tools"},
	}
	for _, tt := range tests {
		t.Run(string(tt.mode), func(t *testing.T) {
			r.discovers(tenant.Discovery{Mode: tt.mode})
			body := r.do(r.callOf("", mcp.MethodDiscover, ""))
			raw := []byte(body)
			text, _ := mcp.String(raw, mcp.Find(raw, mcp.Find(raw, whole(raw), "result"), "instructions"))
			if !strings.HasPrefix(text, tt.want) || !strings.HasSuffix(text, "\n## a\nAsk for a forecast.") && tt.mode != "full" {
				t.Errorf("instructions: %q", text)
			}
			for _, name := range metaNames {
				if strings.Contains(text, name) != (tt.mode != "full") {
					t.Errorf("%s is named, or not: %q", name, text)
				}
			}
		})
	}
}

// toldOf gives the notifications that a stream has got by now.
func toldOf(s *Subscription) (n int) {
	for {
		switch message, open := s.Next(); {
		case message != nil:
			n++
		case !open:
			return -1 // it ended
		default:
			return n
		}
	}
}

// A stream is told of changes of the list that its endpoint shows, and of no others.
func TestStreamsOfModes(t *testing.T) {
	small := []string{tool("one"), tool("pinned")}
	var large []string
	for i := range 40 {
		large = append(large, tool(fmt.Sprint("many", i)))
	}
	large = append(large, tool("pinned"))
	tests := []struct {
		name   string
		change func(p *fake, r *rig)
		want   map[tenant.DiscoveryMode]int // -1 for a stream that ends
	}{
		{"another tool", func(p *fake, _ *rig) { p.list(kindTools, tool("two"), tool("pinned")) },
			map[tenant.DiscoveryMode]int{"full": 1, "search": 0, "auto": 1}},
		{"the pinned tool", func(p *fake, _ *rig) {
			p.list(kindTools, tool("one"), `{"name":"pinned","description":"new","inputSchema":{"type":"object"}}`)
		}, map[tenant.DiscoveryMode]int{"full": 1, "search": 1, "auto": 1}},
		{"more tools than a client should read", func(p *fake, _ *rig) { p.list(kindTools, large...) },
			map[tenant.DiscoveryMode]int{"full": 1, "search": 0, "auto": 1}},
		{"an announcement without a change", func(*fake, *rig) {},
			map[tenant.DiscoveryMode]int{"full": 0, "search": 0, "auto": 0}},
		{"another threshold", func(_ *fake, r *rig) {
			r.discovers(tenant.Discovery{Mode: "full", AutoThresholdTokens: 5, Pinned: []string{"a_pinned"}, FromURL: true})
		}, map[tenant.DiscoveryMode]int{"": 0, "full": 0, "search": 0, "auto": 1}},
		{"other pinned tools", func(_ *fake, r *rig) {
			r.discovers(tenant.Discovery{Mode: "full", AutoThresholdTokens: 200, FromURL: true})
		}, map[tenant.DiscoveryMode]int{"": 0, "full": 0, "search": 1, "auto": 0}},
		{"another mode", func(_ *fake, r *rig) {
			r.discovers(tenant.Discovery{Mode: "search", AutoThresholdTokens: 200, Pinned: []string{"a_pinned"}, FromURL: true})
		}, map[tenant.DiscoveryMode]int{"": 1, "full": 0, "search": 0, "auto": 0}},
		{"another mode that shows the same", func(_ *fake, r *rig) {
			r.discovers(tenant.Discovery{Mode: "auto", AutoThresholdTokens: 200, Pinned: []string{"a_pinned"}, FromURL: true})
		}, map[tenant.DiscoveryMode]int{"": 0, "full": 0, "search": 0, "auto": 0}},
		{"no mode in the URL any more", func(_ *fake, r *rig) {
			r.discovers(tenant.Discovery{Mode: "full", AutoThresholdTokens: 200, Pinned: []string{"a_pinned"}})
		}, map[tenant.DiscoveryMode]int{"": 0, "full": -1, "search": -1, "auto": -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				p.list(kindTools, small...)
				r.discovers(tenant.Discovery{Mode: "full", AutoThresholdTokens: 200, Pinned: []string{"a_pinned"}, FromURL: true})
				r.do(r.callOf("", mcp.MethodToolsList, ""))
				streams := map[tenant.DiscoveryMode]*Subscription{}
				for mode := range tt.want {
					s, err := r.fed.Listen(t.Context(), r.callOf("", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`).in(mode))
					if err != nil {
						t.Fatal(err)
					}
					streams[mode] = s
				}
				time.Sleep(time.Second)
				synctest.Wait()
				tt.change(p, r)
				p.push(mcp.NotificationToolsChanged, `{}`)
				time.Sleep(time.Second)
				synctest.Wait()
				got := map[tenant.DiscoveryMode]int{}
				for mode, s := range streams {
					got[mode] = toldOf(s)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("notifications (-want +got):\n%s", diff)
				}
				// After a change of the mode, changes of the new list are told.
				if s := streams[""]; s != nil && r.conf.Discovery.Mode == "search" {
					p.list(kindTools, tool("another"), tool("pinned"))
					p.push(mcp.NotificationToolsChanged, `{}`)
					time.Sleep(time.Second)
					if n := toldOf(s); n != 0 {
						t.Errorf("told %d times of what it does not see", n)
					}
				}
			})
		})
	}
}

// What lists have saved, and what upstreams' definitions cost, is counted.
func TestMetricsOfDiscovery(t *testing.T) {
	p := newPeer(t)
	text := strings.Repeat("Find the way. ", 400)
	p.list(kindTools, `{"name":"long","description":"`+text+`","inputSchema":{"type":"object"}}`)
	r := newRig(t, nil, up("a", p))
	r.discovers(tenant.Discovery{Mode: "search", FromURL: true})
	r.do(r.callOf("", mcp.MethodToolsList, "").in("full"))
	if got := metric(t, r.fed, "causeway_tokens_saved_total"); got != 0 {
		t.Errorf("a full list saved %v tokens", got)
	}
	defined := metric(t, r.fed, "causeway_catalog_tokens")
	if defined < float64(len(text))/4 || defined > float64(len(text))/4+50 {
		t.Errorf("the tool is estimated at %v tokens, it has %d bytes", defined, len(text))
	}
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	saved := metric(t, r.fed, "causeway_tokens_saved_total")
	if saved <= 0 || saved >= defined {
		t.Errorf("a list saved %v of %v tokens", saved, defined)
	}
	r.meta("search_tools", `{"query":"way"}`)
	r.meta("search_tools", `{}`) // is none
	if got := metric(t, r.fed, "causeway_search_requests_total"); got != 1 {
		t.Errorf("%v searches, want 1", got)
	}
	r.reconfigure()
	if got := gathered(t, r.fed, "causeway_catalog_tokens"); got != "" {
		t.Errorf("an upstream that went has %s", got)
	}
}

// metric gives the sum of a metric's series.
func metric(t *testing.T, f *Federation, name string) (sum float64) {
	t.Helper()
	families, err := registryOf(f).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, mf := range families {
		if mf.GetName() == name {
			for _, m := range mf.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestEstimateTokens(t *testing.T) {
	tests := []struct {
		name, text string
		want       int
	}{
		{"empty", "", 0},
		{"ASCII", "abcdefgh", 2},
		{"a rest", "abcdefghi", 3},
		{"Chinese", "天气", 2},
		{"mixed", "abc天气", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := estimateTokens([]byte(tt.text)); got != tt.want {
				t.Errorf("%q is estimated at %d, want %d", tt.text, got, tt.want)
			}
		})
	}
}

// A client that leaves while upstreams are waited for gets the reason, not a part.
func TestSearchOfAClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := newFake(t)
		silent.hangs(mcp.MethodToolsList, time.Hour, upstream.ClassTimeout)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"silent": silent}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		for _, name := range metaNames[1:] {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			args := map[string]string{"search_tools": `{"query":"x"}`, "get_tool_details": `{"names":["x"]}`, "list_upstreams": `{}`}[name]
			if _, err := r.fed.Handle(ctx, r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+args)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
