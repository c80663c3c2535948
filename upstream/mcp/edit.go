package mcp

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Edits is a list of changes to one message, applied in one copy. The zero
// value is ready; changes must not overlap and may come in any order. Byte
// slices that are given to it must stay unchanged until AppendTo.
type Edits struct{ list []edit }

// edit replaces the bytes at at. One that has an object adds or removes a member
// there; which commas that takes is known only once all changes are.
type edit struct {
	at     Span
	with   []byte
	kind   editKind
	obj    Span   // of add and remove
	key    string // of add and remove
	others bool   // of add: the object has members besides the added ones
}

type editKind uint8

const (
	editReplace editKind = iota
	editAdd
	editRemove
)

// Reset empties the list and keeps its memory.
func (e *Edits) Reset() {
	clear(e.list)
	e.list = e.list[:0]
}

// Empty tells whether there is nothing to change.
func (e *Edits) Empty() bool { return len(e.list) == 0 }

// Replace puts with in the place of the bytes at at.
func (e *Edits) Replace(at Span, with []byte) { e.list = append(e.list, edit{at: at, with: with}) }

// Insert puts with before the byte at offset. Insertions at one offset keep
// their order.
func (e *Edits) Insert(offset int, with []byte) {
	e.list = append(e.list, edit{at: Span{offset, offset}, with: with})
}

// SetMember sets one member of the validated object obj: its value is replaced
// when the member is there, else the member is appended. value is raw JSON.
// Where a key occurs several times all its values are replaced, since readers
// differ in which one they take. A key may be set once.
func (e *Edits) SetMember(raw []byte, obj Span, key string, value []byte) {
	found := false
	at := -1
	w, ok := walk(raw, obj, '{')
	if !ok {
		return
	}
	for {
		name, old, ok := w.member()
		if !ok {
			break
		}
		at = old.End
		if keyIs(raw[name.Start:name.End], key) {
			found = true
			e.Replace(old, value)
		}
	}
	if found {
		return
	}
	add := edit{kind: editAdd, obj: obj, key: key, with: value, others: at >= 0}
	if at < 0 {
		at = skipSpace(raw, obj.Start) + 1
	}
	add.at = Span{at, at}
	e.list = append(e.list, add)
}

// RemoveMember takes a member out of the validated object obj, with its comma,
// however often its key occurs. Nothing happens when it is not there.
func (e *Edits) RemoveMember(raw []byte, obj Span, key string) {
	if Find(raw, obj, key).Ok() {
		e.list = append(e.list, edit{kind: editRemove, obj: obj, key: key})
	}
}

// AppendTo appends raw with all changes applied to dst. raw must be what the
// members were looked up in.
func (e *Edits) AppendTo(dst, raw []byte) []byte {
	e.placeRemovals(raw)
	slices.SortStableFunc(e.list, func(a, b edit) int {
		// An insertion goes before the change of the byte at its offset.
		return cmp.Or(cmp.Compare(a.at.Start, b.at.Start), cmp.Compare(a.at.End, b.at.End))
	})
	size := len(raw)
	for i := range e.list {
		size += len(e.list[i].with) + len(e.list[i].key) + len(`,"":`)
	}
	dst = slices.Grow(dst, size)

	done := 0
	added := Span{-1, -1} // the object that the last member was added to
	for i := range e.list {
		c := &e.list[i]
		dst = append(dst, raw[done:c.at.Start]...)
		done = c.at.End
		if c.kind == editAdd {
			if c.others || added == c.obj {
				dst = append(dst, ',')
			}
			added = c.obj
			dst = append(AppendQuote(dst, c.key), ':')
		}
		dst = append(dst, c.with...)
	}
	return append(dst, raw[done:]...)
}

// placeRemovals turns the removals into replacements by nothing.
func (e *Edits) placeRemovals(raw []byte) {
	isRemoval := func(c edit) bool { return c.kind == editRemove }
	for i := slices.IndexFunc(e.list, isRemoval); i >= 0; i = slices.IndexFunc(e.list, isRemoval) {
		e.placeRemovalsIn(raw, e.list[i].obj)
	}
}

// placeRemovalsIn does it for one object. A member that follows one that stays
// goes with the comma before it, the others with the comma after them.
func (e *Edits) placeRemovalsIn(raw []byte, obj Span) {
	gone := make([]string, 0, 4)
	e.list = slices.DeleteFunc(e.list, func(c edit) bool {
		if c.kind != editRemove || c.obj != obj {
			return false
		}
		gone = append(gone, c.key)
		return true
	})
	stays := false
	prevEnd := -1    // the end of the member before
	pending := -1    // the start of a removed member that no stayed one precedes
	pendingEnd := -1 // and its end
	for m := range Members(raw, obj) {
		if pending >= 0 {
			e.Replace(Span{pending, m.At.Start}, nil)
			pending = -1
		}
		switch {
		case !slices.Contains(gone, m.Key):
			stays = true
		case stays:
			e.Replace(Span{prevEnd, m.At.End}, nil)
		default:
			pending, pendingEnd = m.At.Start, m.At.End
		}
		prevEnd = m.At.End
	}
	if pending >= 0 {
		e.Replace(Span{pending, pendingEnd}, nil)
	}
	for i := range e.list {
		if c := &e.list[i]; c.kind == editAdd && c.obj == obj {
			c.others = stays
		}
	}
}

// AppendQuote appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			// The error only tells of invalid UTF-8, which is replaced as wanted.
			dst, _ = jsontext.AppendQuote(dst, s)
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
