package federation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestCheckTool(t *testing.T) {
	in := func(schema string) string { return `{"name":"t","inputSchema":` + schema + `}` }
	out := func(schema string) string {
		return `{"name":"t","inputSchema":{"type":"object"},"outputSchema":` + schema + `}`
	}
	nested := func(n int) string {
		return strings.Repeat(`{"not":`, n) + `{}` + strings.Repeat(`}`, n)
	}
	tests := []struct {
		name       string
		tool       string
		wantReason string // how it starts
		wantNote   string
	}{
		{name: "plain", tool: in(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)},
		{name: "boolean subschemas", tool: in(`{"type":"object","properties":{"a":true},"additionalProperties":false}`)},
		{name: "definitions and references", tool: in(`{"type":"object","$defs":{"a":{"$anchor":"x","type":["string","null"]}},"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#nowhere"}}}`)},
		{name: "reference outside", tool: in(`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"},"b":{"$dynamicRef":"file:///etc/passwd"}}}`)},
		{name: "unknown keywords", tool: in(`{"type":"object","x-ui":{"type":7},"properties":{"a":{"format":"hologram","example":null}}}`)},
		{name: "expression of another language", tool: in(`{"type":"object","properties":{"a":{"pattern":"(?=x)\\p{L}+(?<!y)$"}},"patternProperties":{"^(?!x)":{}}}`)},
		{name: "the same in draft-07", tool: in(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"pattern":"(?=x)"}},"patternProperties":{"^(?!x)":{}}}`)},
		{name: "odd reference in draft-07", tool: in(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/List[a b]"}}}`)},
		{name: "large numbers", tool: in(`{"type":"object","properties":{"a":{"minimum":-1e400,"maximum":123456789012345678901234567890,"multipleOf":1e-400,"enum":[1e400,1.0,-0.0]}}}`)},
		{name: "lone surrogate", tool: in(`{"type":"object","description":"\ud83d"}`)},
		{name: "draft-04", tool: in(`{"$schema":"http://json-schema.org/draft-04/schema","type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`)},
		{name: "draft-06", tool: in(`{"$schema":"http://json-schema.org/draft-06/schema#","type":"object"}`)},
		{name: "2019-09", tool: in(`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","$recursiveAnchor":true}`)},
		{name: "2020-12", tool: in(`{"$schema":"https://json-schema.org/draft/2020-12/schema#","type":"object","prefixItems":[{}]}`)},
		{name: "the newest", tool: in(`{"$schema":"http://json-schema.org/schema#","type":"object"}`)},
		{name: "unknown dialect", tool: in(`{"$schema":"https://example.com/mine","type":"object","properties":7}`), wantNote: `inputSchema has an unknown dialect and was not checked: "https://example.com/mine"`},
		{name: "unknown draft", tool: in(`{"$schema":"http://json-schema.org/draft-03/schema#","type":"object"}`), wantNote: `inputSchema has an unknown dialect and was not checked: "http://json-schema.org/draft-03/schema#"`},
		{name: "parameter header", tool: in(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"}}}`)},
		{name: "output", tool: out(`{"type":"array","items":{"type":"string"}}`)},
		{name: "no output", tool: out(`null`)},
		{name: "output of an unknown dialect", tool: out(`{"$schema":"urn:x"}`), wantNote: `outputSchema has an unknown dialect and was not checked: "urn:x"`},

		{name: "no schema", tool: `{"name":"t"}`, wantReason: "has no inputSchema"},
		{name: "two schemas", tool: `{"inputSchema":{"type":"object"},"inputSchema":{"type":"object"}}`, wantReason: "has more than one member inputSchema"},
		{name: "null", tool: in(`null`), wantReason: "inputSchema is not an object"},
		{name: "boolean", tool: in(`true`), wantReason: "inputSchema is not an object"},
		{name: "no type", tool: in(`{}`), wantReason: `inputSchema has no type "object"`},
		{name: "another type", tool: in(`{"type":"array"}`), wantReason: `inputSchema has no type "object"`},
		{name: "list of types", tool: in(`{"type":["object"]}`), wantReason: `inputSchema has no type "object"`},
		{name: "unknown type", tool: in(`{"type":"object","properties":{"a":{"type":"text"}}}`), wantReason: "inputSchema is not a valid schema: at '/properties/a/type'"},
		{name: "properties that are no object", tool: in(`{"type":"object","properties":["a"]}`), wantReason: "inputSchema is not a valid schema: at '/properties'"},
		{name: "required twice", tool: in(`{"type":"object","required":["a","a"]}`), wantReason: "inputSchema is not a valid schema: at '/required'"},
		{name: "required of draft-03", tool: in(`{"type":"object","properties":{"a":{"required":true}}}`), wantReason: "inputSchema is not a valid schema: at '/properties/a/required'"},
		{name: "negative length", tool: in(`{"type":"object","properties":{"a":{"maxLength":-1}}}`), wantReason: "inputSchema is not a valid schema: at '/properties/a/maxLength'"},
		{name: "dialect that is no string", tool: in(`{"$schema":7,"type":"object"}`), wantReason: "inputSchema is not a valid schema: at '/$schema'"},
		{name: "invalid in draft-07", tool: in(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","items":7}`), wantReason: "inputSchema is not a valid schema: at '/items'"},
		{name: "the first of many faults", tool: in(`{"type":"object","properties":{"d":{"type":1},"a":7,"c":{"type":1},"b":{"minItems":"x"}}}`), wantReason: "inputSchema is not a valid schema: at '/properties/a'"},
		{name: "header with a space", tool: in(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`), wantReason: "inputSchema: "},
		{name: "invalid output", tool: out(`{"type":7}`), wantReason: "outputSchema is not a valid schema: at '/type'"},
		{name: "boolean output", tool: out(`true`), wantReason: "outputSchema is not an object"},

		{name: "deep", tool: in(`{"type":"object","not":` + nested(maxSchemaDepth) + `}`), wantReason: "inputSchema is nested deeper than 128"},
		{name: "large", tool: in(`{"type":"object","description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`), wantReason: "inputSchema is larger than 262144 bytes"},
		{name: "wide", tool: in(`{"type":"object","allOf":[` + strings.Repeat(`{},`, maxSchemaValues/2) + `{}]}`), wantReason: "inputSchema has more than 10000 values"},
		{name: "huge exponent", tool: in(`{"type":"object","minimum":1e999999999}`), wantReason: "inputSchema has a number"},
		{name: "exponent beyond any integer", tool: in(`{"type":"object","enum":[{"a":-1E+99999999999999999999}]}`), wantReason: "inputSchema has a number"},
		{name: "many digits", tool: in(`{"type":"object","const":` + strings.Repeat("9", maxSchemaDigits+1) + `}`), wantReason: "inputSchema has a number"},
		{name: "digits in a text", tool: in(`{"type":"object","description":"\"1e999999999 ` + strings.Repeat("[", 200) + `"}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, reason, note := checkTool([]byte(tt.tool))
			if !strings.HasPrefix(reason, tt.wantReason) || tt.wantReason == "" && reason != "" {
				t.Errorf("reason = %q, want %q", reason, tt.wantReason)
			}
			if note != tt.wantNote {
				t.Errorf("note = %q, want %q", note, tt.wantNote)
			}
		})
	}
}

func TestCheckToolGivesParams(t *testing.T) {
	params, reason, _ := checkTool([]byte(`{"inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"}}}}`))
	if reason != "" || len(params) != 1 || params[0].Name != "Region" {
		t.Errorf("params = %+v, reason %q", params, reason)
	}
}

func TestCheckToolReasonsAreShort(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for _, tool := range []string{
		`{"inputSchema":{"type":"object","properties":{"` + long + `":{"type":"` + long + `"}}}}`,
		`{"inputSchema":{"type":"object","$schema":"` + long + `"}}`,
		`{"inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"` + long + `"}}}}`,
	} {
		_, reason, note := checkTool([]byte(tool))
		if got := len(reason) + len(note); got == 0 || got > maxReasonLen+len("outputSchema …") {
			t.Errorf("reason %q and note %q", reason, note)
		}
	}
}

// realTools reads the catalogue of 527 real tools that lies beside a checkout in
// the project's own workshop.
func realTools(tb testing.TB) [][]byte {
	tb.Helper()
	data, err := os.ReadFile("../../shared/toolsearch/catalogue.json")
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("the catalogue of real tools is not part of the repository: ../../shared/toolsearch/catalogue.json")
	}
	if err != nil {
		tb.Fatal(err)
	}
	var catalogue struct {
		Servers []struct{ Tools []json.RawMessage }
	}
	if err := json.Unmarshal(data, &catalogue); err != nil {
		tb.Fatal(err)
	}
	var tools [][]byte
	for _, s := range catalogue.Servers {
		for _, tool := range s.Tools {
			tools = append(tools, tool)
		}
	}
	return tools
}

// TestRealTools holds that tools of real servers are listed, under names that
// model providers take. One of them has an `exclusiveMinimum` of draft-04 and does
// not say so: by the protocol's default dialect it is no valid schema, and model
// providers refuse it.
func TestRealTools(t *testing.T) {
	tools := realTools(t)
	if len(tools) != 527 {
		t.Errorf("%d tools", len(tools))
	}
	for i, raw := range tools {
		it, reason := readItem(kindTools, raw)
		if reason != "" {
			t.Fatalf("%s %s", raw, reason)
		}
		wantReason := ""
		if it.name == "read_pdf" {
			wantReason = "inputSchema is not a valid schema: at '/properties/sources/items/properties/pages/anyOf/0/items/exclusiveMinimum': got boolean, want number"
		}
		if _, reason, note := checkTool(raw); reason != wantReason || note != "" {
			t.Errorf("%s: reason %q, note %q", it.name, reason, note)
		}
		exposed, cleaned := exposedName(fmt.Sprintf("s%d", i), "_", it.name)
		if !exposedPattern.MatchString(exposed) || cleaned {
			t.Errorf("%s is exposed as %s", it.name, exposed)
		}
		if got := spliceItem(kindTools, it, exposed, cleaned, nil); !json.Valid(got) {
			t.Errorf("%s is listed as %s", it.name, got)
		}
	}
}

func FuzzCheckTool(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#","minimum":1e400,"pattern":"("}},"enum":[1,1.0]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","items":[{"dependencies":{"a":["b"]}}]}`,
		`{"$schema":"http://json-schema.org/draft-04/schema","type":"object","required":[],"multipleOf":0}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","$recursiveRef":"#"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if schema = strings.TrimSpace(schema); !json.Valid([]byte(schema)) {
			return
		}
		raw := []byte(`{"name":"t","inputSchema":` + schema + `,"outputSchema":` + schema + `}`)
		_, reason, note := checkTool(raw)
		if _, again, noteAgain := checkTool(raw); again != reason || noteAgain != note {
			t.Fatalf("%s: first %q %q, then %q %q", raw, reason, note, again, noteAgain)
		}
	})
}

func BenchmarkCheckTool(b *testing.B) {
	tools := realTools(b)
	metaSchemas()
	b.ReportAllocs()
	for b.Loop() {
		for _, raw := range tools {
			checkTool(raw)
		}
	}
	b.ReportMetric(float64(len(tools)), "tools/op")
}

func BenchmarkMetaSchemas(b *testing.B) {
	for b.Loop() {
		compileMetaSchemas()
	}
}
