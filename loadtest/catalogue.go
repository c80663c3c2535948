package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// catalogueSize is how many tools the real catalogue has, and madeUpBytes how
// large one is on average.
const (
	catalogueSize = 527
	madeUpBytes   = 770
)

// tool is one tool of an upstream.
type tool struct {
	name        string
	description string // of the made-up ones
	raw         []byte
}

// server is one server of a catalogue.
type server struct {
	name, description string
	tools             []tool
}

// catalogue is what upstreams list: all tools in one list, where no two have the same
// name, and those of each server.
type catalogue struct {
	tools   []tool
	servers []server
	madeUp  bool
}

// first gives the first n tools, or all when there are not that many.
func (c *catalogue) first(n int) []tool { return c.tools[:min(n, len(c.tools))] }

// loadCatalogue reads the tools of all servers in a file, or makes some up when
// there is no such file.
func loadCatalogue(file string) (*catalogue, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return madeUpCatalogue(), nil
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Servers []struct {
			Server      string                       `json:"server"`
			Description string                       `json:"description"`
			Tools       []map[string]json.RawMessage `json:"tools"`
		} `json:"servers"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	c := &catalogue{}
	seen := make(map[string]int)
	for _, s := range doc.Servers {
		one, its := server{name: s.Server, description: s.Description}, make(map[string]int)
		for _, members := range s.Tools {
			own, err := newTool(members, its)
			if err != nil {
				return nil, fmt.Errorf("read %s: tool %d: %w", file, len(c.tools), err)
			}
			t, err := newTool(members, seen)
			if err != nil {
				return nil, fmt.Errorf("read %s: tool %d: %w", file, len(c.tools), err)
			}
			one.tools, c.tools = append(one.tools, own), append(c.tools, t)
		}
		c.servers = append(c.servers, one)
	}
	if len(c.tools) == 0 {
		return nil, fmt.Errorf("read %s: no tools", file)
	}
	return c, nil
}

// newTool writes a tool of the file as a server would list it: without members
// that are null, and under a name that no other tool of that server has.
func newTool(members map[string]json.RawMessage, seen map[string]int) (tool, error) {
	var name string
	if err := json.Unmarshal(members["name"], &name); err != nil {
		return tool{}, fmt.Errorf("name: %w", err)
	}
	seen[name]++
	if n := seen[name]; n > 1 {
		name = fmt.Sprintf("%s_%d", name, n)
		members["name"] = fmt.Appendf(nil, "%q", name)
	}
	for k, v := range members {
		if string(v) == "null" {
			delete(members, k)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(members); err != nil {
		return tool{}, err
	}
	return tool{name: name, raw: bytes.TrimSpace(b.Bytes())}, nil
}

func madeUpCatalogue() *catalogue {
	c := &catalogue{madeUp: true, servers: madeUpServers(catalogueSize)}
	for i := range catalogueSize {
		name := fmt.Sprintf("tool_%03d", i)
		raw := fmt.Appendf(nil, `{"name":%q,"description":"","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for."}},"required":["query"]}}`, name)
		text := strings.Repeat("It looks for what was asked. ", madeUpBytes/29+1)[:madeUpBytes-len(raw)]
		raw = bytes.Replace(raw, []byte(`"description":""`), fmt.Appendf(nil, `"description":%q`, text), 1)
		c.tools = append(c.tools, tool{name: name, raw: raw})
	}
	return c
}
