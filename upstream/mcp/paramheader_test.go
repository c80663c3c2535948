package mcp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParamHeaders(t *testing.T) {
	h := func(name, kind string) string { return `{"type":` + kind + `,"x-mcp-header":"` + name + `"}` }
	props := func(members string) string { return `{"type":"object","properties":{` + members + `}}` }
	tests := []struct {
		name, schema string
		want         []ParamHeader
		naming       string // of the error
	}{
		{name: "none", schema: props(`"a":{"type":"string"}`)},
		{name: "not a schema", schema: `true`},
		{name: "all types", schema: props(`"a":` + h("A", `"string"`) + `,"b":` + h("B", `"integer"`) + `,"c":` + h("C", `"boolean"`)),
			want: []ParamHeader{{"A", []string{"a"}, "string"}, {"B", []string{"b"}, "integer"}, {"C", []string{"c"}, "boolean"}}},
		{name: "nested", schema: props(`"o":` + props(`"p":`+props(`"x":`+h("X", `"string"`))+`,"y":`+h("Y", `"string"`))),
			want: []ParamHeader{{"X", []string{"o", "p", "x"}, "string"}, {"Y", []string{"o", "y"}, "string"}}},
		{name: "type after the annotation", schema: props(`"a":{"x-mcp-header":"A","type":"string"}`), want: []ParamHeader{{"A", []string{"a"}, "string"}}},
		{name: "escaped keyword", schema: props(`"a":{"type":"string","x-mcp-h\u0065ader":"A"}`), want: []ParamHeader{{"A", []string{"a"}, "string"}}},
		{name: "escaped slash in the keyword's neighbour", schema: props(`"a":{"pattern":"\/"}`)},
		{name: "nullable", schema: props(`"a":` + h("A", `["string","null"]`) + `,"b":` + h("B", `["null","integer"]`)),
			want: []ParamHeader{{"A", []string{"a"}, "string"}, {"B", []string{"b"}, "integer"}}},
		{name: "all token characters", schema: props(`"a":` + h("!#$%&'*+-.^_`|~09azAZ", `"string"`)), want: []ParamHeader{{"!#$%&'*+-.^_`|~09azAZ", []string{"a"}, "string"}}},
		{name: "property of that name", schema: props(`"x-mcp-header":{"type":"string"},"a":` + props(`"x-mcp-header":`+h("B", `"string"`))),
			want: []ParamHeader{{"B", []string{"a", "x-mcp-header"}, "string"}}},
		{name: "properties named like keywords", schema: props(`"items":` + h("A", `"string"`) + `,"const":` + h("B", `"string"`) + `,"properties":` + h("C", `"string"`)),
			want: []ParamHeader{{"A", []string{"items"}, "string"}, {"B", []string{"const"}, "string"}, {"C", []string{"properties"}, "string"}}},
		{name: "definition of that name", schema: `{"$defs":{"x-mcp-header":{"type":"string"}}}`},
		{name: "values are not schemas", schema: `{"properties":{"a":{"const":{"x-mcp-header":1},"enum":[{"x-mcp-header":2}],"default":{"x-mcp-header":3},"examples":[{"x-mcp-header":4}]}}}`},

		{name: "empty", schema: props(`"a":` + h("", `"string"`)), naming: "empty"},
		{name: "not a string", schema: props(`"a":{"type":"string","x-mcp-header":null}`), naming: "not a string"},
		{name: "space", schema: props(`"a":` + h("A B", `"string"`)), naming: "header name"},
		{name: "colon", schema: props(`"a":` + h("A:B", `"string"`)), naming: "header name"},
		{name: "line break", schema: props(`"a":` + h(`A\r\nB`, `"string"`)), naming: "header name"},
		{name: "non-ASCII", schema: props(`"a":` + h("Ä", `"string"`)), naming: "header name"},
		{name: "twice", schema: props(`"a":` + h("A", `"string"`) + `,"b":` + h("A", `"string"`)), naming: "unique"},
		{name: "twice in other case", schema: props(`"a":` + h("Ab", `"string"`) + `,"b":` + props(`"c":`+h("aB", `"string"`))), naming: "unique"},
		{name: "number", schema: props(`"a":` + h("A", `"number"`)), naming: "type"},
		{name: "object", schema: props(`"a":` + h("A", `"object"`)), naming: "type"},
		{name: "array", schema: props(`"a":` + h("A", `"array"`)), naming: "type"},
		{name: "null", schema: props(`"a":` + h("A", `"null"`)), naming: "type"},
		{name: "no type", schema: props(`"a":{"x-mcp-header":"A"}`), naming: "type"},
		{name: "two primitive types", schema: props(`"a":` + h("A", `["string","integer"]`)), naming: "type"},
		{name: "no type in the array", schema: props(`"a":` + h("A", `["null"]`)), naming: "type"},
		{name: "on the root", schema: `{"type":"string","x-mcp-header":"A"}`, naming: "properties alone"},
	}
	for _, where := range []string{
		`"items":@`, `"items":[@]`, `"prefixItems":[{},@]`, `"contains":@`, `"additionalProperties":@`, `"unevaluatedProperties":@`, `"propertyNames":@`,
		`"patternProperties":{".*":@}`, `"dependentSchemas":{"a":@}`, `"dependencies":{"a":@}`, `"oneOf":[@]`, `"anyOf":[{},@]`, `"allOf":[@]`, `"not":@`,
		`"if":@`, `"then":@`, `"else":@`, `"$defs":{"a":@}`, `"definitions":{"a":@}`, `"contentSchema":@`, `"x-own":{"deep":[[@]]}`,
		`"items":{"properties":{"a":@}}`, `"$defs":{"a":{"properties":{"b":@}}}`, `"anyOf":[{"properties":{"a":@}}]`,
	} {
		inner := strings.ReplaceAll(where, "@", h("A", `"string"`))
		tests = append(tests, struct {
			name, schema string
			want         []ParamHeader
			naming       string
		}{name: "below " + where, schema: props(`"p":{` + inner + `}`), naming: "properties alone"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParamHeaders([]byte(tt.schema))
			if (err != nil) != (tt.naming != "") || err != nil && !strings.Contains(err.Error(), tt.naming) {
				t.Fatalf("error = %v, want one that names %q", err, tt.naming)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("annotations differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParamHeaderValue(t *testing.T) {
	tests := []struct {
		name, kind, args string
		want             string
		absent, fails    bool
	}{
		{name: "string", kind: "string", args: `{"o":{"x":"us-west1"}}`, want: "us-west1"},
		{name: "string to encode", kind: "string", args: `{"o":{"x":"\u4e16"}}`, want: "=?base64?5LiW?="},
		{name: "empty string", kind: "string", args: `{"o":{"x":""}}`, want: "=?base64??="},
		{name: "string that looks like a number", kind: "string", args: `{"o":{"x":"1.0"}}`, want: "1.0"},
		{name: "lone surrogate", kind: "string", args: `{"o":{"x":"\ud800"}}`, fails: true},
		{name: "number for a string", kind: "string", args: `{"o":{"x":1}}`, fails: true},
		{name: "true", kind: "boolean", args: `{"o":{"x":true}}`, want: "true"},
		{name: "false", kind: "boolean", args: `{"o":{"x":false}}`, want: "false"},
		{name: "string for a boolean", kind: "boolean", args: `{"o":{"x":"true"}}`, fails: true},
		{name: "integer", kind: "integer", args: `{"o":{"x":-7}}`, want: "-7"},
		{name: "integer with fraction zero", kind: "integer", args: `{"o":{"x":42.0}}`, want: "42"},
		{name: "integer with exponent", kind: "integer", args: `{"o":{"x":4.2e1}}`, want: "42"},
		{name: "negative zero", kind: "integer", args: `{"o":{"x":-0.0}}`, want: "0"},
		{name: "fraction", kind: "integer", args: `{"o":{"x":1.5}}`, fails: true},
		{name: "string for an integer", kind: "integer", args: `{"o":{"x":"1"}}`, fails: true},
		{name: "null", kind: "string", args: `{"o":{"x":null}}`, absent: true},
		{name: "absent", kind: "string", args: `{"o":{}}`, absent: true},
		{name: "object above absent", kind: "string", args: `{}`, absent: true},
		{name: "object above is null", kind: "string", args: `{"o":null}`, absent: true},
		{name: "object above is a string", kind: "string", args: `{"o":"x"}`, absent: true},
		{name: "arguments absent", kind: "string", absent: true},
		{name: "arguments of another type", kind: "string", args: `[1]`, absent: true},
		{name: "key twice", kind: "string", args: `{"o":{"x":"a","x":"a"}}`, fails: true},
		{name: "key above twice", kind: "string", args: `{"o":{"x":"a"},"o":{}}`, fails: true},
		{name: "other key twice", kind: "string", args: `{"o":{"y":1,"x":"a","y":2}}`, want: "a"},
		{name: "object", kind: "string", args: `{"o":{"x":{}}}`, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := ParamHeader{Name: "X", Path: []string{"o", "x"}, Type: tt.kind}
			got, ok, err := p.Value([]byte(tt.args))
			if got != tt.want || ok != (!tt.absent && !tt.fails) || (err != nil) != tt.fails {
				t.Errorf("Value() = %q, %v, %v, want %q", got, ok, err, tt.want)
			}
		})
	}
}

func TestInteger(t *testing.T) {
	tests := []struct {
		in    string
		want  int64
		fails bool
	}{
		{in: "0"}, {in: "-0"}, {in: "0.000"}, {in: "0e99999999999999999999"}, {in: "0e-99999999999999999999"},
		{in: "42", want: 42}, {in: "42.0", want: 42}, {in: "-42.00", want: -42}, {in: "420e-1", want: 42}, {in: "0.42E+2", want: 42}, {in: "42000e-3", want: 42},
		{in: "9007199254740991", want: 1<<53 - 1}, {in: "-9007199254740991", want: -(1<<53 - 1)}, {in: "9007199254740991.0", want: 1<<53 - 1},
		{in: "900719925474099100e-2", want: 1<<53 - 1}, {in: "9.007199254740991e15", want: 1<<53 - 1}, {in: "1e15", want: 1e15},
		{in: "9007199254740992", fails: true}, {in: "-9007199254740992", fails: true}, {in: "9007199254740991.5", fails: true},
		{in: "9007199254740993", fails: true}, {in: "1e16", fails: true}, {in: "1e400", fails: true}, {in: "1e99999999999999999999", fails: true},
		{in: "1e-99999999999999999999", fails: true}, {in: "1.5", fails: true}, {in: "15e-1", fails: true}, {in: "1e9223372036854775807", fails: true},
		{in: "", fails: true}, {in: "-", fails: true}, {in: "+1", fails: true}, {in: "01", fails: true}, {in: "1.", fails: true}, {in: ".5", fails: true},
		{in: "1e", fails: true}, {in: "1e+-1", fails: true}, {in: "1e-+1", fails: true}, {in: "0x10", fails: true}, {in: " 1", fails: true}, {in: "1_0", fails: true}, {in: "NaN", fails: true},
	}
	for _, tt := range tests {
		got, err := integer(tt.in)
		if (err != nil) != tt.fails || err == nil && got != tt.want {
			t.Errorf("integer(%q) = %d, %v, want %d, fails=%v", tt.in, got, err, tt.want, tt.fails)
		}
	}
}

func TestCheckParamHeaders(t *testing.T) {
	params := []ParamHeader{{"Region", []string{"region"}, "string"}, {"Count", []string{"n"}, "integer"}, {"Dry-Run", []string{"o", "dry"}, "boolean"}}
	tests := []struct {
		name    string
		headers []string
		args    string
		naming  string
	}{
		{name: "nothing", args: `{}`},
		{name: "no arguments"},
		{name: "all equal", headers: []string{"mcp-param-region: eu", "Mcp-Param-Count: 42", "Mcp-Param-Dry-Run: true"}, args: `{"region":"eu","n":42,"o":{"dry":true}}`},
		{name: "encoded", headers: []string{"Mcp-Param-Region: =?base64?ZXU=?=", "Mcp-Param-Count: =?base64?NDI=?="}, args: `{"region":"eu","n":42}`},
		{name: "unknown header", headers: []string{"Mcp-Param-Other: x"}, args: `{}`},
		{name: "integers as numbers", headers: []string{"Mcp-Param-Count: 42.0"}, args: `{"n":4.2e1}`},
		{name: "large integers", headers: []string{"Mcp-Param-Count: 9007199254740990"}, args: `{"n":9007199254740991}`, naming: "Count"},
		{name: "integer out of range", headers: []string{"Mcp-Param-Count: 9007199254740993"}, args: `{"n":9007199254740993}`, naming: "Count"},
		{name: "integer in the header malformed", headers: []string{"Mcp-Param-Count: 0x2a"}, args: `{"n":42}`, naming: "Count"},
		{name: "missing", args: `{"region":"eu"}`, naming: "Region"},
		{name: "unequal", headers: []string{"Mcp-Param-Region: us"}, args: `{"region":"eu"}`, naming: "Region"},
		{name: "other case", headers: []string{"Mcp-Param-Region: EU"}, args: `{"region":"eu"}`, naming: "Region"},
		{name: "padding missing", headers: []string{"Mcp-Param-Region: =?base64?ZXU?="}, args: `{"region":"eu"}`, naming: "Region"},
		{name: "control character", headers: []string{"Mcp-Param-Region: e\x01u"}, args: `{"region":"eu"}`, naming: "Region"},
		{name: "twice", headers: []string{"Mcp-Param-Region: eu", "Mcp-Param-Region: us"}, args: `{"region":"eu"}`, naming: "Region"},
		{name: "twice alike", headers: []string{"Mcp-Param-Region: eu", "Mcp-Param-Region: eu"}, args: `{"region":"eu"}`},
		{name: "for null", headers: []string{"Mcp-Param-Region: eu"}, args: `{"region":null}`, naming: "Region"},
		{name: "for nothing", headers: []string{"Mcp-Param-Region: eu"}, args: `{}`, naming: "Region"},
		{name: "without header for null", args: `{"region":null}`},
		{name: "body of another type", headers: []string{"Mcp-Param-Region: 1"}, args: `{"region":1}`, naming: "Region"},
		{name: "boolean in other case", headers: []string{"Mcp-Param-Dry-Run: True"}, args: `{"o":{"dry":true}}`, naming: "Dry-Run"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckParamHeaders(headers(tt.headers), params, []byte(tt.args))
			checkMismatch(t, err, tt.naming)
			if err != nil && strings.Contains(err.Message, "9007199254740991") {
				t.Errorf("error %v repeats the arguments", err)
			}
		})
	}
}
