package mcp

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseRequestErrors(t *testing.T) {
	const ok = `"jsonrpc":"2.0","method":"tools/call"`
	tests := []struct {
		name   string
		in     string
		code   int
		id     string // what can be answered to
		naming string // part of the message
	}{
		{name: "empty", in: ``, code: CodeParse},
		{name: "blank", in: " \n", code: CodeParse},
		{name: "cut", in: `{"id":1,` + ok, code: CodeParse},
		{name: "trailing data", in: `{"id":1,` + ok + `} x`, code: CodeParse, naming: "byte"},
		{name: "a second message", in: `{"id":1,` + ok + `}{}`, code: CodeParse},
		{name: "trailing comma", in: `{"id":1,` + ok + `,}`, code: CodeParse},
		{name: "single quotes", in: `{'id':1}`, code: CodeParse},
		{name: "byte order mark", in: "\uFEFF{\"id\":1," + ok + "}", code: CodeParse},
		{name: "raw control character", in: "{\"id\":\"\n\"," + ok + "}", code: CodeParse},
		{name: "bad escape", in: `{"id":"\x",` + ok + `}`, code: CodeParse},
		{name: "bad number", in: `{"id":01,` + ok + `}`, code: CodeParse},
		{name: "invalid UTF-8 in arguments", in: `{"id":1,` + ok + `,"params":{"arguments":{"a":"` + "\xff" + `"}}}`, code: CodeParse, naming: "UTF-8"},
		{name: "raw surrogate", in: `{"id":1,` + ok + `,"x":"` + "\xed\xa0\x80" + `"}`, code: CodeParse},
		{name: "syntax error after a violation", in: `{"id":null,"id":1,x}`, code: CodeParse},

		{name: "string", in: `"x"`, code: CodeInvalidRequest},
		{name: "null", in: `null`, code: CodeInvalidRequest},
		{name: "batch", in: `[{"id":1,` + ok + `}]`, code: CodeInvalidRequest, naming: "batch"},
		{name: "empty object", in: `{}`, code: CodeInvalidRequest},
		{name: "no jsonrpc", in: `{"id":1,"method":"ping"}`, code: CodeInvalidRequest, id: `1`, naming: "jsonrpc"},
		{name: "jsonrpc 1.0", in: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, code: CodeInvalidRequest, id: `1`},
		{name: "jsonrpc as number", in: `{"jsonrpc":2.0,"id":1,"method":"ping"}`, code: CodeInvalidRequest, id: `1`},
		{name: "no method", in: `{"jsonrpc":"2.0","id":1}`, code: CodeInvalidRequest, id: `1`, naming: "method"},
		{name: "empty method", in: `{"jsonrpc":"2.0","id":1,"method":""}`, code: CodeInvalidRequest, id: `1`},
		{name: "method as number", in: `{"jsonrpc":"2.0","id":"x","method":1}`, code: CodeInvalidRequest, id: `"x"`},
		{name: "method with lone surrogate", in: `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, code: CodeInvalidRequest, id: `1`},
		{name: "result", in: `{"jsonrpc":"2.0","id":1,"result":{}}`, code: CodeInvalidRequest, id: `1`, naming: "response"},
		{name: "error", in: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, code: CodeInvalidRequest, id: `1`},
		{name: "method and result", in: `{"id":1,` + ok + `,"result":{}}`, code: CodeInvalidRequest, id: `1`},

		{name: "id null", in: `{"id":null,` + ok + `}`, code: CodeInvalidRequest, naming: "id"},
		{name: "id fraction", in: `{"id":1.5,` + ok + `}`, code: CodeInvalidRequest},
		{name: "id 1.0", in: `{"id":1.0,` + ok + `}`, code: CodeInvalidRequest},
		{name: "id exponent", in: `{"id":1e3,` + ok + `}`, code: CodeInvalidRequest},
		{name: "id boolean", in: `{"id":true,` + ok + `}`, code: CodeInvalidRequest},
		{name: "id object", in: `{"id":{},` + ok + `}`, code: CodeInvalidRequest},
		{name: "id array", in: `{"id":[1],` + ok + `}`, code: CodeInvalidRequest},
		{name: "id twice", in: `{"id":1,"id":1,` + ok + `}`, code: CodeInvalidRequest, naming: `"id"`},
		{name: "id twice, once escaped", in: `{"id":1,"\u0069d":2,` + ok + `}`, code: CodeInvalidRequest, naming: `"id"`},

		{name: "params null", in: `{"id":1,` + ok + `,"params":null}`, code: CodeInvalidRequest, id: `1`, naming: "params"},
		{name: "params array", in: `{"id":1,` + ok + `,"params":[]}`, code: CodeInvalidRequest, id: `1`, naming: "params"},
		{name: "params array of a notification", in: `{` + ok + `,"params":[]}`, code: CodeInvalidRequest},
		{name: "id after the violation", in: `{` + ok + `,"params":{"name":"a","name":"b"},"id":7}`, code: CodeInvalidRequest, id: `7`, naming: `"name"`},
		{name: "uri with lone surrogate", in: `{"id":1,` + ok + `,"params":{"uri":"a\udc00"}}`, code: CodeInvalidRequest, id: `1`, naming: `"uri"`},
		{name: "name with swapped surrogates", in: `{"id":1,` + ok + `,"params":{"name":"\udc00\ud800"}}`, code: CodeInvalidRequest, id: `1`, naming: `"name"`},
	}
	for _, key := range []string{"name", "uri", "taskId", "cursor", "ref", "arguments", "notifications", "inputResponses", "requestState", "_meta"} {
		tests = append(tests, struct {
			name   string
			in     string
			code   int
			id     string
			naming string
		}{name: "duplicate params." + key, in: fmt.Sprintf(`{"id":1,%s,"params":{%q:{},%q:{}}}`, ok, key, key), code: CodeInvalidRequest, id: `1`, naming: fmt.Sprintf("%q", key)})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(tt.in), 64)
			if r == nil || err == nil {
				t.Fatalf("ParseRequest() = %v, %v, want a request and an error", r, err)
			}
			if err.Code != tt.code || !strings.Contains(err.Message, tt.naming) {
				t.Errorf("error = %v, want %d naming %s", err, tt.code, tt.naming)
			}
			if got := string(r.ID.In(r.Raw)); got != tt.id {
				t.Errorf("ID = %s, want %s", got, tt.id)
			}
		})
	}
}

// TestParseRequestLetterCase holds that no key is let through that a reader
// without regard to letter case would take for a routed one.
func TestParseRequestLetterCase(t *testing.T) {
	tests := []struct{ name, in, key string }{
		{"Method", `{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, "Method"},
		{"only Params", `{"jsonrpc":"2.0","id":1,"method":"a","Params":{}}`, "Params"},
		{"ID", `{"jsonrpc":"2.0","ID":1,"method":"a"}`, "ID"},
		{"JSONRPC", `{"jsonrpc":"2.0","JSONRPC":"2.0","id":1,"method":"a"}`, "JSONRPC"},
		{"Result", `{"jsonrpc":"2.0","Result":{},"id":1,"method":"a"}`, "Result"},
		{"Name", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"Name":"b"}}`, "Name"},
		{"escaped NAME", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"n\u0041me":"b"}}`, "nAme"},
		{"taskID", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"taskID":"b"}}`, "taskID"},
		{"Kelvin sign", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"tasKId":"b"}}`, "tasKId"},
		{"long s", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"argumentſ":{}}}`, "argumentſ"},
		{"escaped long s", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"argument\u017f":{}}}`, "argumentſ"},
		{"_Meta", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_Meta":{}}}`, "_Meta"},
		{"ref.Type", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"ref":{"Type":"b"}}}`, "Type"},
		{"protocolversion", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"io.modelcontextprotocol/protocolversion":"b"}}}`, "io.modelcontextprotocol/protocolversion"},
		{"progresstoken", `{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progresstoken":1}}}`, "progresstoken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRequest([]byte(tt.in), 64)
			if err == nil || err.Code != CodeInvalidRequest || !strings.Contains(err.Message, fmt.Sprintf("%q", tt.key)) {
				t.Errorf("error = %v, want -32600 naming %q", err, tt.key)
			}
		})
	}
}

func TestParseDepth(t *testing.T) {
	nested := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"brackets":"[[[[[[[[[[[[\"[[[[[[[[\\","x":` +
			strings.Repeat(`[`, n) + strings.Repeat(`]`, n) + `}}}`
	}
	tests := []struct {
		name     string
		in       string
		maxDepth int
		want     int // the error's code, 0 for none
	}{
		{name: "at the bound", in: nested(7), maxDepth: 10},
		{name: "over the bound", in: nested(8), maxDepth: 10, want: CodeInvalidRequest},
		{name: "over the hard bound", in: nested(10_000), maxDepth: 1_000_000, want: CodeInvalidRequest},
		{name: "no bound given", in: nested(5_000)},
		{name: "not closed", in: `{"a":` + strings.Repeat(`[`, 9), maxDepth: 10, want: CodeParse},
		{name: "string not closed", in: `{"a":"` + strings.Repeat(`[`, 20), maxDepth: 10, want: CodeParse},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := 0
			if _, err := ParseRequest([]byte(tt.in), tt.maxDepth); err != nil {
				got = err.Code
			}
			if got != tt.want {
				t.Errorf("error code = %d, want %d", got, tt.want)
			}
		})
	}
}

// TestParseRequestReuse holds that a message does not see anything of the one
// that was read before it.
func TestParseRequestReuse(t *testing.T) {
	good := []byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`)
	for _, bad := range []string{`{"id":1,"id":2}`, `{`, `[`, "\xff", `{"a":[[[[[[[[[[[[]]]]]]]]]]]]}`} {
		if _, err := ParseRequest([]byte(bad), 8); err == nil {
			t.Fatalf("%q was accepted", bad)
		}
		r, err := ParseRequest(good, 8)
		if err != nil || r.Method != "a" || string(r.ID.In(good)) != "1" {
			t.Errorf("after %q: %v, %v", bad, r, err)
		}
	}
}

func TestIsNotification(t *testing.T) {
	for in, want := range map[string]bool{
		`{"jsonrpc":"2.0","method":"a"}`:         true,
		`{"jsonrpc":"2.0","method":"a","id":0}`:  false,
		`{"jsonrpc":"2.0","method":"a","id":""}`: false,
	} {
		if r, err := ParseRequest([]byte(in), 8); err != nil || r.IsNotification() != want {
			t.Errorf("%s: IsNotification() = %v, error %v, want %v", in, r.IsNotification(), err, want)
		}
	}
}
