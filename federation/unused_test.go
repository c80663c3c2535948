package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// beside runs a test in front of two upstreams, open and secret, of which only the
// staff may use the second, in a bubble.
func beside(t *testing.T, test func(t *testing.T, r *rig, open, secret *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		open, secret := newFake(t), newFake(t)
		for alias, p := range map[string]*fake{"open": open, "secret": secret} {
			p.list(kindTools, tool("x"))
			p.list(kindPrompts, `{"name":"p"}`)
			p.list(kindResources, fmt.Sprintf(`{"uri":"doc://%s","name":"r"}`, alias))
			p.result(mcp.MethodDiscover, fmt.Sprintf(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"Use %s.","ttlMs":60000,"cacheScope":"public"}`, alias))
			for method, result := range map[string]string{mcp.MethodToolsCall: `{"resultType":"complete","content":[]}`, mcp.MethodTasksGet: `{"resultType":"complete","taskId":"1","status":"working"}`} {
				p.result(method, result)
			}
			p.listens("")
		}
		r, stop := newFakeRig(t, fakes(map[string]*fake{"open": open, "secret": secret}), nil)
		defer stop()
		r.conf.Discovery.FromURL = true
		r.govern(denies(`item.alias == "secret" && !("staff" in principal.groups)`))
		test(t, r, open, secret)
	})
}

// silent is how nothing of an upstream is answered.
func silent(p *fake) {
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList, mcp.MethodListen} {
		p.hangs(method, time.Hour, upstream.ClassTimeout)
	}
}

// requestsOf are requests of all kinds that may come upon an upstream.
func requestsOf(r *rig) map[string]*Call {
	meta := func(name, arguments string) *Call {
		return r.callOf("", mcp.MethodToolsCall, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments)).in(tenant.DiscoverySearch)
	}
	all := map[string]*Call{
		"discover":         r.callOf("", mcp.MethodDiscover, ""),
		"search":           meta("search_tools", `{"query":"x secret"}`),
		"a filter":         meta("search_tools", `{"query":"x","upstream":"secret"}`),
		"upstreams":        meta("list_upstreams", `{}`),
		"details":          meta("get_tool_details", `{"names":["secret_x"]}`),
		"call":             r.callOf("", mcp.MethodToolsCall, `"name":"secret_x"`),
		"call_tool":        meta("call_tool", `{"name":"secret_x"}`),
		"prompt":           r.callOf("", mcp.MethodPromptsGet, `"name":"secret_p"`),
		"read":             r.callOf("", mcp.MethodResourcesRead, `"uri":"secret+doc://secret"`),
		"complete":         r.callOf("", mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"secret_p"},"argument":{"name":"a","value":""}`),
		"complete a URI":   r.callOf("", mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"secret+doc://{x}"},"argument":{"name":"x","value":""}`),
		"task":             r.callOf("", mcp.MethodTasksGet, `"taskId":"secret+1"`),
		"the endpoint":     r.callOf("secret", mcp.MethodDiscover, ""),
		"a list of it":     r.callOf("secret", mcp.MethodToolsList, ""),
		"a call of it":     r.callOf("secret", mcp.MethodToolsCall, `"name":"x"`),
		"an unknown of it": r.callOf("secret", "future/method", `"x":1`),
	}
	for k := range kindDiscover {
		all[k.method()] = r.callOf("", k.method(), "")
	}
	return all
}

// An upstream of which a caller may use nothing is not asked for them, and named
// nowhere: what they get is what they would get if it were not registered, also while
// it is out of order, and as soon.
func TestWhatNobodyMayUseIsAsIfItWereNotThere(t *testing.T) {
	beside(t, func(t *testing.T, r *rig, open, secret *fake) {
		silent(secret)
		policy, both := r.conf.Policy, r.conf.Upstreams
		answers := func() map[string]string {
			out := map[string]string{}
			for name, c := range requestsOf(r) {
				start := time.Now()
				body, err := r.try(c.by("bob"))
				out[name] = body + told(err)
				if took := time.Since(start); took > time.Second {
					t.Errorf("%s took %v", name, took)
				}
			}
			s := r.hears(t, "bob", "", `{"toolsListChanged":true,"resourceSubscriptions":["secret+doc://secret","open+doc://open"],"taskIds":["secret+1"]}`)
			out["listen"] = string(s.Ack)
			s.Close()
			return out
		}
		without := func() map[string]string {
			r.conf.Upstreams = both[:1]
			r.govern(policy)
			defer func() {
				r.conf.Upstreams = both
				r.govern(policy)
			}()
			return answers()
		}
		want := without()
		for range 2 {
			if diff := cmp.Diff(want, answers()); diff != "" {
				t.Errorf("answers (-without it +with it):\n%s", diff)
			}
		}
		for method, n := range secret.asked {
			t.Errorf("%s was asked %d times", method, n)
		}
		for name, answer := range want {
			if strings.Contains(answer, "Use secret") || strings.Contains(answer, `"alias":"secret"`) {
				t.Errorf("%s: %s", name, answer)
			}
		}
		if open.count(mcp.MethodToolsList) == 0 {
			t.Error("the other upstream was not asked")
		}
		_, err := r.try(r.callOf("secret", mcp.MethodToolsList, "").by("bob"))
		if !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("the endpoint of it: %v", err)
		}
	})
}

// Who may use it sees its outage.
func TestTheOutageIsSeenByWhoMayUseIt(t *testing.T) {
	beside(t, func(t *testing.T, r *rig, _, secret *fake) {
		silent(secret)
		if _, partial := r.sees("ann", "", kindTools, "staff"); partial != `[{"alias":"secret","reason":"timeout"}]` {
			t.Errorf("partial = %s", partial)
		}
	})
}

// Resources without an alias are looked for where the caller may read something, and
// names are given among all upstreams all the same.
func TestUpstreamsWithoutAPrefixUnderAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := map[string]*fake{"a": newFake(t), "b": newFake(t), "c": newFake(t)}
		for _, p := range all {
			p.list(kindTools, tool("x"))
			p.listens("")
			p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[]}`)
		}
		all["a"].handle(mcp.MethodToolsList, slowly(time.Minute, all["a"].handler(mcp.MethodToolsList)))
		for _, k := range []kind{kindResources, kindTemplates} {
			all["a"].handle(k.method(), func(context.Context, *mcp.Request) (*answer, error) {
				t.Errorf("%s is asked of an upstream of which nothing may be read", k.method())
				return nil, &upstream.Error{Alias: "a", Class: upstream.ClassConnect}
			})
		}
		r, stop := newFakeRig(t, fakes(all), nil)
		defer stop()
		for i := range r.conf.Upstreams {
			r.conf.Upstreams[i].Prefix = tenant.PrefixNone
		}
		r.govern(denies(`item.alias == "a"`))
		start := time.Now()
		got, partial := r.sees("bob", "", kindTools)
		if diff := cmp.Diff([]string{"c_x", "x"}, got); diff != "" || partial != "" || time.Since(start) > time.Second {
			t.Errorf("after %v, partial %s (-want +got):\n%s", time.Since(start), partial, diff)
		}
		_, err := r.try(r.callOf("", mcp.MethodResourcesRead, `"uri":"doc://1"`).by("bob"))
		wantCode(t, err, mcp.CodeInvalidParams)
		s := r.hears(t, "bob", "", `{"toolsListChanged":true}`)
		elapse(2 * time.Minute)
		// What a takes is known now. It is told, since it changes what the caller sees.
		wantHeard(t, "bob", s, hearTools)
		if got, _ := r.sees("bob", "", kindTools); !cmp.Equal(got, []string{"b_x", "c_x"}) {
			t.Errorf("then %v are listed", got)
		}
	})
}
