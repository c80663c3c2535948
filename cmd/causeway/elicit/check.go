package elicit

import (
	"errors"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// bound is one end of a range; the zero value is none. Numbers are compared as
// they are written, so that big ones are not rounded.
type bound struct {
	number *big.Float
	text   string
}

// precision holds integers of more than a hundred digits exactly.
const precision = 512

func newBound(raw []byte) bound {
	n, err := number(raw)
	if err != nil {
		return bound{}
	}
	return bound{n, string(raw)}
}

// number reads a raw JSON number.
func number(raw []byte) (*big.Float, error) {
	if len(raw) == 0 || jsontext.Value(raw).Kind() != '0' || !jsontext.Value(raw).IsValid() {
		return nil, errors.New("not a number; write it like 42, -7 or 1.5")
	}
	n, _, err := big.ParseFloat(strings.TrimSpace(string(raw)), 10, precision, big.ToNearestEven)
	if err != nil || n.IsInf() {
		return nil, errors.New("too large a number")
	}
	return n, nil
}

// Check tells whether a raw JSON value fits the field, and if not, why.
func (f *Field) Check(raw []byte) error {
	switch f.kind {
	case kindText:
		return f.checkText(raw)
	case kindNumber, kindInteger:
		return f.checkNumber(raw)
	case kindBoolean:
		if k := jsontext.Value(raw).Kind(); k != 't' && k != 'f' {
			return errors.New("neither true nor false")
		}
	case kindChoice:
		value, ok := mcp.String(raw, mcp.Span{End: len(raw)})
		if !ok || !f.offers(value) {
			return errors.New("not one of the choices: " + f.list())
		}
	case kindChoices:
		return f.checkChoices(raw)
	default:
		if !jsontext.Value(raw).IsValid() {
			return errors.New("not JSON")
		}
	}
	return nil
}

func (f *Field) checkText(raw []byte) error {
	value, ok := mcp.String(raw, mcp.Span{End: len(raw)})
	if !ok {
		return errors.New("not a text")
	}
	if err := f.within(utf8.RuneCountInString(value), "character"); err != nil {
		return err
	}
	switch f.format {
	case "email":
		if a, err := mail.ParseAddress(value); err != nil || a.Address != value {
			return errors.New("not an e-mail address, such as user@example.com")
		}
	case "uri":
		if u, err := url.Parse(value); err != nil || !u.IsAbs() {
			return errors.New("not a URI, such as https://example.com/")
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, value); err != nil {
			return errors.New("not a date; write it as YYYY-MM-DD")
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, value); err != nil {
			return errors.New("not a time; write it as 2026-06-15T18:30:00Z")
		}
	}
	return nil
}

func (f *Field) checkNumber(raw []byte) error {
	n, err := number(raw)
	if err != nil {
		return err
	}
	if f.kind == kindInteger && !n.IsInt() {
		return errors.New("not a whole number")
	}
	if f.min.number != nil && n.Cmp(f.min.number) < 0 {
		return errors.New("less than " + f.min.text)
	}
	if f.max.number != nil && n.Cmp(f.max.number) > 0 {
		return errors.New("more than " + f.max.text)
	}
	return nil
}

func (f *Field) checkChoices(raw []byte) error {
	if jsontext.Value(raw).Kind() != '[' {
		return errors.New("not a list")
	}
	seen := map[string]bool{}
	for at := range mcp.Elements(raw, mcp.Span{End: len(raw)}) {
		value, ok := mcp.String(raw, at)
		if !ok || !f.offers(value) {
			return errors.New("not all are among the choices: " + f.list())
		}
		if seen[value] {
			return fmt.Errorf("%q is chosen twice", value)
		}
		seen[value] = true
	}
	return f.within(len(seen), "choice")
}

// within holds a count against the field's bounds.
func (f *Field) within(n int, unit string) error {
	count := new(big.Float).SetInt64(int64(n))
	switch {
	case f.min.number != nil && count.Cmp(f.min.number) < 0:
		return fmt.Errorf("%s, at least %s needed", plural(n, unit), f.min.text)
	case f.max.number != nil && count.Cmp(f.max.number) > 0:
		return fmt.Errorf("%s, at most %s allowed", plural(n, unit), f.max.text)
	}
	return nil
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

func (f *Field) offers(value string) bool {
	return slices.ContainsFunc(f.choices, func(c choice) bool { return c.value == value })
}

// list gives the values to choose from, for messages.
func (f *Field) list() string {
	var values []string
	for _, c := range f.choices {
		values = append(values, c.value)
	}
	return strings.Join(values, ", ")
}

// CheckContent tells whether a raw content object fits a form.
func CheckContent(fields []Field, content []byte) error {
	whole := mcp.Span{End: len(content)}
	for m := range mcp.Members(content, whole) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == m.Key })
		if i < 0 {
			return fmt.Errorf("the form has no field %q", m.Key)
		}
		if err := fields[i].Check(m.Value.In(content)); err != nil {
			return fmt.Errorf("the field %q: %w", m.Key, err)
		}
	}
	for _, f := range fields {
		if f.Required && !mcp.Find(content, whole, f.Key).Ok() {
			return fmt.Errorf("the field %q is missing", f.Key)
		}
	}
	return nil
}
