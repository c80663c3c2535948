package federation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// denies makes a policy that denies what a condition says, and allows the rest.
func denies(when ...string) *tenant.Policy {
	p := &tenant.Policy{Default: tenant.EffectAllow}
	for i, w := range when {
		p.Rules = append(p.Rules, tenant.Rule{Name: fmt.Sprint("r", i), When: w, Effect: tenant.EffectDeny})
	}
	return p
}

// govern gives the tenant another policy.
func (r *rig) govern(policy *tenant.Policy, toolsets ...tenant.Toolset) {
	r.conf.Policy, r.conf.Toolsets = policy, toolsets
	r.reconfigure(r.conf.Upstreams...)
}

// heard gives what came on a stream: the methods with the URIs.
func heard(t *testing.T, s *Subscription) []string {
	t.Helper()
	got := []string{}
	for msg, _ := s.Next(); msg != nil; msg, _ = s.Next() {
		method := strings.TrimPrefix(strings.Trim(field(t, string(msg), "method"), `"`), "notifications/")
		got = append(got, strings.TrimSpace(method+" "+strings.Trim(field(t, string(msg), "params", "uri"), `"`)))
	}
	return got
}

// wantHeard checks what came on a stream, in any order: lists are told of one by one.
func wantHeard(t *testing.T, who string, s *Subscription, want ...string) {
	t.Helper()
	want, got := slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(heard(t, s)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s hears (-want +got):\n%s", who, diff)
	}
}

const (
	hearTools   = "tools/list_changed"
	hearPrompts = "prompts/list_changed"
	hearUpdated = "resources/updated "
)

// A change is told to those whose view it changes, once for a burst, on the merged
// endpoint and on that of the upstream alone; to those from whom nothing is hidden an
// announcement is told there in any case.
func TestChangesAreToldToWhoSeesThem(t *testing.T) {
	const secret = `tool.ownName.startsWith("secret") && !("staff" in principal.groups)`
	policed(t, denies(secret), func(t *testing.T, p *fake, r *rig) {
		r.sees("ann", "", kindTools, "staff")
		tools := `{"toolsListChanged":true}`
		streams := map[string]*Subscription{}
		for _, alias := range []string{"", "a"} {
			streams["staff at "+alias] = r.hears(t, "ann", alias, tools, "staff")
			streams["more staff at "+alias] = r.hears(t, "eve", alias, tools, "staff", "other")
			streams["others at "+alias] = r.hears(t, "bob", alias, tools)
		}
		elapse(3 * time.Second)
		want := func(what string, others ...string) {
			t.Helper()
			elapse(time.Second)
			for who, s := range streams {
				if strings.HasPrefix(who, "others") {
					wantHeard(t, what+": "+who, s, others...)
				} else {
					wantHeard(t, what+": "+who, s, hearTools)
				}
			}
		}
		for i := range 5 { // a burst
			p.list(kindTools, tool("one"), tool(fmt.Sprint("secret", i)))
			p.push(mcp.NotificationToolsChanged, `{}`)
			elapse(10 * time.Millisecond)
		}
		want("a hidden tool changes")
		p.list(kindTools, tool("one"), tool("two"), tool("secret4"))
		p.push(mcp.NotificationToolsChanged, `{}`)
		want("a tool comes", hearTools)
		p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		for who, s := range streams {
			wantHeard(t, "nothing changes: "+who, s) // something is hidden, so an announcement alone is no news
		}
		r.govern(nil)
		elapse(time.Second)
		for who, s := range streams {
			if strings.HasPrefix(who, "others") {
				wantHeard(t, "the policy goes: "+who, s, hearTools)
			} else {
				wantHeard(t, "the policy goes: "+who, s)
			}
		}
		p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		for who, s := range streams {
			if strings.HasSuffix(who, "at a") {
				wantHeard(t, "announced without a policy: "+who, s, hearTools)
			} else {
				wantHeard(t, "announced without a policy: "+who, s)
			}
		}
	})
}

// Another policy tells those whose lists it changes, and nobody else.
func TestAnotherPolicyIsToldToWhomItChanges(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTools, tool("one"), tool("two"))
		p.list(kindPrompts, `{"name":"p"}`)
		for k := range kindDiscover {
			r.sees("ann", "", k)
		}
		lists := `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
		ann, bob, alone := r.hears(t, "ann", "", lists, "g1"), r.hears(t, "bob", "", lists), r.hears(t, "bob", "a", lists)
		elapse(3 * time.Second)
		steps := []struct {
			name      string
			policy    *tenant.Policy
			ann, bob_ []string
		}{
			{"one without effect", denies(`tool.name == "a_three"`), nil, nil},
			{"g1 loses a tool", denies(`tool.name == "a_two" && "g1" in principal.groups`), []string{hearTools}, nil},
			{"the same in other words", denies(`"g1" in principal.groups && tool.ownName == "two"`), nil, nil},
			{"the others lose it, and their prompts, g1 gets it back", denies(`!("g1" in principal.groups) && (item.ownName == "two" || kind == "prompt")`), []string{hearTools}, []string{hearTools, hearPrompts}},
			{"all lose prompts", denies(`item.ownName == "two" && !("g1" in principal.groups)`, `kind == "prompt"`), []string{hearPrompts}, nil},
			{"none", nil, []string{hearPrompts}, []string{hearTools, hearPrompts}},
		}
		for _, step := range steps {
			r.govern(step.policy)
			elapse(time.Second)
			wantHeard(t, step.name+": ann", ann, step.ann...)
			wantHeard(t, step.name+": bob", bob, step.bob_...)
			wantHeard(t, step.name+": bob alone", alone, step.bob_...)
		}
		if n := p.count(mcp.MethodToolsList); n > 2 {
			t.Errorf("policies had the upstream asked %d times", n)
		}
	})
}

// Another policy ends the streams that watch what they may not have any more, and those
// whose endpoint went.
func TestAnotherPolicyEndsStreams(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindResources, `{"uri":"doc://1","name":"one"}`)
		r.govern(nil, tenant.Toolset{Name: "set"}, tenant.Toolset{Name: "other"})
		for k := range kindDiscover {
			r.sees("ann", "", k)
		}
		at := func(e Endpoint, filter string, groups ...string) *Subscription {
			c := r.callOf("", mcp.MethodListen, `"notifications":`+filter).by("ann", groups...)
			e.Tenant = "default"
			c.Endpoint = e
			s, err := r.fed.Listen(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		lists, watches := `{"toolsListChanged":true}`, `{"resourceSubscriptions":["a+doc://1"]}`
		streams := map[string]*Subscription{
			"merged": at(Endpoint{}, lists), "watching": at(Endpoint{}, watches), "watching, staff": at(Endpoint{}, watches, "staff"),
			"part":  at(Endpoint{}, `{"resourceSubscriptions":["a+doc://1/part"]}`),
			"alone": at(Endpoint{Alias: "a"}, lists), "alone, staff": at(Endpoint{Alias: "a"}, lists, "staff"),
			"set": at(Endpoint{Toolset: "set"}, lists), "other": at(Endpoint{Toolset: "other"}, lists),
		}
		elapse(3 * time.Second)
		want := func(what string, gone ...string) {
			t.Helper()
			elapse(time.Second)
			for _, name := range gone {
				s, ok := streams[name]
				if !ok || !ended(s) {
					t.Errorf("%s: the stream %q goes on", what, name)
				}
				delete(streams, name)
			}
			for name, s := range streams {
				if ended(s) {
					t.Errorf("%s: the stream %q ended", what, name)
				}
			}
		}
		sets := []tenant.Toolset{{Name: "set"}, {Name: "other"}}
		r.govern(denies(`resource.uri == "doc://1" && !("staff" in principal.groups)`), sets...)
		want("a resource is denied", "watching")
		r.govern(denies(`item.alias == "a" && !("staff" in principal.groups)`), sets...)
		want("the upstream is denied", "part", "alone")
		r.govern(denies(`item.alias == "a" && !("staff" in principal.groups)`), sets[0])
		want("a toolset goes", "other")
		r.govern(denies(`item.alias == "a"`), sets[0])
		want("the upstream is denied to all", "watching, staff", "alone, staff")
		if n := p.open(); n != 0 {
			t.Errorf("%d streams are open to an upstream that nobody may use", n)
		}
		_, err := r.fed.Listen(t.Context(), r.callOf("a", mcp.MethodListen, `"notifications":{}`).by("ann"))
		if !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("listen = %v", err)
		}
	})
}

// Who subscribed to a resource is told of those of its parts that they may read.
func TestUpdatesOfHiddenPartsAreNotTold(t *testing.T) {
	policed(t, denies(`resource.uri == "doc://dir/secret" && !("staff" in principal.groups)`), func(t *testing.T, p *fake, r *rig) {
		watches := `{"resourceSubscriptions":["a+doc://dir"]}`
		ann, bob := r.hears(t, "ann", "", watches, "staff"), r.hears(t, "bob", "", watches)
		direct := r.hears(t, "bob", "", `{"resourceSubscriptions":["a+doc://dir/secret","a+doc://dir/2"]}`)
		if strings.Contains(string(direct.Ack), "secret") || !strings.Contains(string(direct.Ack), "dir/2") {
			t.Errorf("granted: %s", direct.Ack)
		}
		elapse(3 * time.Second)
		for _, part := range []string{"1", "secret"} {
			p.push(mcp.NotificationResourceUpdated, fmt.Sprintf(`{"uri":"doc://dir/%s"}`, part))
		}
		elapse(time.Second)
		wantHeard(t, "staff", ann, hearUpdated+"a+doc://dir/1", hearUpdated+"a+doc://dir/secret")
		wantHeard(t, "others", bob, hearUpdated+"a+doc://dir/1")
		wantHeard(t, "direct", direct)
	})
}

// What may be watched is decided by all that policy may read of it: lists that are not
// known are asked for, and without them nothing is granted.
func TestWatchesAreDecidedByWhatIsKnown(t *testing.T) {
	policed(t, denies(`has(resource.title) && resource.title == "Secret"`), func(t *testing.T, p *fake, r *rig) {
		p.list(kindResources, `{"uri":"doc://1","name":"one","title":"Secret"}`, `{"uri":"doc://2","name":"two"}`)
		watches := `{"resourceSubscriptions":["a+doc://1","a+doc://2"]}`
		if s := r.hears(t, "ann", "", watches); !strings.Contains(string(s.Ack), `"resourceSubscriptions":["a+doc://2"]`) {
			t.Errorf("granted: %s", s.Ack)
		}
	})
	policed(t, denies(`has(resource.title) && resource.title == "Secret"`), func(t *testing.T, p *fake, r *rig) {
		p.fails(mcp.MethodResourcesList, "connect")
		watches := `{"resourceSubscriptions":["a+doc://1","a+doc://2"]}`
		if s := r.hears(t, "ann", "", watches); strings.Contains(string(s.Ack), "doc://") {
			t.Errorf("granted without a list: %s", s.Ack)
		}
	})
}

// Watchable says of a resource what listening to it would come to.
func TestWatchableFollowsThePolicy(t *testing.T) {
	policy := denies(`resource.uri == "doc://1"`)
	policy.Rules = append(policy.Rules, tenant.Rule{Name: "scoped", When: `resource.uri == "doc://3"`, Effect: tenant.EffectAllow, Scopes: []string{"docs"}})
	policed(t, policy, func(t *testing.T, p *fake, r *rig) {
		p.list(kindResources, `{"uri":"doc://1","name":"one"}`, `{"uri":"doc://2","name":"two"}`, `{"uri":"doc://3","name":"three"}`)
		for uri, want := range map[string]string{
			"a+doc://1":  `-32602 Resource not found {"uri":"a+doc://1"}`,
			"zz+doc://1": `-32602 Resource not found {"uri":"zz+doc://1"}`,
			"a+doc://2":  `<nil>`,
			"a+doc://3":  `needs the scopes docs`,
		} {
			err := r.fed.Watchable(t.Context(), r.callOf("", "resources/subscribe", fmt.Sprintf(`"uri":%q`, uri)).by("ann"))
			if got := told(err); got != want {
				t.Errorf("%s: %s, want %s", uri, got, want)
			}
		}
	})
}

// A list that is under way when the tenant gets a policy is answered by it.
func TestAPolicyCountsForListsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, other := newFake(t), newFake(t)
		p.list(kindTools, tool("one"), tool("secret"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p, "b": other}), nil)
		defer stop()
		r.sees("ann", "", kindTools)
		r.load(t).member("a").invalidate(t.Context(), kindTools)
		inner := p.handler(mcp.MethodToolsList)
		p.handle(mcp.MethodToolsList, slowly(time.Second, inner))
		got := make(chan []string)
		go func() {
			list, _ := r.sees("ann", "", kindTools)
			got <- list
		}()
		elapse(500 * time.Millisecond)
		r.govern(denies(`tool.ownName == "secret"`))
		if diff := cmp.Diff([]string{"a_one"}, <-got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	})
}
