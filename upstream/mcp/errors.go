package mcp

import "fmt"

// JSON-RPC error codes, and those of the MCP specification (basic/index, Error
// Codes).
const (
	CodeParse                     = -32700
	CodeInvalidRequest            = -32600
	CodeMethodNotFound            = -32601
	CodeInvalidParams             = -32602
	CodeInternal                  = -32603
	CodeHeaderMismatch            = -32020
	CodeMissingClientCapability   = -32021
	CodeUnsupportedProtocol       = -32022
	CodeLegacyResourceNotFound    = -32002
	CodeLegacyElicitationRequired = -32042
)

// Error is a JSON-RPC error object that the gateway sends itself. Message and
// Data reach the client: they hold no internals.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON; nil for none
}

// Error gives the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf makes an Error without data.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// AppendErrorResponse appends the JSON-RPC error response to dst. id is the raw
// JSON of the request's id; nil leaves the member out, as the specification
// wants for requests whose id could not be read.
func AppendErrorResponse(dst, id []byte, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if len(id) > 0 {
		dst = append(dst, `,"id":`...)
		dst = append(dst, id...)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = fmt.Appendf(dst, "%d", e.Code)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}
