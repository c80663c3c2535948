package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Tool is one element of tools/list.
type Tool struct {
	Name  string
	Title string // the tool's own, else that of its annotations; may be empty
	// Description may be empty and have several lines.
	Description string
	Raw         []byte // the definition as it came
	params      []mcp.ParamHeader
}

// Missing is an upstream whose part is missing from a list or stale.
type Missing struct{ Alias, Reason string }

// Tools is a whole list of tools.
type Tools struct {
	List []Tool
	// Server is the name that the server gives itself; empty for none.
	Server string
	// Missing is what the server says it could not list; empty for a complete
	// list.
	Missing []Missing
	// Partial is the raw value that Missing was read from; nil for none.
	Partial []byte
	// Refused are the tools that must not be used, with the reason: their
	// definitions break the protocol's rules
	// (basic/transports/streamable-http, Schema Extension).
	Refused []Missing
}

// Find gives the tool with that name, or nil.
func (t *Tools) Find(name string) *Tool {
	for i := range t.List {
		if t.List[i].Name == name {
			return &t.List[i]
		}
	}
	return nil
}

// Tools lists all tools: every page, up to the last.
func (c *Client) Tools(ctx context.Context) (*Tools, error) {
	all := &Tools{}
	seen := map[string]bool{}
	var cursor []byte // raw JSON string; nil for the first page
	for range maxPages {
		req := &Request{Method: mcp.MethodToolsList}
		if cursor != nil {
			req.Params = append([]byte(`"cursor":`), cursor...)
		}
		m, err := c.Do(ctx, req, nil)
		if err != nil {
			return nil, err
		}
		if err := all.add(m); err != nil {
			return nil, c.failure(err)
		}
		if !m.NextCursor.Ok() {
			return all, nil
		}
		cursor = append([]byte(nil), m.NextCursor.In(m.Raw)...)
		if seen[string(cursor)] {
			return nil, c.failure(errors.New("the list of tools has no end: the server gave the same cursor twice"))
		}
		seen[string(cursor)] = true
	}
	return nil, c.failure(fmt.Errorf("the list of tools has more than %d pages", maxPages))
}

// add takes one page.
func (t *Tools) add(m *mcp.Message) error {
	items := mcp.Find(m.Raw, m.Result, "tools")
	if raw := items.In(m.Raw); len(raw) == 0 || raw[0] != '[' {
		return errors.New("the answer to tools/list has no tools")
	}
	for at := range mcp.Elements(m.Raw, items) {
		tool, err := readTool(at.In(m.Raw))
		if err != nil {
			t.Refused = append(t.Refused, Missing{tool.Name, err.Error()})
			continue
		}
		t.List = append(t.List, tool)
	}
	if t.Server == "" {
		t.Server = member(m.Raw, mcp.Find(m.Raw, m.Meta, mcp.MetaServerInfo), "name")
	}
	if partial := mcp.Find(m.Raw, m.Meta, mcp.MetaPartial); partial.Ok() {
		t.Partial = partial.In(m.Raw)
		t.Missing = nil
		for at := range mcp.Elements(m.Raw, partial) {
			t.Missing = append(t.Missing, Missing{member(m.Raw, at, "alias"), member(m.Raw, at, "reason")})
		}
	}
	return nil
}

// readTool reads one definition. With an error, the Tool has its name where it
// could be read.
func readTool(raw []byte) (Tool, error) {
	whole := mcp.Span{End: len(raw)}
	t := Tool{
		Raw:         raw,
		Name:        member(raw, whole, "name"),
		Title:       member(raw, whole, "title"),
		Description: member(raw, whole, "description"),
	}
	if t.Title == "" {
		t.Title = member(raw, mcp.Find(raw, whole, "annotations"), "title")
	}
	if t.Name == "" {
		return t, errors.New("it has no name")
	}
	params, err := mcp.ParamHeaders(mcp.Find(raw, whole, "inputSchema").In(raw))
	if err != nil {
		return t, fmt.Errorf("its input schema: %w", err)
	}
	t.params = params
	return t, nil
}

// member gives the text of one member of an object; "" when there is none.
func member(raw []byte, obj mcp.Span, key string) string {
	s, _ := mcp.String(raw, mcp.Find(raw, obj, key))
	return s
}

// Similar gives up to three names that look like name, the best first.
func (t *Tools) Similar(name string) []string {
	want := strings.ToLower(name)
	var starts, ends, holds []string
	for _, tool := range t.List {
		have := strings.ToLower(tool.Name)
		switch {
		case have == want, strings.HasSuffix(have, "_"+want):
			ends = append(ends, tool.Name) // an upstream's own name, without its alias
		case strings.HasPrefix(have, want):
			starts = append(starts, tool.Name)
		case strings.Contains(have, want) || strings.Contains(want, have):
			holds = append(holds, tool.Name)
		}
	}
	found := append(append(ends, starts...), holds...)
	return found[:min(3, len(found))]
}
