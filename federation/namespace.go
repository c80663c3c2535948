package federation

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	// maxNameLen bounds an exposed name in bytes: model providers refuse a whole
	// request over one name that does not match ^[A-Za-z][A-Za-z0-9_-]{0,63}$.
	maxNameLen = 64
	// nameHashDigits is the number of hex digits at the end of a cleaned name.
	nameHashDigits = 8
)

// exposedName gives the name under which clients see a tool or prompt: the
// prefix (an alias, or nothing where an upstream is exposed without), the
// separator and the upstream's own name. A name that does not match
// ^[A-Za-z][A-Za-z0-9_-]{0,63}$ then is cleaned (see cleanedName), and cleaned
// tells so.
//
// The result depends on the arguments only, so it is the same on every replica.
// Names of one upstream get different exposed names unless 32 bits of two
// hashes are equal, or the upstream chose a name that ends in the hash of
// another of its names. The catalogue sees that when it builds its table: the
// first keeps its place, and the other is left out with a reason, so a call
// never reaches another tool than the one that is listed.
func exposedName(prefix, sep, name string) (exposed string, cleaned bool) {
	if prefix == "" {
		sep = ""
	}
	if len(prefix)+len(sep)+len(name) <= maxNameLen {
		if full := prefix + sep + name; fits(full) {
			return full, false
		}
	}
	return cleanedName(prefix, sep, name), true
}

// cleanedName gives a name that always fits: the prefix and separator, the
// name's cleaned form, `_` and the first hexadecimal digits of the SHA-256 of the
// whole name. In the cleaned form each run of other characters than ASCII
// letters, digits, `_` and `-` has become one `_`; what may not start a name is
// dropped at its start, `_` and `-` at both ends, and it is cut to what there is
// room for.
func cleanedName(prefix, sep, name string) string {
	var buf [maxNameLen]byte
	b := buf[:0]
	if prefix != "" {
		b = append(append(b, prefix...), sep...)
	}
	head, room := len(b), maxNameLen-1-nameHashDigits
	run := false // the last byte stands for a run of other characters
	for i := 0; i < len(name) && len(b) < room; i++ {
		c := name[i]
		switch {
		case len(b) == head && !isLetter(c) && (prefix == "" || !isDigit(c)):
			// Nothing that may start the name has come yet.
		case isNameByte(c):
			b, run = append(b, c), false
		case !run:
			b, run = append(b, '_'), true
		}
	}
	for len(b) > head && (b[len(b)-1] == '_' || b[len(b)-1] == '-') {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		b = append(b, "name"...)
	}
	if len(b) > head {
		b = append(b, '_')
	}
	sum := sha256.Sum256([]byte(name))
	var digest [2 * sha256.Size]byte
	hex.Encode(digest[:], sum[:])
	return string(append(b, digest[:nameHashDigits]...))
}

// fits tells whether s matches ^[A-Za-z][A-Za-z0-9_-]{0,63}$.
func fits(s string) bool {
	if s == "" || len(s) > maxNameLen || !isLetter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool   { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isNameByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '-' }

// itemKey is the member that an item of that kind is named by.
func itemKey(k kind) string {
	switch k {
	case kindResources:
		return "uri"
	case kindTemplates:
		return "uriTemplate"
	default:
		return "name"
	}
}

// readItem reads one element of an upstream's list of kind k; raw is a
// validated JSON value that the item keeps. What cannot be routed is refused,
// and reason says why: an element that is no object, one without a name (a URI,
// a template) that is a proper non-empty string, and one that has the member
// twice or beside another that differs by letter case only, since clients do
// not agree on which of them counts.
func readItem(k kind, raw []byte) (it *item, reason string) {
	key := itemKey(k)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, "is not an object"
	}
	var at mcp.Span
	for m := range mcp.Members(raw, wholeOf(raw)) {
		switch {
		case !strings.EqualFold(m.Key, key):
		case m.Key != key || at.Ok():
			return nil, "has more than one member " + key
		default:
			at = m.Value
		}
	}
	name, ok := mcp.String(raw, at)
	switch {
	case !at.Ok():
		return nil, "has no " + key
	case !ok || name == "" || loneSurrogate(name, at.In(raw)):
		return nil, "has a " + key + " that is not a proper string"
	}
	return &item{name: name, raw: raw, nameAt: at}, ""
}

// loneSurrogate tells whether the JSON string lit, which decodes to s, holds
// half of a surrogate pair: that has no UTF-8 form, so no header could carry the
// name, and two such names would look the same.
func loneSurrogate(s string, lit []byte) bool {
	if !strings.ContainsRune(s, utf8.RuneError) {
		return false
	}
	_, err := jsontext.AppendUnquote(nil, lit)
	return err != nil
}

func wholeOf(raw []byte) mcp.Span { return mcp.Span{Start: 0, End: len(raw)} }

// spliceItem gives the item's bytes with its name, URI or template replaced by
// the exposed one; it is a copy. For tools and prompts the original name is
// kept in `title` where the item has no title of its own, and in
// _meta["io.github.causeway-mcp/originalName"] when it was cleaned. mapURI gives
// the exposed form of the URI of a tool's user interface. All other bytes stay.
func spliceItem(k kind, it *item, exposed string, cleaned bool, mapURI uriMapper) []byte {
	var e mcp.Edits
	raw := it.raw
	switch {
	case exposed == it.name:
	case k.named():
		spliceName(&e, k, it, exposed, cleaned)
	default:
		spliceString(&e, raw, it.nameAt, it.name, exposed)
	}
	if k == kindTools && mayHoldURI(raw) {
		w := rewriter{e: &e, raw: raw, mapURI: mapURI}
		w.meta(mcp.Find(raw, wholeOf(raw), "_meta"))
	}
	return e.AppendTo(make([]byte, 0, len(raw)+3*maxNameLen+3*len(it.name)), raw)
}

// spliceName adds the edits for a tool's or prompt's name. Its first place is
// the bytes as they came, so that the original is shown with its own escapes.
func spliceName(e *mcp.Edits, k kind, it *item, exposed string, cleaned bool) {
	raw, original := it.raw, it.nameAt.In(it.raw)
	var title, annotations, meta mcp.Span
	for m := range mcp.Members(raw, wholeOf(raw)) {
		switch m.Key {
		case "title":
			title = m.Value
		case "annotations":
			annotations = m.Value
		case "_meta":
			meta = m.Value
		}
	}
	with := mcp.AppendQuote(nil, exposed)
	switch {
	case given(raw, title), k == kindTools && given(raw, mcp.Find(raw, annotations, "title")):
	case title.Ok():
		e.Replace(title, original)
	default:
		with = append(append(with, `,"title":`...), original...)
	}
	e.Replace(it.nameAt, with)
	switch {
	case !cleaned:
	case given(raw, meta):
		e.SetMember(raw, meta, mcp.MetaOriginalName, original)
	default:
		value := append([]byte(`{"`+mcp.MetaOriginalName+`":`), original...)
		e.SetMember(raw, wholeOf(raw), "_meta", append(value, '}'))
	}
}

// given tells whether a member is there and not null, which some servers write
// for what they do not have.
func given(raw []byte, at mcp.Span) bool { return at.Ok() && string(at.In(raw)) != "null" }
