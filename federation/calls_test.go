package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// echoName answers a call with the name that the upstream saw.
func echoName(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
	writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%q}]}}`,
		m.ID.In(m.Raw), m.Name.Value))
}

func TestCallRoutesByTheTable(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.list(kindTools, tool("run"), tool("dot.ted"))
	b.list(kindTools, tool("run"))
	a.handle(mcp.MethodToolsCall, echoName)
	b.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"b"}]}}`, m.ID.In(m.Raw)))
	})
	r := newRig(t, nil, up("a", a), up("b", b))
	for _, tt := range []struct{ alias, name, want string }{
		{"", "a_run", "run"},
		{"", "b_run", "b"},
		{"", "a_dot_ted_" + hash8("dot.ted"), "dot.ted"},
		{"a", "dot.ted", "dot.ted"},
		{"b", "run", "b"},
	} {
		body := r.do(r.callOf(tt.alias, mcp.MethodToolsCall, `"name":"`+tt.name+`","arguments":{}`))
		if want := `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","content":[{"type":"text","text":"` + tt.want + `"}]}}`; body != want {
			t.Errorf("call of %s: %s, want %s", tt.name, body, want)
		}
	}
	for _, name := range []string{"run", "a_dot.ted", "c_run", "a_", "A_run"} {
		_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":{}`))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
	if n := a.count(mcp.MethodToolsCall); n != 3 {
		t.Errorf("upstream a got %d calls, want 3", n)
	}
}

func TestCallOfAnUnknownNameRefreshesOnce(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("old"))
	p.handle(mcp.MethodToolsCall, echoName)
	r := newRig(t, nil, up("a", p))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	p.list(kindTools, tool("old"), tool("fresh"))
	if body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_fresh"`)); !strings.Contains(body, `"fresh"`) {
		t.Errorf("body = %s", body)
	}
	before := p.count(mcp.MethodToolsList)
	_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_never"`))
	wantCode(t, err, mcp.CodeInvalidParams)
	if n := p.count(mcp.MethodToolsList) - before; n != 1 {
		t.Errorf("an unknown name caused %d refreshes, want 1", n)
	}
	_, err = r.try(r.callOf("", mcp.MethodToolsCall, `"name":"other_never"`))
	wantCode(t, err, mcp.CodeInvalidParams)
	if n := p.count(mcp.MethodToolsList) - before; n != 1 {
		t.Error("a name of no upstream caused a refresh")
	}
}

func TestCallToAnUpstreamThatCouldNeverBeListed(t *testing.T) {
	p := newPeer(t)
	p.Close()
	r := newRig(t, nil, up("down", p))
	_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"down_x"`))
	var ue *upstream.Error
	if !errors.As(err, &ue) || ue.Alias != "down" || ue.Class != upstream.ClassConnect {
		t.Errorf("error = %v, want a connect failure of down", err)
	}
}

func TestCallParamHeaders(t *testing.T) {
	p := newPeer(t)
	def := func(header string) string {
		return `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"},"n":{"type":"integer","x-mcp-header":"N"}}}}`
	}
	p.list(kindTools, def("Region"))
	var got http.Header
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		got = r.Header.Clone()
		echoName(w, r, m)
	})
	r := newRig(t, nil, up("a", p))
	call := func(h map[string]string) error {
		c := r.callOf("", mcp.MethodToolsCall, `"name":"a_q","arguments":{"region":"Zürich","n":42}`)
		for k, v := range h {
			c.Header.Set(k, v)
		}
		_, err := r.try(c)
		return err
	}
	good := map[string]string{"Mcp-Param-Region": mcp.EncodeHeader("Zürich"), "Mcp-Param-N": "42.0", "Mcp-Param-Other": "kept", "Authorization": "Bearer secret", "Cookie": "c=1", "X-Custom": "no"}
	if err := call(good); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Mcp-Param-Region": mcp.EncodeHeader("Zürich"), "Mcp-Param-N": "42", "Mcp-Param-Other": "kept", "Authorization": "", "Cookie": "", "X-Custom": "", "Mcp-Name": "q"}
	for k, v := range want {
		if got.Get(k) != v {
			t.Errorf("upstream got %s: %q, want %q", k, got.Get(k), v)
		}
	}
	for name, h := range map[string]map[string]string{
		"missing":   {"Mcp-Param-N": "42"},
		"unequal":   {"Mcp-Param-Region": "Bern", "Mcp-Param-N": "42"},
		"malformed": {"Mcp-Param-Region": "=?base64?!!?=", "Mcp-Param-N": "42"},
	} {
		if err := call(h); err == nil {
			t.Errorf("%s header was accepted", name)
		} else {
			wantCode(t, err, mcp.CodeHeaderMismatch)
		}
	}
	// The schema changes at the upstream: its -32020 makes the gateway read the
	// list again and retry once.
	p.list(kindTools, def("Zone"))
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		if r.Header.Get("Mcp-Param-Zone") == "" {
			writeJSON(w, 400, string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(mcp.CodeHeaderMismatch, "no zone"))))
			return
		}
		echoName(w, r, m)
	})
	if err := call(good); err != nil {
		t.Errorf("after the schema changed: %v", err)
	}
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		writeJSON(w, 400, string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(mcp.CodeHeaderMismatch, "never"))))
	})
	zone := map[string]string{"Mcp-Param-Zone": mcp.EncodeHeader("Zürich"), "Mcp-Param-N": "42"}
	before := p.count(mcp.MethodToolsCall)
	err := call(zone)
	var ue *upstream.Error
	if !errors.As(err, &ue) || ue.Class != upstream.ClassRejected {
		t.Errorf("error = %v, want rejected", err)
	}
	if n := p.count(mcp.MethodToolsCall) - before; n != 2 {
		t.Errorf("the upstream was asked %d times, want 2", n)
	}
}

func TestCallNotificationsAreFilteredAndRestored(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("slow"))
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		token := string(m.Meta.ProgressToken.In(m.Raw))
		if token == "" {
			token = `"none"`
		}
		for _, msg := range []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":0.50,"x":1e400}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"foreign","progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}`,
			`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}`,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID.In(m.Raw)),
		} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", msg)
		}
	})
	r := newRig(t, nil, up("a", p))
	run := func(extra string) []string {
		raw := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a_slow","_meta":{` + extra +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		c := r.callRaw("", raw)
		var got []string
		c.Notify = func(raw []byte) error { got = append(got, string(raw)); return nil }
		got = append(got, r.do(c))
		return got
	}
	final := `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[]}}`
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok\u002d1","progress":0.50,"x":1e400}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}`,
		final,
	}
	if diff := cmp.Diff(want, run(`"progressToken":"tok\u002d1","io.modelcontextprotocol/logLevel":"warning",`)); diff != "" {
		t.Errorf("with token and level (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{final}, run("")); diff != "" {
		t.Errorf("without (-want +got):\n%s", diff)
	}
}

func TestCallMultiRoundTrip(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("book"), tool("other"))
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		if !m.RequestState.Ok() {
			writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"sure?"}}},"requestState":"s\u0074ate/\u00e9\ud83d"}}`, m.ID.In(m.Raw)))
			return
		}
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[],"x":1}}`, m.ID.In(m.Raw)))
	})
	r := newRig(t, nil, up("a", p), up("b", p))
	first := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_book","arguments":{"n":1, "m":2}`))
	state := field(t, first, "result", "requestState")
	if strings.Contains(first, "tate/") {
		t.Fatalf("the upstream's state is readable: %s", first)
	}
	retry := func(name, args, state string) *Call {
		return r.callOf("", mcp.MethodToolsCall, fmt.Sprintf(`"name":%q,"arguments":%s,"inputResponses":{"q":{"action":"accept"}},"requestState":%s`, name, args, state))
	}
	if body := r.do(retry("a_book", `{"m":2,"n":1}`, state)); !strings.Contains(body, `"x":1`) {
		t.Errorf("body = %s", body)
	}
	if !strings.Contains(p.last(mcp.MethodToolsCall), `"requestState":"s\u0074ate/\u00e9\ud83d"`) {
		t.Errorf("the upstream's state changed on the way: %s", p.last(mcp.MethodToolsCall))
	}
	refused := map[string]*Call{
		"other arguments": retry("a_book", `{"n":1,"m":3}`, state),
		"other tool":      retry("a_other", `{"n":1,"m":2}`, state),
		"other upstream":  retry("b_book", `{"n":1,"m":2}`, state),
		"garbage":         retry("a_book", `{"n":1,"m":2}`, `"garbage"`),
		"no string":       retry("a_book", `{"n":1,"m":2}`, `7`),
		"empty":           retry("a_book", `{"n":1,"m":2}`, `""`),
	}
	stranger := retry("a_book", `{"n":1,"m":2}`, state)
	stranger.Principal.Subject = "mallory"
	refused["other principal"] = stranger
	for name, c := range refused {
		_, err := r.try(c)
		if err == nil {
			t.Errorf("%s: the state was accepted", name)
			continue
		}
		wantCode(t, err, mcp.CodeInvalidParams)
	}
	r.pass(time.Hour)
	_, err := r.try(retry("a_book", `{"n":1,"m":2}`, state))
	wantCode(t, err, mcp.CodeInvalidParams)
}

func TestCallRelaysErrors(t *testing.T) {
	answer := func(status, code int) func(http.ResponseWriter, *http.Request, *mcp.Request) {
		return func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
			writeJSON(w, status, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"as it is","data":{"n":1.0,"uri":"x://y"}}}`, m.ID.In(m.Raw), code))
		}
	}
	tests := []struct {
		name         string
		status, code int
		wantStatus   int
		wantCode     int            // of a relayed error
		wantClass    upstream.Class // of one that is ours
	}{
		{"application error", 200, -1234, 200, -1234, ""},
		{"invalid params with 400", 400, -32602, 200, -32602, ""},
		{"missing capability", 400, -32021, 400, -32021, ""},
		{"method not found though there are tools", 200, -32601, 0, 0, upstream.ClassRejected},
		{"method lacking", 404, -32601, 404, -32601, ""},
		{"version", 400, -32022, 0, 0, upstream.ClassVersion},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t)
			p.list(kindTools, tool("x"))
			p.handle(mcp.MethodToolsCall, answer(tt.status, tt.code))
			r := newRig(t, nil, up("a", p))
			reply, err := r.fed.Handle(context.Background(), r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
			if tt.wantClass != "" {
				if classOf(err) != tt.wantClass {
					t.Errorf("error = %v, want class %s", err, tt.wantClass)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer reply.Body.Release()
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"c-1","error":{"code":%d,"message":"as it is","data":{"n":1.0,"uri":"a+x://y"}}}`, tt.wantCode)
			if string(reply.Body.B) != want || reply.Status != tt.wantStatus {
				t.Errorf("reply = %d %s, want %d %s", reply.Status, reply.Body.B, tt.wantStatus, want)
			}
		})
	}
}

func TestCallRefusesUnknownResultTypes(t *testing.T) {
	tests := []struct {
		name, alias, method, params, result string
		ok                                  bool
	}{
		{"unknown", "", mcp.MethodToolsCall, `"name":"a_x"`, `{"resultType":"strange"}`, false},
		{"a number", "", mcp.MethodToolsCall, `"name":"a_x"`, `{"resultType":3}`, false},
		{"absent", "", mcp.MethodToolsCall, `"name":"a_x"`, `{"content":[]}`, true},
		{"task that was declared", "", mcp.MethodToolsCall, `"name":"a_x"`, `{"resultType":"task","taskId":"t1","status":"working"}`, true},
		{"input required where it may not be", "", mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"a+x://{y}"},"argument":{"name":"y","value":""}`, `{"resultType":"input_required"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t)
			p.list(kindTools, tool("x"))
			p.result(tt.method, tt.result)
			r := newRig(t, nil, up("a", p))
			body, err := r.try(r.callOf(tt.alias, tt.method, tt.params))
			if tt.ok != (err == nil) {
				t.Errorf("error = %v, body %s", err, body)
			}
			if err != nil && classOf(err) != upstream.ClassProtocol {
				t.Errorf("error = %v, want a protocol failure", err)
			}
		})
	}
}

func TestTasksAreRoutedByTheirAlias(t *testing.T) {
	p, plain := newPeer(t), newPeer(t)
	plain.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	p.list(kindTools, tool("x"))
	p.result(mcp.MethodToolsCall, `{"resultType":"task","taskId":"t/1","status":"working"}`)
	p.result(mcp.MethodTasksGet, `{"resultType":"complete","taskId":"t/1","status":"completed","result":{"content":[{"type":"resource_link","uri":"doc://1","name":"n"}]}}`)
	r := newRig(t, nil, up("a", p), up("b", plain))
	body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
	if got := field(t, body, "result", "taskId"); got != `"a+t/1"` {
		t.Fatalf("taskId = %s", got)
	}
	body = r.do(r.callOf("", mcp.MethodTasksGet, `"taskId":"a+t/1"`))
	want := `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","taskId":"a+t/1","status":"completed","result":{"content":[{"type":"resource_link","uri":"a+doc://1","name":"n"}]}}}`
	if body != want {
		t.Errorf("body = %s, want %s", body, want)
	}
	if !strings.Contains(p.last(mcp.MethodTasksGet), `"taskId":"t/1"`) {
		t.Errorf("the upstream got %s", p.last(mcp.MethodTasksGet))
	}
	for _, id := range []string{`"t/1"`, `"zz+t/1"`, `7`} {
		_, err := r.try(r.callOf("", mcp.MethodTasksGet, `"taskId":`+id))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
	undeclared := r.callRaw("", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"nonsense",`+fmt.Sprintf(metaFields, "{}")+`}}`)
	_, err := r.try(undeclared)
	wantCode(t, err, mcp.CodeMissingClientCapability)
	_, err = r.try(r.callOf("b", mcp.MethodTasksGet, `"taskId":"t/1"`))
	wantCode(t, err, mcp.CodeMethodNotFound)
}

func TestUnknownMethods(t *testing.T) {
	p := newPeer(t)
	p.result("example/odd", `{"resultType":"complete","v":9007199254740993}`)
	r := newRig(t, nil, up("a", p))
	_, err := r.try(r.callOf("", "example/odd", ""))
	wantCode(t, err, mcp.CodeMethodNotFound)
	if body := r.do(r.callOf("a", "example/odd", "")); body != `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","v":9007199254740993}}` {
		t.Errorf("body = %s", body)
	}
}
