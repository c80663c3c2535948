package federation

import (
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

// An answer is private where policy may show another caller of the endpoint another
// one, and else as the upstreams say; ttlMs is theirs in any case.
func TestScopeOfCachesUnderAPolicy(t *testing.T) {
	scoped := denies()
	scoped.Rules = []tenant.Rule{{Name: "scoped", When: `tool.ownName == "two"`, Effect: tenant.EffectAllow, Scopes: []string{"s"}}}
	tests := []struct {
		name      string
		policy    *tenant.Policy
		set       tenant.Toolset
		want, has string // of the merged endpoint, and of the toolset
	}{
		{"no policy", nil, tenant.Toolset{}, "public", "public"},
		{"the same for all", denies(`tool.ownName == "two"`), tenant.Toolset{}, "public", "public"},
		{"scopes hide nothing", scoped, tenant.Toolset{Scopes: []string{"t"}}, "public", "public"},
		{"by group", denies(`"g1" in principal.groups && tool.ownName == "two"`), tenant.Toolset{}, "private", "private"},
		{"by a group that the caller lacks", denies(`"none" in principal.groups`), tenant.Toolset{}, "private", "private"},
		{"by scope", denies(`"s" in principal.scopes`), tenant.Toolset{}, "private", "private"},
		{"by the toolset alone", nil, tenant.Toolset{When: `principal.subject == "ann"`}, "public", "private"},
		{"a toolset for all", nil, tenant.Toolset{Include: []string{"a_*", "a+doc://*"}}, "public", "public"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				p.list(kindTools, tool("one"), tool("two"), tool("three"))
				p.list(kindResources, `{"uri":"doc://1","name":"1"}`, `{"uri":"doc://2","name":"2"}`, `{"uri":"doc://3","name":"3"}`)
				p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[],"ttlMs":90000,"cacheScope":"public"}`)
				r.conf.PageSize = 1
				tt.set.Name = "set"
				r.govern(tt.policy, tt.set)
				for at, want := range map[Endpoint]string{{}: tt.want, {Alias: "a"}: tt.want, {Toolset: "set"}: tt.has} {
					at.Tenant = "default"
					for _, c := range []*Call{
						r.callOf("", mcp.MethodDiscover, ""), r.callOf("", mcp.MethodToolsList, ""), r.callOf("", mcp.MethodResourcesList, ""),
						r.callOf("", mcp.MethodResourcesRead, fmt.Sprintf(`"uri":"%sdoc://1"`, map[bool]string{true: "a+"}[at.Alias == ""])),
					} {
						r.wantScope(t, c, at, want)
					}
				}
			})
		})
	}
}

// wantScope checks the scope of an answer, on all its pages.
func (r *rig) wantScope(t *testing.T, c *Call, at Endpoint, want string) {
	t.Helper()
	for page := 1; ; page++ {
		c.Endpoint = at
		c.by("ann").Principal.Scopes = []string{"t"}
		body := r.do(c)
		if got := field(t, body, "result", "cacheScope"); got != `"`+want+`"` {
			t.Errorf("%s at %+v, page %d: %s, want %s", c.Request.Method, at, page, got, want)
		}
		ttl := map[bool]string{true: "90000", false: "60000"}[c.Request.Method == mcp.MethodResourcesRead]
		if got := field(t, body, "result", "ttlMs"); got != ttl {
			t.Errorf("%s at %+v, page %d: ttlMs %s, want %s", c.Request.Method, at, page, got, ttl)
		}
		next := field(t, body, "result", "nextCursor")
		if next == "" {
			if page == 1 && strings.HasSuffix(c.Request.Method, "/list") {
				t.Errorf("%s at %+v has one page", c.Request.Method, at)
			}
			return
		}
		c = r.callOf("", c.Request.Method, `"cursor":`+next)
	}
}

// The cursor of one caller shows another one nothing that they may not see, and is good
// at its endpoint only. A walk that began as public does not go on where the list has
// become private.
func TestCursorsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTools, tool("one"), tool("secret1"), tool("secret2"), tool("two"), tool("zero"))
		r.conf.PageSize = 1
		sets := []tenant.Toolset{{Name: "set"}, {Name: "other"}}
		r.govern(denies(`tool.ownName.startsWith("secret") && !("staff" in principal.groups)`), sets...)
		page := func(at Endpoint, cursor string, groups ...string) (name, next string, err error) {
			params := ""
			if cursor != "" {
				params = `"cursor":` + cursor
			}
			c := r.callOf("", mcp.MethodToolsList, params).by("ann", groups...)
			at.Tenant = "default"
			c.Endpoint = at
			body, err := r.try(c)
			if err != nil {
				return "", "", err
			}
			return strings.Join(names(t, kindTools, body), ","), field(t, body, "result", "nextCursor"), nil
		}
		cursor, staff := "", []string{}
		for range 5 {
			name, next, err := page(Endpoint{}, cursor, "staff")
			if err != nil {
				t.Fatal(err)
			}
			staff = append(staff, name)
			others := []string{}
			for from := cursor; ; {
				name, on, err := page(Endpoint{}, from)
				if err != nil {
					t.Fatal(err)
				}
				others = append(others, name)
				if from = on; from == "" {
					break
				}
			}
			if got := strings.Join(others, ","); strings.Contains(got, "secret") || !strings.HasSuffix(got, "a_zero") {
				t.Errorf("others walk on over %s", got)
			}
			cursor = next
		}
		if want := []string{"a_one", "a_secret1", "a_secret2", "a_two", "a_zero"}; !slices.Equal(staff, want) || cursor != "" {
			t.Errorf("the staff walks over %v", staff)
		}
		_, ofSet, err := page(Endpoint{Toolset: "set"}, "")
		if err != nil || ofSet == "" {
			t.Fatal(err)
		}
		for _, at := range []Endpoint{{}, {Toolset: "other"}, {Alias: "a"}} {
			_, _, err := page(at, ofSet)
			wantCode(t, err, mcp.CodeInvalidParams)
		}
		r.govern(nil)
		_, public, err := page(Endpoint{}, "")
		if err != nil {
			t.Fatal(err)
		}
		r.govern(denies(`tool.ownName == "two" && "g1" in principal.groups`))
		_, _, err = page(Endpoint{}, public)
		wantCode(t, err, mcp.CodeInvalidParams)
	})
}

// The answers of a user's own server are for that user, whatever it says.
func TestScopeOfCachesOfUsers(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		for want, calls := range map[string][]*Call{
			`"private"`: {
				p.callOf("", mcp.MethodToolsList, ""), p.callOf("", mcp.MethodDiscover, ""), p.callOf("a", mcp.MethodDiscover, ""),
				p.callOf("a", mcp.MethodToolsList, ""), p.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`), p.callOf("a", mcp.MethodResourcesRead, `"uri":"doc://1"`),
			},
			`"public"`: {p.callOf("", mcp.MethodResourcesRead, `"uri":"b+doc://1"`)},
		} {
			p.common.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[],"ttlMs":1000,"cacheScope":"public"}`)
			for _, c := range calls {
				for range 2 { // the second time from the cache
					if got := field(t, p.do(c.by("ann")), "result", "cacheScope"); got != want {
						t.Errorf("%s at %q: %s, want %s", c.Request.Method, c.Endpoint.Alias, got, want)
					}
				}
			}
		}
	})
}

// What a toolset's endpoint shows, and in which mode.
func TestToolsetEndpoints(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTools, tool("one"), tool("two"))
		p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
		r.conf.Discovery.Pinned = []string{"a_two"}
		sets := []tenant.Toolset{
			{Name: "plain", Include: []string{"a_one"}},
			{Name: "searched", Discovery: tenant.Discovery{Mode: tenant.DiscoverySearch, Pinned: []string{"a_one"}}},
			{Name: "chosen", Include: []string{"*_two"}, Discovery: tenant.Discovery{Mode: tenant.DiscoveryFull, FromURL: true}},
			{Name: "large", Discovery: tenant.Discovery{Mode: tenant.DiscoveryAuto, AutoThresholdTokens: 1}},
		}
		r.govern(nil, sets...)
		tests := []struct {
			set, alias string
			url        tenant.DiscoveryMode
			want       []string // nil where there is no such endpoint
			code       int
		}{
			{set: "plain", want: []string{"a_one"}},
			{set: "searched", want: slices.Concat([]string{"a_one"}, metaNames)},
			{set: "chosen", want: []string{"a_two"}},
			{set: "chosen", url: "search", want: metaNames},
			{set: "chosen", url: "auto", want: []string{"a_two"}},
			{set: "large", want: metaNames},
			{set: "none"},
			{set: "plain", alias: "a"},
			{set: "plain", url: "search", code: mcp.CodeInvalidRequest},
			{set: "searched", url: "full", code: mcp.CodeInvalidRequest},
			{set: "chosen", url: "other", code: mcp.CodeInvalidRequest},
		}
		for _, tt := range tests {
			name := fmt.Sprintf("/s/%s %s?discovery=%s", tt.set, tt.alias, tt.url)
			at := Endpoint{Tenant: "default", Toolset: tt.set, Alias: tt.alias, Discovery: tt.url}
			c := r.callOf("", mcp.MethodToolsList, "").by("ann")
			c.Endpoint = at
			body, err := r.try(c)
			checked := r.fed.Check(t.Context(), at)
			listen := r.callOf("", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
			listen.Endpoint = at
			_, heard := r.fed.Listen(t.Context(), listen)
			for what, err := range map[string]error{"list": err, "check": checked, "listen": heard} {
				switch {
				case tt.want != nil && err != nil, tt.want == nil && tt.code == 0 && err != ErrNoEndpoint:
					t.Errorf("%s: %s: %v", name, what, err)
				case tt.code != 0:
					wantCode(t, err, tt.code)
				}
			}
			if tt.want != nil && err == nil {
				if diff := cmp.Diff(tt.want, names(t, kindTools, body)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		}
		for set, want := range map[string]string{"plain": "-32602 Unknown tool: a_two ", "searched": "<nil>"} {
			c := r.callOf("", mcp.MethodToolsCall, `"name":"a_two"`).by("ann")
			c.Endpoint.Toolset = set
			if _, err := r.try(c); told(err) != want {
				t.Errorf("a call at %s: %s, want %s", set, told(err), want)
			}
		}
	})
}

// A toolset's endpoint counts against the toolset's quota, and the others do not.
func TestToolsetQuotas(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTools, tool("x"))
		p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
		p.handle(mcp.MethodToolsCall, slowly(time.Second, p.handler(mcp.MethodToolsCall)))
		r.govern(nil, tenant.Toolset{Name: "slow", Limits: tenant.Quota{CallsPerMinute: 2}}, tenant.Toolset{Name: "narrow", Limits: tenant.Quota{InFlight: 1}}, tenant.Toolset{Name: "free"})
		call := func(set, user string) error {
			c := r.as(user)
			c.Endpoint.Toolset = set
			_, err := r.try(c)
			return err
		}
		for i, want := range []bool{true, true, false, false} {
			err := call("slow", fmt.Sprint("user", i))
			if (err == nil) != want {
				t.Errorf("call %d: %v", i, err)
			}
			if err != nil {
				wantCode(t, err, CodeOverQuota)
			}
		}
		for _, set := range []string{"", "free", "narrow"} {
			if err := call(set, "ann"); err != nil {
				t.Errorf("a call at %q: %v", set, err)
			}
		}
		first := make(chan error)
		go func() { first <- call("narrow", "ann") }()
		elapse(500 * time.Millisecond)
		wantCode(t, call("narrow", "bob"), CodeOverQuota)
		if err := <-first; err != nil {
			t.Error(err)
		}
		r.govern(nil, tenant.Toolset{Name: "slow", Limits: tenant.Quota{CallsPerMinute: 2}})
		wantCode(t, call("slow", "ann"), CodeOverQuota) // another registration forgets nothing
		elapse(2 * time.Minute)
		if err := call("slow", "ann"); err != nil {
			t.Errorf("after two minutes: %v", err)
		}
	})
}

// Where some callers show an upstream who they are, what is listed to one who does not is
// no list for all.
func TestScopeForWhoShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("x"))
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		if got := field(t, r.do(r.callOf("", mcp.MethodToolsList, "")), "result", "cacheScope"); got != `"public"` {
			t.Errorf("without credentials: %s", got)
		}
		up := fakeUp("a")
		up.Auth, up.Version = tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"X-Region"}}, "2"
		r.reconfigure(up)
		if got := field(t, r.do(r.callOf("", mcp.MethodToolsList, "")), "result", "cacheScope"); got != `"private"` {
			t.Errorf("without the header: %s", got)
		}
	})
}
