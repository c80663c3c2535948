package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Bounds of annotations and arguments that expressions read.
const (
	maxJSON   = 1 << 20 // bytes
	maxValues = 10_000  // in all depths
	maxDepth  = 64
)

// valueError tells what is wrong with a JSON object. It quotes nothing of it.
type valueError struct{ what, message string }

func (e *valueError) Error() string { return "the " + e.what + " " + e.message }

// parseObject reads a JSON object, which may be absent. Names that are there twice
// are refused, since nobody knows which one a server takes.
func parseObject(what string, raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	fault := func(format string, args ...any) error { return &valueError{what, fmt.Sprintf(format, args...)} }
	switch {
	case len(raw) > maxJSON:
		return nil, fault("are longer than %d bytes", maxJSON)
	case !utf8.Valid(raw):
		return nil, fault("are not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	p := parser{dec: dec, fault: fault}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fault("are not an object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fault("are not JSON")
	}
	return object, nil
}

// parser reads JSON values within bounds.
type parser struct {
	dec   *json.Decoder
	count int
	fault func(format string, args ...any) error
}

func (p *parser) token() (json.Token, error) {
	t, err := p.dec.Token()
	if err != nil {
		return nil, p.fault("are not JSON")
	}
	return t, nil
}

func (p *parser) value(depth int) (any, error) {
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	if p.count++; p.count > maxValues {
		return nil, p.fault("hold more than %d values", maxValues)
	}
	if depth > maxDepth {
		return nil, p.fault("are nested deeper than %d", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(depth)
		}
		return p.list(depth)
	case json.Number:
		return p.number(string(t))
	default:
		return t, nil
	}
}

func (p *parser) object(depth int) (any, error) {
	object := map[string]any{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if _, twice := object[name]; twice || !ok {
			return nil, p.fault("have a name twice")
		}
		if object[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := p.token()
	return object, err
}

func (p *parser) list(depth int) (any, error) {
	list := []any{}
	for p.dec.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.token()
	return list, err
}

// number gives an integer where there is one, so that large ones are compared
// exactly.
func (p *parser) number(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, p.fault("hold a number that is too large")
	}
	return f, nil
}
