package mcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEncodeHeader has the examples of basic/transports/streamable-http, Value
// Encoding, and what else does not arrive as it was sent.
func TestEncodeHeader(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "us-west1", "us-west1"},
		{"non-ASCII", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"spaces around", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line break", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"looks encoded", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"markers share a character", "=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"spaces within", "a b  c", "a b  c"},
		{"all visible characters", "!\"#$%&'()*+,-./0:;<=>?@A[\\]^_`a{|}~", "!\"#$%&'()*+,-./0:;<=>?@A[\\]^_`a{|}~"},
		{"only the prefix", "=?base64?x", "=?base64?x"},
		{"other case", "=?BASE64?eA==?=", "=?BASE64?eA==?="},
		{"tab at the end", "a\t", "=?base64?YQk=?="},
		{"tab within", "a\tb", "=?base64?YQli?="},
		{"space at the end", "a ", "=?base64?YSA=?="},
		{"CRLF", "a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"NUL", "\x00", "=?base64?AA==?="},
		{"DEL", "\x7f", "=?base64?fw==?="},
		{"empty", "", "=?base64??="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := EncodeHeader(tt.in)
			if got != tt.want {
				t.Errorf("EncodeHeader(%q) = %q, want %q", tt.in, got, tt.want)
			}
			if back, err := DecodeHeader(got); err != nil || back != tt.in {
				t.Errorf("DecodeHeader(%q) = %q, %v, want %q", got, back, err, tt.in)
			}
		})
	}
}

// TestHeaderOnTheWire holds that encoded values arrive over HTTP as they were.
func TestHeaderOnTheWire(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Values(HeaderName)
	}))
	defer srv.Close()
	for _, want := range []string{"", " a", "a\t", "世", "a\r\nX-Evil: 1", "=?base64?x?=", "file:///a b"} {
		req, err := http.NewRequest(http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(HeaderName, EncodeHeader(want))
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(got) != 1 {
			t.Fatalf("%q arrived as %q", want, got)
		}
		if s, err := DecodeHeader(got[0]); err != nil || s != want {
			t.Errorf("%q arrived as %q, %v", want, s, err)
		}
	}
}

func TestDecodeHeader(t *testing.T) {
	tests := []struct {
		name, in, want string
		fails          bool
	}{
		{name: "not encoded", in: "SGVsbG8=", want: "SGVsbG8="},
		{name: "prefix only", in: "=?base64?SGVsbG8=", want: "=?base64?SGVsbG8="},
		{name: "suffix only", in: "SGVsbG8=?=", want: "SGVsbG8=?="},
		{name: "tab within", in: "a\tb", want: "a\tb"},
		{name: "padding missing", in: "=?base64?SGVsbG8?=", fails: true},
		{name: "other alphabet", in: "=?base64?SGVs!!!bG8=?=", fails: true},
		{name: "URL alphabet", in: "=?base64?_-8=?=", fails: true},
		{name: "space inside", in: "=?base64?SGVs bG8=?=", fails: true},
		{name: "not UTF-8", in: "=?base64?/w==?=", fails: true},
		{name: "line break", in: "a\nb", fails: true},
		{name: "line break in Base64", in: "=?base64?SGVs\nbG8=?=", fails: true},
		{name: "raw UTF-8", in: "caf\u00e9", fails: true},
		{name: "DEL", in: "\x7f", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeHeader(tt.in)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("DecodeHeader(%q) = %q, %v, want %q, fails=%v", tt.in, got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestCheckHeaders(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	request := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	}
	const v, m, n = "MCP-Protocol-Version: 2026-07-28", "mcp-method: tools/call", "Mcp-Name: a b"
	tests := []struct {
		name    string
		headers []string
		body    string
		naming  string // "" for no error
	}{
		{name: "all equal", headers: []string{v, m, n}, body: call},
		{name: "encoded name", headers: []string{v, m, "Mcp-Name: =?base64?YSBi?="}, body: call},
		{name: "given twice alike", headers: []string{v, v, m, m, n, n}, body: call},
		{name: "no version", headers: []string{m, n}, body: call, naming: HeaderProtocolVersion},
		{name: "empty version", headers: []string{"Mcp-Protocol-Version: ", m, n}, body: call, naming: HeaderProtocolVersion},
		{name: "other version", headers: []string{"Mcp-Protocol-Version: 2025-11-25", m, n}, body: call, naming: HeaderProtocolVersion},
		{name: "two versions", headers: []string{v, "Mcp-Protocol-Version: 2025-11-25", m, n}, body: call, naming: HeaderProtocolVersion},
		{name: "malformed version", headers: []string{"Mcp-Protocol-Version: 2026 07 28", m}, body: request("ping", "{}"), naming: HeaderProtocolVersion},
		{name: "encoded version", headers: []string{"Mcp-Protocol-Version: =?base64?MjAyNi0wNy0yOA==?=", m, n}, body: call, naming: HeaderProtocolVersion},
		{name: "version not in the body", headers: []string{"Mcp-Protocol-Version: anything", "Mcp-Method: ping"}, body: request("ping", "{}")},
		{name: "version in the body is no string", headers: []string{v, "Mcp-Method: ping"}, body: request("ping", `{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}`)},
		{name: "no method", headers: []string{v, n}, body: call, naming: HeaderMethod},
		{name: "other method", headers: []string{v, "Mcp-Method: tools/list", n}, body: call, naming: HeaderMethod},
		{name: "method in other case", headers: []string{v, "Mcp-Method: Tools/Call", n}, body: call, naming: HeaderMethod},
		{name: "no name", headers: []string{v, m}, body: call, naming: HeaderName},
		{name: "other name", headers: []string{v, m, "Mcp-Name: b"}, body: call, naming: HeaderName},
		{name: "two names", headers: []string{v, m, n, "Mcp-Name: b"}, body: call, naming: HeaderName},
		{name: "name in other case", headers: []string{v, m, "Mcp-Name: A b"}, body: call, naming: HeaderName},
		{name: "malformed name", headers: []string{v, m, "Mcp-Name: =?base64?YSB?="}, body: call, naming: HeaderName},
		{name: "name with raw UTF-8", headers: []string{v, m, "Mcp-Name: é"}, body: request("tools/call", `{"name":"é"}`), naming: HeaderName},
		{name: "name of a list is not looked at", headers: []string{v, "Mcp-Method: tools/list", "Mcp-Name: x"}, body: request("tools/list", "{}")},
		{name: "name missing in the body", headers: []string{v, m, n}, body: request("tools/call", "{}")},
		{name: "name in the body is no string", headers: []string{v, m, n}, body: request("tools/call", `{"name":1}`)},
		{name: "prompts/get", headers: []string{v, "Mcp-Method: prompts/get", "Mcp-Name: p"}, body: request("prompts/get", `{"name":"p","uri":"q"}`)},
		{name: "resources/read", headers: []string{v, "Mcp-Method: resources/read", "Mcp-Name: a://b"}, body: request("resources/read", `{"uri":"a://b","name":"q"}`)},
		{name: "resources/read with other name", headers: []string{v, "Mcp-Method: resources/read", "Mcp-Name: q"}, body: request("resources/read", `{"uri":"a://b","name":"q"}`), naming: HeaderName},
		{name: "tasks/get", headers: []string{v, "Mcp-Method: tasks/get", "Mcp-Name: t"}, body: request("tasks/get", `{"taskId":"t"}`)},
		{name: "tasks/update without name", headers: []string{v, "Mcp-Method: tasks/update"}, body: request("tasks/update", `{"taskId":"t"}`), naming: HeaderName},
		{name: "tasks/cancel with other name", headers: []string{v, "Mcp-Method: tasks/cancel", "Mcp-Name: u"}, body: request("tasks/cancel", `{"taskId":"t"}`), naming: HeaderName},
		{name: "notification", body: `{"jsonrpc":"2.0","method":"notifications/cancelled"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(tt.body), 8)
			if err != nil {
				t.Fatal(err)
			}
			checkMismatch(t, CheckHeaders(headers(tt.headers), r), tt.naming)
		})
	}
}

func headers(lines []string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		k, v, _ := strings.Cut(line, ": ")
		h.Add(k, v)
	}
	return h
}

func checkMismatch(t *testing.T, err *Error, naming string) {
	t.Helper()
	switch {
	case naming == "" && err != nil:
		t.Errorf("error = %v, want none", err)
	case naming != "" && (err == nil || err.Code != CodeHeaderMismatch || !strings.Contains(err.Message, naming)):
		t.Errorf("error = %v, want -32020 naming %s", err, naming)
	}
}
