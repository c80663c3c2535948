package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// paramHeaderKey is the schema keyword of the annotation.
const paramHeaderKey = "x-mcp-header"

// maxSafeInteger bounds the integers that may be sent in headers, 2^53-1.
const maxSafeInteger = 1<<53 - 1

// ParamHeader is one `x-mcp-header` annotation of a tool's input schema.
type ParamHeader struct {
	Name string   // the header without "Mcp-Param-", as annotated
	Path []string // the keys that lead to the value in the arguments
	Type string   // "string", "integer" or "boolean"
}

// Header gives the whole name of the header.
func (p *ParamHeader) Header() string { return HeaderParamPrefix + p.Name }

// ParamHeaders reads the annotations of a raw input schema. It fails when one
// breaks the rules, and the tool must then be left out
// (basic/transports/streamable-http, Schema Extension).
func ParamHeaders(schema []byte) ([]ParamHeader, error) {
	// Few schemas have annotations. Only an escape can hide the key from this.
	if !bytes.Contains(schema, []byte(paramHeaderKey)) && !bytes.Contains(schema, []byte(`\`)) {
		return nil, nil
	}
	s := schemaWalk{raw: schema}
	if err := s.schema(Span{0, len(schema)}, nil, true); err != nil {
		return nil, err
	}
	return s.found, nil
}

// schemaWalk looks for annotations in a whole schema.
type schemaWalk struct {
	raw   []byte
	found []ParamHeader
}

// schema walks one schema. path leads to the values it describes when it is
// reachable from the root through properties alone.
func (s *schemaWalk) schema(at Span, path []string, reachable bool) error {
	for m := range Members(s.raw, at) {
		var err error
		switch m.Key {
		case paramHeaderKey:
			if !reachable || len(path) == 0 {
				return fmt.Errorf("%s is not on a property that is reached through properties alone", paramHeaderKey)
			}
			err = s.annotation(at, m.Value, path)
		case "properties":
			for p := range Members(s.raw, m.Value) {
				if err = s.schema(p.Value, append(slices.Clip(path), p.Key), reachable); err != nil {
					break
				}
			}
		case "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			// Maps whose keys are names, not keywords.
			for p := range Members(s.raw, m.Value) {
				if err = s.schema(p.Value, nil, false); err != nil {
					break
				}
			}
		case "const", "enum", "default", "examples", "example":
			// These hold values, not schemas.
		default:
			err = s.below(m.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below looks for annotations, which must not be there, in the schema or the
// schemas that a keyword other than properties holds.
func (s *schemaWalk) below(at Span) error {
	for e := range Elements(s.raw, at) {
		if err := s.below(e); err != nil {
			return err
		}
	}
	return s.schema(at, nil, false)
}

// annotation adds the annotation of the schema at at.
func (s *schemaWalk) annotation(at, value Span, path []string) error {
	name, ok := String(s.raw, value)
	if !ok || name == "" {
		return fmt.Errorf("%s of %q is not a string, or empty", paramHeaderKey, strings.Join(path, "."))
	}
	for i := range len(name) {
		if !tokenChar(name[i]) {
			return fmt.Errorf("%s %q is not a header name", paramHeaderKey, name)
		}
	}
	for i := range s.found {
		if strings.EqualFold(s.found[i].Name, name) {
			return fmt.Errorf("%s %q is not unique", paramHeaderKey, name)
		}
	}
	kind := s.primitive(Find(s.raw, at, "type"))
	if kind == "" {
		return fmt.Errorf("%s %q is on a property whose type is not string, integer or boolean", paramHeaderKey, name)
	}
	s.found = append(s.found, ParamHeader{Name: name, Path: path, Type: kind})
	return nil
}

// primitive reads a schema's type; "" for one that must not be annotated. The
// specification allows the three primitive types only, and says what becomes of
// a value that is null: it has no header. So a primitive type that is nullable,
// ["string","null"], is taken for that primitive type. Other unions are not.
func (s *schemaWalk) primitive(at Span) string {
	kind, ok := String(s.raw, at)
	if !ok {
		for e := range Elements(s.raw, at) {
			k, _ := String(s.raw, e)
			if k == "null" {
				continue
			}
			if kind != "" {
				return ""
			}
			kind = k
		}
	}
	switch kind {
	case "string", "integer", "boolean":
		return kind
	}
	return ""
}

// tokenChar tells whether c is a tchar of RFC 9110 5.6.2.
func tokenChar(c byte) bool {
	switch {
	case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// Errors of Value. They do not repeat the arguments.
var (
	errParamType      = errors.New("value is not of the annotated type")
	errParamRange     = errors.New("integer is outside of ±(2^53-1)")
	errParamDuplicate = errors.New("key occurs twice")
	errParamUnicode   = errors.New("string is not valid Unicode")
)

// Value gives the header's encoded value for raw arguments; false when there is
// no value at the path or it is null. It fails for a value of another type, for
// an integer outside ±(2^53-1), and where a key on the path occurs twice, since
// readers differ in which one they take.
func (p *ParamHeader) Value(args []byte) (string, bool, error) {
	v, ok, err := p.plain(args)
	if err != nil || !ok {
		return "", false, err
	}
	return EncodeHeader(v), true, nil
}

// plain is Value before encoding.
func (p *ParamHeader) plain(args []byte) (string, bool, error) {
	at := Span{0, len(args)}
	for _, key := range p.Path {
		var found Span
		for m := range Members(args, at) {
			if m.Key != key {
				continue
			}
			if found.Ok() {
				return "", false, errParamDuplicate
			}
			found = m.Value
		}
		at = found
	}
	raw := at.In(args)
	if raw == nil || string(raw) == "null" {
		return "", false, nil
	}
	switch p.Type {
	case "string":
		text, lone, ok := appendUnquoted(nil, raw, false)
		if !ok {
			return "", false, errParamType
		}
		if lone {
			return "", false, errParamUnicode
		}
		return string(text), true, nil
	case "boolean":
		if v := string(raw); v == "true" || v == "false" {
			return v, true, nil
		}
	case "integer":
		n, err := integer(string(raw))
		return strconv.FormatInt(n, 10), err == nil, err
	}
	return "", false, errParamType
}

// integer reads a JSON number whose value is an integer, such as 42, 42.0 or
// 4.2e1, in decimal throughout: a float64 would round what is near the bounds.
func integer(lit string) (int64, error) {
	mantissa, exp, hasExp := lit, "0", false
	if i := strings.IndexAny(lit, "eE"); i >= 0 {
		mantissa, exp, hasExp = lit[:i], lit[i+1:], true
	}
	unsigned, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, hasFraction := strings.Cut(unsigned, ".")
	if !digits(whole) || hasFraction && !digits(fraction) || len(whole) > 1 && whole[0] == '0' ||
		hasExp && !digits(strings.TrimPrefix(strings.TrimPrefix(exp, "-"), "+")) {
		return 0, errParamType
	}
	// The value is significant × 10^shift, without zeros at either end of it.
	significant := strings.TrimLeft(whole+fraction, "0")
	if significant == "" {
		return 0, nil
	}
	trimmed := strings.TrimRight(significant, "0")
	shift, err := strconv.Atoi(exp)
	if err != nil { // an exponent far beyond any number of digits here
		if strings.HasPrefix(exp, "-") {
			return 0, errParamType
		}
		return 0, errParamRange
	}
	shift += len(significant) - len(trimmed) - len(fraction)
	if shift < 0 {
		return 0, errParamType
	}
	if shift > 16 || len(trimmed)+shift > 16 {
		return 0, errParamRange
	}
	n, err := strconv.ParseInt(trimmed+strings.Repeat("0", shift), 10, 64)
	if err != nil || n > maxSafeInteger {
		return 0, errParamRange
	}
	if negative {
		n = -n
	}
	return n, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// CheckParamHeaders compares the request's headers with its raw arguments;
// integers compare as numbers. A header without a value in the body is an error
// too (basic/transports/streamable-http, Server Behavior for Custom Headers).
// The error is -32020 and does not repeat the arguments.
func CheckParamHeaders(h http.Header, params []ParamHeader, args []byte) *Error {
	for i := range params {
		if err := params[i].check(h, args); err != nil {
			return err
		}
	}
	return nil
}

func (p *ParamHeader) check(h http.Header, args []byte) *Error {
	name := p.Header()
	v, has, merr := one(h, name)
	if merr != nil {
		return merr
	}
	want, due, err := p.plain(args)
	switch {
	case err != nil:
		return mismatch("the body's value for %s cannot be compared: %v", name, err)
	case !has && !due:
		return nil
	case !has:
		return mismatch("%s is missing", name)
	case !due:
		return mismatch("%s is given, but the body has no value for it", name)
	}
	got, err := DecodeHeader(v)
	if err != nil {
		return mismatch("%s is malformed: %v", name, err)
	}
	if p.Type == "integer" {
		n, err := integer(got)
		if err != nil {
			return mismatch("%s is malformed: %v", name, err)
		}
		got = strconv.FormatInt(n, 10)
	}
	if got != want {
		return mismatch("%s does not match the body", name)
	}
	return nil
}
