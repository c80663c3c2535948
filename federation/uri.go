package federation

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/yosida95/uritemplate/v3"
)

// Bounds of templateMatcher. A matcher's work is at most the product of the
// URI's length and the number of variables, times a small constant.
const (
	maxTemplateLen  = 4096 // bytes of a template
	maxTemplateVars = 32   // variables in a template
	maxMatchLen     = 4096 // bytes of a URI; a longer one matches no template
)

// uiPrefix starts the URIs of user interfaces: hosts look at their scheme, so
// the alias goes behind it.
const uiPrefix = "ui://"

// exposedURI gives the form of an upstream's resource URI or template that
// clients see: `alias+uri`, and `ui://alias+authority/path` for the scheme ui.
// originalURI undoes it for any string. A URI becomes a URI, since `+` may stand
// in a scheme (RFC 3986, section 3.1), and a template becomes a template.
func exposedURI(alias, uri string) string {
	if isUI(uri) {
		return uri[:len(uiPrefix)] + alias + "+" + uri[len(uiPrefix):]
	}
	return alias + "+" + uri
}

// originalURI undoes exposedURI; false when uri is not what exposedURI gives for
// the alias.
func originalURI(alias, uri string) (string, bool) {
	if isUI(uri) {
		rest, ok := cutAlias(alias, uri[len(uiPrefix):])
		if !ok {
			return "", false
		}
		return uri[:len(uiPrefix)] + rest, true
	}
	rest, ok := cutAlias(alias, uri)
	if !ok || isUI(rest) {
		return "", false
	}
	return rest, true
}

// splitURI reads the alias out of an exposed URI or template by its syntax
// alone: an alias and `+` before what starts like a URI or a template (a scheme
// and `:`, or an expression), or behind `ui://`. Whether there is such an
// upstream is for the caller to know. exposedURI(alias, original) is uri again.
func splitURI(uri string) (alias, original string, ok bool) {
	ui := isUI(uri)
	rest := uri
	if ui {
		rest = uri[len(uiPrefix):]
	}
	n := aliasLen(rest)
	if n == 0 || n == len(rest) || rest[n] != '+' {
		return "", "", false
	}
	alias, rest = rest[:n], rest[n+1:]
	switch {
	case ui:
		return alias, uri[:len(uiPrefix)] + rest, true
	case isUI(rest) || !startsLikeURI(rest):
		return "", "", false
	}
	return alias, rest, true
}

func isUI(uri string) bool {
	return len(uri) >= len(uiPrefix) && strings.EqualFold(uri[:len(uiPrefix)], uiPrefix)
}

func cutAlias(alias, s string) (string, bool) {
	if len(s) <= len(alias) || s[len(alias)] != '+' || s[:len(alias)] != alias {
		return "", false
	}
	return s[len(alias)+1:], true
}

// aliasLen is the length of the alias, ^[a-z][a-z0-9]{0,19}, that s starts with;
// 0 when it starts with none.
func aliasLen(s string) int {
	n := 0
	for n < len(s) && n <= 20 && (s[n] >= 'a' && s[n] <= 'z' || n > 0 && isDigit(s[n])) {
		n++
	}
	if n > 20 {
		return 0
	}
	return n
}

// startsLikeURI tells whether s starts with a scheme and `:`, or as far as that
// with a template expression.
func startsLikeURI(s string) bool {
	n := schemeLen(s)
	return n < len(s) && (s[n] == '{' || n > 0 && s[n] == ':')
}

// schemeLen is the length of the scheme that s starts with (RFC 3986, section
// 3.1), whatever follows it.
func schemeLen(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if !isLetter(c) && (n == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			break
		}
		n++
	}
	return n
}

// errTemplateBounds tells that a template is too large to be matched.
var errTemplateBounds = errors.New("template is larger than its bounds")

// templateMatcher gives a function that tells whether a URI is an expansion of
// the URI template (RFC 6570). Non-ASCII characters equal their percent-encoded
// form, and the hexadecimal digits of percent-encoding match in any case. It
// fails for what is no template, and for one of more than maxTemplateLen bytes
// or maxTemplateVars variables. The function is safe for concurrent use.
func templateMatcher(template string) (func(uri string) bool, error) {
	if len(template) > maxTemplateLen {
		return nil, errTemplateBounds
	}
	// The parser does not count, so it must not see more than we would match.
	if strings.Count(template, "{")+strings.Count(template, ",") > maxTemplateVars {
		return nil, errTemplateBounds
	}
	if _, err := uritemplate.New(template); err != nil {
		return nil, fmt.Errorf("not a URI template: %w", err)
	}
	parsed, err := uritemplate.New(normalizeURI(template))
	if err != nil {
		return nil, fmt.Errorf("not a URI template: %w", err)
	}
	// Most lists are never matched, so the expression is made when it is needed.
	expr := sync.OnceValue(parsed.Regexp)
	literal, _, _ := strings.Cut(parsed.Raw(), "{")
	return func(uri string) bool {
		if len(uri) > maxMatchLen {
			return false
		}
		uri = normalizeURI(uri)
		return strings.HasPrefix(uri, literal) && expr().MatchString(uri)
	}, nil
}

// normalizeURI percent-encodes the bytes of non-ASCII characters and puts the
// digits of percent-encoding in upper case (RFC 3986, section 6.2.2.1; RFC 6570,
// section 3.1).
func normalizeURI(s string) string {
	plain := true
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] < 0x80 && s[i] != '%'
	}
	if plain {
		return s
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+len(s)/2)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x80:
			b = append(b, '%', digits[c>>4], digits[c&15])
		case c == '%' && i+2 < len(s):
			b = append(b, '%', upperHex(s[i+1]), upperHex(s[i+2]))
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func upperHex(c byte) byte {
	if c >= 'a' && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}
