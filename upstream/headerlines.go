package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// checkLines tells what is wrong with the lines of a source. It never shows a value.
func checkLines(lines http.Header) error {
	for name, values := range lines {
		if !isToken(name) {
			return errors.New("a header has a malformed name")
		}
		if !mayShow(http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("the header %q is the gateway's own", name)
		}
		for _, v := range values {
			if strings.ContainsFunc(v, isControl) {
				return fmt.Errorf("the header %q has a malformed value", name)
			}
		}
	}
	return nil
}

// isToken tells whether a text is a token (RFC 9110, 5.6.2), as names of header lines
// are.
func isToken(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0:
			return false
		}
	}
	return s != ""
}

// isControl tells whether a character is one that no value of a header line may have
// (RFC 9110, 5.5).
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// mayShow tells whether a source may set a header, whose name is in canonical form.
func mayShow(name string) bool {
	switch name {
	case "Accept":
		return false
	}
	return !isHopOwned(name) && !strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "Mcp-")
}

// mayPass tells whether a header that the caller wants to send is his to send. What
// the connection owns, what the gateway derives and what authorizes the client
// towards the gateway is not, whatever an upstream's configuration names. The name is
// in canonical form.
func mayPass(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Content-Length", "Content-Encoding":
		return false
	}
	return !isHopOwned(name)
}

// isHopOwned tells whether a header is about one connection or one message, or about
// the gateway's own part in a trace. The name is in canonical form.
func isHopOwned(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host",
		"Accept-Encoding", "Last-Event-Id", "Range", "Traceparent", "Tracestate":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// passAs gives the spelling of a header that is passed on. net/http repeats a
// POST with one of these headers when a connection broke, but recognises them
// only in their canonical form; whether to repeat is for the guard to say.
func passAs(name string) string {
	if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
		return strings.ToLower(name)
	}
	return name
}

// passHeader adds the header lines that a caller wants to send, as far as they are his
// to send. Those of tools' parameters are of the modern revision only.
func passHeader(to, from http.Header, params bool) {
	for name, values := range from {
		name = http.CanonicalHeaderKey(name)
		if strings.HasPrefix(name, "Mcp-") && !(params && strings.HasPrefix(name, mcp.HeaderParamPrefix)) {
			continue
		}
		if mayPass(name) {
			to[passAs(name)] = values
		}
	}
}

// showLines adds the lines of a source. They win over what is there.
func showLines(to, lines http.Header) {
	for name, values := range lines {
		to[passAs(http.CanonicalHeaderKey(name))] = values
	}
}
