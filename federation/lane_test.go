package federation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Two users of one upstream see and use what is theirs, and nothing of one another.
func TestUsersHaveTheirOwn(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		p.conf.Discovery.FromURL = true
		p.reconfigure(p.conf.Upstreams...)
		for range 2 { // the second time from what is kept
			for user, other := range map[string]string{"ann": "bob", "bob": "ann"} {
				for k, want := range map[kind][]string{
					kindTools: {"a_" + user, "a_shared", "b_common"}, kindPrompts: {"a_" + user}, kindResources: {"a+doc://1", "a+doc://" + user},
				} {
					got, partial := p.sees(user, "", k)
					if diff := cmp.Diff(want, got); diff != "" || partial != "" {
						t.Errorf("%s of %s, partial %q (-want +got):\n%s", k.method(), user, partial, diff)
					}
				}
				for _, uri := range []string{"doc://1", "doc://" + other} {
					body := p.do(p.callOf("", mcp.MethodResourcesRead, fmt.Sprintf(`"uri":"a+%s"`, uri)).by(user))
					if !strings.Contains(body, "of "+user) || field(t, body, "result", "cacheScope") != `"private"` {
						t.Errorf("%s reads %s", user, body)
					}
				}
				body := p.do(p.callOf("", mcp.MethodToolsCall, `"name":"a_shared"`).by(user))
				if !strings.Contains(body, "for "+user) {
					t.Errorf("%s is answered %s", user, body)
				}
				_, err := p.try(p.callOf("", mcp.MethodToolsCall, fmt.Sprintf(`"name":"a_%s"`, other)).by(user))
				wantCode(t, err, mcp.CodeInvalidParams)
				_, err = p.try(p.callOf("a", mcp.MethodPromptsGet, fmt.Sprintf(`"name":"%s"`, other)).by(user))
				wantCode(t, err, mcp.CodeInvalidParams)
				c := p.callOf("", mcp.MethodToolsCall, `"name":"search_tools","arguments":{"query":"ann bob shared common","limit":50}`).by(user).in(tenant.DiscoverySearch)
				if body := p.do(c); strings.Contains(body, "a_"+other) || !strings.Contains(body, "a_"+user) || !strings.Contains(body, "b_common") {
					t.Errorf("%s finds %s", user, body)
				}
			}
		}
		for _, user := range []string{"ann", "bob"} {
			if n := p.subject(user).count(mcp.MethodResourcesRead); n != 2 {
				t.Errorf("%s's server was read %d times, want twice", user, n)
			}
		}
		if n := p.common.count(mcp.MethodToolsList); n != 1 {
			t.Errorf("the upstream that all share was asked %d times", n)
		}
	})
}

// A client of a user has lanes of its own, since consent is given to clients.
func TestClientsOfAUserHaveTheirOwn(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		for range 2 {
			for _, client := range []string{"one", "two"} {
				c := p.callOf("", mcp.MethodToolsList, "").by("ann")
				c.Principal.ClientID = client
				p.do(c)
			}
		}
		if diff := cmp.Diff(map[string]int{"default a ann one": 1, "default a ann two": 1}, p.made); diff != "" {
			t.Errorf("sources (-want +got):\n%s", diff)
		}
	})
}

// Who is nobody in particular has no credential, and is told which upstream that is.
func TestNobodyHasNoCredential(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		got, partial := p.listed("", kindTools)
		if diff := cmp.Diff([]string{"b_common"}, got); diff != "" || partial != `[{"alias":"a","reason":"unauthorized"}]` {
			t.Errorf("partial %s (-want +got):\n%s", partial, diff)
		}
		for _, c := range []*Call{p.callOf("", mcp.MethodToolsCall, `"name":"a_ann"`), p.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)} {
			_, err := p.try(c)
			var failed *upstream.Error
			if !errors.As(err, &failed) || failed.Class != upstream.ClassUnauthorized || failed.Alias != "a" {
				t.Errorf("%s: %v", c.Request.Method, err)
			}
		}
		if len(p.made) > 0 {
			t.Errorf("sources were made: %v", p.made)
		}
	})
}

// A stream hears of its user's own changes. There is one listener for each user,
// whatever they watch.
func TestUsersHearTheirOwn(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		for _, user := range []string{"ann", "bob"} {
			p.sees(user, "", kindTools)
		}
		ann, anns := p.hears(t, "ann", "", `{"toolsListChanged":true}`), p.hears(t, "ann", "a", `{"resourceSubscriptions":["doc://1"]}`)
		bob := p.hears(t, "bob", "", `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		nobody := p.open(t, `{"toolsListChanged":true}`)
		elapse(3 * time.Second)
		for _, user := range []string{"ann", "bob"} {
			if n := p.subject(user).open(); n != 1 {
				t.Errorf("%d streams are open for %s", n, user)
			}
		}
		p.subject("ann").list(kindTools, tool("new"))
		p.subject("ann").push(mcp.NotificationToolsChanged, `{}`)
		p.subject("bob").push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		elapse(time.Second)
		if got := next(t, ann); got != toolsChangedToClient {
			t.Errorf("ann is told %s", got)
		}
		if got := next(t, bob); !strings.Contains(got, `"uri":"a+doc://1"`) {
			t.Errorf("bob is told %s", got)
		}
		for _, s := range []*Subscription{ann, anns, bob, nobody} {
			none(t, s)
		}
		if n := p.common.open(); n != 1 {
			t.Errorf("%d streams are open of what all share", n)
		}
		ann.Close()
		anns.Close()
		elapse(time.Second)
		if n, m := p.subject("ann").open(), p.subject("bob").open(); n != 0 || m != 1 {
			t.Errorf("%d and %d streams are open after ann has left", n, m)
		}
	})
}

// A token is told to the source before the upstream is asked.
func TestTokensAreTakenBeforeTheyAreUsed(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		p.subject("ann").list(kindTools, tool("x"))
		for i, c := range []*Call{p.callOf("", mcp.MethodToolsList, ""), p.callOf("a", mcp.MethodToolsCall, `"name":"x"`)} {
			before := p.uses["ann"]
			c.Token, c.TokenExpires = fmt.Sprint("token ", i), time.Now().Add(time.Hour)
			p.do(c.by("ann"))
			want := fmt.Sprintf("token %d after %d uses", i, before)
			if told := p.tokens["ann"]; len(told) != i+1 || told[i] != want {
				t.Errorf("told %q, want %q at last", told, want)
			}
		}
		c := p.callOf("", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`).by("bob")
		c.Token = "bob's"
		if _, err := p.fed.Listen(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if told := p.tokens["bob"]; len(told) == 0 || told[0] != "bob's after 0 uses" {
			t.Errorf("the source of who listens is told %q", told)
		}
	})
}

// Where headers of the client are the credential, each value of them has its own.
func TestForwardedHeadersHaveTheirOwn(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		u := fakeUp("a")
		u.Auth = tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"x-account"}}
		p.reconfigure(u, fakeUp("b"))
		as := func(account string, c *Call) *Call {
			c.Header.Set("X-Account", account)
			return c
		}
		for range 2 {
			for account, want := range map[string][]string{"ann": {"a_ann", "a_shared", "b_common"}, "bob": {"a_bob", "a_shared", "b_common"}, "eve": {"b_common"}} {
				body := p.do(as(account, p.callOf("", mcp.MethodToolsList, "").by("the same")))
				if diff := cmp.Diff(want, names(t, kindTools, body)); diff != "" {
					t.Errorf("the tools of %s (-want +got):\n%s", account, diff)
				}
				if field(t, body, "result", "cacheScope") != `"private"` {
					t.Errorf("the list of %s is for all", account)
				}
			}
		}
		body := p.do(as("ann", p.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)))
		if !strings.Contains(body, "of ann") {
			t.Errorf("ann reads %s", body)
		}
		if body := p.do(as("bob", p.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`))); !strings.Contains(body, "of bob") {
			t.Errorf("bob reads %s", body)
		}
		if _, partial := p.listed("", kindTools); !strings.Contains(partial, `"a"`) {
			t.Errorf("without the header: partial %s", partial)
		}
		if lanes, _ := p.kept(t); len(lanes) != 3 {
			t.Errorf("lanes %v", lanes)
		}
	})
}

// A header that counts from now on was not kept of the streams that are open, so they
// end; one that does not count any more ends none.
func TestStreamsEndWhenAnotherHeaderCounts(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		p.reconfigure(fakeUp("b"))
		s := p.hears(t, "ann", "", `{"toolsListChanged":true}`)
		u := fakeUp("a")
		u.Auth = tenant.Credential{Mode: tenant.CredentialForward, Forward: []string{"X-Account"}}
		p.reconfigure(u, fakeUp("b"))
		elapse(time.Second)
		if !ended(s) {
			t.Error("a stream goes on without its credential")
		}
		s = p.hears(t, "ann", "", `{"promptsListChanged":true}`)
		p.reconfigure(fakeUp("b"))
		elapse(time.Second)
		if ended(s) {
			t.Error("a stream ended without a reason")
		}
	})
}
