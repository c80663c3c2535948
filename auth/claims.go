package auth

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on what a token may say. A token over one of them is refused, not cut.
const (
	maxValues  = 1000    // scopes, groups and audiences
	maxText    = 8 << 10 // bytes of one of them, or of all scopes in one string
	maxSubject = 1 << 10 // bytes
	maxSkew    = 30 * time.Second
	maxSeconds = 253402300799 // the last second of the year 9999
)

// claims are those of a token, or what an issuer says about one. Names are matched
// exactly, and none is there twice.
type claims map[string]jsontext.Value

// parseClaims reads a JSON object.
func parseClaims(raw []byte) (claims, bool) {
	var c claims
	if err := json.Unmarshal(raw, &c); err != nil || c == nil {
		return nil, false
	}
	return c, true
}

// has tells whether a claim is there and not null.
func (c claims) has(name string) bool {
	v, ok := c[name]
	return ok && v.Kind() != 'n'
}

// text gives a claim that is a string; empty where it is absent.
func (c claims) text(name string) (string, bool) {
	if !c.has(name) {
		return "", true
	}
	return unquote(c[name])
}

func unquote(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil && len(b) <= maxText && utf8.Valid(b)
}

// texts gives a claim that is a string or a list of strings; none where it is absent.
func (c claims) texts(name string) ([]string, bool) { return textsOf(c[name]) }

// textsOf gives the strings in a string or a list of strings; none for null.
func textsOf(v jsontext.Value) ([]string, bool) {
	switch {
	case v == nil || v.Kind() == 'n':
		return nil, true
	case v.Kind() == '"':
		s, ok := unquote(v)
		return []string{s}, ok
	}
	var items []jsontext.Value
	if err := json.Unmarshal(v, &items); err != nil || len(items) > maxValues {
		return nil, false
	}
	all := make([]string, len(items))
	for i, item := range items {
		s, ok := unquote(item)
		if !ok {
			return nil, false
		}
		all[i] = s
	}
	return all, true
}

// at gives the claim that a path leads to: the one with the whole name, else one in an
// object whose name is what stands before a dot. Names of claims have dots too.
func (c claims) at(path string) jsontext.Value {
	if v, ok := c[path]; ok {
		return v
	}
	for i := range len(path) {
		if path[i] != '.' || c[path[:i]].Kind() != '{' {
			continue
		}
		if in, ok := parseClaims(c[path[:i]]); ok {
			if v := in.at(path[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// date gives a claim that is a time in seconds (RFC 7519, section 2); the zero time
// where it is absent.
func (c claims) date(name string) (time.Time, bool) {
	if !c.has(name) {
		return time.Time{}, true
	}
	if c[name].Kind() != '0' {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(c[name]), 64)
	if err != nil || !(0 < seconds && seconds <= maxSeconds) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// times gives when the token expires, or what is wrong with when it is valid. Expiry
// has no leeway, so that a caller is never known for longer than it says.
func (c claims) times(now time.Time) (time.Time, reason) {
	expires, ok := c.date("exp")
	if !ok || expires.IsZero() {
		return time.Time{}, reasonClaims
	}
	for _, name := range []string{"nbf", "iat"} {
		from, ok := c.date(name)
		switch {
		case !ok:
			return time.Time{}, reasonClaims
		case from.After(now.Add(maxSkew)):
			return time.Time{}, reasonEarly
		}
	}
	if !now.Before(expires) {
		return time.Time{}, reasonExpired
	}
	return expires, ""
}

// scopes gives what the token allows: the named claim, or scope (RFC 9068, section
// 2.2.3) and scp together.
func (c claims) scopes(name string) ([]string, bool) {
	values := []jsontext.Value{c["scope"], c["scp"]}
	if name != "" {
		values = []jsontext.Value{c.at(name)}
	}
	var all []string
	for _, v := range values {
		more, ok := textsOf(v)
		if !ok {
			return nil, false
		}
		if v.Kind() == '"' {
			more = strings.Fields(more[0])
		}
		if all = append(all, more...); len(all) > maxValues || !allScopes(more) {
			return nil, false
		}
	}
	return all, true
}

func allScopes(all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !isScope(s) })
}
