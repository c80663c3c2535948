package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Error is a JSON-RPC error that the server answered.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON; nil for none
}

// Error gives the message and the code.
func (e *Error) Error() string {
	if e.Code == mcp.CodeUnsupportedProtocol {
		return fmt.Sprintf("%s (code %d); this client speaks %s", e.Message, e.Code, mcp.VersionModern)
	}
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// Failure tells that there was no usable answer.
type Failure struct {
	Err  error
	Hint string // what to do about it; may be empty
}

// Error gives the cause and the hint.
func (f *Failure) Error() string {
	if f.Hint == "" {
		return f.Err.Error()
	}
	return f.Err.Error() + "; " + f.Hint
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// statusError is an HTTP status that came without a JSON-RPC message.
type statusError struct {
	code   int
	header http.Header
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answered HTTP %d %s", e.code, http.StatusText(e.code))
}

// Name gives the server's URL for messages: without a password that is in it.
func (c *Client) Name() string { return c.url.Redacted() }

// host is the server's name for messages.
func (c *Client) host() string { return c.url.Host }

// failure makes a Failure that names the server.
func (c *Client) failure(err error) *Failure {
	return &Failure{Err: fmt.Errorf("%s: %w", c.host(), err)}
}

// explain says what failed, where, and what may help.
func (c *Client) explain(err error) error {
	// A *url.Error would repeat the whole URL, with a password in it.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	f := c.failure(err)
	if status, ok := errors.AsType[*statusError](err); ok {
		f.Err = fmt.Errorf("%s: %w", c.Name(), status)
		f.Hint = hintForStatus(status)
		return f
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Err = fmt.Errorf("no connection to %s: nothing listens there", c.host())
		f.Hint = `is the gateway running? "causeway demo" or "causeway serve" starts one, --url names another`
	case isDNS(err):
		f.Err = fmt.Errorf("no connection to %s: the name cannot be resolved: %w", c.host(), err)
		f.Hint = "is the host in --url right?"
	case isHTTPToHTTPS(err):
		f.Hint = "the server does not speak TLS there; should the URL start with http://?"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		f.Err = fmt.Errorf("%s closed the connection before the answer was complete: %w", c.host(), err)
	}
	return f
}

func isDNS(err error) bool {
	_, ok := errors.AsType[*net.DNSError](err)
	return ok
}

// isHTTPToHTTPS tells whether plain HTTP came where TLS was expected.
func isHTTPToHTTPS(err error) bool {
	return strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// hintForStatus tells what a status most likely means.
func hintForStatus(e *statusError) string {
	switch {
	case e.code == http.StatusUnauthorized:
		hint := "it wants to know who you are: pass --header 'Authorization: Bearer …'"
		if challenge := e.header.Get("WWW-Authenticate"); challenge != "" {
			hint += " (it says: " + challenge + ")"
		}
		return hint
	case e.code == http.StatusForbidden:
		return "what you sent does not let you in"
	case e.code == http.StatusNotFound || e.code == http.StatusMethodNotAllowed:
		return "there is no MCP endpoint at this path; the URL usually ends in /mcp"
	case e.code >= 300 && e.code < 400 && e.header.Get("Location") != "":
		return "it redirects to " + e.header.Get("Location") + ", which is not followed; use that with --url if you trust it"
	case e.code == http.StatusBadRequest:
		return "it may speak only protocol versions older than " + mcp.VersionModern
	}
	return ""
}
