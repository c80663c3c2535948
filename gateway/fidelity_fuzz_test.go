package gateway_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"
)

// FuzzFidelity sends any JSON through a running gateway as an argument of a tool,
// and back as structured content.
func FuzzFidelity(f *testing.F) {
	paths, err := filepath.Glob("testdata/fidelity/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			f.Add(side{id: "1", token: "2", state: `"s"`}.render(strings.NewReplacer("$TEXT", "", "$BLOB", "").Replace(string(file.Data))))
		}
	}
	for _, seed := range []string{`1e400`, `[-0.0]`, ` {"a":{"a":1,"a":2}} `, `"\ud800"`, "\"\xff\"", `{"Name":"x"}`, strings.Repeat("[", 253) + strings.Repeat("]", 253), strings.Repeat("[", 254) + strings.Repeat("]", 254)} {
		f.Add(seed)
	}
	up := newScripted(f)
	up.tools("echo")
	gw := front(f, "", "", upstreamOf("x", up.URL))
	transport := newRawClient(f, "").transport
	f.Fuzz(func(t *testing.T, value string) {
		if !json.Valid([]byte(value)) {
			return
		}
		received := make(chan *asked, 1)
		up.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, a *asked) {
			received <- a
			answerJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"content":[],"structuredContent":`+value+`}}`)
		})
		body := func(id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"echo","arguments":{"v":` + value + `},"_meta":` + bareMeta + `}}`
		}
		client := &rawClient{t, transport, gw.URL + "/t/default/u/x/mcp"}
		got := client.send(body("7"))
		if !utf8.ValidString(value) || depth(value) > 256-3 { // the message, its params and the arguments
			if got.status != 400 || len(received) != 0 {
				t.Errorf("status %d for what must be refused, and %d requests reached the upstream", got.status, len(received))
			}
			return
		}
		if len(received) != 1 {
			t.Fatalf("%d requests reached the upstream; the client got %.500q", len(received), got.messages)
		}
		a := <-received
		equalBytes(t, "the upstream received", a.body, body(string(a.ID)))
		equalBytes(t, "the client received", got.last(), `{"jsonrpc":"2.0","id":7,"result":{"content":[],"structuredContent":`+value+`}}`)
	})
}

// depth is how deep valid JSON is nested.
func depth(s string) (deepest int) {
	open, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			open++
			deepest = max(deepest, open)
		case c == ']' || c == '}':
			open--
		}
	}
	return deepest
}
