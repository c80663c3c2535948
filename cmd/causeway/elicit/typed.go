package elicit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Parse reads what somebody typed into the field and gives the raw JSON value.
// The error says what is wrong with it.
func (f *Field) Parse(typed string) ([]byte, error) {
	raw, err := f.read(typed)
	if err != nil {
		return nil, err
	}
	return raw, f.Check(raw)
}

func (f *Field) read(typed string) ([]byte, error) {
	word := strings.TrimSpace(typed)
	switch f.kind {
	case kindText:
		if word == `""` {
			return []byte(`""`), nil // the empty text, which cannot be typed otherwise
		}
		return mcp.AppendQuote(nil, typed), nil
	case kindBoolean:
		switch strings.ToLower(word) {
		case "y", "yes", "true":
			return []byte("true"), nil
		case "n", "no", "false":
			return []byte("false"), nil
		}
		return nil, errors.New("please answer yes or no")
	case kindChoice:
		value, err := f.choose(word)
		if err != nil {
			return nil, err
		}
		return mcp.AppendQuote(nil, value), nil
	case kindChoices:
		return f.chooseSome(word)
	}
	return []byte(word), nil
}

// choose finds the choice that was typed: its value, its title or its number.
func (f *Field) choose(word string) (string, error) {
	for _, c := range f.choices {
		if c.value == word {
			return c.value, nil
		}
	}
	for _, c := range f.choices {
		if strings.EqualFold(c.value, word) || strings.EqualFold(c.title, word) {
			return c.value, nil
		}
	}
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(f.choices) {
		return f.choices[n-1].value, nil
	}
	return "", fmt.Errorf("%q is not one of the choices; type a number from 1 to %d", word, len(f.choices))
}

// chooseSome reads choices that are separated by commas; "none" chooses none.
func (f *Field) chooseSome(words string) ([]byte, error) {
	if strings.EqualFold(words, "none") && !f.offers(words) {
		return []byte("[]"), nil
	}
	b := []byte{'['}
	for word := range strings.SplitSeq(words, ",") {
		value, err := f.choose(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = mcp.AppendQuote(b, value)
	}
	return append(b, ']'), nil
}

// hint says what is expected: the format and the bounds.
func (f *Field) hint() string {
	var parts []string
	switch f.kind {
	case kindText:
		formats := map[string]string{
			"email": "an e-mail address", "uri": "a URI",
			"date": "a date, YYYY-MM-DD", "date-time": "a time, 2026-06-15T18:30:00Z",
		}
		if s := formats[f.format]; s != "" {
			parts = append(parts, s)
		}
		parts = append(parts, f.span("characters")...)
	case kindNumber:
		parts = append(append(parts, "a number"), f.span("")...)
	case kindInteger:
		parts = append(append(parts, "a whole number"), f.span("")...)
	case kindBoolean:
		parts = append(parts, "yes or no")
	case kindChoice:
		parts = append(parts, fmt.Sprintf("1 to %d", len(f.choices)))
	case kindChoices:
		parts = append(append(parts, "numbers separated by commas, or none"), f.span("choices")...)
	default:
		parts = append(parts, "a JSON value")
	}
	if !f.Required {
		parts = append(parts, "optional")
	}
	return strings.Join(parts, ", ")
}

// span says the bounds in words.
func (f *Field) span(unit string) []string {
	low, high := f.min.text, f.max.text
	if unit != "" {
		unit = " " + unit
	}
	if high == "1" || high == "" && low == "1" {
		unit = strings.TrimSuffix(unit, "s")
	}
	switch {
	case low != "" && high != "":
		return []string{low + " to " + high + unit}
	case low != "":
		return []string{"at least " + low + unit}
	case high != "":
		return []string{"at most " + high + unit}
	}
	return nil
}

// show gives a raw value as it would be typed.
func (f *Field) show(raw []byte) string {
	switch f.kind {
	case kindBoolean:
		if string(raw) == "true" {
			return "yes"
		}
		return "no"
	case kindText, kindChoice:
		if s, ok := mcp.String(raw, mcp.Span{End: len(raw)}); ok && s != "" {
			return s
		}
	case kindChoices:
		var values []string
		for at := range mcp.Elements(raw, mcp.Span{End: len(raw)}) {
			value, _ := mcp.String(raw, at)
			values = append(values, value)
		}
		if len(values) == 0 {
			return "none"
		}
		return strings.Join(values, ",")
	}
	return string(raw)
}
