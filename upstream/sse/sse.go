// Package sse reads and writes Server-Sent Events (HTML standard, 9.2) with
// bounds on lines and events. It is a leaf: it imports none of our packages.
package sse

import "bytes"

// AppendEvent appends one message event with that data to dst. Line breaks in
// data become several data lines, so that readers get each as an LF.
func AppendEvent(dst, data []byte) []byte {
	// The name is the default one. It is written since some clients look for it.
	dst = append(dst, "event: message\n"...)
	for {
		dst = append(dst, "data: "...)
		n := lineEnd(data)
		if n < 0 {
			break
		}
		dst = append(append(dst, data[:n]...), '\n')
		if data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n' {
			n++
		}
		data = data[n+1:]
	}
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// AppendComment appends a comment line, which readers ignore.
func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }

// lineEnd gives the offset of the first CR or LF in b, or -1.
func lineEnd(b []byte) int {
	// Looking for one byte is very fast. Doing it in pieces keeps the search for
	// the one from running through everything when only the other occurs.
	const piece = 1 << 10
	for off := 0; off < len(b); off += piece {
		p := b[off:min(off+piece, len(b))]
		n := bytes.IndexByte(p, '\n')
		if n >= 0 {
			p = p[:n]
		}
		if m := bytes.IndexByte(p, '\r'); m >= 0 {
			return off + m
		}
		if n >= 0 {
			return off + n
		}
	}
	return -1
}
