package federation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// asking is personally where users have to sign in at a first.
func asking(t *testing.T, test func(t *testing.T, p *personal)) {
	t.Helper()
	personally(t, nil, func(t *testing.T, p *personal) {
		p.wants = true
		test(t, p)
	})
}

// client makes a call with the capabilities of a client, and what else is in params.
func (r *rig) client(capabilities, alias, method, params string) *Call {
	r.t.Helper()
	return r.callRaw(alias, fmt.Sprintf(`{"jsonrpc":"2.0","id":"c-1","method":%q,"params":{%s,%s}}`, method, params, fmt.Sprintf(metaFields, capabilities)))
}

const withURLs = `{"elicitation":{"url":{}}}`

// asks gives the requestState of the answer to a call that asks ann to sign in.
func (p *personal) asks(t *testing.T, c *Call) string {
	t.Helper()
	body := p.do(c)
	ask := field(t, body, "result", "inputRequests", "connect")
	want := `{"method":"elicitation/create","params":{"mode":"url","message":"Sign in, please","url":"https://gateway.example/connect?to=ann"}}`
	if ask != want || field(t, body, "result", "resultType") != `"input_required"` {
		t.Fatalf("asked %s", body)
	}
	state := field(t, body, "result", "requestState")
	if strings.Contains(state, "ann") || len(state) < 40 {
		t.Errorf("requestState %s", state)
	}
	return state
}

// answered gives the members of params that answer the question.
func answered(state, action string) string {
	return fmt.Sprintf(`"requestState":%s,"inputResponses":{"connect":{"action":%q}}`, state, action)
}

// Before the sign-in there is the tool that asks for it, and nothing else, which is no
// failure.
func TestBeforeASignIn(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		for _, tt := range []struct {
			alias string
			kind  kind
			want  []string
		}{
			{"", kindTools, []string{"a_connect", "b_common"}},
			{"a", kindTools, []string{"connect"}},
			{"", kindPrompts, []string{}},
			{"", kindResources, []string{}},
			{"a", kindTemplates, []string{}},
			{"a", kindPrompts, []string{}},
		} {
			body := p.do(p.callOf(tt.alias, tt.kind.method(), "").by("ann"))
			if diff := cmp.Diff(tt.want, names(t, tt.kind, body)); diff != "" || strings.Contains(body, mcp.MetaPartial) {
				t.Errorf("%s at %q (-want +got):\n%s\n%s", tt.kind.method(), tt.alias, diff, body)
			}
			if field(t, body, "result", "cacheScope") != `"private"` {
				t.Errorf("%s at %q is for all", tt.kind.method(), tt.alias)
			}
		}
		for _, alias := range []string{"", "a"} {
			if body := p.do(p.callOf(alias, mcp.MethodDiscover, "").by("ann")); strings.Contains(body, mcp.MetaPartial) || field(t, body, "result", "cacheScope") != `"private"` {
				t.Errorf("discovery at %q: %s", alias, body)
			}
		}
		if n := p.subject("ann").count(mcp.MethodToolsList); n != 0 {
			t.Errorf("the server was asked %d times", n)
		}
	})
}

// The tool is named for its upstream also where that has no prefix.
func TestBeforeASignInWithoutAPrefix(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		a := ownUp("a")
		a.Prefix = tenant.PrefixNone
		p.reconfigure(a, fakeUp("b"))
		if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_connect", "b_common"}) {
			t.Errorf("listed %v", got)
		}
		p.asks(t, p.client(withURLs, "", mcp.MethodToolsCall, `"name":"a_connect"`).by("ann"))
	})
}

// Whatever is called of the upstream asks for the sign-in, and the answer to that is
// the call as it was.
func TestCallsAskForTheSignIn(t *testing.T) {
	tests := []struct {
		name, alias, method, params string
		discovery                   tenant.DiscoveryMode
		known                       bool // the lists were read before
		upstream                    string
	}{
		{"a tool", "", mcp.MethodToolsCall, `"name":"a_shared","arguments":{"n":1e400,"s":"\u00e9"}`, "", true, mcp.MethodToolsCall},
		{"a tool, first of all", "", mcp.MethodToolsCall, `"name":"a_shared","arguments":{}`, "", false, mcp.MethodToolsCall},
		{"a tool of it alone", "a", mcp.MethodToolsCall, `"name":"shared"`, "", false, mcp.MethodToolsCall},
		{"a prompt", "", mcp.MethodPromptsGet, `"name":"a_ann"`, "", false, mcp.MethodPromptsGet},
		{"a resource", "", mcp.MethodResourcesRead, `"uri":"a+doc://1"`, "", true, mcp.MethodResourcesRead},
		{"call_tool", "", mcp.MethodToolsCall, `"name":"call_tool","arguments":{"name":"a_shared","arguments":{"x":[1, 2]}}`, tenant.DiscoverySearch, true, mcp.MethodToolsCall},
		{"the tool that asks", "", mcp.MethodToolsCall, `"name":"a_connect","arguments":{}`, "", true, ""},
		{"the tool that asks, of it alone", "a", mcp.MethodToolsCall, `"name":"connect"`, "", true, ""},
		{"call_tool of the tool that asks", "", mcp.MethodToolsCall, `"name":"call_tool","arguments":{"name":"a_connect"}`, tenant.DiscoverySearch, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asking(t, func(t *testing.T, p *personal) {
				p.conf.Discovery.FromURL = true
				p.reconfigure(p.conf.Upstreams...)
				if tt.known {
					p.sees("ann", "", kindTools)
				}
				call := func(params string) *Call {
					return p.client(withURLs, tt.alias, tt.method, params).by("ann").in(tt.discovery)
				}
				state := p.asks(t, call(tt.params))
				again := tt.params + "," + answered(state, "accept")
				p.asks(t, call(again)) // they say so, and have not done it
				p.sign("ann", true)
				var sent []string
				if tt.upstream != "" {
					inner := p.subject("ann").handler(tt.upstream)
					p.subject("ann").handle(tt.upstream, func(ctx context.Context, m *mcp.Request) (*answer, error) {
						sent = append(sent, string(m.Raw))
						return inner(ctx, m)
					})
				}
				for _, c := range []*Call{call(tt.params), call(again)} {
					body := p.do(c)
					if field(t, body, "result", "resultType") != `"complete"` || field(t, body, "result", "isError") == "true" {
						t.Errorf("after the sign-in: %s", body)
					}
				}
				if tt.upstream != "" && tt.upstream != mcp.MethodResourcesRead { // that one comes from the cache
					if len(sent) != 2 || withoutID(t, sent[0]) != withoutID(t, sent[1]) || strings.Contains(sent[1], "inputResponses") {
						t.Errorf("the server got %q", sent)
					}
				}
				elapse(time.Second)
				if tt.upstream == mcp.MethodResourcesRead {
					return // it needs no list
				}
				if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_ann", "a_shared", "b_common"}) {
					t.Errorf("after the sign-in the list is %v", got)
				}
			})
		})
	}
}

// withoutID cuts the id out of a request.
func withoutID(t *testing.T, raw string) string {
	t.Helper()
	return strings.Replace(raw, `"id":`+field(t, raw, "id"), "", 1)
}

// A requestState is good for its user, call and arguments, for a while, and no answer
// but yes is one.
func TestAnswersToTheSignIn(t *testing.T) {
	const params = `"name":"a_shared","arguments":{"x":1}`
	tests := []struct {
		name   string
		answer func(p *personal, state string) *Call
		after  time.Duration
		code   int
	}{
		{"declined", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(state, "decline"))
		}, 0, mcp.CodeInternal},
		{"cancelled", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(state, "cancel"))
		}, 0, mcp.CodeInternal},
		{"no answer", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+`,"requestState":`+state)
		}, 0, mcp.CodeInternal},
		{"another user", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(state, "accept")).by("bob")
		}, 0, mcp.CodeInvalidParams},
		{"other arguments", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, `"name":"a_shared","arguments":{"x":2},`+answered(state, "accept"))
		}, 0, mcp.CodeInvalidParams},
		{"another tool", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, `"name":"a_ann","arguments":{"x":1},`+answered(state, "accept"))
		}, 0, mcp.CodeInvalidParams},
		{"another method", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodPromptsGet, params+","+answered(state, "accept"))
		}, 0, mcp.CodeInvalidParams},
		{"another endpoint", func(p *personal, state string) *Call {
			return p.client(withURLs, "a", mcp.MethodToolsCall, params+","+answered(state, "accept"))
		}, 0, mcp.CodeInvalidParams},
		{"expired", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(state, "accept"))
		}, DefaultLimits().StateTTL + time.Millisecond, mcp.CodeInvalidParams},
		{"made up", func(p *personal, _ string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(`"~AAAA"`, "accept"))
		}, 0, mcp.CodeInvalidParams},
		{"changed", func(p *personal, state string) *Call {
			return p.client(withURLs, "", mcp.MethodToolsCall, params+","+answered(strings.Replace(state, "~", "", 1), "accept"))
		}, 0, mcp.CodeInvalidParams},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asking(t, func(t *testing.T, p *personal) {
				state := p.asks(t, p.client(withURLs, "", mcp.MethodToolsCall, params).by("ann"))
				p.sign("ann", true)
				p.sign("bob", true)
				elapse(tt.after)
				c := tt.answer(p, state)
				if c.Principal.Subject == "" {
					c.by("ann")
				}
				_, err := p.try(c)
				wantCode(t, err, tt.code)
				if n := p.subject("ann").count(mcp.MethodToolsCall) + p.subject("bob").count(mcp.MethodToolsCall); n != 0 {
					t.Errorf("a server was called %d times", n)
				}
			})
		})
	}
}

// Clients that cannot open a page for their user are told the link.
func TestSignInWithoutElicitation(t *testing.T) {
	const link = "Sign in, please: https://gateway.example/connect?to=ann"
	tests := []struct {
		name, capabilities, method, params string
		handshake                          bool
		code                               int
		data                               string
	}{
		{"none", `{}`, mcp.MethodToolsCall, `"name":"a_shared"`, false, mcp.CodeMissingClientCapability, `{"requiredCapabilities":{"elicitation":{"url":{}}}}`},
		{"forms only", `{"elicitation":{}}`, mcp.MethodToolsCall, `"name":"a_connect"`, false, mcp.CodeMissingClientCapability, `{"requiredCapabilities":{"elicitation":{"url":{}}}}`},
		{"none, handshake", `{}`, mcp.MethodToolsCall, `"name":"a_shared"`, true, mcp.CodeInternal, `{"alias":"a","reason":"unauthorized","retryable":true}`},
		{"none, handshake, the tool that asks", `{}`, mcp.MethodToolsCall, `"name":"a_connect"`, true, mcp.CodeInternal, `{"alias":"a","reason":"unauthorized","retryable":true}`},
		{"a method that cannot ask", withURLs, mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"a+doc://{x}"},"argument":{"name":"x","value":""}`, false, mcp.CodeInternal, `{"alias":"a","reason":"unauthorized","retryable":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asking(t, func(t *testing.T, p *personal) {
				p.sees("ann", "", kindTools)
				c := p.client(tt.capabilities, "", tt.method, tt.params).by("ann")
				c.NoHeaders = tt.handshake
				_, err := p.try(c)
				if got, want := told(err), fmt.Sprintf("%d %s %s", tt.code, link, tt.data); got != want {
					t.Errorf("told %s, want %s", got, want)
				}
			})
		})
	}
}

// After the sign-in the user's streams are told, within the coalescing window, and
// nobody else's.
func TestStreamsHearOfTheSignIn(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		for _, user := range []string{"ann", "bob"} {
			for k := range kindDiscover {
				p.sees(user, "", k)
				p.sees(user, "a", k)
			}
		}
		all := `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
		ann, alone, bob := p.hears(t, "ann", "", all), p.hears(t, "ann", "a", all), p.hears(t, "bob", "", all)
		elapse(3 * time.Second)
		p.sign("ann", true)
		who := p.callOf("", mcp.MethodToolsList, "").by("ann").Principal
		p.fed.Connected(t.Context(), "default", "a", &who)
		elapse(p.fed.opts.Limits.Coalesce + 10*time.Millisecond)
		for name, s := range map[string]*Subscription{"merged": ann, "alone": alone} {
			got := map[string]int{}
			for msg, _ := s.Next(); msg != nil; msg, _ = s.Next() {
				got[field(t, string(msg), "method")]++
			}
			want := map[string]int{`"notifications/tools/list_changed"`: 1, `"notifications/prompts/list_changed"`: 1, `"notifications/resources/list_changed"`: 1}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		none(t, bob)
		if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_ann", "a_shared", "b_common"}) {
			t.Errorf("ann sees %v", got)
		}
		if got, _ := p.sees("bob", "", kindTools); !slices.Equal(got, []string{"a_connect", "b_common"}) {
			t.Errorf("bob sees %v", got)
		}
	})
}

// A consent that is taken back shows in the list as soon as a call finds out, and those
// who listen are told.
func TestAConsentThatIsTakenBack(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		p.sign("ann", true)
		p.sees("ann", "", kindTools)
		p.sign("ann", false)
		s := p.hears(t, "ann", "", `{"toolsListChanged":true}`)
		elapse(3 * time.Second)
		p.asks(t, p.client(withURLs, "", mcp.MethodToolsCall, `"name":"a_shared"`).by("ann"))
		elapse(time.Second)
		wantHeard(t, "ann", s, hearTools)
		if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_connect", "b_common"}) {
			t.Errorf("ann sees %v", got)
		}
	})
}

// Where policy denies the upstream there is nothing to sign in for.
func TestPolicyHidesTheSignIn(t *testing.T) {
	asking(t, func(t *testing.T, p *personal) {
		p.conf.Policy = &tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{
			{Name: "r", When: `item.alias == "a" && !("staff" in principal.groups)`, Effect: tenant.EffectDeny},
		}}
		p.reconfigure(p.conf.Upstreams...)
		if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"b_common"}) {
			t.Errorf("listed %v", got)
		}
		if got, _ := p.sees("ann", "", kindTools, "staff"); !slices.Equal(got, []string{"a_connect", "b_common"}) {
			t.Errorf("listed to the staff: %v", got)
		}
		for _, name := range []string{"a_connect", "a_shared"} {
			_, err := p.try(p.client(withURLs, "", mcp.MethodToolsCall, fmt.Sprintf(`"name":%q`, name)).by("ann"))
			if got, want := told(err), "-32602 Unknown tool: "+name+" "; got != want {
				t.Errorf("told %s, want %s", got, want)
			}
			p.asks(t, p.client(withURLs, "", mcp.MethodToolsCall, fmt.Sprintf(`"name":%q`, name)).by("ann", "staff"))
		}
	})
}
