package gateway

import (
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Methods of requests that a server may have for its client.
const (
	methodElicit   = "elicitation/create"
	methodSampling = "sampling/createMessage"
	methodRoots    = "roots/list"
)

// maxKeptCapability bounds what is kept of a client's experimental capabilities
// and of its extensions, in bytes each. Larger ones count as not declared, since
// they travel in a header.
const maxKeptCapability = 1 << 10

// noCapabilities are those of a client that declared none.
const noCapabilities = "{}"

// capabilitiesOf gives the capabilities that a client declared in revision as
// revision 2026-07-28 writes them (schema, ClientCapabilities). Of what the
// gateway knows only the names are kept, so that clients that can do the same
// declare the same.
func capabilitiesOf(raw []byte, declared mcp.Span, revision string) []byte {
	has := func(obj mcp.Span, key string) bool { return isObject(raw, mcp.Find(raw, obj, key)) }
	out := []byte{'{'}
	add := func(key string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(mcp.AppendQuote(out, key), ':')
		out = append(out, value...)
	}
	if has(declared, "roots") {
		add("roots", []byte("{}"))
	}
	if sampling := mcp.Find(raw, declared, "sampling"); isObject(raw, sampling) {
		// Until 2025-06-18 every client that could sample could be asked for context.
		add("sampling", flags(
			flag{"context", revision != revision202511 || has(sampling, "context")},
			flag{"tools", revision == revision202511 && has(sampling, "tools")}))
	}
	if elicitation := mcp.Find(raw, declared, "elicitation"); isObject(raw, elicitation) && revision != revision202503 {
		url := revision == revision202511 && has(elicitation, "url")
		// An empty object means forms (2025-11-25, client/elicitation, Capabilities).
		add("elicitation", flags(flag{"form", !url || has(elicitation, "form")}, flag{"url", url}))
	}
	if experimental := mcp.Find(raw, declared, "experimental"); fits(raw, experimental) {
		add("experimental", experimental.In(raw))
	}
	if extensions := mcp.Find(raw, declared, "extensions"); fits(raw, extensions) {
		// Tasks are of the extension's form, which no client of this era takes.
		var e mcp.Edits
		e.RemoveMember(raw, extensions, mcp.ExtensionTasks)
		add("extensions", without(&e, raw, extensions))
	}
	return append(out, '}')
}

// fits tells whether the value is an object that is small enough to be kept.
func fits(raw []byte, at mcp.Span) bool {
	return isObject(raw, at) && at.End-at.Start <= maxKeptCapability
}

// without gives the value at at with edits inside it applied.
func without(e *mcp.Edits, raw []byte, at mcp.Span) []byte {
	tail := len(raw) - at.End
	edited := e.AppendTo(nil, raw)
	return edited[at.Start : len(edited)-tail]
}

type flag struct {
	name string
	on   bool
}

// flags writes an object with an empty one for each flag that is on.
func flags(list ...flag) []byte {
	out := []byte{'{'}
	for _, f := range list {
		if !f.on {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"`+f.name+`":{}`...)
	}
	return append(out, '}')
}

// appendClientInfo writes the name and version of an Implementation; nothing
// where one of them is missing.
func appendClientInfo(dst, raw []byte, info mcp.Span) []byte {
	name, ok := mcp.String(raw, mcp.Find(raw, info, "name"))
	version, ok2 := mcp.String(raw, mcp.Find(raw, info, "version"))
	if !ok || !ok2 {
		return dst
	}
	dst = mcp.AppendQuote(append(dst, `{"name":`...), name)
	dst = mcp.AppendQuote(append(dst, `,"version":`...), version)
	return append(dst, '}')
}

// lacks gives the capability, as raw JSON, that the client would have to have
// declared to be sent a request; empty when it did.
func (s *session) lacks(raw []byte, method string, params mcp.Span) string {
	declared := func(path ...string) bool {
		at := mcp.Span{End: len(s.capabilities)}
		for _, key := range path {
			at = mcp.Find(s.capabilities, at, key)
		}
		return at.Ok()
	}
	switch method {
	case methodRoots:
		if !declared("roots") {
			return `{"roots":{}}`
		}
	case methodElicit:
		mode := "form"
		if m, _ := mcp.String(raw, mcp.Find(raw, params, "mode")); m == "url" {
			mode = m
		}
		if !declared("elicitation", mode) {
			return `{"elicitation":{"` + mode + `":{}}}`
		}
	case methodSampling:
		switch {
		case !declared("sampling"):
			return `{"sampling":{}}`
		case mcp.Find(raw, params, "tools").Ok() || mcp.Find(raw, params, "toolChoice").Ok():
			if !declared("sampling", "tools") {
				return `{"sampling":{"tools":{}}}`
			}
		}
		switch c, _ := mcp.String(raw, mcp.Find(raw, params, "includeContext")); c {
		case "", "none":
		default:
			if !declared("sampling", "context") {
				return `{"sampling":{"context":{}}}`
			}
		}
	}
	return ""
}
