package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const allCaps = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// asking is a server whose tools ask the client. cancelled tells of calls whose
// context has ended.
func asking(cancelled chan<- string) *sdk.Server {
	impl := fixture()
	text := func(format string, args ...any) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
	}
	sdk.AddTool(impl, &sdk.Tool{Name: "greet"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who are you?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
		}})
		if err != nil {
			if ctx.Err() != nil && cancelled != nil {
				cancelled <- "greet"
			}
			return nil, nil, err
		}
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		return text("%s %v", res.Action, res.Content["name"])
	})
	sdk.AddTool(impl, &sdk.Tool{Name: "visit"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Mode: "url", Message: "Sign in", URL: "https://example.com/", ElicitationID: "e1"})
		if err != nil {
			return nil, nil, err
		}
		return text("%s", res.Action)
	})
	sdk.AddTool(impl, &sdk.Tool{Name: "think"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 10, IncludeContext: "thisServer", Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "2+2?"}}}})
		if err != nil {
			return nil, nil, err
		}
		return text("%s", res.Content.(*sdk.TextContent).Text)
	})
	sdk.AddTool(impl, &sdk.Tool{Name: "where"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		res, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		return text("%s", res.Roots[0].URI)
	})
	sdk.AddTool(impl, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		cancelled <- "begun"
		<-ctx.Done()
		cancelled <- "hang"
		return nil, nil, ctx.Err()
	})
	return impl
}

// retry is the request that comes back with the client's answers.
func (q modern) retry(r *reply, answers ...string) modern {
	var list []string
	for key := range r.Result.InputRequests {
		if len(answers) > len(list) {
			list = append(list, fmt.Sprintf("%q:%s", key, answers[len(list)]))
		}
	}
	q.params = fmt.Sprintf(`"inputResponses":{%s},"requestState":%q,%s`, strings.Join(list, ","), r.Result.RequestState, q.params)
	q.id = 8
	return q
}

// What a server asks during a call becomes input_required, and the retry's answers
// reach the same call.
func TestParkedCalls(t *testing.T) {
	l, seen := shake(t, stateful(asking(nil)))
	tests := []struct {
		name, caps, method, answer, want, absent string
	}{
		{"greet", allCaps, "elicitation/create", `{"action":"accept","content":{"name":"Zoë"}}`, "accept Zoë", ""},
		{"greet", `{"elicitation":{}}`, "elicitation/create", `{"action":"decline"}`, "decline <nil>", ""},
		{"visit", allCaps, "elicitation/create", `{"action":"accept"}`, "accept", "elicitationId"},
		{"think", allCaps, "sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"4"}}`, "4", ""},
		{"think", `{"sampling":{}}`, "sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"4"}}`, "4", "includeContext"},
		{"where", allCaps, "roots/list", `{"roots":[{"uri":"file:///home"}]}`, "file:///home", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.caps, func(t *testing.T) {
			q := modern{method: mcp.MethodToolsCall, name: tt.name, params: `"arguments":{},`, caps: tt.caps, principal: "ann", token: true}
			first := mustSend(t, l, q)
			if first.Result.ResultType != "input_required" || len(first.Result.InputRequests) != 1 {
				t.Fatalf("got %s, want a question", first.raw)
			}
			for _, in := range first.Result.InputRequests {
				if in.Method != tt.method {
					t.Errorf("asked for %s, want %s", in.Method, tt.method)
				}
				if in.Params[tt.absent] != nil {
					t.Errorf("params = %v, want no %s", in.Params, tt.absent)
				}
			}
			seen.lines()
			again := q.retry(first, tt.answer)
			second := mustSend(t, l, again)
			if second.text() != tt.want || string(second.ID) != "8" || second.Result.IsError {
				t.Errorf("got %s, want %q", second.raw, tt.want)
			}
			if tt.name == "greet" && (len(second.notes) != 1 || !strings.Contains(second.notes[0], `"progressToken":8`)) {
				t.Errorf("notifications = %q, want progress with the retry's token", second.notes)
			}
			if got := seen.times("POST tools/call"); got != 0 {
				t.Errorf("the call was made %d times more", got)
			}
			third := mustSend(t, l, again)
			if third.Error.Code != mcp.CodeInvalidParams {
				t.Errorf("a second retry got %s, want an error", third.raw)
			}
		})
	}
	if n := len(l.parking.calls); n != 0 {
		t.Errorf("%d calls are still parked", n)
	}
}

// Nobody else can come back to a parked call, and no capability is used that was
// not declared.
func TestParkedForOneClient(t *testing.T) {
	l, _ := shake(t, stateful(asking(nil)))
	q := modern{method: mcp.MethodToolsCall, name: "greet", params: `"arguments":{},`, caps: allCaps, principal: "ann", session: "s1"}
	first := mustSend(t, l, q)
	answer := `{"action":"accept","content":{"name":"x"}}`
	for _, other := range []modern{
		{principal: "bob", session: "s1"}, {principal: "ann", session: "s2"}, {session: "s1"},
	} {
		retry := q.retry(first, answer)
		retry.principal, retry.session = other.principal, other.session
		if got := mustSend(t, l, retry); got.Error.Code != mcp.CodeInvalidParams {
			t.Errorf("%s in %s got %s", other.principal, other.session, got.raw)
		}
	}
	empty := mustSend(t, l, q.retry(first))
	if empty.Result.ResultType != "input_required" || len(empty.Result.InputRequests) != 1 || empty.Result.RequestState == first.Result.RequestState {
		t.Errorf("a retry without answers got %s, want the question again", empty.raw)
	}
	if got := mustSend(t, l, q.retry(empty, answer)); got.text() != "accept x" {
		t.Errorf("got %s", got.raw)
	}

	for _, tt := range []struct{ name, caps string }{
		{"greet", `{}`}, {"greet", `{"elicitation":{"url":{}}}`}, {"visit", `{"elicitation":{}}`}, {"think", `{"elicitation":{}}`}, {"where", `{}`},
	} {
		r := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: tt.name, params: `"arguments":{},`, caps: tt.caps, principal: "ann"})
		if !r.Result.IsError || r.Result.ResultType != "complete" {
			t.Errorf("%s with %s got %s, want a tool error", tt.name, tt.caps, r.raw)
		}
	}
}

// A refusal of the client's reaches the server as an error.
func TestParkedCallRefused(t *testing.T) {
	l, _ := shake(t, stateful(asking(nil)))
	q := modern{method: mcp.MethodToolsCall, name: "think", params: `"arguments":{},`, caps: allCaps}
	r := mustSend(t, l, q.retry(mustSend(t, l, q), `{"`+metaInputError+`":{"code":-1,"message":"User rejected"}}`))
	if !r.Result.IsError || !strings.Contains(r.text(), "User rejected") {
		t.Errorf("got %s", r.raw)
	}
}

// A parked call ends when nobody comes back, and the server is told.
func TestParkedTooLong(t *testing.T) {
	cancelled := make(chan string, 1)
	l, seen := shake(t, stateful(asking(cancelled)), func(c *Config) { c.Sessions.ParkMax = 20 * time.Millisecond })
	q := modern{method: mcp.MethodToolsCall, name: "greet", params: `"arguments":{},`, caps: allCaps}
	first := mustSend(t, l, q)
	<-cancelled
	if seen.times("POST notifications/cancelled") != 1 {
		t.Errorf("the server was sent %q", seen.lines())
	}
	if r := mustSend(t, l, q.retry(first, `{"action":"accept"}`)); r.Error.Code != mcp.CodeInvalidParams {
		t.Errorf("a late retry got %s", r.raw)
	}
}

// Parked calls hold no place among the calls under way, and have bounds of their
// own.
func TestParkedBounds(t *testing.T) {
	l, _ := shake(t, stateful(asking(nil)), func(c *Config) {
		c.MaxInFlight = 1
		c.Sessions.MaxParked, c.Sessions.MaxParkedPerPrincipal = 3, 2
	})
	park := func(who string) error {
		_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "greet", params: `"arguments":{},`, caps: allCaps, principal: who, id: 10 + len(l.parking.calls)})
		return err
	}
	for _, tt := range []struct {
		who  string
		want bool
	}{{"ann", true}, {"ann", true}, {"ann", false}, {"bob", true}, {"cid", false}} {
		err := park(tt.who)
		if tt.want && err != nil {
			t.Errorf("%s: %v", tt.who, err)
		} else if !tt.want {
			wantClass(t, err, ClassOverloaded, false)
		}
	}
}

// A call whose client leaves is cancelled at the server.
func TestCancelTellsTheServer(t *testing.T) {
	cancelled := make(chan string, 1)
	l, seen := shake(t, stateful(asking(cancelled)))
	q := modern{method: mcp.MethodToolsCall, name: "hang", params: `"arguments":{},`}
	mustSend(t, l, modern{method: mcp.MethodToolsList})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := send(ctx, l, q)
		done <- err
	}()
	<-cancelled // it has begun
	cancel()
	wantClass(t, <-done, ClassCanceled, false)
	<-cancelled
	if n := seen.times("POST notifications/cancelled"); n != 1 {
		t.Errorf("%d cancellations, want 1", n)
	}
}

// An error that wants the user to visit a URL becomes a question, whose answer
// makes the call again.
func TestURLElicitationRequired(t *testing.T) {
	visited := false
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		if visited {
			answerJSON(w, 200, m.result(`{"content":[{"type":"text","text":"in"}]}`))
			return
		}
		answerJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/","message":"Sign in"}]}}}`, m.ID))
	})
	l, _ := shake(t, h)
	q := modern{method: mcp.MethodToolsCall, name: "x", params: `"arguments":{},`}
	r := mustSend(t, l, q)
	if r.Error.Code != mcp.CodeMissingClientCapability || r.status != http.StatusBadRequest || string(r.Error.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
		t.Errorf("without the capability: %d %s", r.status, r.raw)
	}
	q.caps = allCaps
	r = mustSend(t, l, q)
	for _, in := range r.Result.InputRequests {
		if in.Method != "elicitation/create" || in.Params["url"] != "https://example.com/" || in.Params["elicitationId"] != nil || in.Params["mode"] != "url" {
			t.Errorf("asked for %v", in)
		}
	}
	visited = true
	if r = mustSend(t, l, q.retry(r, `{"action":"accept"}`)); r.text() != "in" {
		t.Errorf("the retry got %s", r.raw)
	}
}

// The name of a parked call tells who holds it to those who have the ring, for its
// upstream only. What a server makes up tells nothing.
func TestHolderOf(t *testing.T) {
	ring, foreign := seal.NewRandom(), seal.NewRandom()
	conf := Config{Tenant: "acme", Alias: "ledger"}
	name := func(deps Deps) string { return `"` + newParking(&conf, &deps).name() + `"` }
	held := name(Deps{Ring: ring, Holder: "10.0.0.7:7000"})
	tests := []struct {
		name, tenant, alias, state string
		want                       string
		ok                         bool
	}{
		{"held", "acme", "ledger", held, "10.0.0.7:7000", true},
		{"escaped", "acme", "ledger", strings.Replace(held, "p", `\u0070`, 1), "10.0.0.7:7000", true},
		{"of another tenant", "acmel", "edger", held, "", false},
		{"of another upstream", "acme", "travel", held, "", false},
		{"of a process with other keys", "acme", "ledger", name(Deps{Ring: foreign, Holder: "10.0.0.7:7000"}), "", false},
		{"of a single process", "acme", "ledger", name(Deps{}), "", false},
		{"made up", "acme", "ledger", `"park:10.0.0.7:7000"`, "", false},
		{"for another purpose", "acme", "ledger", `"park:` + ring.Seal("requestState", []byte("10.0.0.7:7000"), parkBinding("acme", "ledger")) + `"`, "", false},
		{"without the prefix", "acme", "ledger", strings.Replace(held, "park:", "", 1), "", false},
		{"no text", "acme", "ledger", "7", "", false},
		{"cut off", "acme", "ledger", held[:len(held)-2], "", false},
		{"nothing", "acme", "ledger", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := HolderOf(ring, tt.tenant, tt.alias, []byte(tt.state))
			if got != tt.want || ok != tt.ok {
				t.Errorf("%q, %t, want %q, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
	if again := name(Deps{Ring: ring, Holder: "10.0.0.7:7000"}); again == held {
		t.Error("two calls have the same name")
	}
}

// With a ring calls are parked and found again as without.
func TestParkedUnderASealedName(t *testing.T) {
	ring := seal.NewRandom()
	l, _ := shake(t, stateful(asking(nil)))
	l.parking.ring, l.parking.holder = ring, "here"
	q := modern{method: mcp.MethodToolsCall, name: "greet", params: `"arguments":{},`, caps: allCaps}
	first := mustSend(t, l, q)
	if holder, ok := HolderOf(ring, "acme", "ledger", mcp.AppendQuote(nil, first.Result.RequestState)); holder != "here" || !ok {
		t.Errorf("holder %q, %t", holder, ok)
	}
	if got := mustSend(t, l, q.retry(first, `{"action":"accept","content":{"name":"x"}}`)); got.text() != "accept x" {
		t.Errorf("got %s", got.raw)
	}
}
