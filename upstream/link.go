package upstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// link carries messages to and from one session of a handshake server. Its
// methods may be called concurrently, except that initialize is requested first
// and alone. Where a link knows more about a failure than that the connection
// broke it returns what linkFailure makes; other errors count as ClassConnect.
type link interface {
	// request sends a request. Messages that the transport ties to it (those of
	// its POST's answer) go to deliver in order, the response last, and request
	// returns when they are through; an error of deliver ends it too. A link
	// without such streams returns when the message is written, and everything
	// comes through incoming. When ctx ends it stops, with the cause of ctx: the
	// caller sends notifications/cancelled itself.
	//
	// deliver owns the buffers that it is given. It returns io.EOF when it was given
	// the response, and then request returns nil.
	request(ctx context.Context, msg []byte, meta linkMeta, deliver func(*mcp.Buffer) error) error
	// post sends a notification or a response, and returns when it was accepted.
	post(ctx context.Context, msg []byte, meta linkMeta) error
	// negotiated tells the protocol version that initialize led to, before any
	// other message is sent.
	negotiated(version string)
	// listen opens the stream for messages that belong to no request (GET), calls
	// opened, and gives the messages to incoming until ctx or the stream ends.
	// errNoStream means that the server has none (405). Links that need no such
	// stream call opened and return nil at once.
	listen(ctx context.Context, opened func()) error
	// close ends the session (DELETE, or the process), within ctx. It may be called
	// twice.
	close(ctx context.Context)
}

// linkMeta is what a transport may want to know of a message.
type linkMeta struct {
	method string      // empty for a response
	id     []byte      // of a request
	header http.Header // other header lines to send; may be nil
}

// linkMaker opens a link for one new session. The context is that of opening it
// only. Each HTTP request of the link shows the server what the source gives, which is
// nil where it is shown nobody.
type linkMaker func(ctx context.Context, in incoming, source CredentialSource) (link, error)

// incoming takes what a link receives outside of request. Its methods do not
// block for long.
type incoming interface {
	// message takes one message, which is the receiver's only until it returns.
	// Messages of one stream are given in order.
	message(raw []byte)
	// gone tells that the link has broken for good (the process ended, or the
	// connection that carries all): what is under way fails with err. It is not
	// called for close.
	gone(err error)
}

// Errors of links.
var (
	// errNoStream tells that the server does not offer a stream of its own.
	errNoStream = errors.New("the server offers no stream of its own")
	// errNoSession tells that the server does not know the session, and so has not
	// carried the message out.
	errNoSession = errors.New("the server does not know the session")
)

// linkError is a fault as an error.
type linkError struct{ fault *fault }

// linkFailure makes the error of a link for a class of failure. unsent says that
// surely nothing of the message reached the server.
func linkFailure(class Class, unsent bool, err error) error {
	return &linkError{&fault{Error: Error{Class: class, Err: err}, unsent: unsent}}
}

// Error gives the cause.
func (e *linkError) Error() string { return e.fault.Err.Error() }

// Unwrap gives the cause.
func (e *linkError) Unwrap() error { return e.fault.Err }
