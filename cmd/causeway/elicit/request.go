// Package elicit answers what a server asks the user (client/elicitation): at a
// terminal, with answers that were prepared, or by declining. It imports
// upstream/mcp and cmd/causeway/terminal.
package elicit

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Actions of an answer (client/elicitation, Response Actions).
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel"
)

// Request is one question of a server.
type Request struct {
	Message string
	Fields  []Field  // of the form mode, in the order of the schema
	URL     *url.URL // of the URL mode; nil in the form mode
	RawURL  string   // as the server wrote it
}

// ParseRequest reads one input request. It fails on what this client does not
// offer to servers, and on what it could not show.
func ParseRequest(method string, params []byte) (*Request, error) {
	if method != "elicitation/create" {
		return nil, fmt.Errorf("the server asks for %q, which this client does not offer", method)
	}
	whole := mcp.Span{End: len(params)}
	text := func(key string) string {
		s, _ := mcp.String(params, mcp.Find(params, whole, key))
		return s
	}
	r := &Request{Message: text("message")}
	switch mode := text("mode"); mode {
	case "", "form": // absent means form
		fields, err := parseFields(mcp.Find(params, whole, "requestedSchema").In(params))
		if err != nil {
			return nil, fmt.Errorf("the server's form: %w", err)
		}
		r.Fields = fields
	case "url":
		u, err := parseURL(text("url"))
		if err != nil {
			return nil, err
		}
		r.URL, r.RawURL = u, text("url")
	default:
		return nil, fmt.Errorf("the server asks in the mode %q, which this client does not know", mode)
	}
	return r, nil
}

// parseURL takes the address of a web page only: other schemes start programs.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the server wants a page to be opened, but its URL is not valid")
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("the server wants %q to be opened, which is not a web address", raw)
	}
	return u, nil
}

// answer makes the raw result. content is nil for none.
func answer(action string, content []byte) []byte {
	b := append([]byte(`{"action":"`), action...)
	b = append(b, '"')
	if content != nil {
		b = append(b, `,"content":`...)
		b = append(b, content...)
	}
	return append(b, '}')
}

// contentOf makes the raw content from the values of fields; those without one
// are left out.
func contentOf(fields []Field, values map[string][]byte) []byte {
	b := []byte{'{'}
	for _, f := range fields {
		value, ok := values[f.Key]
		if !ok {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = mcp.AppendQuote(b, f.Key)
		b = append(b, ':')
		b = append(b, value...)
	}
	return append(b, '}')
}
