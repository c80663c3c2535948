package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var errNotOneValue = errors.New("digest: not one valid JSON value")

// CanonicalDigest gives the SHA-256 of a canonical form of a raw JSON value:
// the order of members, white space and the way strings are escaped make no
// difference, everything else does. Numbers count as they are written, since
// values that a float64 cannot tell apart are different values to a tool.
// Members with equal keys keep their order. No value at all (nil) has the
// digest of the empty input. It fails when raw is not one JSON value.
func CanonicalDigest(raw []byte) ([sha256.Size]byte, error) {
	if len(raw) == 0 {
		return sha256.Sum256(nil), nil
	}
	if !utf8.Valid(raw) || !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return [sha256.Size]byte{}, errNotOneValue
	}
	whole := bytes.Trim(raw, " \t\r\n")
	b := GetBuffer(len(raw) + len(raw)/2)
	defer b.Release()
	b.B = appendCanonical(b.B, whole)
	return sha256.Sum256(b.B), nil
}

// appendCanonical appends the canonical form of a validated value: containers as
// brackets around their parts, strings as a quote, their length in bytes and
// their text, other values as they are written with a separator behind.
func appendCanonical(dst, v []byte) []byte {
	whole := Span{0, len(v)}
	switch v[0] {
	case '{':
		type member struct{ key, value []byte }
		var members []member
		w, _ := walk(v, whole, '{')
		for {
			key, value, ok := w.member()
			if !ok {
				break
			}
			members = append(members, member{appendText(nil, v[key.Start:key.End]), v[value.Start:value.End]})
		}
		slices.SortStableFunc(members, func(a, b member) int {
			return bytes.Compare(a.key, b.key)
		})
		dst = append(dst, '{')
		for _, m := range members {
			dst = append(dst, m.key...)
			dst = appendCanonical(dst, m.value)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range Elements(v, whole) {
			dst = appendCanonical(dst, v[e.Start:e.End])
		}
		return append(dst, ']')
	case '"':
		return appendText(dst, v)
	}
	dst = append(dst, v...)
	return append(dst, ',')
}

// appendText appends a string's text after its length, so that no text can look
// like the structure around it.
func appendText(dst, lit []byte) []byte {
	dst = append(dst, '"')
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst, _, _ = appendUnquoted(dst, lit, true)
	binary.BigEndian.PutUint64(dst[at:], uint64(len(dst)-at-8))
	return dst
}
