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

// slot says what to do with one member that we route on.
type slot struct {
	key   string
	span  *Span  // gets the place of the value
	text  *Text  // instead of span: the value is read as a string, too
	inner []slot // members of the value, when that is an object
	where string // where the inner members are, for error messages
	seen  bool
	twice bool
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
	p.raw, p.bad = nil, nil
	parsers.Put(p)
}

// fail keeps the first violation. Reading goes on, since the id may come later
// and what is not JSON at all matters more.
func (p *parser) fail(format string, args ...any) {
	if p.bad == nil {
		p.bad = Errorf(CodeInvalidRequest, format, args...)
	}
}

// message reads the whole message into slots. The error is what keeps it from
// being read at all; p.bad is set for what is wrong with a message that was
// read.
func (p *parser) message(maxDepth int, slots []slot) *Error {
	if !utf8.Valid(p.raw) {
		return Errorf(CodeParse, "message is not valid UTF-8")
	}
	if maxDepth <= 0 || maxDepth > hardMaxDepth {
		maxDepth = hardMaxDepth
	}
	if tooDeep(p.raw, maxDepth) {
		return Errorf(CodeInvalidRequest, "message is nested deeper than %d levels", maxDepth)
	}
	if err := p.value(slots); err != nil {
		return syntaxError(err)
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return syntaxError(err)
	}
	return nil
}

// value reads the top-level value.
func (p *parser) value(slots []slot) error {
	switch p.dec.PeekKind() {
	case '{':
		_, err := p.object(slots, "message")
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

// object reads the object that comes next and fills slots from its members.
func (p *parser) object(slots []slot, where string) (Span, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	start := int(p.dec.InputOffset()) - 1
	for p.dec.PeekKind() != '}' {
		key, err := p.dec.ReadValue()
		if err != nil {
			return Span{}, err
		}
		s := p.match(slots, key, where)
		if s == nil {
			if _, err := p.dec.ReadValue(); err != nil {
				return Span{}, err
			}
			continue
		}
		if err := p.fill(s); err != nil {
			return Span{}, err
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return Span{}, err
	}
	return Span{start, int(p.dec.InputOffset())}, nil
}

// fill reads the value that comes next into s.
func (p *parser) fill(s *slot) error {
	if s.inner != nil && p.dec.PeekKind() == '{' {
		at, err := p.object(s.inner, s.where)
		*s.span = at
		return err
	}
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	end := int(p.dec.InputOffset())
	at := Span{end - len(value), end}
	if s.text == nil {
		*s.span = at
		return nil
	}
	s.text.Span = at
	if quoted(value) {
		s.text.IsString = true
		if s.text.Value, err = p.text(value); err != nil {
			p.fail("%q is not valid Unicode", s.key)
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

// match finds the slot for a key, or nil when we do not route on it or must not
// take its value.
func (p *parser) match(slots []slot, lit []byte, where string) *slot {
	name := lit[1 : len(lit)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		// Keys are compared after unescaping: "met\u0068od" is method to whoever
		// reads the message behind us.
		b, _, _ := appendUnquoted(nil, lit, false)
		name = b
	}
	for i := range slots {
		s := &slots[i]
		if s.key != string(name) {
			continue
		}
		if s.seen {
			s.twice = true
			p.fail("duplicate key %q in %s", s.key, where)
			return nil
		}
		s.seen = true
		return s
	}
	if p.fold {
		p.refuseFolded(slots, name, where)
	}
	return nil
}

// refuseFolded fails for a key that some JSON libraries, which match without
// regard to letter case, would take for one of slots: they would then act on
// another value than the one that was checked here.
func (p *parser) refuseFolded(slots []slot, name []byte, where string) {
	for i := range slots {
		key := slots[i].key
		// A character outside ASCII that folds to a letter ("ſ", the Kelvin sign)
		// is longer than it, so only longer names can hold one.
		if len(name) != len(key) && (len(name) < len(key) || ascii(name)) {
			continue
		}
		if strings.EqualFold(string(name), key) {
			p.fail("key %q in %s differs from %q only by letter case", name, where, key)
			return
		}
	}
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
