package federation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// An invalidated list is not served while it is read anew, but is when that
// fails, and then marked.
func TestInvalidatedLists(t *testing.T) {
	tests := []struct {
		name     string
		then     func(*fake)
		want     string
		partial  string
		wantTook time.Duration
	}{
		{"the upstream answers late", func(p *fake) {
			p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
				time.Sleep(1500 * time.Millisecond)
				return says(200, resultFor(m, listResult(kindTools, 60000, tool("new")))), nil
			})
		}, "a_new", "", 1500 * time.Millisecond},
		{"the upstream fails", func(p *fake) { p.fails(mcp.MethodToolsList, upstream.ClassConnect) },
			"a_old", `[{"alias":"a","reason":"connect"}]`, 0},
		{"the upstream is silent", func(p *fake) { p.hangs(mcp.MethodToolsList, time.Hour, upstream.ClassTimeout) },
			"a_old", `[{"alias":"a","reason":"timeout"}]`, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				p.list(kindTools, tool("old"))
				r.listed("", kindTools)
				tt.then(p)
				r.load(t).member("a").invalidate(t.Context(), kindTools)
				start := time.Now()
				got, partial := r.listed("", kindTools)
				if took := time.Since(start); took != tt.wantTook {
					t.Errorf("it took %v, want %v", took, tt.wantTook)
				}
				if !cmp.Equal(got, []string{tt.want}) || partial != tt.partial {
					t.Errorf("got %v, partial %s, want %s, %s", got, partial, tt.want, tt.partial)
				}
			})
		})
	}
}

// A list with ttlMs 0 is revalidated within 250 ms, or served as it was.
func TestZeroTTLIsNotWaitedForLong(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		answer := func(delay time.Duration, name string) {
			p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
				time.Sleep(delay)
				return says(200, resultFor(m, listResult(kindTools, 0, tool(name)))), nil
			})
		}
		answer(0, "one")
		r.listed("", kindTools)
		answer(400*time.Millisecond, "two")
		start := time.Now()
		got, partial := r.listed("", kindTools)
		if took := time.Since(start); took != 250*time.Millisecond || !cmp.Equal(got, []string{"a_one"}) || partial != `[{"alias":"a","reason":"timeout"}]` {
			t.Errorf("after %v: %v, partial %s", took, got, partial)
		}
		time.Sleep(time.Second)
		answer(100*time.Millisecond, "three")
		if got, partial := r.listed("", kindTools); !cmp.Equal(got, []string{"a_three"}) || partial != "" {
			t.Errorf("got %v, partial %s", got, partial)
		}
	})
}

// How long a list is fresh, and how it is shown to clients.
func TestHintsOfLists(t *testing.T) {
	hour := time.Hour
	tests := []struct {
		name    string
		listTTL *time.Duration
		pages   []string // hints of each page
		want    string   // of the merged list, with another one of 100 s, public
	}{
		{"absent", nil, []string{``}, "60000 private"},
		{"absent with a configured default", &hour, []string{`"cacheScope":"public"`}, "100000 public"},
		{"negative", nil, []string{`"ttlMs":-1,"cacheScope":"public"`}, "0 public"},
		{"no number", nil, []string{`"ttlMs":"x","cacheScope":"public"`}, "60000 public"},
		{"a fraction", nil, []string{`"ttlMs":2500.7,"cacheScope":"public"`}, "2500 public"},
		{"enormous", nil, []string{`"ttlMs":1e300,"cacheScope":"public"`}, "100000 public"},
		{"the least of the pages", nil, []string{`"ttlMs":9000,"cacheScope":"public"`, `"ttlMs":4000,"cacheScope":"public"`}, "4000 public"},
		{"private", nil, []string{`"ttlMs":9000,"cacheScope":"private"`}, "9000 private"},
		{"private on the first page", nil, []string{`"ttlMs":9000,"cacheScope":"private"`, `"ttlMs":9000,"cacheScope":"public"`}, "9000 private"},
		{"private on one between", nil, []string{`"ttlMs":9000,"cacheScope":"public"`, `"ttlMs":9000,"cacheScope":"private"`, `"ttlMs":9000,"cacheScope":"public"`}, "9000 private"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, other := newFake(t), newFake(t)
				other.result(mcp.MethodToolsList, listResult(kindTools, 100_000, tool("y")))
				n := 0
				p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
					hints, next := tt.pages[n], ""
					if n++; n < len(tt.pages) {
						next = fmt.Sprintf(`,"nextCursor":"%d"`, n)
					}
					if hints != "" {
						hints = "," + hints
					}
					return says(200, resultFor(m, `{"tools":[`+tool(fmt.Sprint("t", n))+`]`+hints+next+`}`)), nil
				})
				store := registered(fakeUp("a"), fakeUp("b"))
				store[0].Upstreams[0].Cache.ListTTL = tt.listTTL
				r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p, "b": other}), func(o *Options) { o.Store = tenant.NewMemory(store) })
				defer stop()
				body := r.do(r.callOf("", mcp.MethodToolsList, ""))
				got := field(t, body, "result", "ttlMs") + " " + strings.Trim(field(t, body, "result", "cacheScope"), `"`)
				if got != tt.want {
					t.Errorf("hints = %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// The stale windows may be set for one upstream.
func TestStaleWindowsOfOneUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("x"))
		store := registered(fakeUp("a"))
		store[0].Upstreams[0].Cache = tenant.CacheTimes{Stale: time.Second, StaleIfError: 10 * time.Minute}
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Store = tenant.NewMemory(store) })
		defer stop()
		r.listed("", kindTools)
		p.list(kindTools, tool("y"))
		time.Sleep(62 * time.Second)
		if got, _ := r.listed("", kindTools); !cmp.Equal(got, []string{"a_y"}) {
			t.Errorf("beyond the stale window: %v", got)
		}
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		time.Sleep(5 * time.Minute)
		if got, _ := r.listed("", kindTools); !cmp.Equal(got, []string{"a_y"}) {
			t.Errorf("while it may be used: %v", got)
		}
		time.Sleep(10 * time.Minute)
		_, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
		wantCode(t, err, mcp.CodeInternal)
	})
}

// Cursors are good on any replica, and a walk that began as private stays so.
func TestCursorsAcrossReplicasAndScopes(t *testing.T) {
	ring := seal.NewRandom()
	p := newFake(t)
	script := func(scope string) {
		p.result(mcp.MethodToolsList, fmt.Sprintf(`{"tools":[%s,%s,%s],"ttlMs":0,"cacheScope":%q}`, tool("x"), tool("y"), tool("z"), scope))
	}
	script("private")
	replica := func() *rig {
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Ring, o.Limits.PageSize = ring, 1 })
		t.Cleanup(stop)
		return r
	}
	one, two := replica(), replica()
	cursor := field(t, one.do(one.callOf("", mcp.MethodToolsList, "")), "result", "nextCursor")
	script("public")
	body := two.do(two.callOf("", mcp.MethodToolsList, `"cursor":`+cursor))
	if got := names(t, kindTools, body); !cmp.Equal(got, []string{"a_y"}) {
		t.Errorf("the second page is %v", got)
	}
	if got := field(t, body, "result", "cacheScope"); got != `"private"` {
		t.Errorf("cacheScope = %s on the second page of a private list", got)
	}
	// A cursor names a place, not an offset: it holds when its item is gone.
	p.list(kindTools, tool("w"), tool("z"))
	body = one.do(one.callOf("", mcp.MethodToolsList, `"cursor":`+field(t, body, "result", "nextCursor")))
	if got := names(t, kindTools, body); !cmp.Equal(got, []string{"a_z"}) {
		t.Errorf("after a change the next page is %v", got)
	}
}

// Nothing is shared between tenants, and no answer of before an update is stored
// after it.
func TestWhatIsCachedOfReads(t *testing.T) {
	p := newFake(t)
	p.listens("")
	p.result(mcp.MethodResourcesRead, `{"contents":[],"ttlMs":60000,"cacheScope":"public"}`)
	two := append(registered(fakeUp("a")), &tenant.Tenant{Name: "acme", Separator: "_", Upstreams: []tenant.Upstream{fakeUp("a")}})
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Store = tenant.NewMemory(two) })
	defer stop()
	for _, name := range []string{"default", "acme", "default", "acme"} {
		c := r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)
		c.Endpoint.Tenant = name
		r.do(c)
	}
	if n := p.count(mcp.MethodResourcesRead); n != 2 {
		t.Errorf("two tenants asked the upstream %d times, want once each", n)
	}
	m := r.load(t).member("a")
	p.handle(mcp.MethodResourcesRead, func(ctx context.Context, req *mcp.Request) (*answer, error) {
		l := &listener{hub: m.domain.hub, member: m, updated: map[string][]byte{}}
		l.resourceUpdated(ctx, "doc://2", nil)
		return says(200, resultFor(req, `{"contents":[],"ttlMs":60000,"cacheScope":"public"}`)), nil
	})
	before := p.count(mcp.MethodResourcesRead)
	for range 2 {
		r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://2"`))
	}
	if n := p.count(mcp.MethodResourcesRead) - before; n != 2 {
		t.Errorf("the upstream was asked %d times, want 2: the first answer was outdated when it came", n)
	}
}

// A tenant may have its own separator and page size.
func TestSettingsOfATenant(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"), tool("y"))
	p.result(mcp.MethodToolsCall, `{"content":[]}`)
	store := registered(fakeUp("a"))
	store[0].Separator, store[0].PageSize = "__", 1
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Store = tenant.NewMemory(store) })
	defer stop()
	if got, _ := r.listed("", kindTools); !cmp.Equal(got, []string{"a__x"}) {
		t.Errorf("got %v", got)
	}
	r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a__y"`))
	_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_y"`))
	wantCode(t, err, mcp.CodeInvalidParams)
}

// Instructions of many upstreams are bounded, at the border of a character.
func TestInstructionsAreBounded(t *testing.T) {
	a, b := newFake(t), newFake(t)
	long := strings.Repeat("é", 60)
	for _, p := range []*fake{a, b} {
		p.result(mcp.MethodDiscover, `{"capabilities":{},"instructions":"`+long+`","ttlMs":1000}`)
	}
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), func(o *Options) { o.Limits.Instructions = 21 })
	defer stop()
	part := strings.Repeat("é", 10) + " [shortened]"
	want := `"## a\n` + part + `\n\n## b\n` + part + `"`
	if got := field(t, r.do(r.callOf("", mcp.MethodDiscover, "")), "result", "instructions"); got != want {
		t.Errorf("instructions = %s, want %s", got, want)
	}
}

// Requests that are under way are bounded per tenant.
func TestRequestsUnderWayAreBounded(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	store := registered(fakeUp("a"))
	store[0].Limits.InFlight = 1
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), func(o *Options) { o.Store = tenant.NewMemory(store) })
	defer stop()
	r.listed("", kindTools)
	p.handle(mcp.MethodToolsCall, func(_ context.Context, m *mcp.Request) (*answer, error) {
		_, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
		wantCode(t, err, CodeOverQuota)
		return says(200, resultFor(m, `{"content":[]}`)), nil
	})
	r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
	r.listed("", kindTools)
	if got := gathered(t, r.fed, "causeway_quota_rejections_total"); !strings.Contains(got, `"in_flight"`) {
		t.Errorf("series = %s", got)
	}
}

// Completions go where their ref points to, which has its original form there.
func TestCompletionIsRoutedByItsRef(t *testing.T) {
	a, b := newFake(t), newFake(t)
	b.list(kindPrompts, `{"name":"odd name"}`)
	b.list(kindTemplates, `{"uriTemplate":"doc://{id}","name":"t"}`)
	var got string
	b.handle(mcp.MethodComplete, func(_ context.Context, m *mcp.Request) (*answer, error) {
		got = string(m.Ref.In(m.Raw))
		return says(200, resultFor(m, `{"completion":{"values":["x"]}}`)), nil
	})
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), nil)
	defer stop()
	prompts, _ := r.listed("", kindPrompts)
	for ref, want := range map[string]string{
		`{"type":"ref/prompt","name":"` + prompts[0] + `"}`:        `{"type":"ref/prompt","name":"odd name"}`,
		`{"type":"ref/resource","uri":"b+doc://{id}"}`:             `{"type":"ref/resource","uri":"doc://{id}"}`,
		`{"x":1e400,"type":"ref/resource","uri":"b+doc://{else}"}`: `{"x":1e400,"type":"ref/resource","uri":"doc://{else}"}`,
	} {
		r.do(r.callOf("", mcp.MethodComplete, `"ref":`+ref+`,"argument":{"name":"id","value":"1"}`))
		if got != want {
			t.Errorf("ref %s reached the upstream as %s, want %s", ref, got, want)
		}
	}
	for _, ref := range []string{`{"type":"ref/prompt","name":"b_none"}`, `{"type":"ref/resource","uri":"c+doc://1"}`, `{"type":"ref/odd"}`, `{"type":"ref/prompt","uri":"b+doc://1"}`} {
		_, err := r.try(r.callOf("", mcp.MethodComplete, `"ref":`+ref+`,"argument":{"name":"id","value":"1"}`))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
}

// Concurrent calls of a name that is not known cause one refresh.
func TestCallsOfUnknownNamesFold(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.listed("", kindTools)
		p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
			time.Sleep(time.Second)
			return says(200, resultFor(m, listResult(kindTools, 60000, tool("one"), tool("two")))), nil
		})
		p.result(mcp.MethodToolsCall, `{"content":[]}`)
		before := p.count(mcp.MethodToolsList)
		done := make(chan error)
		for i := range 20 {
			name := []string{"a_two", "a_three"}[i%2]
			go func() {
				_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`"`))
				done <- err
			}()
		}
		refused := 0
		for range 20 {
			if err := <-done; err != nil {
				wantCode(t, err, mcp.CodeInvalidParams)
				refused++
			}
		}
		if n := p.count(mcp.MethodToolsList) - before; n != 1 || refused != 10 {
			t.Errorf("%d refreshes, %d calls refused, want 1 and 10", n, refused)
		}
	})
}
