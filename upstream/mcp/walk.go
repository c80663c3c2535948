package mcp

import (
	"bytes"
	"iter"
)

// walker steps through one object or array.
type walker struct {
	b    []byte // the message up to the end of the container
	pos  int
	more bool // an item was read, so that a comma is due
}

// walk starts at the container at s, which must begin with open.
func walk(raw []byte, s Span, open byte) (walker, bool) {
	if !s.Ok() || s.Start < 0 || s.End > len(raw) {
		return walker{}, false
	}
	w := walker{b: raw[:s.End]}
	w.pos = skipSpace(w.b, s.Start)
	if w.pos >= len(w.b) || w.b[w.pos] != open {
		return walker{}, false
	}
	w.pos++
	return w, true
}

// item moves to the next item and gives the offset where it starts, or -1 at
// the end.
func (w *walker) item() int {
	i := skipSpace(w.b, w.pos)
	if w.more {
		if i >= len(w.b) || w.b[i] != ',' {
			return -1
		}
		i = skipSpace(w.b, i+1)
	}
	w.more = true
	if i >= len(w.b) {
		return -1
	}
	return i
}

// member gives the places of the next member's key and value.
func (w *walker) member() (key, value Span, ok bool) {
	key.Start = w.item()
	if key.Start < 0 || w.b[key.Start] != '"' {
		return key, value, false
	}
	key.End = skipString(w.b, key.Start)
	if key.End < 0 {
		return key, value, false
	}
	colon := skipSpace(w.b, key.End)
	if colon >= len(w.b) || w.b[colon] != ':' {
		return key, value, false
	}
	value.Start = skipSpace(w.b, colon+1)
	value.End = skipValue(w.b, value.Start)
	w.pos = value.End
	return key, value, value.End >= 0
}

// element gives the place of the next element.
func (w *walker) element() (value Span, ok bool) {
	value.Start = w.item()
	if value.Start < 0 {
		return value, false
	}
	value.End = skipValue(w.b, value.Start)
	w.pos = value.End
	return value, value.End >= 0
}

// Members iterates over the members of the JSON object at obj, which must have
// been validated (it is part of a parsed message). Anything but an object has
// no members.
func Members(raw []byte, obj Span) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		w, ok := walk(raw, obj, '{')
		for ok {
			var key, value Span
			if key, value, ok = w.member(); !ok {
				return
			}
			if !yield(Member{Key: keyText(raw[key.Start:key.End]), At: Span{key.Start, value.End}, Value: value}) {
				return
			}
		}
	}
}

// Elements iterates over the elements of the validated JSON array at arr.
func Elements(raw []byte, arr Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		w, ok := walk(raw, arr, '[')
		for ok {
			var value Span
			if value, ok = w.element(); !ok || !yield(value) {
				return
			}
		}
	}
}

// String decodes the validated JSON string at s; false when it is none. A
// surrogate escape without its partner becomes U+FFFD.
func String(raw []byte, s Span) (string, bool) {
	if s.Start < 0 || s.End > len(raw) {
		return "", false
	}
	lit := s.In(raw)
	if !quoted(lit) {
		return "", false
	}
	if bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1 : len(lit)-1]), true
	}
	text, _, ok := appendUnquoted(make([]byte, 0, len(lit)), lit, false)
	if !ok {
		return "", false
	}
	return string(text), true
}

// Find returns the value of the first member of obj with that key, or a Span
// that is not Ok.
func Find(raw []byte, obj Span, key string) Span {
	w, ok := walk(raw, obj, '{')
	for ok {
		var name, value Span
		if name, value, ok = w.member(); ok && keyIs(raw[name.Start:name.End], key) {
			return value
		}
	}
	return Span{}
}

// keyText gives the key that the JSON string lit stands for.
func keyText(lit []byte) string {
	if bytes.IndexByte(lit, '\\') < 0 {
		return internKey(lit[1 : len(lit)-1])
	}
	text, _, _ := appendUnquoted(nil, lit, false)
	return string(text)
}

// keyIs tells whether the JSON string lit stands for key.
func keyIs(lit []byte, key string) bool {
	if bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1:len(lit)-1]) == key
	}
	text, _, ok := appendUnquoted(nil, lit, false)
	return ok && string(text) == key
}
