package gateway_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOddLists has an upstream list what is partly of no use: the rest is served,
// and so is the good upstream.
func TestOddLists(t *testing.T) {
	const fine = `{"name":"any","inputSchema":{"type":"object"}}`
	tests := []struct {
		name   string
		result string // in answer to tools/list
		reason string // in partial, if the part is missing
	}{
		{name: "null instead of a list", result: `"tools":null`, reason: "protocol"},
		{name: "no list", result: `"x":1`, reason: "protocol"},
		{name: "an object instead of a list", result: `"tools":{"0":` + fine + `}`, reason: "protocol"},
		{name: "a cursor that leads to itself", result: `"tools":[` + fine + `],"nextCursor":"again"`, reason: "protocol"},
		{name: "a cursor that is a number", result: `"tools":[` + fine + `],"nextCursor":1`, reason: "protocol"},
		{name: "an invalid schema in one tool", result: `"tools":[{"name":"broken","inputSchema":{"type":"objekt"}},` + fine + `]`},
		{name: "an invalid pattern of required", result: `"tools":[` + fine + `,{"name":"broken","inputSchema":{"type":"object","required":"city"}}]`},
		{name: "an output schema that is none", result: `"tools":[` + fine + `,{"name":"broken","inputSchema":{"type":"object"},"outputSchema":{"type":1}}]`},
		{name: "no input schema", result: `"tools":[{"name":"broken"},` + fine + `]`},
		{name: "a parameter header that is none", result: `"tools":[` + fine + `,{"name":"broken","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}]`},
		{name: "a tool twice", result: `"tools":[` + fine + `,{"name":"any","description":"the second","inputSchema":{"type":"object"}}]`},
		{name: "a tool with two names", result: `"tools":[{"name":"broken","name":"any","inputSchema":{"type":"object"}},` + fine + `]`},
		{name: "a tool with a name and a Name", result: `"tools":[{"name":"broken","Name":"any","inputSchema":{"type":"object"}},` + fine + `]`},
		{name: "what are no tools", result: `"tools":[null,1,"broken",[],{},{"name":1},{"name":""},{"name":"\ud800","inputSchema":{"type":"object"}},` + fine + `]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good, bad := newGood(t), newScripted(t)
			bad.result("tools/list", `{"resultType":"complete",`+tt.result+`,"ttlMs":3600000,"cacheScope":"public"}`)
			bad.result("tools/call", `{"resultType":"complete","content":[]}`)
			gw := front(t, lenient, "", upstreamOf("good", good.URL), upstreamOf("bad", bad.URL))
			client := newRawClient(t, gw.URL+"/mcp")
			list := client.send(ask("tools/list", "")).last()
			want, partial := []string{"bad_any", "good_ping"}, []string(nil)
			if tt.reason != "" {
				want, partial = []string{"good_ping"}, []string{"bad:" + tt.reason}
			}
			if diff := cmp.Diff(want, toolNames(t, list)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(partial, partialOf(t, list)); diff != "" {
				t.Errorf("partial (-want +got):\n%s", diff)
			}
			checkGood(t, client)
			call := client.send(callOf("bad_any"))
			if tt.reason != "" {
				checkFailure(t, call, tt.reason, true)
				return
			}
			if want := `{"jsonrpc":"2.0","id":"q-1","result":{"resultType":"complete","content":[]}}`; call.last() != want {
				t.Errorf("the call: %.500q, want %s", call.messages, want)
			}
			// What is not listed cannot be called.
			hidden := readFailure(t, client.send(callOf("bad_broken")).last())
			if hidden.Error.Code != -32602 || hidden.Error.Message != "Unknown tool: bad_broken" {
				t.Errorf("the call of what was left out: %+v", hidden)
			}
			if n := len(bad.requests("tools/call")); n != 1 {
				t.Errorf("%d calls reached the upstream, want one", n)
			}
		})
	}
}

// gzipped writes its answer with gzip, where that was asked for.
func gzipped(t *testing.T, contentType, text string) answering {
	return func(w http.ResponseWriter, r *http.Request, a *asked) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("Accept-Encoding is %q", r.Header.Get("Accept-Encoding"))
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, strings.ReplaceAll(text, "$ID", string(a.ID))) // a buffer takes all
		_ = z.Close()
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(b.Bytes())
	}
}

// TestUnusualAnswersWork has upstreams answer in ways that are allowed and rare.
func TestUnusualAnswersWork(t *testing.T) {
	const message = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"日本"}]}}`
	events := "data: " + message + "\n\n"
	text20 := strings.Repeat("0123456789 äöü 日本\\n", 20<<20/27)
	large := strings.Replace(message, "日本", text20, 1)
	tests := []struct {
		name   string
		answer answering
		want   string // message when empty
	}{
		{name: "gzip", answer: gzipped(t, "application/json", message)},
		{name: "events with gzip", answer: gzipped(t, "text/event-stream", events)},
		{name: "20 MB", answer: said(large), want: large},
		{name: "20 MB as an event", answer: page20(large), want: large},
		{name: "a content type with parameters", answer: typed("Application/JSON; charset=utf-8", message)},
		{name: "events with a BOM, CRLF, comments, ids and retry", answer: typed("text/event-stream; charset=utf-8",
			"\ufeff: hello\r\n\r\nid: 1\r\nretry: 3000\r\nevent: message\r\ndata:"+message+"\r\n\r\n: bye\r\n\r\n")},
		{name: "an event in pieces", answer: typed("text/event-stream", "data: "+strings.ReplaceAll(message, ",", ",\ndata: ")+"\n\n"),
			want: strings.ReplaceAll(message, ",", ",\n")},
		{name: "events of another type before it", answer: typed("text/event-stream", "event: ping\ndata: {}\n\ndata:\n\n"+events)},
		{name: "more after the final message", answer: typed("text/event-stream", events+events+"data: {}\n\n")},
		{name: "a request before it, which is nobody's", answer: typed("text/event-stream", `data: {"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n\n"+events)},
		{name: "HTTP/1.0", answer: oldHTTP(message)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newScripted(t)
			up.tools("any")
			up.handle("tools/call", tt.answer)
			gw := front(t, lenient, "", upstreamOf("a", up.URL))
			got := newRawClient(t, gw.URL+"/mcp").send(callOf("a_any"))
			want := tt.want
			if want == "" {
				want = message
			}
			if got.status != 200 || len(got.messages) != 1 {
				t.Fatalf("status %d: %d messages: %.500q", got.status, len(got.messages), got.messages)
			}
			equalBytes(t, "the client received", got.last(), strings.Replace(want, "$ID", `"q-1"`, 1))
		})
	}
}

// typed answers with a text in which $ID is the request's id.
func typed(contentType, text string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "$ID", string(a.ID)))
	}
}

func page20(message string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		answerEvents(w, strings.Replace(message, "$ID", string(a.ID), 1))
	}
}

// oldHTTP answers as HTTP/1.0 does: the end of the connection ends the body.
func oldHTTP(message string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n%s", strings.Replace(message, "$ID", string(a.ID), 1))
	}
}

// TestKeysThatDifferByCase holds that a key which a server without regard to
// letter case would take for another one never reaches an upstream.
func TestKeysThatDifferByCase(t *testing.T) {
	up := newScripted(t)
	up.tools("safe", "dangerous")
	up.result("tools/call", `{"resultType":"complete","content":[]}`)
	gw := front(t, "", "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	if got := client.send(callOf("a_safe")); got.status != 200 {
		t.Fatalf("the call without such a key: %d %q", got.status, got.messages)
	}
	const arguments = `"arguments":{}`
	tests := []struct{ name, old, with string }{
		{"Name", arguments, `"Name":"dangerous",` + arguments},
		{"NAME before it", `"name":`, `"NAME":"dangerous","name":`},
		{"escaped, in another case", arguments, `"\u004eame":"dangerous",` + arguments},
		{"name twice", arguments, `"name":"dangerous",` + arguments},
		{"escaped twice", arguments, `"\u006ename":"x","\u006eame":"dangerous",` + arguments},
		{"Arguments", arguments, `"Arguments":{"x":1},` + arguments},
		{"the long s", arguments, `"argumentſ":{"x":1},` + arguments},
		{"the Kelvin sign", arguments, `"tas\u212aId":"t",` + arguments},
		{"arguments twice", arguments, arguments + `,"arguments":{"x":1}`},
		{"URI", arguments, `"URI":"u",` + arguments},
		{"Cursor", arguments, `"Cursor":"c",` + arguments},
		{"RequestState", arguments, `"requeststate":"s",` + arguments},
		{"InputResponses", arguments, `"InputResponses":{},` + arguments},
		{"_Meta", arguments, `"_Meta":{},` + arguments},
		{"_meta twice", arguments, `"_meta":` + bareMeta + `,` + arguments},
		{"Params", `"params":`, `"Params":{"name":"dangerous"},"params":`},
		{"params twice", `"method":`, `"params":{"name":"dangerous"},"method":`},
		{"METHOD", `"method":`, `"METHOD":"tools/list","method":`},
		{"method twice", `"params":`, `"method":"tools/list","params":`},
		{"ID", `"method":`, `"ID":"q-2","method":`},
		{"id twice", `"method":`, `"id":"q-2","method":`},
		{"JSONRPC", `"method":`, `"JSONRPC":"2.0","method":`},
		{"a version in another case", bareMeta, strings.Replace(bareMeta, `{`, `{"io.modelcontextprotocol/ProtocolVersion":"x",`, 1)},
		{"the version twice", bareMeta, strings.Replace(bareMeta, `{`, `{"io.modelcontextprotocol/protocolVersion":"2025-11-25",`, 1)},
		{"ProgressToken", bareMeta, strings.Replace(bareMeta, `{`, `{"ProgressToken":1,`, 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := strings.Replace(callOf("a_safe"), tt.old, tt.with, 1)
			for _, url := range []string{gw.URL + "/mcp", gw.URL + "/t/default/u/a/mcp"} {
				// The headers are those of the message as we read it.
				got := client.at(url).send(body, "Mcp-Method: tools/call", "Mcp-Name: a_safe", "Mcp-Protocol-Version: 2026-07-28")
				if f := readFailure(t, got.last()); got.status != 400 || f.Error.Code != -32600 {
					t.Errorf("status %d: %.500q, want 400 and -32600", got.status, got.messages)
				}
			}
		})
	}
	if n := len(up.requests("tools/call")); n != 1 {
		t.Errorf("%d calls reached the upstream, want that of the beginning", n)
	}
	if slices.ContainsFunc(up.requests("tools/call"), func(a *asked) bool { return strings.Contains(a.body, "dangerous") }) {
		t.Error("an upstream was asked for the dangerous tool")
	}
}
