package upstream

import "github.com/causeway-mcp/causeway/upstream/mcp"

// Response is the answer to one request: notifications, then one final result
// or error.
type Response struct {
	Status int // of HTTP
	_      int
}

// Next gives the next message, which is valid until the following Next or
// Close; io.EOF after the final one. Other errors are *Error.
func (r *Response) Next() (*mcp.Message, error) { panic("stub") }

// Close ends the response, cancelling what is still under way, and gives all
// memory back. It must be called, and may be called twice.
func (r *Response) Close() { panic("stub") }
