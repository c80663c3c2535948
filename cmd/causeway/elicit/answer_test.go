package elicit

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
)

const booking = `{"mode":"form","message":"Book it?\u001b[31m","requestedSchema":{"type":"object","properties":{` +
	`"confirm":{"type":"boolean","title":"Book it","default":true},` +
	`"room":{"type":"string","description":"The kind of room","oneOf":[{"const":"standard","title":"Standard"},{"const":"sea","title":"Sea view"}]},` +
	`"note":{"type":"string","maxLength":5}},"required":["confirm","room"]}}`

func TestTerminalForm(t *testing.T) {
	tests := []struct {
		name, params, typed, want string
	}{
		{"accepted with the default", booking, "\n2\n\na\n", `{"action":"accept","content":{"confirm":true,"room":"sea"}}`},
		{"with everything", booking, "no\nsea view\nhello\naccept\n", `{"action":"accept","content":{"confirm":false,"room":"sea","note":"hello"}}`},
		{"after mistakes", booking, "what\ny\n\n9\n1\ntoo long\nok\n\nx\na\n", `{"action":"accept","content":{"confirm":true,"room":"standard","note":"ok"}}`},
		{"edited", booking, "\n1\nhi\ne\n\n2\n:none\na\n", `{"action":"accept","content":{"confirm":true,"room":"sea"}}`},
		{"declined at the end", booking, "\n1\n\nd\n", `{"action":"decline"}`},
		{"declined at once", booking, ":decline\n", `{"action":"decline"}`},
		{"cancelled", booking, "\n:cancel\n", `{"action":"cancel"}`},
		{"the input ends", booking, "\n1\n", `{"action":"cancel"}`},
		{"without fields", `{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`, "accept\n", `{"action":"accept","content":{}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			asker := &Terminal{terminal.NewLines(strings.NewReader(test.typed)), &out, "travel_bookHotel at host"}
			got, err := asker.Answer(t.Context(), "elicitation/create", []byte(test.params))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got %s, want %s\nthe dialogue was\n%s", got, test.want, &out)
			}
			if !strings.Contains(out.String(), "travel_bookHotel at host asks") || strings.Contains(out.String(), "\x1b") {
				t.Errorf("the dialogue was\n%q\nwant who asks, and no control characters", &out)
			}
		})
	}
}

func TestTerminalPage(t *testing.T) {
	const page = `{"mode":"url","message":"Sign in","url":"https://mcp.example.com/connect?id=1&x=%20"}`
	tests := []struct {
		name, params, typed, want string
		shown                     []string
	}{
		{
			"accepted", page, "\na\n\n", `{"action":"accept"}`,
			[]string{"URL:  https://mcp.example.com/connect?id=1&x=%20\n", "Host: mcp.example.com\n"},
		},
		{"declined", page, "d\n", `{"action":"decline"}`, nil},
		{"cancelled while the page is open", page, "a\n:cancel\n", `{"action":"cancel"}`, nil},
		{"the input ends", page, "", `{"action":"cancel"}`, nil},
		{
			"a page without TLS", `{"mode":"url","message":"m","url":"http://example.com/"}`, "c\n", `{"action":"cancel"}`,
			[]string{"not protected by TLS"},
		},
		{
			"a user that looks like a host", `{"mode":"url","message":"m","url":"https://bank.example@evil.example/"}`, "c\n", `{"action":"cancel"}`,
			[]string{"Host: evil.example\n", "before the @"},
		},
		{
			"Punycode", `{"mode":"url","message":"m","url":"https://xn--pple-43d.example/"}`, "c\n", `{"action":"cancel"}`,
			[]string{"Punycode"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			asker := &Terminal{terminal.NewLines(strings.NewReader(test.typed)), &out, "x"}
			got, err := asker.Answer(t.Context(), "elicitation/create", []byte(test.params))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			for _, want := range test.shown {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the dialogue lacks %q:\n%s", want, &out)
				}
			}
		})
	}
}

func TestTerminalEndsWithTheContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	asker := &Terminal{terminal.NewLines(r), io.Discard, "x"}
	if _, err := asker.Answer(ctx, "elicitation/create", []byte(booking)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct{ name, method, params, want string }{
		{"sampling", "sampling/createMessage", `{}`, "does not offer"},
		{"an unknown mode", "elicitation/create", `{"mode":"voice","message":"m"}`, `"voice"`},
		{"a form without a schema", "elicitation/create", `{"message":"m"}`, "no schema"},
		{"a required field that is not there", "elicitation/create", `{"message":"m","requestedSchema":{"properties":{},"required":["a"]}}`, `"a" is required`},
		{"a program", "elicitation/create", `{"mode":"url","message":"m","url":"file:///etc/passwd"}`, "not a web address"},
		{"no URL", "elicitation/create", `{"mode":"url","message":"m","url":"http://[::1"}`, "not valid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseRequest(test.method, []byte(test.params))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestPrepared(t *testing.T) {
	const page = `{"mode":"url","message":"Sign in","url":"https://example.com/connect"}`
	tests := []struct {
		name    string
		given   []string
		params  string
		want    string
		wantErr string
		told    string
	}{
		{"nobody there", nil, booking, `{"action":"decline"}`, "", "no terminal: declined"},
		{"accepted", []string{`{"action":"accept","content":{"confirm":true,"room":"sea"}}`}, booking, `{"action":"accept","content":{"confirm":true,"room":"sea"}}`, "", "Answered: accept"},
		{"declined", []string{`{"action":"decline"}`}, booking, `{"action":"decline"}`, "", ""},
		{"incomplete", []string{`{"action":"accept"}`}, booking, "", `"confirm" is missing`, ""},
		{"a page gets no content", []string{`{"action":"accept","content":{"x":1}}`}, page, `{"action":"accept"}`, "", "https://example.com/connect"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			p := &Prepared{Out: &out, Who: "x"}
			for _, raw := range test.given {
				g, err := ParseGiven(raw)
				if err != nil {
					t.Fatal(err)
				}
				p.Answers = append(p.Answers, g)
			}
			got, err := p.Answer(t.Context(), "elicitation/create", []byte(test.params))
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got %v, want an error with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want || !strings.Contains(out.String(), test.told) {
				t.Errorf("got %s and told %q, want %s and %q", got, &out, test.want, test.told)
			}
		})
	}
}

func TestPreparedTakesTheAnswersInOrder(t *testing.T) {
	p := &Prepared{Answers: []Given{{Action: Decline}, {Action: Cancel}}, Out: io.Discard}
	for _, want := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"cancel"}`} {
		got, err := p.Answer(t.Context(), "elicitation/create", []byte(booking))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseGiven(t *testing.T) {
	tests := []struct{ name, raw, wantErr string }{
		{"with spaces", ` {"action": "accept", "content": {"big": 12345678901234567890}} `, ""},
		{"no JSON", `{"action":`, "not JSON"},
		{"no object", `"accept"`, "not an object"},
		{"no action", `{}`, "accept, decline and cancel"},
		{"another action", `{"action":"maybe"}`, "accept, decline and cancel"},
		{"a content that is no object", `{"action":"accept","content":[]}`, "content is not an object"},
		{"a content that is not sent", `{"action":"decline","content":{}}`, "has not"},
		{"a misspelt member", `{"action":"accept","contents":{}}`, `"contents"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseGiven(test.raw)
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}

func FuzzTerminal(f *testing.F) {
	f.Add(booking, "\n2\n\na\n")
	f.Add(`{"mode":"url","message":"m","url":"https://example.com"}`, "a\n\n")
	f.Add(`{"message":"m","requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":["x"]}},"b":{"type":"integer"}}}}`, "1\n1e3\na\n")
	f.Fuzz(func(t *testing.T, params, typed string) {
		// Requests come out of messages that were read strictly.
		if !validObject(params) {
			return
		}
		asker := &Terminal{terminal.NewLines(strings.NewReader(typed)), io.Discard, "x"}
		got, err := asker.Answer(t.Context(), "elicitation/create", []byte(params))
		if err == nil && !validObject(string(got)) {
			t.Errorf("the answer %s is not JSON", got)
		}
	})
}

func validObject(s string) bool {
	v := jsontext.Value(s)
	return v.IsValid() && v.Kind() == '{'
}
