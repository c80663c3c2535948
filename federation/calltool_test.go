package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// ownIDs are what the gateway chooses anew for each request.
var ownIDs = regexp.MustCompile(`"(id|progressToken)":\d+`)

// through writes the params of a call through call_tool that are those of a direct
// one of the tool.
func through(name, arguments, more string) string {
	return fmt.Sprintf(`"name":"call_tool","arguments":{"arguments":%s,"name":%s}%s`, arguments, name, more)
}

// A call through call_tool reaches the upstream as a direct one does, byte for byte
// and with the same headers.
func TestCallToolSendsWhatADirectCallSends(t *testing.T) {
	const item = `{"name":"to.ol","inputSchema":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"},"n":{"type":"integer","x-mcp-header":"Count"}}}}`
	tests := []struct{ name, arguments, more string }{
		{"no arguments", `{}`, ``},
		{"numbers", `{"big":9007199254740993,"f":1.0,"huge":1e400,"neg":-0.0}`, ``},
		{"white space and order", "{ \"b\" : [ 1 ,\t2 ] , \"a\" : { } }", ``},
		{"duplicates and escapes", `{"k":1,"k":2,"\u006b":"\ud83d","u":"\u00e9é"}`, ``},
		{"what looks like the call itself", `{"name":"a_other","arguments":{"name":"x"},"_meta":{}}`, ``},
		{"a URI of the upstream", `{"uri":"a+doc://x","other":"b+doc://x"}`, ``},
		{"parameters in headers", `{"zone":"Zürich","n":7}`, ``},
		{"answers to questions", `{"q":1}`, `,"inputResponses":{"x":{"action":"accept","content":{"n":9007199254740993}}}`},
		{"members of later revisions", `{}`, `,"future":{"a":1}`},
	}
	p := newPeer(t)
	p.list(kindTools, item)
	var headers []http.Header
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		headers = append(headers, r.Header)
		writeJSON(w, 200, resultFor(m, `{"resultType":"complete","content":[],"structuredContent":{"big":9007199254740993},"odd":[1.0]}`))
	})
	u := up("a", p)
	u.ForwardHeaders = []string{"X-Team"}
	r := newRig(t, nil, u)
	r.discovers(tenant.Discovery{Mode: "search"})
	exposed := `"a_to_ol_` + hash8("to.ol") + `"`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			headers = nil
			var bodies, answers []string
			for _, params := range []string{`"name":` + exposed + `,"arguments":` + tt.arguments + tt.more, through(exposed, tt.arguments, tt.more)} {
				c := r.callOf("", mcp.MethodToolsCall, params)
				c.NoHeaders = true
				c.Header.Set("X-Team", "blue")
				c.Header.Set("Mcp-Param-Unknown", "kept")
				answers = append(answers, r.do(c))
				bodies = append(bodies, ownIDs.ReplaceAllString(p.last(mcp.MethodToolsCall), `"$1":0`))
			}
			if diff := cmp.Diff(bodies[0], bodies[1]); diff != "" {
				t.Errorf("the upstream got (-directly +through call_tool):\n%s", diff)
			}
			if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
				t.Errorf("the client got (-directly +through call_tool):\n%s", diff)
			}
			for _, name := range []string{"Mcp-Name", "Mcp-Method", "Mcp-Param-Zone", "Mcp-Param-Count", "Mcp-Param-Unknown", "X-Team"} {
				if direct, got := headers[0].Values(name), headers[1].Values(name); !slices.Equal(direct, got) {
					t.Errorf("%s: directly %q, through call_tool %q", name, direct, got)
				}
			}
		})
	}
}

// The client of call_tool owes no headers for the arguments of the tool, and
// modern clients of the tool itself do.
func TestCallToolOwesNoHeaders(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, `{"name":"x","inputSchema":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}`)
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
	r := newRig(t, nil, up("a", p))
	r.discovers(tenant.Discovery{Mode: "search"})
	_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_x","arguments":{"zone":"z"}`))
	wantCode(t, err, mcp.CodeHeaderMismatch)
	r.do(r.callOf("", mcp.MethodToolsCall, through(`"a_x"`, `{"zone":"z"}`, "")))
}

// Failures are those of a direct call.
func TestCallToolFails(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	r.discovers(tenant.Discovery{Mode: "search"})
	handle := func(params string) (*Reply, error) {
		return r.fed.Handle(t.Context(), r.callOf("", mcp.MethodToolsCall, params))
	}
	for name, answer := range map[string]string{
		"tool_error": `{"resultType":"complete","content":[],"isError":true}`,
		"":           `{"resultType":"complete","content":[]}`,
	} {
		p.result(mcp.MethodToolsCall, answer)
		reply, err := handle(through(`"a_x"`, `{}`, ""))
		if err != nil || reply.ErrorType != name || reply.Upstream != "a" {
			t.Errorf("%q: %+v, %v", name, reply, err)
		}
		if err == nil && !strings.Contains(string(reply.Body.B), answer[1:len(answer)-1]) {
			t.Errorf("%q: %s", name, reply.Body.B)
		}
	}
	for _, name := range []string{"a_nothing", "nobody_x", "x", ""} {
		_, direct := handle(`"name":"` + name + `","arguments":{}`)
		_, got := handle(through(`"`+name+`"`, `{}`, ""))
		wantCode(t, got, mcp.CodeInvalidParams)
		if direct == nil || got == nil || direct.Error() != got.Error() {
			t.Errorf("%q: directly %v, through call_tool %v", name, direct, got)
		}
	}
	p.fails(mcp.MethodToolsCall, "connect")
	_, direct := handle(`"name":"a_x","arguments":{}`)
	if _, got := handle(through(`"a_x"`, `{}`, "")); got == nil || direct == nil || got.Error() != direct.Error() {
		t.Errorf("of the upstream: directly %v, through call_tool %v", direct, got)
	}
}

// Questions of a tool pass through call_tool, and the answer may come either way:
// what is sealed is bound to the tool.
func TestCallToolMultiRoundTrip(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("book"), tool("other"))
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		if !m.RequestState.Ok() {
			writeJSON(w, 200, resultFor(m, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"sure?"}}},"requestState":"st\u0061te"}`))
			return
		}
		if got := string(m.RequestState.In(m.Raw)); got != `"st\u0061te"` || !m.InputResponses.Ok() {
			t.Errorf("the upstream got back %s", m.Raw)
		}
		writeJSON(w, 200, resultFor(m, `{"resultType":"complete","content":[],"booked":true}`))
	})
	r := newRig(t, nil, up("a", p))
	r.discovers(tenant.Discovery{Mode: "search"})
	const args, again = `{"n":1,"m":[2]}`, `{"m":[2],"n":1}`
	ways := map[string]func(tool, args, more string) string{
		"call_tool": through,
		"directly": func(tool, args, more string) string {
			return `"name":` + tool + `,"arguments":` + args + more
		},
	}
	for first, ask := range ways {
		for second, answer := range ways {
			state := field(t, r.do(r.callOf("", mcp.MethodToolsCall, ask(`"a_book"`, args, ""))), "result", "requestState")
			more := `,"inputResponses":{"q":{"action":"accept"}},"requestState":` + state
			if body := r.do(r.callOf("", mcp.MethodToolsCall, answer(`"a_book"`, again, more))); !strings.Contains(body, `"booked":true`) {
				t.Errorf("asked through %s, answered through %s: %s", first, second, body)
			}
			for what, params := range map[string]string{
				"other arguments": answer(`"a_book"`, `{"n":2}`, more),
				"another tool":    answer(`"a_other"`, args, more),
			} {
				_, err := r.try(r.callOf("", mcp.MethodToolsCall, params))
				wantCode(t, err, mcp.CodeInvalidParams)
				if err == nil {
					t.Errorf("%s: the state was accepted", what)
				}
			}
		}
	}
}

// A retry through call_tool goes to the replica that holds the call.
func TestCallToolIsHeldElsewhere(t *testing.T) {
	p := newPeer(t)
	r := newRig(t, nil, up("a", p))
	r.discovers(tenant.Discovery{Mode: "search"})
	r.fed.opts.Cluster, r.fed.opts.Holder = &Cluster{}, "10.0.0.1:1"
	state := withHolder(r.fed.opts.Ring, "x", Elsewhere{Holder: "10.0.0.2:2", Alias: "a"})
	_, err := r.try(r.callOf("", mcp.MethodToolsCall, through(`"a_x"`, `{}`, `,"requestState":"`+state+`"`)))
	r.fed.opts.Cluster = nil
	var other *Elsewhere
	if !errors.As(err, &other) || other.Holder != "10.0.0.2:2" {
		t.Errorf("got %v", err)
	}
}

// Progress and logs come through with the client's own token, and its leaving ends
// the call.
func TestCallToolProgressAndCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("slow"))
		left := make(chan error, 1)
		p.handle(mcp.MethodToolsCall, func(ctx context.Context, m *mcp.Request) (*answer, error) {
			context.AfterFunc(ctx, func() { left <- context.Cause(ctx) })
			return says(200,
				fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.50}}`, m.Meta.ProgressToken.In(m.Raw)),
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}`), nil
		})
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		meta := strings.Replace(fmt.Sprintf(metaFields, `{}`), `"_meta":{`, `"_meta":{"progressToken":"mine","io.modelcontextprotocol/logLevel":"info",`, 1)
		c := r.callRaw("", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{`+through(`"a_slow"`, `{}`, ",")+meta+`}}`)
		var told []string
		c.Notify = func(raw []byte) error {
			told = append(told, string(raw))
			return nil
		}
		gone := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		if _, err := r.fed.Handle(ctx, c); !errors.Is(err, gone) {
			t.Errorf("the call ended with %v", err)
		}
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("the upstream's call ended with %v", err)
		}
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":0.50}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"busy"}}`,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("notifications (-want +got):\n%s", diff)
		}
	})
}

// A call through call_tool is one call of its tool: for quotas, and in traces.
func TestCallToolCountsAsItsTool(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	r.conf.Limits.CallsPerMinute = 2
	r.discovers(tenant.Discovery{Mode: "search"})
	for range 5 {
		r.meta("search_tools", `{"query":"x"}`)
		r.do(r.callOf("", mcp.MethodToolsCall, through(`7`, `{}`, "")))
	}
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	call := func(tool string) error {
		ctx, span := provider.Tracer("").Start(t.Context(), "tools/call call_tool")
		defer span.End()
		_, err := r.fed.Handle(ctx, r.callOf("", mcp.MethodToolsCall, through(`"`+tool+`"`, `{}`, "")))
		return err
	}
	for _, tool := range []string{"a_nothing", "a_x", "a_x"} {
		if err := call(tool); err != nil && tool == "a_x" {
			t.Fatal(err)
		}
	}
	wantCode(t, call("a_x"), CodeOverQuota)
	var got []string
	for _, s := range spans.Ended() {
		got = append(got, s.Name()+fmt.Sprint(s.Attributes()))
	}
	named := `tools/call a_x[{"gen_ai.tool.name":"a_x"}]`
	if diff := cmp.Diff([]string{"tools/call call_tool[]", named, named, named}, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}
