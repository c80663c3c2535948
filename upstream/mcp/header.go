package mcp

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// The markers of a Base64 value; case-sensitive
// (basic/transports/streamable-http, Value Encoding).
const (
	base64Prefix = "=?base64?"
	base64Suffix = "?="
)

// EncodeHeader gives the value of an Mcp-Name or Mcp-Param header: s itself
// when it is safe there, else its Base64 form
// (basic/transports/streamable-http, Value Encoding).
func EncodeHeader(s string) string {
	if plainHeader(s) {
		return s
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(s)) + base64Suffix
}

// plainHeader tells whether s arrives unchanged as a header value and is not
// taken for Base64. The empty value is not plain: receivers cannot tell it from
// a missing header. White space at the ends is trimmed on the way, and a tab is
// a control character.
func plainHeader(s string) bool {
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return !strings.HasPrefix(s, base64Prefix) || !strings.HasSuffix(s, base64Suffix)
}

// Errors of DecodeHeader.
var (
	errHeaderChar   = errors.New("header value has characters that are not allowed")
	errHeaderBase64 = errors.New("header value is not valid Base64 of UTF-8")
)

// DecodeHeader undoes EncodeHeader. It fails on characters that a header must
// not have and on malformed Base64 or UTF-8.
func DecodeHeader(v string) (string, error) {
	for i := range len(v) {
		// RFC 9110 5.5: visible ASCII, space and tab.
		if (v[i] < ' ' && v[i] != '\t') || v[i] > '~' {
			return "", errHeaderChar
		}
	}
	coded, ok := strings.CutPrefix(v, base64Prefix)
	if ok {
		coded, ok = strings.CutSuffix(coded, base64Suffix)
	}
	if !ok {
		return v, nil
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	if err != nil || !utf8.Valid(b) {
		return "", errHeaderBase64
	}
	return string(b), nil
}

// one gives the only value of a header. Without it ok is false; two that differ
// are an error, since the programs on the way would each take another one.
func one(h http.Header, name string) (v string, ok bool, _ *Error) {
	values := h.Values(name)
	if len(values) == 0 {
		return "", false, nil
	}
	for _, other := range values[1:] {
		if other != values[0] {
			return "", false, mismatch("%s is given twice with different values", name)
		}
	}
	return values[0], true, nil
}

func mismatch(format string, args ...any) *Error {
	return Errorf(CodeHeaderMismatch, "Header mismatch: "+format, args...)
}

// CheckHeaders compares Mcp-Protocol-Version, Mcp-Method and Mcp-Name with the
// request (basic/transports/streamable-http, Server Validation). A value that
// the body lacks is not compared: that is an error of the body. Notifications
// owe no headers (the same page, Sending Messages). The error is -32020.
func CheckHeaders(h http.Header, r *Request) *Error {
	if r.IsNotification() {
		return nil
	}
	if err := checkPlain(h, HeaderProtocolVersion, r.Meta.ProtocolVersion); err != nil {
		return err
	}
	if err := checkPlain(h, HeaderMethod, Text{Value: r.Method, IsString: true}); err != nil {
		return err
	}
	body := r.NamedBy()
	if body == nil {
		return nil
	}
	v, ok, err := one(h, HeaderName)
	if err != nil {
		return err
	}
	if !ok {
		return mismatch("%s is missing", HeaderName)
	}
	name, derr := DecodeHeader(v)
	if derr != nil {
		return mismatch("%s is malformed: %v", HeaderName, derr)
	}
	if body.IsString && body.Value != name {
		return mismatch("%s does not match the body", HeaderName)
	}
	return nil
}

// checkPlain checks a header that has no Base64 form.
func checkPlain(h http.Header, name string, body Text) *Error {
	v, ok, err := one(h, name)
	if err != nil {
		return err
	}
	if !ok || v == "" {
		return mismatch("%s is missing", name)
	}
	for i := range len(v) {
		if v[i] <= ' ' || v[i] > '~' {
			return mismatch("%s is malformed", name)
		}
	}
	if body.IsString && body.Value != v {
		return mismatch("%s does not match the body", name)
	}
	return nil
}

// NamedBy gives the member of params that Mcp-Name repeats, or nil for methods
// that have no such header (basic/transports/streamable-http, Standard Request
// Headers; tasks extension, Routing Headers).
func (r *Request) NamedBy() *Text {
	switch r.Method {
	case MethodToolsCall, MethodPromptsGet:
		return &r.Name
	case MethodResourcesRead:
		return &r.URI
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return &r.TaskID
	}
	return nil
}
