package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// row is one row of the design's table "Requests of the modern era, exactly".
type row struct {
	name   string
	path   string // "/mcp" when empty
	body   string
	header []string

	status int
	code   int    // 0: no error
	text   string // the message of the error; empty for any
	data   string // its data; empty for none
}

// check sends the row's request and compares the answer.
func (r *row) check(t *testing.T, client *rawClient, root string) {
	t.Helper()
	path := r.path
	if path == "" {
		path = "/mcp"
	}
	got := client.at(root+path).send(r.body, r.header...)
	if len(got.messages) != 1 {
		t.Fatalf("status %d: %q", got.status, got.messages)
	}
	f := readFailure(t, got.last())
	if got.status != r.status || f.Error.Code != r.code || string(f.Error.Data) != r.data || string(f.ID) != `"q-1"` {
		t.Errorf("status %d: %.500s\nwant %d, code %d, data %s", got.status, got.last(), r.status, r.code, r.data)
	}
	if r.text != "" && f.Error.Message != r.text {
		t.Errorf("the message is %q, want %q", f.Error.Message, r.text)
	}
}

// newRows starts the upstreams of the rows: a with everything and b without the
// tasks extension.
func newRows(t *testing.T) (a, b *scripted, root string) {
	t.Helper()
	a, b = newScripted(t), newScripted(t)
	a.list("tools/list",
		`{"name":"echo","inputSchema":{"type":"object"}}`,
		`{"name":"hidden","inputSchema":{"type":"nothing"}}`,
		`{"name":"query","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"on":{"type":"boolean","x-mcp-header":"On"}}}}`)
	a.list("prompts/list", `{"name":"plan"}`)
	a.list("resources/list", `{"uri":"doc://a","name":"a"}`)
	b.tools("echo", "third")
	b.result("server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"ttlMs":3600000,"cacheScope":"public"}`)
	for _, up := range []*scripted{a, b} {
		for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get"} {
			up.result(method, `{"resultType":"complete","content":[]}`)
		}
	}
	return a, b, front(t, "", "    pageSize: 1\n", upstreamOf("a", a.URL), upstreamOf("b", b.URL)).URL
}

// withTasks declares the tasks extension in a message.
func withTasks(message string) string { return strings.Replace(message, bareMeta, tasksMeta, 1) }

// TestRowsOfNames holds that what is unknown and what is hidden cannot be told
// apart, and neither reaches an upstream.
func TestRowsOfNames(t *testing.T) {
	const alone = "/t/default/u/a/mcp"
	notThere := func(uri string) string { return `{"uri":"` + uri + `"}` }
	tests := []row{
		{name: "a tool of nobody", body: callOf("nobody_x"), text: "Unknown tool: nobody_x"},
		{name: "a tool that is not there", body: callOf("a_nothing"), text: "Unknown tool: a_nothing"},
		{name: "a hidden tool", body: callOf("a_hidden"), text: "Unknown tool: a_hidden"},
		{name: "a tool without its prefix", body: callOf("echo"), text: "Unknown tool: echo"},
		{name: "a tool of another upstream", body: callOf("a_third"), text: "Unknown tool: a_third"},
		{name: "a tool in another case", body: callOf("A_echo"), text: "Unknown tool: A_echo"},
		{name: "a tool with the other separator", body: callOf("a__echo"), text: "Unknown tool: a__echo"},
		{name: "an empty tool", body: callOf(""), header: []string{"Mcp-Name: =?base64??="}, text: "Unknown tool: "},
		{name: "a tool alone that is not there", path: alone, body: callOf("nothing"), text: "Unknown tool: nothing"},
		{name: "a hidden tool alone", path: alone, body: callOf("hidden"), text: "Unknown tool: hidden"},
		{name: "a tool alone with a prefix", path: alone, body: callOf("a_echo"), text: "Unknown tool: a_echo"},
		{name: "a name that is no string", body: ask("tools/call", `"name":5`), header: []string{"Mcp-Name: 5"}},
		{name: "no name", body: ask("tools/call", ""), header: []string{"Mcp-Name: x"}},
		{name: "arguments that are no object", body: ask("tools/call", `"name":"a_echo","arguments":[]`)},
		{name: "a prompt of nobody", body: ask("prompts/get", `"name":"nobody_x"`), text: "Unknown prompt: nobody_x"},
		{name: "a prompt that is not there", body: ask("prompts/get", `"name":"a_nothing"`), text: "Unknown prompt: a_nothing"},
		{name: "a prompt that is a tool", body: ask("prompts/get", `"name":"a_echo"`), text: "Unknown prompt: a_echo"},
		{name: "a resource of nobody", body: ask("resources/read", `"uri":"nobody+doc://a"`), text: "Resource not found", data: notThere("nobody+doc://a")},
		{name: "a resource without its alias", body: ask("resources/read", `"uri":"doc://a"`), text: "Resource not found", data: notThere("doc://a")},
		{name: "a resource that is no URI", body: ask("resources/read", `"uri":"a+word"`), text: "Resource not found", data: notThere("a+word")},
		{name: "a URI that is no string", body: ask("resources/read", `"uri":null`), header: []string{"Mcp-Name: x"}},
		{name: "completion of a prompt of nobody", body: ask("completion/complete", `"ref":{"type":"ref/prompt","name":"nobody_x"},"argument":{"name":"a","value":""}`), text: "Unknown prompt: nobody_x"},
		{name: "completion of a resource of nobody", body: ask("completion/complete", `"ref":{"type":"ref/resource","uri":"nobody+doc://{x}"},"argument":{"name":"a","value":""}`), text: "Resource not found", data: notThere("nobody+doc://{x}")},
		{name: "completion of nothing", body: ask("completion/complete", `"ref":{"type":"ref/tool","name":"a_echo"},"argument":{"name":"a","value":""}`)},
		{name: "a task of nobody", body: withTasks(ask("tasks/get", `"taskId":"nobody+1"`)), text: "Task not found"},
		{name: "a task without its alias", body: withTasks(ask("tasks/get", `"taskId":"1"`)), text: "Task not found"},
		{name: "a task that is cancelled by another name", body: withTasks(ask("tasks/cancel", `"taskId":"A+1"`)), text: "Task not found"},
		{name: "a task id that is no string", body: withTasks(ask("tasks/get", `"taskId":1`)), header: []string{"Mcp-Name: 1"}},
	}
	a, b, root := newRows(t)
	client := newRawClient(t, "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.status, tt.code = 200, -32602
			tt.check(t, client, root)
		})
	}
	for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get", "tasks/cancel"} {
		if n := len(a.requests(method)) + len(b.requests(method)); n != 0 {
			t.Errorf("%d requests for %s reached an upstream", n, method)
		}
	}
}

// TestRowsOfTasks holds where the tasks extension is offered.
func TestRowsOfTasks(t *testing.T) {
	const needed = `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	get, of := ask("tasks/get", `"taskId":"a+1"`), ask("tasks/get", `"taskId":"1"`)
	tests := []row{
		{name: "declared", body: withTasks(get), status: 200},
		{name: "not declared", body: get, status: 400, code: -32021, data: needed},
		{name: "not declared, and nobody's", body: ask("tasks/get", `"taskId":"nobody+1"`), status: 400, code: -32021, data: needed},
		{name: "alone", path: "/t/default/u/a/mcp", body: withTasks(of), status: 200},
		{name: "alone and not declared", path: "/t/default/u/a/mcp", body: of, status: 400, code: -32021, data: needed},
		{name: "an upstream without tasks", path: "/t/default/u/b/mcp", body: withTasks(of), status: 404, code: -32601, text: "Method not found"},
	}
	_, _, root := newRows(t)
	client := newRawClient(t, "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, client, root) })
	}
}

// TestRowsOfParameterHeaders holds what becomes of a call whose Mcp-Param headers
// do not go with its arguments.
func TestRowsOfParameterHeaders(t *testing.T) {
	const good = 200
	call := func(arguments string) string {
		return ask("tools/call", `"name":"a_query","arguments":{`+arguments+`}`)
	}
	tests := []struct {
		row
		sent []string // what the upstream gets, where all is well
	}{
		{row: row{name: "equal", body: call(`"region":"eu","n":42,"on":true`), header: []string{"Mcp-Param-Region: eu", "Mcp-Param-N: 42", "Mcp-Param-On: true"}, status: good}, sent: []string{"eu", "42", "true"}},
		{row: row{name: "encoded", body: call(`"region":"日本"`), header: []string{"Mcp-Param-Region: =?base64?5pel5pys?="}, status: good}, sent: []string{"=?base64?5pel5pys?=", "", ""}},
		{row: row{name: "integers compare as numbers", body: call(`"n":4.2e1`), header: []string{"Mcp-Param-N: 42.0"}, status: good}, sent: []string{"", "42", ""}},
		{row: row{name: "none due", body: call(`"region":null`), status: good}, sent: []string{"", "", ""}},
		{row: row{name: "missing", body: call(`"region":"eu"`), status: 400, code: -32020}},
		{row: row{name: "unequal", body: call(`"region":"eu"`), header: []string{"Mcp-Param-Region: us"}, status: 400, code: -32020}},
		{row: row{name: "in another case", body: call(`"region":"eu"`), header: []string{"Mcp-Param-Region: EU"}, status: 400, code: -32020}},
		{row: row{name: "malformed", body: call(`"region":"eu"`), header: []string{"Mcp-Param-Region: =?base64?%%?="}, status: 400, code: -32020}},
		{row: row{name: "not due", body: call(``), header: []string{"Mcp-Param-Region: eu"}, status: 400, code: -32020}},
		{row: row{name: "another integer", body: call(`"n":42`), header: []string{"Mcp-Param-N: 42.5"}, status: 400, code: -32020}},
		{row: row{name: "an integer that is none", body: call(`"n":42`), header: []string{"Mcp-Param-N: forty-two"}, status: 400, code: -32020}},
		{row: row{name: "another boolean", body: call(`"on":true`), header: []string{"Mcp-Param-On: 1"}, status: 400, code: -32020}},
		{row: row{name: "a value of another type", body: call(`"n":"42"`), header: []string{"Mcp-Param-N: 42"}, status: 400, code: -32020}},
		{row: row{name: "a key twice", body: call(`"region":"eu","region":"us"`), header: []string{"Mcp-Param-Region: eu"}, status: 400, code: -32020}},
		{row: row{name: "of an unknown tool", body: callOf("a_nothing"), header: []string{"Mcp-Param-Region: us"}, status: 200, code: -32602}},
	}
	a, _, root := newRows(t)
	client := newRawClient(t, "")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(a.requests("tools/call"))
			tt.header = append(tt.header, "Mcp-Param-Other: passes")
			tt.check(t, client, root)
			calls := a.requests("tools/call")[before:]
			if tt.sent == nil {
				if len(calls) != 0 {
					t.Error("the call reached the upstream")
				}
				return
			}
			if len(calls) != 1 {
				t.Fatalf("%d calls reached the upstream, want one", len(calls))
			}
			h := calls[0].header
			got := []string{h.Get("Mcp-Param-Region"), h.Get("Mcp-Param-N"), h.Get("Mcp-Param-On")}
			if !slices.Equal(got, tt.sent) || h.Get("Mcp-Param-Other") != "passes" {
				t.Errorf("the upstream got %q and %q, want %q", got, h.Get("Mcp-Param-Other"), tt.sent)
			}
		})
	}
}

// TestRowsOfCursors holds that a cursor is good for its own list and endpoint
// only.
func TestRowsOfCursors(t *testing.T) {
	_, _, root := newRows(t)
	client := newRawClient(t, root+"/mcp")
	first := readPage(t, client.send(ask("tools/list", "")).last(), "tools")
	if first.cursor == "" {
		t.Fatal("the first page has no cursor")
	}
	altered := []byte(first.cursor)
	altered[len(altered)/2] ^= 1
	with := func(method, cursor string) string { return ask(method, `"cursor":`+cursor) }
	tests := []row{
		{name: "of its list", body: with("tools/list", `"`+first.cursor+`"`)},
		{name: "null", body: with("tools/list", `null`), code: -32602},
		{name: "a number", body: with("tools/list", `1`), code: -32602},
		{name: "empty", body: with("tools/list", `""`), code: -32602},
		{name: "made up", body: with("tools/list", `"eyJvZmZzZXQiOjF9"`), code: -32602},
		{name: "altered", body: with("tools/list", fmt.Sprintf("%q", altered)), code: -32602},
		{name: "of another list", body: with("prompts/list", `"`+first.cursor+`"`), code: -32602},
		{name: "of another endpoint", path: "/t/default/u/a/mcp", body: with("tools/list", `"`+first.cursor+`"`), code: -32602},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.status = 200
			tt.check(t, client, root)
		})
	}
}

// TestRowsOfRequestState holds that a requestState is good for the request that it
// was given for, and that another one never reaches an upstream.
func TestRowsOfRequestState(t *testing.T) {
	a, b, root := newRows(t)
	client := newRawClient(t, root+"/mcp")
	asks := func(w http.ResponseWriter, r *http.Request, a *asked) {
		if strings.Contains(a.body, `"requestState"`) {
			answerResult(`{"resultType":"complete","content":[]}`)(w, r, a)
			return
		}
		answerResult(`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}},"requestState":"mine"}`)(w, r, a)
	}
	for _, up := range []*scripted{a, b} {
		up.handle("tools/call", asks)
		up.handle("prompts/get", asks)
		up.handle("resources/read", asks)
	}
	token := sealedState(t, client.send(ask("tools/call", `"name":"a_echo","arguments":{"x":1,"y":"é"}`)).last())
	altered := []byte(token)
	altered[len(altered)-2] ^= 1
	retry := func(method, params, token string) string {
		return ask(method, params+`,"inputResponses":{"r":{"roots":[]}},"requestState":`+token)
	}
	const own = `"name":"a_echo","arguments":{"x":1,"y":"é"}`
	quoted := `"` + token + `"`
	tests := []row{
		{name: "its own", body: retry("tools/call", own, quoted)},
		{name: "again", body: retry("tools/call", own, quoted)},
		{name: "with the same arguments in another form", body: retry("tools/call", `"arguments":{ "y":"\u00e9","x":1},"name":"a_echo"`, quoted)},
		{name: "with other arguments", body: retry("tools/call", `"name":"a_echo","arguments":{"x":2,"y":"é"}`, quoted), code: -32602},
		{name: "without arguments", body: retry("tools/call", `"name":"a_echo"`, quoted), code: -32602},
		{name: "of another tool", body: retry("tools/call", strings.Replace(own, "echo", "query", 1), quoted), code: -32602},
		{name: "of another upstream", body: retry("tools/call", strings.Replace(own, "a_", "b_", 1), quoted), code: -32602},
		{name: "of another method", body: retry("prompts/get", `"name":"a_plan","arguments":{"x":1,"y":"é"}`, quoted), code: -32602},
		{name: "of a resource", body: retry("resources/read", `"uri":"a+doc://a"`, quoted), code: -32602},
		{name: "altered", body: retry("tools/call", own, fmt.Sprintf("%q", altered)), code: -32602},
		{name: "the upstream's own", body: retry("tools/call", own, `"mine"`), code: -32602},
		{name: "empty", body: retry("tools/call", own, `""`), code: -32602},
		{name: "a number", body: retry("tools/call", own, `1`), code: -32602},
		{name: "null", body: retry("tools/call", own, `null`), code: -32602},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.status = 200
			before := len(a.requests("tools/call")) + len(b.requests("tools/call"))
			tt.check(t, client, root)
			if reached := len(a.requests("tools/call")) + len(b.requests("tools/call")) - before; (reached == 0) != (tt.code != 0) {
				t.Errorf("%d calls reached an upstream", reached)
			}
		})
	}
}

// sealedState gives the requestState of a result.
func sealedState(t *testing.T, message string) string {
	t.Helper()
	_, rest, ok := strings.Cut(message, `"requestState":"`)
	token, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("no requestState in %s", message)
	}
	return token
}

// TestExpiredRequestState holds that a requestState does not live for ever.
func TestExpiredRequestState(t *testing.T) {
	up := newScripted(t)
	up.tools("echo")
	up.result("tools/call", `{"resultType":"input_required","inputRequests":{},"requestState":"mine"}`)
	gw := front(t, "limits: {stateTTL: 1ms}\n", "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	token := sealedState(t, client.send(callOf("a_echo")).last())
	eventually(t, "the requestState has expired", func() bool {
		got := client.send(ask("tools/call", `"name":"a_echo","arguments":{},"requestState":"`+token+`"`))
		return got.status == 200 && readFailure(t, got.last()).Error.Code == -32602
	})
}
