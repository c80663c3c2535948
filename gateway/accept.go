package gateway

import (
	"net/http"
	"strings"
)

// Media types of the transport (2026-07-28, basic/transports/streamable-http).
const (
	typeJSON = "application/json"
	typeSSE  = "text/event-stream"
)

// accepted tells which response types a client takes.
type accepted struct{ json, sse bool }

// any tells whether the client takes one of them.
func (a accepted) any() bool { return a.json || a.sse }

// parseAccept reads Accept (RFC 9110, 12.5.1). Without the header everything is
// accepted. The most specific range that matches a type decides; ranges with
// q=0 and ranges that are malformed accept nothing. Parameters other than q are
// ignored, since our types have none.
func parseAccept(h http.Header) accepted {
	values := h["Accept"]
	if len(values) == 0 {
		return accepted{json: true, sse: true}
	}
	if len(values) == 1 && values[0] == "application/json, text/event-stream" {
		return accepted{json: true, sse: true} // what every client sends
	}
	var json, sse choice
	for _, value := range values {
		for value != "" {
			var element string
			element, value = cutUnquoted(value, ',')
			rng, params := cutUnquoted(element, ';')
			rng = strings.Trim(rng, " \t")
			q := !refuses(params)
			json.consider(specificity(rng, typeJSON), q)
			sse.consider(specificity(rng, typeSSE), q)
		}
	}
	return accepted{json: json.ok, sse: sse.ok}
}

// choice is the verdict of the most specific range so far.
type choice struct {
	specificity int
	ok          bool
}

func (c *choice) consider(specificity int, ok bool) {
	switch {
	case specificity == 0 || specificity < c.specificity:
	case specificity == c.specificity:
		c.ok = c.ok || ok
	default:
		c.specificity, c.ok = specificity, ok
	}
}

// specificity tells how closely a media range names a type: 3 for the type
// itself, 2 for "type/*", 1 for "*/*", 0 for something else.
func specificity(rng, typ string) int {
	switch {
	case strings.EqualFold(rng, typ):
		return 3
	case rng == "*/*":
		return 1
	case strings.HasSuffix(rng, "/*") && len(rng) < len(typ) && strings.EqualFold(rng[:len(rng)-1], typ[:len(rng)-1]):
		return 2
	}
	return 0
}

// refuses tells whether a range's parameters hold a weight of zero, or one that
// is no weight (RFC 9110, 12.4.2).
func refuses(params string) bool {
	for params != "" {
		var param string
		param, params = cutUnquoted(params, ';')
		name, weight, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "q") {
			continue
		}
		return !positive(strings.Trim(weight, " \t"))
	}
	return false
}

// positive tells whether s is a weight above zero: "1", "1.0", "0.001".
func positive(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(whole) != 1 || len(fraction) > 3 || strings.Trim(fraction, "0123456789") != "" {
		return false
	}
	switch whole {
	case "0":
		return strings.Trim(fraction, "0") != ""
	case "1":
		return strings.Trim(fraction, "0") == ""
	}
	return false
}

// cutUnquoted cuts s around the first sep that is not inside a quoted string.
func cutUnquoted(s string, sep byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == sep && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// isJSON tells whether the request's body is declared as JSON; the type's
// parameters do not matter.
func isJSON(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) != 1 {
		return false
	}
	if values[0] == typeJSON {
		return true
	}
	typ, _, _ := strings.Cut(values[0], ";")
	return strings.EqualFold(strings.Trim(typ, " \t"), typeJSON)
}

// isPlain tells whether the request's body is sent as it is: we advertise no
// content coding and decode none.
func isPlain(h http.Header) bool {
	for _, v := range h["Content-Encoding"] {
		if v = strings.Trim(v, " \t"); v != "" && !strings.EqualFold(v, "identity") {
			return false
		}
	}
	return true
}
