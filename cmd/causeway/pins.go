package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"

	"github.com/causeway-mcp/causeway/cmd/causeway/client"
	"github.com/causeway-mcp/causeway/cmd/causeway/terminal"
	"github.com/causeway-mcp/causeway/federation"
)

// pin is an approved definition of a tool.
type pin struct{ name, digest string }

// pinsOf gives the pins of all tools, sorted by name. Of tools with one name a gateway
// shows the first.
func pinsOf(tools *client.Tools, stderr io.Writer) []pin {
	var pins []pin
	seen := map[string]bool{}
	for _, t := range tools.List {
		if seen[t.Name] {
			fmt.Fprintf(stderr, "causeway tools: the tool %q is there more than once: its first definition is taken\n", t.Name)
			continue
		}
		seen[t.Name] = true
		pins = append(pins, pin{t.Name, federation.DefinitionPin(t.Raw)})
	}
	slices.SortFunc(pins, func(a, b pin) int { return cmp.Compare(a.name, b.name) })
	return pins
}

// writePins writes the member pins of an upstream in a configuration file. Names come
// from the server: they are quoted so that no terminal and no YAML reads more in them.
func writePins(w io.Writer, pins []pin) error {
	text := "pins: {}\n"
	if len(pins) > 0 {
		text = "pins:\n"
	}
	for _, p := range pins {
		text += "  " + strconv.QuoteToASCII(p.name) + ": " + p.digest + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// writePinsJSON writes the same as JSON.
func writePinsJSON(w io.Writer, pins []pin) error {
	all := map[string]string{}
	for _, p := range pins {
		all[p.name] = p.digest
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string]any{"pins": all})
}

// warnMerged says that the tools have other names than their servers know, where a
// gateway shows those of several.
func warnMerged(stderr io.Writer, endpoint string, tools *client.Tools) {
	u, err := url.Parse(endpoint)
	if err != nil || tools.Server != "causeway" || path.Base(path.Dir(path.Dir(u.Path))) == "u" {
		return
	}
	fmt.Fprintf(stderr, "causeway tools: %s shows tools under names of the gateway's own, and pins are for those of their server: "+
		"ask for one upstream, at /t/TENANT/u/ALIAS/mcp\n", terminal.Line(u.Path))
}
