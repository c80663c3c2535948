package mcp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// hardMaxDepth is the deepest nesting that jsontext reads.
const hardMaxDepth = 10000

// field says what to do with one member that we route on. Tables of fields are
// read only. dst is what a message is read into.
type field[T any] struct {
	key   string
	span  func(dst *T) *Span // gets the place of the value
	text  func(dst *T) *Text // instead of span: the value is read as a string, too
	inner []field[T]         // members of the value, when that is an object
	where string             // where the inner members are, for error messages
	// opaque marks a string that only its raw bytes matter of: one that is not
	// valid Unicode is read as empty.
	opaque bool
}

// parser reads one message in one pass.
type parser struct {
	dec     *jsontext.Decoder
	opts    []jsontext.Options
	in      bytes.Buffer
	raw     []byte
	scratch []byte
	fold    bool   // refuse keys that equal a routed one but for letter case
	bad     *Error // the first thing that is JSON, but not a message
	twoIDs  bool   // the message's id occurs twice, so there is none to answer to
}

// parsers is a pool because a decoder holds a few KiB of state, and one is
// needed for every message.
var parsers = sync.Pool{New: func() any {
	p := &parser{opts: []jsontext.Options{
		// What we do not route on passes as it is: duplicate keys, and surrogate
		// escapes without a partner. Raw UTF-8 is checked beforehand.
		jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true),
	}}
	p.dec = jsontext.NewDecoder(&p.in, p.opts...)
	return p
}}

func getParser(raw []byte, fold bool) *parser {
	p := parsers.Get().(*parser)
	p.raw, p.fold = raw, fold
	p.in = *bytes.NewBuffer(raw)
	return p
}

// release gives the parser back, without any hold on the message.
func (p *parser) release() {
	p.in = bytes.Buffer{}
	p.dec.Reset(&p.in, p.opts...)
	p.raw, p.bad, p.twoIDs = nil, nil, false
	parsers.Put(p)
}

// fail keeps the first violation. Reading goes on, since the id may come later
// and what is not JSON at all matters more.
func (p *parser) fail(format string, args ...any) {
	if p.bad == nil {
		p.bad = Errorf(CodeInvalidRequest, format, args...)
	}
}

// readMessage reads the whole message into dst. The error is what keeps it from
// being read at all; p.bad is set for what is wrong with a message that was
// read.
func readMessage[T any](p *parser, maxDepth int, dst *T, fields []field[T]) *Error {
	if !utf8.Valid(p.raw) {
		return Errorf(CodeParse, "message is not valid UTF-8")
	}
	if maxDepth <= 0 || maxDepth > hardMaxDepth {
		maxDepth = hardMaxDepth
	}
	if tooDeep(p.raw, maxDepth) {
		return Errorf(CodeInvalidRequest, "message is nested deeper than %d levels", maxDepth)
	}
	if err := readTop(p, dst, fields); err != nil {
		return syntaxError(err)
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return syntaxError(err)
	}
	return nil
}

// readTop reads the top-level value.
func readTop[T any](p *parser, dst *T, fields []field[T]) error {
	switch p.dec.PeekKind() {
	case '{':
		_, err := readObject(p, dst, fields, "message")
		return err
	case '[':
		p.fail("batches are not supported")
	default:
		p.fail("message is not an object")
	}
	_, err := p.dec.ReadValue()
	return err
}

// syntaxError words a decoder's error without repeating the message's content.
func syntaxError(err error) *Error {
	var at *jsontext.SyntacticError
	if errors.As(err, &at) {
		return Errorf(CodeParse, "message is not valid JSON: error at byte %d", at.ByteOffset)
	}
	if err == nil {
		return Errorf(CodeParse, "message is not valid JSON: more follows after its end")
	}
	return Errorf(CodeParse, "message is not valid JSON: it ends too early")
}

// readObject reads the object that comes next and fills dst from its members.
func readObject[T any](p *parser, dst *T, fields []field[T], where string) (Span, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	start := int(p.dec.InputOffset()) - 1
	seen := uint32(0) // one bit for each of fields
	for p.dec.PeekKind() != '}' {
		key, err := p.dec.ReadValue()
		if err != nil {
			return Span{}, err
		}
		i := match(p, fields, key, where)
		if i >= 0 && seen&(1<<i) != 0 {
			p.twice(fields[i].key, where)
			i = -1
		}
		if i < 0 {
			_, err = p.dec.ReadValue()
		} else {
			seen |= 1 << i
			err = readField(p, dst, &fields[i])
		}
		if err != nil {
			return Span{}, err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	return Span{start, int(p.dec.InputOffset())}, nil
}

// twice fails for a routed key that occurs again.
func (p *parser) twice(key, where string) {
	p.twoIDs = p.twoIDs || key == "id" // only the message itself has a routed id
	p.fail("duplicate key %q in %s", key, where)
}

// readField reads the value that comes next.
func readField[T any](p *parser, dst *T, f *field[T]) error {
	if f.inner != nil && p.dec.PeekKind() == '{' {
		at, err := readObject(p, dst, f.inner, f.where)
		*f.span(dst) = at
		return err
	}
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	end := int(p.dec.InputOffset())
	at := Span{end - len(value), end}
	if f.text == nil {
		*f.span(dst) = at
		return nil
	}
	text := f.text(dst)
	text.Span = at
	if quoted(value) {
		text.IsString = true
		if text.Value, err = p.text(value); err != nil && !f.opaque {
			p.fail("%q is not valid Unicode", f.key)
		}
	}
	return nil
}

var errLoneSurrogate = errors.New("surrogate without its partner")

// text decodes a string that we route on. Here a surrogate without its partner
// is an error: such a string has no UTF-8 form to route by or to compare with a
// header.
func (p *parser) text(lit []byte) (string, error) {
	if bytes.IndexByte(lit, '\\') < 0 {
		return intern(lit[1 : len(lit)-1]), nil
	}
	b, lone, _ := appendUnquoted(p.scratch[:0], lit, false)
	if cap(b) <= 4<<10 {
		p.scratch = b
	}
	if lone {
		return "", errLoneSurrogate
	}
	return intern(b), nil
}

// match finds the field for a key, or -1 when we do not route on it.
func match[T any](p *parser, fields []field[T], lit []byte, where string) int {
	name := lit[1 : len(lit)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		// Keys are compared after unescaping: "met\u0068od" is method to whoever
		// reads the message behind us.
		name, _, _ = appendUnquoted(nil, lit, false)
	}
	for i := range fields {
		if fields[i].key == string(name) {
			return i
		}
	}
	if !p.fold {
		return -1
	}
	// Some JSON libraries match without regard to letter case. They would take
	// this key for a routed one, and act on another value than the one that was
	// checked here.
	for i := range fields {
		if key := fields[i].key; foldsTo(name, key) {
			p.fail("key %q in %s differs from %q only by letter case", string(name), where, key)
		}
	}
	return -1
}

// foldsTo tells whether name equals the ASCII key under simple case folding.
func foldsTo(name []byte, key string) bool {
	// A character outside ASCII that folds to a letter ("ſ", the Kelvin sign) is
	// longer than it, so only longer names can hold one.
	if len(name) != len(key) && (len(name) < len(key) || ascii(name)) {
		return false
	}
	return strings.EqualFold(string(name), key)
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// validID tells whether the raw value is an id: a string, or an integer of any
// size without fraction and exponent (basic/index, Requests: never null).
func validID(raw []byte) bool {
	if quoted(raw) {
		return true
	}
	for i, c := range raw {
		if (c < '0' || c > '9') && (c != '-' || i > 0) {
			return false
		}
	}
	return len(raw) > 0
}
