package federation

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Bounds of a schema, so that the worst one costs about a tenth of a second. The
// largest of 527 real ones has 5 KB and 231 values.
const (
	maxSchemaBytes    = 256 << 10
	maxSchemaValues   = 10_000
	maxSchemaDepth    = 128  // of nested objects and arrays
	maxSchemaDigits   = 1024 // bytes of one number
	maxSchemaExponent = 1024 // of one number, either way
	maxReasonLen      = 300  // bytes of a reason or note
)

// checkTool says whether a tool may be listed. A reason means that it must be
// left out: an `x-mcp-header` annotation breaks the rules, its input schema is
// not a schema of an object, its output schema is not a schema, or they are
// larger than their bounds. A note is worth a log line, and the tool stays: its
// schema has a dialect that is not known here and was not checked.
//
// Schemas are checked against their meta-schema only (2020-12 where they name
// none; 2026-07-28, server/tools); no reference in them is followed, so none
// outside the document is ever loaded. raw is a validated JSON value.
func checkTool(raw []byte) (params []mcp.ParamHeader, reason, note string) {
	var input, output mcp.Span
	for m := range mcp.Members(raw, mcp.Span{Start: 0, End: len(raw)}) {
		at := &input
		switch m.Key {
		case "inputSchema":
		case "outputSchema":
			at = &output
		default:
			continue
		}
		if at.Ok() {
			return nil, "has more than one member " + m.Key, ""
		}
		*at = m.Value
	}
	if !input.Ok() {
		return nil, "has no inputSchema", ""
	}
	in, reason := checkSchema(input.In(raw), true)
	if reason != "" {
		return nil, "inputSchema " + reason, ""
	}
	params, err := mcp.ParamHeaders(input.In(raw))
	if err != nil {
		return nil, shorten("inputSchema: " + err.Error()), ""
	}
	var out string
	// Some servers write null for what they do not have.
	if output.Ok() && string(output.In(raw)) != "null" {
		if out, reason = checkSchema(output.In(raw), false); reason != "" {
			return nil, "outputSchema " + reason, ""
		}
	}
	switch {
	case in != "":
		note = "inputSchema " + in
	case out != "":
		note = "outputSchema " + out
	}
	return params, "", note
}

// checkSchema checks one schema, which is to be an object, and to have the type
// "object" where of is set.
func checkSchema(raw []byte, ofObject bool) (note, reason string) {
	if raw[0] != '{' {
		return "", "is not an object"
	}
	if reason := checkBounds(raw); reason != "" {
		return "", reason
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return "", shorten("cannot be read: " + err.Error())
	}
	members, _ := doc.(map[string]any)
	if t, _ := members["type"].(string); ofObject && t != "object" {
		return "", `has no type "object"`
	}
	dialect := ""
	if s, ok := members["$schema"].(string); ok {
		dialect = s
	}
	meta := metaSchema(dialect)
	if meta == nil {
		return shorten("has an unknown dialect and was not checked: " + strconv.Quote(dialect)), ""
	}
	if err := meta.Validate(doc); err != nil {
		return "", shorten("is not a valid schema: " + firstFault(err))
	}
	return "", ""
}

// checkBounds walks over validated JSON once, without reading it. The numbers'
// bounds are there since the validator computes with them exactly.
func checkBounds(raw []byte) (reason string) {
	if len(raw) > maxSchemaBytes {
		return fmt.Sprintf("is larger than %d bytes", maxSchemaBytes)
	}
	depth, values := 0, 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = stringEnd(raw, i)
			continue
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			if depth++; depth > maxSchemaDepth {
				return fmt.Sprintf("is nested deeper than %d", maxSchemaDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || isDigit(c):
			n := numberLen(raw[i:])
			if !boundedNumber(string(raw[i : i+min(n, maxSchemaDigits+1)])) {
				return fmt.Sprintf("has a number of more than %d digits or with an exponent beyond %d", maxSchemaDigits, maxSchemaExponent)
			}
			i += n
			continue
		}
		i++
	}
	// Each value is the first in its container or follows a comma.
	if values > maxSchemaValues {
		return fmt.Sprintf("has more than %d values", maxSchemaValues)
	}
	return ""
}

// stringEnd gives the offset behind the JSON string that starts at i.
func stringEnd(raw []byte, i int) int {
	for from := i + 1; from < len(raw); {
		n := bytes.IndexByte(raw[from:], '"')
		if n < 0 {
			break
		}
		quote := from + n
		slashes := 0
		for raw[quote-slashes-1] == '\\' {
			slashes++
		}
		if from = quote + 1; slashes%2 == 0 {
			return from
		}
	}
	return len(raw)
}

func numberLen(raw []byte) int {
	n := bytes.IndexFunc(raw, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) })
	if n < 0 {
		return len(raw)
	}
	return n
}

func boundedNumber(s string) bool {
	if len(s) > maxSchemaDigits {
		return false
	}
	at := strings.IndexAny(s, "eE")
	if at < 0 {
		return true
	}
	exp, err := strconv.Atoi(s[at+1:])
	return err == nil && exp >= -maxSchemaExponent && exp <= maxSchemaExponent
}

// metaSchema gives the meta-schema of a dialect, or nil for an unknown one. The
// empty dialect is the protocol's default, 2020-12.
func metaSchema(dialect string) *jsonschema.Schema {
	if dialect == "" {
		return metaSchemas()[defaultDialect]
	}
	// An empty fragment and https are the same document (as in 2020-12, section
	// 8.1.1, and the registry of meta-schemas).
	name, ok := strings.CutPrefix(strings.TrimSuffix(dialect, "#"), "http://json-schema.org/")
	if !ok {
		name, ok = strings.CutPrefix(strings.TrimSuffix(dialect, "#"), "https://json-schema.org/")
	}
	if !ok {
		return nil
	}
	if name == "schema" { // the newest
		name = defaultDialect
	}
	return metaSchemas()[name]
}

const defaultDialect = "draft/2020-12/schema"

// metaSchemas gives the meta-schemas, which are compiled once per process and
// when they are first needed.
var metaSchemas = sync.OnceValue(compileMetaSchemas)

// compileMetaSchemas compiles what the library embeds.
func compileMetaSchemas() map[string]*jsonschema.Schema {
	all := map[string]*jsonschema.Schema{}
	for _, name := range []string{"draft-04/schema", "draft-06/schema", "draft-07/schema", "draft/2019-09/schema", defaultDialect} {
		c := jsonschema.NewCompiler()
		c.UseLoader(noLoader{})
		c.UseRegexpEngine(lazyRegexp)
		// Formats are annotations; a `$ref` or `pattern` that another language's
		// libraries accept is no reason to hide a tool.
		for _, format := range []string{"uri", "uriref", "uri-reference"} {
			c.RegisterFormat(&jsonschema.Format{Name: format, Validate: func(any) error { return nil }})
		}
		all[name] = c.MustCompile("https://json-schema.org/" + name)
	}
	return all
}

// noLoader refuses every document that is not embedded.
type noLoader struct{}

var errNoLoading = errors.New("references outside the document are not followed")

func (noLoader) Load(string) (any, error) { return nil, errNoLoading }

// lazyPattern is a regular expression that is compiled when it is first
// matched: those of the meta-schemas are, those of the schemas never. The latter
// are ECMA-262 expressions, of which many do not compile here.
type lazyPattern struct {
	source  string
	compile func() *regexp.Regexp
}

func lazyRegexp(source string) (jsonschema.Regexp, error) {
	return &lazyPattern{source, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })}, nil
}

func (p *lazyPattern) String() string            { return p.source }
func (p *lazyPattern) MatchString(s string) bool { return p.compile().MatchString(s) }

// firstFault gives the fault that comes first in the document's order of
// locations: the validator walks maps, so its own order changes.
func firstFault(err error) string {
	var fault *jsonschema.ValidationError
	if !errors.As(err, &fault) {
		return err.Error()
	}
	var first *jsonschema.ValidationError
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		if first == nil {
			first = e
			return
		}
		order := slices.Compare(e.InstanceLocation, first.InstanceLocation)
		if order < 0 || order == 0 && e.Error() < first.Error() {
			first = e
		}
	}
	walk(fault)
	return first.Error()
}

// shorten cuts a text that may hold anything from an upstream.
func shorten(s string) string {
	if len(s) <= maxReasonLen {
		return s
	}
	return strings.ToValidUTF8(s[:maxReasonLen], "") + "…"
}
