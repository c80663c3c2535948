package elicit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// kind is the type of a field.
type kind uint8

const (
	kindText kind = iota + 1
	kindNumber
	kindInteger
	kindBoolean
	kindChoice  // one of choices
	kindChoices // some of choices
	kindJSON    // what the restricted schemas do not have: asked for as raw JSON
)

// Field is one field of a form.
type Field struct {
	Key         string
	Title       string // the key when the schema has none
	Description string
	Required    bool
	Default     []byte // raw JSON that fits the field; nil for none

	kind     kind
	choices  []choice
	format   string // email, uri, date or date-time; others are not checked
	min, max bound  // of a number, of the characters of a text, of the number of choices
}

// choice is one value to choose from.
type choice struct {
	value string
	title string // may be empty
}

// property is a field's schema (client/elicitation, Requested Schema). Its
// decoder is strict about letter case.
type property struct {
	Type        jsontext.Value `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Default     jsontext.Value `json:"default"`
	Format      string         `json:"format"`
	Enum        []string       `json:"enum"`
	EnumNames   []string       `json:"enumNames"`
	OneOf       []titled       `json:"oneOf"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []titled `json:"anyOf"`
	} `json:"items"`
	MinLength jsontext.Value `json:"minLength"`
	MaxLength jsontext.Value `json:"maxLength"`
	Minimum   jsontext.Value `json:"minimum"`
	Maximum   jsontext.Value `json:"maximum"`
	MinItems  jsontext.Value `json:"minItems"`
	MaxItems  jsontext.Value `json:"maxItems"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// parseFields reads the fields of a form from its raw schema.
func parseFields(schema []byte) ([]Field, error) {
	if len(schema) == 0 || schema[0] != '{' {
		return nil, errors.New("it has no schema")
	}
	whole := mcp.Span{End: len(schema)}
	var required []string
	if at := mcp.Find(schema, whole, "required"); at.Ok() {
		if err := json.Unmarshal(at.In(schema), &required); err != nil {
			return nil, fmt.Errorf("required: %w", err)
		}
	}
	var fields []Field
	for m := range mcp.Members(schema, mcp.Find(schema, whole, "properties")) {
		f := parseField(m.Key, m.Value.In(schema))
		f.Required = slices.Contains(required, m.Key)
		fields = append(fields, f)
	}
	for _, key := range required {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Key == key }) {
			return nil, fmt.Errorf("the field %q is required and not described", key)
		}
	}
	return fields, nil
}

// parseField reads one field. What does not look like one of the restricted
// schemas can still be answered, by somebody who knows what is wanted.
func parseField(key string, raw []byte) Field {
	var p property
	if err := json.Unmarshal(raw, &p); err != nil {
		return Field{Key: key, Title: key, kind: kindJSON}
	}
	f := Field{Key: key, Title: p.Title, Description: p.Description, format: p.Format}
	if f.Title == "" {
		f.Title = key
	}
	typ, _ := mcp.String(p.Type, mcp.Span{End: len(p.Type)})
	switch {
	case typ == "string" && len(p.OneOf) > 0:
		f.kind, f.choices = kindChoice, titledChoices(p.OneOf)
	case typ == "string" && len(p.Enum) > 0:
		f.kind, f.choices = kindChoice, namedChoices(p.Enum, p.EnumNames)
	case typ == "string":
		f.kind, f.min, f.max = kindText, newBound(p.MinLength), newBound(p.MaxLength)
	case typ == "number":
		f.kind, f.min, f.max = kindNumber, newBound(p.Minimum), newBound(p.Maximum)
	case typ == "integer":
		f.kind, f.min, f.max = kindInteger, newBound(p.Minimum), newBound(p.Maximum)
	case typ == "boolean":
		f.kind = kindBoolean
	case typ == "array" && len(p.Items.AnyOf) > 0:
		f.kind, f.choices = kindChoices, titledChoices(p.Items.AnyOf)
	case typ == "array" && len(p.Items.Enum) > 0:
		f.kind, f.choices = kindChoices, namedChoices(p.Items.Enum, nil)
	default:
		f.kind = kindJSON
	}
	if f.kind == kindChoices {
		f.min, f.max = newBound(p.MinItems), newBound(p.MaxItems)
	}
	// A default that does not fit would be refused when it is sent.
	if len(p.Default) > 0 && f.Check(p.Default) == nil {
		f.Default = p.Default
	}
	return f
}

func titledChoices(list []titled) []choice {
	var all []choice
	for _, t := range list {
		all = append(all, choice{t.Const, t.Title})
	}
	return all
}

func namedChoices(values, names []string) []choice {
	var all []choice
	for i, v := range values {
		c := choice{value: v}
		if i < len(names) {
			c.title = names[i]
		}
		all = append(all, c)
	}
	return all
}
