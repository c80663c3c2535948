package mcp

// Edits is a list of changes to one message, applied in one copy. The zero
// value is ready; changes must not overlap and may come in any order.
type Edits struct{ list []edit }

type edit struct {
	at   Span
	with []byte
}

// Reset empties the list and keeps its memory.
func (e *Edits) Reset() { e.list = e.list[:0] }

// Empty tells whether there is nothing to change.
func (e *Edits) Empty() bool { return len(e.list) == 0 }

// Replace puts with in the place of the bytes at at.
func (e *Edits) Replace(at Span, with []byte) { e.list = append(e.list, edit{at, with}) }

// Insert puts with before the byte at offset.
func (e *Edits) Insert(offset int, with []byte) {
	e.list = append(e.list, edit{Span{offset, offset}, with})
}

// SetMember sets one member of the validated object obj: its value is replaced
// when the member is there, else the member is appended. value is raw JSON.
func (e *Edits) SetMember(raw []byte, obj Span, key string, value []byte) { panic("stub") }

// RemoveMember takes one member out of the validated object obj, with its comma.
// At most one member of an object may be removed in one Edits.
func (e *Edits) RemoveMember(raw []byte, obj Span, key string) { panic("stub") }

// AppendTo appends raw with all changes applied to dst.
func (e *Edits) AppendTo(dst, raw []byte) []byte { panic("stub") }

// AppendQuote appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte { panic("stub") }
