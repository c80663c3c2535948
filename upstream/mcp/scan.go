package mcp

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions in this file walk over JSON that was validated before. On other
// bytes they stop early, and never read outside of b.

// skipSpace gives the offset of the first byte from i on that is no JSON white
// space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString gives the offset after the string whose opening quote is at i, or
// -1 when it has no end.
func skipString(b []byte, i int) int {
	for from := i + 1; from < len(b); {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return -1
		}
		quote := from + n
		slashes := 0
		for quote-slashes > i+1 && b[quote-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
	return -1
}

// skipValue gives the offset after the value that starts at i, or -1 when there
// is none or it has no end.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	}
	start := i
	for ; i < len(b); i++ {
		switch b[i] {
		case ',', ':', '{', '}', '[', ']', '"', ' ', '\n', '\r', '\t':
			if i == start {
				return -1
			}
			return i
		}
	}
	return i
}

// skipContainer is skipValue for an object or array.
func skipContainer(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		}
	}
	return -1
}

// tooDeep tells whether the JSON text b nests objects and arrays more than
// limit deep.
func tooDeep(b []byte, limit int) bool {
	// Nearly every message passes here: counting is much faster than scanning,
	// and the brackets inside strings only make the count too high.
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) <= limit {
		return false
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return false
			}
			i = end - 1
		}
	}
	return false
}

// quoted tells whether b has the outline of a JSON string.
func quoted(b []byte) bool {
	return len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"'
}

// appendUnquoted appends the text of the JSON string lit. A surrogate escape
// without its partner, which has no UTF-8 form, is reported as lone and becomes
// U+FFFD, or with wtf8 the three bytes that generalised UTF-8 gives it, so that
// different strings stay different. ok is false when lit is no JSON string.
func appendUnquoted(dst, lit []byte, wtf8 bool) (_ []byte, lone, ok bool) {
	if !quoted(lit) {
		return dst, false, false
	}
	s := lit[1 : len(lit)-1]
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...), lone, true
		}
		dst, s = append(dst, s[:n]...), s[n:]
		if len(s) < 2 {
			return dst, lone, false
		}
		if s[1] != 'u' {
			c := unescaped(s[1])
			if c == 0 {
				return dst, lone, false
			}
			dst, s = append(dst, c), s[2:]
			continue
		}
		r, good := hex4(s)
		if !good {
			return dst, lone, false
		}
		s = s[6:]
		if utf16.IsSurrogate(r) {
			low, _ := hex4(s)
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				r, s = pair, s[6:]
			} else {
				lone = true
				if wtf8 {
					dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
					continue
				}
				r = utf8.RuneError
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unescaped gives the character that stands after a backslash, 0 for none.
func unescaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// hex4 reads the escape \uXXXX at the start of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
