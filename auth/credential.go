package auth

import (
	"net/http"
	"net/url"
	"strings"
)

// maxToken bounds what a client may show, in bytes.
const maxToken = 16 << 10

// credential gives the bearer token that a request shows (RFC 6750, section 2.1; the
// specification allows no other way). The reason is empty when there is one.
func credential(r *http.Request) (string, reason) {
	if r.URL != nil && tokenInQuery(r.URL.RawQuery) {
		return "", reasonRequest
	}
	lines := r.Header["Authorization"]
	switch {
	case len(lines) == 0 || len(lines) == 1 && strings.Trim(lines[0], " \t") == "":
		return "", reasonMissing
	case len(lines) > 1:
		return "", reasonRequest
	}
	return bearer(lines[0])
}

// bearer reads the value of an Authorization header. An other scheme counts as
// nothing shown: the client may learn from the challenge which one to use (RFC 6750,
// section 3.1). That goes for DPoP too, whose proofs are not checked here.
func bearer(line string) (string, reason) {
	scheme, token, spaced := strings.Cut(strings.Trim(line, " \t"), " ")
	if !isToken68(scheme) { // "Bearer,Bearer x" and the like
		return "", reasonRequest
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return "", reasonScheme
	}
	token = strings.TrimLeft(token, " ")
	if !spaced || len(token) > maxToken || !isToken68(token) {
		return "", reasonRequest
	}
	return token, ""
}

// isToken68 tells whether s is what a token may be (RFC 6750, section 2.1; RFC 9110,
// section 11.2): letters, digits and -._~+/, then equals signs.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '-' <= c && c <= '9', c == '_', c == '~', c == '+':
		default:
			return false
		}
	}
	return s != ""
}

// tokenInQuery tells whether a query has a parameter access_token, whatever else is
// wrong with it.
func tokenInQuery(query string) bool {
	for query != "" {
		var pair string
		end := strings.IndexAny(query, "&;")
		if end < 0 {
			end = len(query)
		}
		pair, query = query[:end], strings.TrimLeft(query[end:], "&;")
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if strings.EqualFold(name, "access_token") {
			return true
		}
	}
	return false
}
