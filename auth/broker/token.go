package broker

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// token is what a token endpoint gave (RFC 6749, section 5.1).
type token struct {
	Access, Refresh string
	Expires         time.Time // never zero
	// Unsaid tells that the server did not say when it expires: Expires is defaultLife
	// from then, and the token may well be good for longer.
	Unsaid bool
	Scopes []string // what was asked for where the server names none
}

// oauthError is a refusal of a token or registration endpoint (RFC 6749, section 5.2;
// RFC 7591, section 3.2.2).
type oauthError struct {
	Code   string // such as invalid_grant; no other text of the server is kept
	Status int    // of HTTP
}

// Error names the code.
func (e *oauthError) Error() string { return "the authorization server refuses: " + e.Code }

// tokenFrom asks the token endpoint of a server. It adds to form how the client
// authenticates itself, and nothing else. A refusal is an *oauthError; errors hold
// nothing of what was sent, nor texts of the server.
func (b *Broker) tokenFrom(ctx context.Context, s *server, c *client, form url.Values) (*token, error) {
	return nil, errors.New("broker: not there yet")
}
