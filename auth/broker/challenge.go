package broker

import (
	"strings"
)

// maxChallenge bounds what is read of all WWW-Authenticate lines of one response, in
// bytes; what is beyond is not looked at, as in headers that are cut off.
const maxChallenge = 16 << 10

// bearer is what a challenge of the Bearer scheme says (RFC 6750, section 3; RFC 9728,
// section 5.1). What it does not say is empty.
type bearer struct {
	Error            string   // such as insufficient_scope
	Scopes           []string // needed for the request that was refused
	ResourceMetadata string   // where the metadata of the resource is
}

// bearerOf gives the first challenge of the Bearer scheme among the values of
// WWW-Authenticate; the zero one where there is none. Parameters that are there twice
// count once, as they are first.
func bearerOf(values []string) bearer {
	for _, c := range parseChallenges(values) {
		if strings.EqualFold(c.scheme, "Bearer") {
			return bearer{c.params["error"], scopesOf(c.params["scope"]), c.params["resource_metadata"]}
		}
	}
	return bearer{}
}

// challenge is one challenge (RFC 9110, section 11.3), with its parameters by their
// names in small letters.
type challenge struct {
	scheme string
	params map[string]string
}

// parseChallenges reads the values of WWW-Authenticate (RFC 9110, section 11.6.1). A
// value is read up to where it is not well-formed.
func parseChallenges(values []string) []challenge {
	var all []challenge
	left := maxChallenge
	for _, v := range values {
		v = v[:min(len(v), left)]
		left -= len(v)
		all = append(all, (&challengeReader{v}).all()...)
	}
	return all
}

// challengeReader reads one value. What is left of it is rest.
type challengeReader struct{ rest string }

func (r *challengeReader) all() []challenge {
	var all []challenge
	for {
		r.skip(", \t")
		scheme := r.token()
		if scheme == "" {
			return all
		}
		c := challenge{scheme, map[string]string{}}
		if !strings.HasPrefix(r.rest, " ") && !strings.HasPrefix(r.rest, "\t") {
			if all = append(all, c); !strings.HasPrefix(r.rest, ",") {
				return all
			}
			continue
		}
		r.params(&c)
		all = append(all, c)
	}
}

// params reads the parameters of a challenge up to the next challenge. Whether a token
// is a parameter's name or the next scheme is told by what follows it.
func (r *challengeReader) params(c *challenge) {
	for {
		r.skip(", \t")
		before := r.rest
		name := r.token()
		if name == "" {
			return
		}
		r.skip(" \t")
		value, ok := strings.CutPrefix(r.rest, "=")
		if !ok {
			r.rest = before
			if r.token68() {
				continue
			}
			return // a scheme
		}
		r.rest = value
		r.skip(" \t")
		if r.rest == "" || r.rest[0] == '=' || r.rest[0] == ',' {
			// A padded token68, which Bearer does not have.
			r.skip("=")
			continue
		}
		text, ok := r.value()
		if !ok {
			r.rest = ""
			return
		}
		if name = strings.ToLower(name); c.params[name] == "" {
			c.params[name] = text
		}
	}
}

// token68 skips one that is no token because of its slashes.
func (r *challengeReader) token68() bool {
	n := 0
	for n < len(r.rest) && (isTokenByte(r.rest[n]) || r.rest[n] == '/' || r.rest[n] == '=') {
		n++
	}
	if !strings.ContainsAny(r.rest[:n], "/=") {
		return false
	}
	r.rest = r.rest[n:]
	return true
}

// value reads a token or a quoted string (RFC 9110, section 5.6.4).
func (r *challengeReader) value() (string, bool) {
	if !strings.HasPrefix(r.rest, `"`) {
		v := r.token()
		return v, v != ""
	}
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; c {
		case '"':
			r.rest = r.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i < len(r.rest) {
				b.WriteByte(r.rest[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// token reads a token (RFC 9110, section 5.6.2); empty where there is none.
func (r *challengeReader) token() string {
	n := 0
	for n < len(r.rest) && isTokenByte(r.rest[n]) {
		n++
	}
	found := r.rest[:n]
	r.rest = r.rest[n:]
	return found
}

func (r *challengeReader) skip(chars string) { r.rest = strings.TrimLeft(r.rest, chars) }

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// maxScopes bounds the scopes of one list, and maxScope the bytes of one.
const maxScopes, maxScope = 256, 256

// scopesOf gives the scopes of a list (RFC 6749, section 3.3), each once; what is no
// scope is left out.
func scopesOf(list string) []string { return cleanScopes(strings.Fields(list)) }

func cleanScopes(list []string) []string {
	var all []string
	seen := map[string]bool{}
	for _, s := range list {
		if isScope(s) && !seen[s] && len(all) < maxScopes {
			seen[s] = true
			all = append(all, s)
		}
	}
	return all
}

// isScope tells whether s is one scope (RFC 6749, section 3.3).
func isScope(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= maxScope
}
