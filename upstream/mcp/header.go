package mcp

import "net/http"

// EncodeHeader gives the value of an Mcp-Name or Mcp-Param header: s itself
// when it is safe there, else its Base64 form
// (basic/transports/streamable-http, Value Encoding).
func EncodeHeader(s string) string { panic("stub") }

// DecodeHeader undoes EncodeHeader. It fails on characters that a header must
// not have and on malformed Base64 or UTF-8.
func DecodeHeader(v string) (string, error) { panic("stub") }

// ParamHeader is one `x-mcp-header` annotation of a tool's input schema.
type ParamHeader struct {
	Name string   // the header without "Mcp-Param-", as annotated
	Path []string // the keys that lead to the value in the arguments
	Type string   // "string", "integer" or "boolean"
}

// ParamHeaders reads the annotations of a raw input schema. It fails when one
// breaks the rules, and the tool must then be left out
// (basic/transports/streamable-http, Schema Extension).
func ParamHeaders(schema []byte) ([]ParamHeader, error) { panic("stub") }

// Value gives the header's encoded value for raw arguments; false when there is
// no value at the path or it is null. It fails for a value of another type and
// for an integer outside ±(2^53-1).
func (p *ParamHeader) Value(args []byte) (string, bool, error) { panic("stub") }

// CheckParamHeaders compares the request's headers with its raw arguments;
// integers compare as numbers. The error is -32020.
func CheckParamHeaders(h http.Header, params []ParamHeader, args []byte) *Error { panic("stub") }

// CheckHeaders compares Mcp-Protocol-Version, Mcp-Method and Mcp-Name with the
// request (basic/transports/streamable-http, Server Validation). The error is
// -32020.
func CheckHeaders(h http.Header, r *Request) *Error { panic("stub") }
