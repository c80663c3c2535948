package federation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// found gives the names that a search for words finds, at most 50.
func (r *rig) found(words string) []string {
	r.t.Helper()
	query, _ := json.Marshal(words)
	a := r.meta("search_tools", `{"limit":50,"detail":"name","query":`+string(query)+`}`)
	var out struct {
		Results []struct{ Name string }
		Total   int
	}
	if err := json.Unmarshal([]byte(a.structured), &out); err != nil {
		r.t.Fatal(err)
	}
	list := []string{}
	for _, f := range out.Results {
		list = append(list, f.Name)
	}
	if len(list) != min(out.Total, 50) {
		r.t.Errorf("%d results of %d", len(list), out.Total)
	}
	return list
}

// A list change shows in search within a second of its announcement, also to a
// client that is not told of it.
func TestListChangesShowInSearch(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.discovers(tenant.Discovery{Mode: "search"})
		s := r.open(t, `{"toolsListChanged":true}`)
		time.Sleep(time.Second)
		p.list(kindTools, tool("old_thing"))
		p.push(mcp.NotificationToolsChanged, `{}`)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"a_old_thing"}, r.found("thing")); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
		p.list(kindTools, tool("new_thing"))
		p.push(mcp.NotificationToolsChanged, `{}`)
		time.Sleep(999 * time.Millisecond)
		if diff := cmp.Diff([]string{"a_new_thing"}, r.found("thing")); diff != "" {
			t.Errorf("found after the change (-want +got):\n%s", diff)
		}
		if n := toldOf(s); n != 0 {
			t.Errorf("told %d times, though the list stays the same", n)
		}
	})
}

// So does what an upstream says of itself, another registration, and what is read
// anew when its time is over.
func TestOtherChangesShowInSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("one"))
		b.list(kindTools, tool("two"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		if got := r.found("weather"); len(got) != 0 {
			t.Errorf("found %q", got)
		}
		a.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"All about the weather.","ttlMs":60000,"cacheScope":"public"}`)
		time.Sleep(2 * time.Minute)
		r.do(r.callOf("", mcp.MethodDiscover, ""))
		synctest.Wait()
		if got := r.found("weather"); !slices.Equal(got, []string{"a_one"}) {
			t.Errorf("by its instructions: found %q", got)
		}
		ups := slices.Clone(r.conf.Upstreams)
		ups[1].Description, ups[1].Version = "Weather", "2"
		r.reconfigure(ups...)
		if got := r.found("weather"); !slices.Contains(got, "b_two") || len(got) != 2 {
			t.Errorf("by its description: found %q", got)
		}
		r.reconfigure(ups[1])
		if got := r.found("weather"); !slices.Equal(got, []string{"b_two"}) {
			t.Errorf("without the other: found %q", got)
		}
	})
}

// Only what changed is indexed anew.
func TestIndexIsIncremental(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("one"))
		b.list(kindTools, tool("two"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		r.found("one")
		synctest.Wait()
		tools := &r.load(t).tools
		before := tools.cur.Load()
		r.found("two")
		if tools.cur.Load() != before {
			t.Error("the index was made anew without a change")
		}
		b.list(kindTools, tool("three"))
		if _, err := r.load(t).member("b").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // nobody searches meanwhile
		after := tools.cur.Load()
		if after == before || after.parts[0].part != before.parts[0].part || after.parts[1].part == before.parts[1].part {
			t.Error("want another index with the same part for the first upstream, and another one for the second")
		}
		if _, err := r.load(t).member("b").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if tools.cur.Load() != after {
			t.Error("the index was made anew for a list that is the same")
		}
	})
}

// Nobody who only lists everything pays for an index, and who is told to search finds
// it made.
func TestIndexIsMadeForThoseWhoSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("one"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.do(r.callOf("", mcp.MethodToolsList, ""))
		synctest.Wait()
		if r.load(t).tools.cur.Load() != nil {
			t.Error("an index was made for nobody")
		}
		r.discovers(tenant.Discovery{Mode: "search"})
		r.do(r.callOf("", mcp.MethodToolsList, ""))
		synctest.Wait()
		if x := r.load(t).tools.cur.Load(); !x.covers(r.load(t).current().members) {
			t.Error("the index is not ready")
		}
		if n := p.count(mcp.MethodDiscover); n != 1 {
			t.Errorf("the upstream was asked %d times what it is for", n)
		}
	})
}

// Whatever happens: what is found is listed in full, what is listed can be described
// and called, and nothing else can.
func TestFoundIsListedIsCallable(t *testing.T) {
	words := []string{"read", "write", "send", "file", "mail", "chart"}
	rapid.Check(t, func(rt *rapid.T) {
		fault := ""
		synctest.Test(t, func(t *testing.T) {
			aliases := []string{"a", "b", "c"}
			ups, doers, has := map[string]*fake{}, map[string]upstream.Doer{}, map[string][]string{}
			for _, alias := range aliases {
				ups[alias] = newFake(t)
				ups[alias].listens("")
				ups[alias].result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
				doers[alias] = ups[alias]
			}
			r, stop := newFakeRig(t, doers, nil)
			defer stop()
			ever := []string{"a_nothing", "read", "search_tools_x"}
			r.discovers(tenant.Discovery{Mode: "search", FromURL: true})
			if rapid.Bool().Draw(rt, "listen") {
				r.open(t, `{"toolsListChanged":true}`)
			}
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				alias := rapid.SampledFrom(aliases).Draw(rt, "upstream")
				p := ups[alias]
				switch rapid.SampledFrom([]string{"list", "list", "fail", "registry", "wait", "announce"}).Draw(rt, "what") {
				case "list":
					has[alias] = nil
					var items []string
					for i, name := range rapid.SliceOfDistinct(rapid.SampledFrom(words), rapid.ID).Draw(rt, "tools") {
						name = fmt.Sprint(name, i)
						has[alias] = append(has[alias], name)
						items = append(items, tool(name))
						ever = append(ever, alias+"_"+name, name)
					}
					p.list(kindTools, items...)
				case "fail":
					p.fails(mcp.MethodToolsList, upstream.ClassConnect)
				case "registry":
					conf := slices.Clone(r.conf.Upstreams)
					i := slices.IndexFunc(conf, func(u tenant.Upstream) bool { return u.Alias == alias })
					switch {
					case i < 0:
						conf = append(conf, fakeUp(alias))
					case rapid.Bool().Draw(rt, "remove"):
						conf = slices.Delete(conf, i, i+1)
					case conf[i].Prefix == tenant.PrefixNone:
						conf[i].Prefix, conf[i].Version = tenant.PrefixAlias, conf[i].Version+"x"
					default:
						conf[i].Prefix, conf[i].Version = tenant.PrefixNone, conf[i].Version+"x"
					}
					r.conf.Upstreams = conf
					r.reconfigure(conf...)
				case "wait":
					time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 90, 5000}).Draw(rt, "seconds")) * time.Second)
				case "announce":
					p.push(mcp.NotificationToolsChanged, `{}`)
					time.Sleep(time.Duration(rapid.IntRange(0, 200).Draw(rt, "ms")) * time.Millisecond)
				}
				if fault = checkFound(t, r, words, ever); fault != "" {
					return
				}
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// checkFound tells where search, the full list, details and calls do not agree on
// what there is. ever are names that there were.
func checkFound(t *testing.T, r *rig, words, ever []string) (fault string) {
	t.Helper()
	// A list drops what is too old, and a call of what is not known reads lists anew:
	// after both, lists are as the upstreams have them by now.
	callable := []string{}
	for range 2 {
		_, _ = r.try(r.callOf("", mcp.MethodToolsList, "").in("full"))
		callable = callable[:0]
		for _, name := range slices.Compact(slices.Sorted(slices.Values(ever))) {
			if _, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":{}`)); err == nil {
				callable = append(callable, name)
			}
		}
	}
	body, err := r.try(r.callOf("", mcp.MethodToolsList, "").in("full"))
	if err != nil {
		for name, args := range map[string]string{"search_tools": `{"query":"read"}`, "get_tool_details": `{"names":["a_read0"]}`} {
			_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+args))
			if err == nil {
				return name + " answers, and nothing can be listed"
			}
		}
		return ""
	}
	listed := names(t, kindTools, body)
	if diff := cmp.Diff(listed, callable); diff != "" {
		return "-listed +callable:\n" + diff
	}
	found := r.found(strings.Join(words, " "))
	slices.Sort(found)
	if diff := cmp.Diff(listed, found); diff != "" { // each has one of the words in its name
		return "-listed +found:\n" + diff
	}
	for chunk := range slices.Chunk(ever, detailsMost) {
		quoted, _ := json.Marshal(chunk)
		var out struct{ Tools []struct{ Name string } }
		if raw := r.meta("get_tool_details", `{"names":`+string(quoted)+`}`).structured; json.Unmarshal([]byte(raw), &out) != nil {
			return raw
		}
		for _, d := range out.Tools {
			if !slices.Contains(listed, d.Name) {
				return d.Name + " is described and not listed"
			}
		}
	}
	return ""
}

// An index that is not up to date finds nothing that has gone.
func TestOldIndexFindsNothingThatWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("read_one"), tool("read_two"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		r.found("read")
		d := r.load(t).current()
		old := d.tools.cur.Load()
		p.list(kindTools, tool("read_two"), tool("read_three"))
		if _, err := d.member("a").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.tools.cur.Store(old)
		d.tools.flight = make(chan struct{}) // a build that takes long
		start := time.Now()
		got := r.found("read")
		if took := time.Since(start); took != indexWait || !slices.Equal(got, []string{"a_read_two"}) {
			t.Errorf("after %v: found %q", took, got)
		}
		d.tools.mu.Lock()
		close(d.tools.flight)
		d.tools.flight = nil
		d.tools.mu.Unlock()
		if got := r.found("read"); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"a_read_three", "a_read_two"}) {
			t.Errorf("with a new index: found %q", got)
		}
	})
}

// BenchmarkSearchTools is a whole call of search_tools among the tools of a large
// tenant.
func BenchmarkSearchTools(b *testing.B) {
	for _, n := range []int{500, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			verbs := []string{"read", "write", "send", "draw", "list", "convert", "delete"}
			doers := map[string]upstream.Doer{}
			for u := range 50 {
				p := newFake(b)
				var items []string
				for i := range n / 50 {
					items = append(items, fmt.Sprintf(`{"name":"%s_thing%d","description":"%s what is of kind %d at place %d.","inputSchema":{"type":"object"}}`,
						verbs[i%len(verbs)], i, verbs[(i+u)%len(verbs)], i%97, u))
				}
				p.list(kindTools, items...)
				doers[fmt.Sprint("up", u)] = p
			}
			r, stop := newFakeRig(b, doers, nil)
			defer stop()
			conf := r.conf
			conf.Discovery.Mode = tenant.DiscoverySearch
			r.store.Replace([]*tenant.Tenant{&conf})
			raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_tools","arguments":{"query":"send something to place 7 of kind 12"},`+metaFields+`}}`, `{}`)
			m, perr := mcp.ParseRequest([]byte(raw), 256)
			if perr != nil {
				b.Fatal(perr)
			}
			for b.Loop() {
				reply, err := r.fed.Handle(b.Context(), &Call{Endpoint: Endpoint{Tenant: "default"}, Request: m})
				if err != nil {
					b.Fatal(err)
				}
				reply.Body.Release()
			}
		})
	}
}
