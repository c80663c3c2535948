package elicit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Prepared answers without asking anybody: each request gets the next of the
// answers, and the last one all that follow. Without answers, everything is
// declined. It is not for concurrent use.
type Prepared struct {
	Answers []Given
	Out     io.Writer // where it is told what was asked and answered
	Who     string    // who asks: a tool and its server
}

// Given is an answer that was prepared.
type Given struct {
	Action  string
	Content []byte // raw JSON object; nil for none
}

// ParseGiven reads an answer such as {"action":"accept","content":{"ok":true}}.
func ParseGiven(raw string) (Given, error) {
	v := jsontext.Value(raw)
	if !v.IsValid() || !utf8.ValidString(raw) {
		return Given{}, errors.New("it is not JSON")
	}
	if v.Kind() != '{' {
		return Given{}, errors.New(`it is not an object, such as {"action":"accept","content":{}}`)
	}
	whole := mcp.Span{End: len(raw)}
	var g Given
	for m := range mcp.Members(v, whole) {
		switch m.Key {
		case "action":
			g.Action, _ = mcp.String(v, m.Value)
		case "content":
			if g.Content = m.Value.In(v); g.Content[0] != '{' {
				return Given{}, errors.New("its content is not an object")
			}
		default:
			return Given{}, fmt.Errorf("it has the member %q; there are action and content", m.Key)
		}
	}
	switch {
	case g.Action != Accept && g.Action != Decline && g.Action != Cancel:
		return Given{}, errors.New("its action is not one of accept, decline and cancel")
	case g.Action != Accept && g.Content != nil:
		return Given{}, fmt.Errorf("it has a content, which the action %s has not", g.Action)
	}
	return g, nil
}

// Answer gives the raw result for one input request. It fails when the prepared
// answer does not fit what is asked.
func (p *Prepared) Answer(_ context.Context, method string, params []byte) ([]byte, error) {
	r, err := ParseRequest(method, params)
	if err != nil {
		return nil, err
	}
	question := terminal.Line(r.Message)
	if len(p.Answers) == 0 {
		fmt.Fprintf(p.Out, "%s asks: %s\nNobody can answer, since standard input is no terminal: declined. --answer gives an answer in advance.\n",
			terminal.Line(p.Who), question)
		return answer(Decline, nil), nil
	}
	g := p.Answers[0]
	if len(p.Answers) > 1 {
		p.Answers = p.Answers[1:]
	}
	content := g.Content
	if g.Action == Accept && r.URL == nil {
		if content == nil {
			content = []byte("{}")
		}
		if err := CheckContent(r.Fields, content); err != nil {
			return nil, fmt.Errorf("the answer does not fit the question %q: %w", question, err)
		}
	}
	if r.URL != nil {
		// The page's address has to be there for whoever must still open it.
		question += " " + terminal.Plain(r.RawURL)
		content = nil
	}
	fmt.Fprintf(p.Out, "%s asks: %s\nAnswered: %s.\n", terminal.Line(p.Who), question, g.Action)
	return answer(g.Action, content), nil
}
