package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// fakes makes the collaborators of newFakeRig.
func fakes(of map[string]*fake) map[string]upstream.Doer {
	out := map[string]upstream.Doer{}
	for alias, f := range of {
		out[alias] = f
	}
	return out
}

// listed gives the names of a list and what is marked as partial.
func (r *rig) listed(alias string, k kind) (names_ []string, partial string) {
	r.t.Helper()
	body := r.do(r.callOf(alias, k.method(), ""))
	return names(r.t, k, body), field(r.t, body, "result", "_meta", mcp.MetaPartial)
}

// What has left the list after a long outage cannot be called either, and its
// clients are told when it goes and when it comes back.
func TestWhatLeftTheListIsNotCallable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("x"))
		b.list(kindTools, tool("y"))
		a.listens("")
		b.listens("")
		a.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), nil)
		defer stop()
		r.listed("", kindTools)
		s := r.listen("", `{"toolsListChanged":true}`)
		defer s.Close()
		time.Sleep(time.Second)
		none(t, s)
		a.fails(mcp.MethodToolsList, upstream.ClassConnect)
		time.Sleep(2 * time.Hour)
		got, partial := r.listed("", kindTools)
		if diff := cmp.Diff([]string{"b_y"}, got); diff != "" || partial != `[{"alias":"a","reason":"connect"}]` {
			t.Errorf("names (-want +got):\n%spartial = %s", diff, partial)
		}
		_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
		if classOf(err) != upstream.ClassConnect {
			t.Errorf("error = %v, want the upstream's failure", err)
		}
		if n := a.count(mcp.MethodToolsCall); n != 0 {
			t.Errorf("%d calls reached the upstream", n)
		}
		time.Sleep(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("when it left: %s", got)
		}
		a.list(kindTools, tool("x"))
		r.listed("", kindTools)
		time.Sleep(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("when it came back: %s", got)
		}
		none(t, s)
	})
}

// An upstream that misses the deadline of a list is not waited for again until
// it answers: that its requests fail in the end is no answer.
func TestAnUpstreamThatNeverAnswersIsWaitedForOnce(t *testing.T) {
	for _, class := range []upstream.Class{upstream.ClassConnect, upstream.ClassTimeout, upstream.ClassInterrupted} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good, bad := newFake(t), newFake(t)
				good.list(kindTools, tool("x"))
				bad.hangs(mcp.MethodToolsList, 2100*time.Millisecond, class)
				r, stop := newFakeRig(t, fakes(map[string]*fake{"good": good, "bad": bad}), nil)
				defer stop()
				for i := range 4 {
					start := time.Now()
					got, partial := r.listed("", kindTools)
					took, want := time.Since(start), time.Duration(0)
					if i == 0 {
						want = 2 * time.Second
					}
					if took != want || !cmp.Equal(got, []string{"good_x"}) || !strings.Contains(partial, `"alias":"bad"`) {
						t.Errorf("list %d took %v, want %v; got %v, partial %s", i, took, want, got, partial)
					}
					time.Sleep(20 * time.Second)
				}
				bad.list(kindTools, tool("y"))
				r.listed("", kindTools)
				time.Sleep(time.Second)
				if got, partial := r.listed("", kindTools); len(got) != 2 || partial != "" {
					t.Errorf("after it answered: %v, partial %s", got, partial)
				}
			})
		})
	}
}

// An upstream that fails at once is asked by each list.
func TestAnUpstreamThatFailsAtOnceIsAskedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := newFake(t), newFake(t)
		bad.fails(mcp.MethodToolsList, upstream.ClassConnect)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"good": good, "bad": bad}), nil)
		defer stop()
		r.listed("", kindTools)
		bad.list(kindTools, tool("y"))
		if got, partial := r.listed("", kindTools); !cmp.Equal(got, []string{"bad_y"}) || partial != "" {
			t.Errorf("got %v, partial %s", got, partial)
		}
	})
}

// A list that is invalidated while the list of another upstream is waited for is
// not served as it was.
func TestInvalidationWhileAnotherUpstreamIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, known := range []bool{true, false} {
			quick, slow := newFake(t), newFake(t)
			quick.list(kindTools, tool("old"))
			slow.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
				time.Sleep(time.Second)
				return says(200, resultFor(m, listResult(kindTools, 1000, tool("y")))), nil
			})
			r, stop := newFakeRig(t, fakes(map[string]*fake{"quick": quick, "slow": slow}), nil)
			if known {
				r.listed("quick", kindTools)
			}
			got := make(chan []string)
			go func() {
				names, _ := r.listed("", kindTools)
				got <- names
			}()
			time.Sleep(500 * time.Millisecond)
			quick.list(kindTools, tool("new"))
			r.fed.domains["default"].member("quick").invalidate(t.Context(), kindTools)
			if diff := cmp.Diff([]string{"quick_new", "slow_y"}, <-got); diff != "" {
				t.Errorf("known before: %v: names (-want +got):\n%s", known, diff)
			}
			stop()
		}
	})
}

// A change is told even when another upstream's first list arrives between its
// arrival and the look at the views.
func TestChangeBesideAFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("x"))
		b.list(kindTools, tool("y"))
		a.listens("")
		b.listens("")
		var hook func()
		log := slog.New(logHook(func(msg string) {
			if strings.Contains(msg, "left out of a list") && hook != nil {
				hook()
			}
		}))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": a, "b": b}), func(o *Options) { o.Logger = log })
		defer stop()
		d := r.load(t)
		if _, err := d.member("b").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		s := r.listen("", `{"toolsListChanged":true}`)
		defer s.Close()
		time.Sleep(time.Second)
		none(t, s)
		b.list(kindTools, tool("z"), `7`)
		hook = func() {
			if _, err := d.member("a").refresh(t.Context(), kindTools); err != nil {
				t.Error(err)
			}
		}
		b.push(mcp.NotificationToolsChanged, `{}`)
		time.Sleep(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
	})
}

// load makes sure that the tenant is loaded.
func (r *rig) load(t *testing.T) *domain {
	t.Helper()
	if err := r.fed.Check(t.Context(), Endpoint{Tenant: "default"}); err != nil {
		t.Fatal(err)
	}
	return r.fed.domains["default"]
}

// logHook is told each message that is logged.
type logHook func(msg string)

func (h logHook) Enabled(context.Context, slog.Level) bool { return true }
func (h logHook) Handle(_ context.Context, r slog.Record) error {
	h(r.Message)
	return nil
}
func (h logHook) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h logHook) WithGroup(string) slog.Handler      { return h }

// That an upstream went is told even when another one's first list arrives while
// it goes.
func TestEndOfAnUpstreamBesideAFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(t), newFake(t)
		a.list(kindTools, tool("x"))
		b.list(kindTools, tool("y"))
		a.listens("")
		b.listens("")
		var during func()
		r, stop := newFakeRig(t, nil, func(o *Options) {
			o.Connect = func(c upstream.Config) upstream.Doer {
				return &closing{fake: map[string]*fake{"a": a, "b": b}[c.Alias], then: func() {
					if during != nil {
						during()
					}
				}}
			}
		})
		defer stop()
		r.reconfigure(fakeUp("a"), fakeUp("b"))
		d := r.load(t)
		if _, err := d.member("a").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		s := r.listen("", `{"toolsListChanged":true}`)
		defer s.Close()
		time.Sleep(time.Second)
		none(t, s)
		during = func() {
			during = nil
			if _, err := d.member("b").refresh(t.Context(), kindTools); err != nil {
				t.Error(err)
			}
		}
		r.reconfigure(fakeUp("b"))
		time.Sleep(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
	})
}

// closing is a client that calls a function when it is let go.
type closing struct {
	*fake
	then func()
}

func (c *closing) Close() { c.then() }

// A result full of links to the web does not wait for the upstream's lists again
// and again.
func TestManyLinksWaitForTheListsOnce(t *testing.T) {
	var links []string
	for i := range 200 {
		links = append(links, fmt.Sprintf(`{"type":"resource_link","uri":"https://web.example/%d","name":"n"}`, i))
	}
	for name, hang := range map[string]func(*fake, string){
		"hangs":         func(f *fake, method string) { f.hangs(method, time.Hour, upstream.ClassTimeout) },
		"fails late":    func(f *fake, method string) { f.hangs(method, time.Second, upstream.ClassConnect) },
		"fails at once": func(f *fake, method string) { f.fails(method, upstream.ClassConnect) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFake(t)
				p.list(kindTools, tool("x"))
				p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[`+strings.Join(links, ",")+`]}`)
				hang(p, mcp.MethodResourcesList)
				hang(p, mcp.MethodTemplatesList)
				r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
				defer stop()
				start := time.Now()
				body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("the call took %v", took)
				}
				if strings.Contains(body, "a+https") {
					t.Error("a link to the web was changed")
				}
				if n := p.count(mcp.MethodResourcesList); n != 1 {
					t.Errorf("the list was asked for %d times", n)
				}
			})
		})
	}
}

// A capability that an upstream gains is seen, though nobody asks for its
// discovery.
func TestAnUpstreamThatGainsACapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		without := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":1000,"cacheScope":"public"}`
		p.result(mcp.MethodDiscover, without)
		p.list(kindPrompts, `{"name":"p"}`)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.do(r.callOf("", mcp.MethodDiscover, ""))
		if got, partial := r.listed("", kindPrompts); len(got) != 0 || partial != "" {
			t.Errorf("without the capability: %v, partial %s", got, partial)
		}
		if n := p.count(mcp.MethodPromptsList); n != 0 {
			t.Errorf("asked for a list that it does not offer %d times", n)
		}
		p.result(mcp.MethodDiscover, strings.Replace(without, `"tools":{}`, `"tools":{},"prompts":{}`, 1))
		time.Sleep(10 * time.Minute)
		if got, _ := r.listed("", kindPrompts); !cmp.Equal(got, []string{"a_p"}) {
			t.Errorf("with the capability: %v", got)
		}
		// One that cannot be asked for its capabilities is asked for the list.
		p.fails(mcp.MethodDiscover, upstream.ClassConnect)
		p.list(kindPrompts, `{"name":"q"}`)
		time.Sleep(10 * time.Minute)
		if got, _ := r.listed("", kindPrompts); !cmp.Equal(got, []string{"a_q"}) {
			t.Errorf("later: %v", got)
		}
	})
}

// A refresh that brings what is known already keeps the views.
func TestARefreshWithoutNewsKeepsTheView(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"), tool("y"))
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	d := r.load(t)
	refresh := func() *view {
		if _, err := d.member("a").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		return d.current().view("", kindTools)
	}
	first := refresh()
	p.list(kindTools, tool("y"), tool("x")) // the order of a list says nothing
	if refresh() != first {
		t.Error("the view was made anew")
	}
	p.list(kindTools, tool("y"), tool("z"))
	if refresh() == first {
		t.Error("the view is the old one after a change")
	}
}

// Which of two names that meet is exposed does not depend on the upstream's order.
func TestNamesThatMeetAreDecidedAlike(t *testing.T) {
	// The second is the cleaned form of the first.
	first := "b.c"
	second := "b_c_" + hash8(first)
	for _, order := range [][]string{{first, second}, {second, first}} {
		p := newFake(t)
		p.list(kindTools, tool(order[0]), tool(order[1]))
		p.handle(mcp.MethodToolsCall, func(_ context.Context, m *mcp.Request) (*answer, error) {
			return says(200, resultFor(m, fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, m.Name.Value))), nil
		})
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_`+second+`"`))
		if !strings.Contains(body, `"text":"b.c"`) {
			t.Errorf("listed as %v: the call reached %s", order, body)
		}
		stop()
	}
}

// A failing registry's error is not mistaken for an unknown tenant.
func TestUnknownTenant(t *testing.T) {
	r, stop := newFakeRig(t, nil, nil)
	defer stop()
	if err := r.fed.Check(t.Context(), Endpoint{Tenant: "nobody"}); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("error = %v", err)
	}
}
