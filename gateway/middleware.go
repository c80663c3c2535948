package gateway

import (
	"encoding/hex"
	"math/rand/v2"
	"net/http"
)

// headerRequestID carries the id that a request has in logs.
const headerRequestID = "X-Request-Id"

// maxRequestID bounds an id that somebody else made, in bytes.
const maxRequestID = 128

// requestID gives the id that a proxy or client made for the request if it is
// fit for logs, else a new one. It identifies nothing but log lines, so it need
// not be hard to guess.
func requestID(h http.Header) string {
	if values := h[headerRequestID]; len(values) == 1 && isRequestID(values[0]) {
		return values[0]
	}
	var raw [16]byte
	for i := 0; i < len(raw); i += 8 {
		n := rand.Uint64()
		for j := range 8 {
			raw[i+j] = byte(n >> (8 * j))
		}
	}
	var text [2 * len(raw)]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// isRequestID tells whether s is a name that neither breaks out of a log line
// nor fills it.
func isRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}
