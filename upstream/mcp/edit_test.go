package mcp

import (
	"encoding/json"
	"testing"
)

func TestEditsSplice(t *testing.T) {
	raw := []byte(`0123456789`)
	tests := []struct {
		name string
		edit func(e *Edits)
		want string
	}{
		{name: "none", edit: func(*Edits) {}, want: `0123456789`},
		{name: "replace", edit: func(e *Edits) { e.Replace(Span{2, 4}, []byte("xyz")) }, want: `01xyz456789`},
		{name: "delete all", edit: func(e *Edits) { e.Replace(Span{0, 10}, nil) }, want: ``},
		{name: "any order", edit: func(e *Edits) {
			e.Replace(Span{8, 9}, []byte("c"))
			e.Insert(0, []byte("<"))
			e.Replace(Span{2, 3}, []byte("b"))
			e.Insert(10, []byte(">"))
		}, want: `<01b34567c9>`},
		{name: "insertions at one place keep their order", edit: func(e *Edits) {
			e.Insert(5, []byte("a"))
			e.Insert(5, []byte("b"))
			e.Insert(5, []byte("c"))
		}, want: `01234abc56789`},
		{name: "insertion before a change", edit: func(e *Edits) {
			e.Replace(Span{5, 6}, []byte("X"))
			e.Insert(5, []byte("a"))
			e.Insert(6, []byte("b"))
		}, want: `01234aXb6789`},
		{name: "neighbours", edit: func(e *Edits) {
			e.Replace(Span{4, 6}, []byte("B"))
			e.Replace(Span{2, 4}, []byte("A"))
		}, want: `01AB6789`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e Edits
			tt.edit(&e)
			for range 2 { // applying twice gives the same
				if got := string(e.AppendTo([]byte("dst:"), raw)); got != "dst:"+tt.want {
					t.Errorf("AppendTo() = %s, want dst:%s", got, tt.want)
				}
			}
			e.Reset()
			if !e.Empty() || string(e.AppendTo(nil, raw)) != string(raw) {
				t.Error("Reset left something")
			}
		})
	}
}

func TestEditsMembers(t *testing.T) {
	set := func(path string, pairs ...string) func(*Edits, []byte) {
		return func(e *Edits, raw []byte) {
			for i := 0; i < len(pairs); i += 2 {
				e.SetMember(raw, object(raw, path), pairs[i], []byte(pairs[i+1]))
			}
		}
	}
	remove := func(path string, keys ...string) func(*Edits, []byte) {
		return func(e *Edits, raw []byte) {
			for _, k := range keys {
				e.RemoveMember(raw, object(raw, path), k)
			}
		}
	}
	tests := []struct {
		name, in string
		edits    []func(*Edits, []byte)
		want     string
	}{
		{name: "replace", in: `{"a":1,"b":2}`, edits: []func(*Edits, []byte){set("", "a", `"x"`)}, want: `{"a":"x","b":2}`},
		{name: "replace keeps white space", in: "{ \"a\" : 1 ,\n\"b\":2 }", edits: []func(*Edits, []byte){set("", "a", `[]`)}, want: "{ \"a\" : [] ,\n\"b\":2 }"},
		{name: "replace an escaped key", in: `{"\u0061":1}`, edits: []func(*Edits, []byte){set("", "a", `2`)}, want: `{"\u0061":2}`},
		{name: "replace all duplicates", in: `{"a":1,"b":2,"a":3}`, edits: []func(*Edits, []byte){set("", "a", `0`)}, want: `{"a":0,"b":2,"a":0}`},
		{name: "add", in: `{"a":1}`, edits: []func(*Edits, []byte){set("", "b", `2`)}, want: `{"a":1,"b":2}`},
		{name: "add to an empty object", in: `{}`, edits: []func(*Edits, []byte){set("", "b", `2`)}, want: `{"b":2}`},
		{name: "add to a blank object", in: "{ \n}", edits: []func(*Edits, []byte){set("", "b", `2`)}, want: "{\"b\":2 \n}"},
		{name: "add several", in: `{"a":1 }`, edits: []func(*Edits, []byte){set("", "b", `2`, "c", `3`, "d", `4`)}, want: `{"a":1,"b":2,"c":3,"d":4 }`},
		{name: "add several to an empty object", in: `{}`, edits: []func(*Edits, []byte){set("", "b", `2`, "c", `3`)}, want: `{"b":2,"c":3}`},
		{name: "add a key that needs escapes", in: `{}`, edits: []func(*Edits, []byte){set("", "a\"\n世", `1`)}, want: `{"a\"\n世":1}`},
		{name: "nested objects", in: `{"o":{},"p":{"x":1}}`, edits: []func(*Edits, []byte){set("p", "y", `2`), set("", "z", `3`), set("o", "k", `4`, "l", `5`), set("", "zz", `6`)},
			want: `{"o":{"k":4,"l":5},"p":{"x":1,"y":2},"z":3,"zz":6}`},
		{name: "both last in their objects", in: `{"o":{}}`, edits: []func(*Edits, []byte){set("", "a", `1`), set("o", "b", `2`), set("", "c", `3`), set("o", "d", `4`)},
			want: `{"o":{"b":2,"d":4},"a":1,"c":3}`},
		{name: "not an object", in: `[1]`, edits: []func(*Edits, []byte){set("", "a", `1`), remove("", "a")}, want: `[1]`},

		{name: "remove the first", in: `{"a":1, "b":2,"c":3}`, edits: []func(*Edits, []byte){remove("", "a")}, want: `{"b":2,"c":3}`},
		{name: "remove one between", in: `{"a":1, "b":2 ,"c":3}`, edits: []func(*Edits, []byte){remove("", "b")}, want: `{"a":1 ,"c":3}`},
		{name: "remove the last", in: `{"a":1, "b":2 }`, edits: []func(*Edits, []byte){remove("", "b")}, want: `{"a":1 }`},
		{name: "remove the only one", in: `{ "a":1 }`, edits: []func(*Edits, []byte){remove("", "a")}, want: `{  }`},
		{name: "remove nothing", in: `{"a":1}`, edits: []func(*Edits, []byte){remove("", "b")}, want: `{"a":1}`},
		{name: "remove duplicates", in: `{"a":1,"b":2,"a":3}`, edits: []func(*Edits, []byte){remove("", "a")}, want: `{"b":2}`},
		{name: "remove several", in: `{"a":1,"b":2,"c":3,"d":4}`, edits: []func(*Edits, []byte){remove("", "d", "a", "b")}, want: `{"c":3}`},
		{name: "remove all", in: `{"a":1,"b":2}`, edits: []func(*Edits, []byte){remove("", "b", "a")}, want: `{}`},
		{name: "remove the only one and add", in: `{"a":1}`, edits: []func(*Edits, []byte){set("", "b", `2`), remove("", "a"), set("", "c", `3`)}, want: `{"b":2,"c":3}`},
		{name: "remove the last and add", in: `{"a":1,"b":2}`, edits: []func(*Edits, []byte){remove("", "b"), set("", "c", `3`)}, want: `{"a":1,"c":3}`},
		{name: "remove, replace and add", in: `{"a":1,"b":2,"c":3}`, edits: []func(*Edits, []byte){remove("", "a", "c"), set("", "b", `0`, "d", `4`)}, want: `{"b":0,"d":4}`},
		{name: "remove in two objects", in: `{"a":1,"o":{"a":1,"b":2},"p":{"x":1}}`, edits: []func(*Edits, []byte){remove("", "a"), remove("o", "b"), remove("p", "x"), set("p", "y", `2`)},
			want: `{"o":{"a":1},"p":{"y":2}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := []byte(tt.in)
			var e Edits
			for _, edit := range tt.edits {
				edit(&e, raw)
			}
			got := e.AppendTo(nil, raw)
			if string(got) != tt.want {
				t.Errorf("AppendTo() = %s, want %s", got, tt.want)
			}
			if !json.Valid(got) {
				t.Errorf("%s is not valid JSON", got)
			}
			if string(raw) != tt.in {
				t.Errorf("the message was changed to %s", raw)
			}
		})
	}
}

// object finds the object at a key of the whole, or the whole.
func object(raw []byte, key string) Span {
	if key == "" {
		return Span{0, len(raw)}
	}
	return Find(raw, Span{0, len(raw)}, key)
}

func TestAppendQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":               `""`,
		"a b~":           `"a b~"`,
		"\"\\/\n\x00":    `"\"\\/\n\u0000"`,
		"世😀\u2028":       "\"世😀\u2028\"",
		"a\xffb\xed\xa0": "\"a\uFFFDb\uFFFD\uFFFD\"",
		"\x7f":           "\"\x7f\"",
	} {
		if got := string(AppendQuote([]byte("."), in)); got != "."+want {
			t.Errorf("AppendQuote(%q) = %s, want .%s", in, got, want)
		}
	}
}

func TestAppendErrorResponse(t *testing.T) {
	tests := []struct {
		name string
		id   string
		err  *Error
		want string
	}{
		{name: "without id", err: Errorf(CodeParse, "bad %q", "x"), want: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"bad \"x\""}}`},
		{name: "with id and data", id: `"a"`, err: &Error{Code: CodeInternal, Message: "down", Data: []byte(`{"a":1}`)}, want: `{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"down","data":{"a":1}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := AppendErrorResponse(nil, []byte(tt.id), tt.err)
			if string(got) != tt.want {
				t.Errorf("AppendErrorResponse() = %s, want %s", got, tt.want)
			}
			m, err := ParseMessage(got, 8)
			if err != nil || m.Kind != KindError || m.Code != tt.err.Code || m.ErrorText != tt.err.Message {
				t.Errorf("read back as %+v, %v", m, err)
			}
		})
	}
}

func TestAppendRequest(t *testing.T) {
	tests := []struct {
		name       string
		info, caps string
		params     []Param
		want       string
	}{
		{name: "bare", want: `{"jsonrpc":"2.0","id":-5,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
		{name: "full", info: `{"name":"causeway","version":"1"}`, caps: `{"elicitation":{}}`, params: []Param{{"cursor", []byte(`"a\"b"`)}, {"x", []byte(`[1]`)}},
			want: `{"jsonrpc":"2.0","id":-5,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"causeway","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}},"cursor":"a\"b","x":[1]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := AppendRequest(nil, -5, MethodToolsList, []byte(tt.info), []byte(tt.caps), tt.params)
			if string(got) != tt.want {
				t.Errorf("AppendRequest() =\n%s, want\n%s", got, tt.want)
			}
			if r, err := ParseRequest(got, 8); err != nil || r.Meta.ProtocolVersion.Value != VersionModern || !r.Meta.ClientCapabilities.Ok() {
				t.Errorf("read back as %+v, %v", r, err)
			}
		})
	}
}
