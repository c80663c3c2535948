package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Grants (RFC 6749; RFC 8693, section 2.1).
const (
	grantCode     = "authorization_code"
	grantRefresh  = "refresh_token"
	grantClient   = "client_credentials"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// Times of tokens.
const (
	defaultLife = 5 * time.Minute      // of a token whose end the server does not tell
	maxLife     = 366 * 24 * time.Hour // a longer one is replaced after it
	ahead       = time.Minute          // that a token is replaced before its end; a quarter of its life where that is less
	leeway      = 5 * time.Second      // before its end from which on it is not shown; a tenth of its life where that is less
)

// maxToken bounds an access token, a refresh token and an ID token each, in bytes.
const maxToken = 16 << 10

// token is what a token endpoint gave (RFC 6749, section 5.1).
type token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitzero"`
	Got     time.Time `json:"got"`
	Expires time.Time `json:"expires"` // never zero
	// Unsaid tells that the server did not say when it expires: Expires is defaultLife
	// from then, and the token may well be good for longer.
	Unsaid bool     `json:"unsaid,omitzero"`
	Scopes []string `json:"scopes,omitzero"` // what was asked for where the server names none
	ID     string   `json:"-"`               // an ID token, where there is one; nobody has checked it
}

// usable tells whether the token may be shown; its bounds are those of a token that
// lives as long as this one.
func (t *token) usable(now time.Time) bool {
	return t != nil && now.Before(t.Expires.Add(-min(leeway, t.Expires.Sub(t.Got)/10)))
}

// due tells whether the token should be replaced, though it is usable yet.
func (t *token) due(now time.Time) bool {
	return !now.Before(t.Expires.Add(-min(ahead, t.Expires.Sub(t.Got)/4)))
}

// oauthError is a refusal of a token or registration endpoint (RFC 6749, section 5.2;
// RFC 7591, section 3.2.2).
type oauthError struct {
	Code   string // such as invalid_grant; no other text of the server is kept
	Status int    // of HTTP
}

// Error names the code.
func (e *oauthError) Error() string { return "the authorization server refuses: " + e.Code }

// codeInvalidClient tells that the server does not know the client, or its secret.
const codeInvalidClient = "invalid_client"

// tokenFrom asks the token endpoint of a server. It adds to form how the client
// authenticates itself, and nothing else. A refusal is an *oauthError; errors hold
// nothing of what was sent, nor texts of the server.
func (b *Broker) tokenFrom(ctx context.Context, s *server, c *client, form url.Values) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	t, err := b.askToken(ctx, s, c, form)
	b.metrics.count(form.Get("grant_type"), err)
	if refused, ok := errors.AsType[*oauthError](err); ok && refused.Code == codeInvalidClient && c.made != nil {
		b.unregister(ctx, c.made)
	}
	if err != nil {
		return nil, fmt.Errorf("get a token: %w", err)
	}
	return t, nil
}

func (b *Broker) askToken(ctx context.Context, s *server, c *client, form url.Values) (*token, error) {
	req, err := c.request(ctx, s.TokenEndpoint, form)
	if err != nil {
		return nil, err
	}
	answer, err := b.ask(req, s.trust.allows(s.TokenEndpoint))
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, refusal(answer.Status, answer.Body)
	}
	t, err := parseToken(answer.Body, b.now())
	if err != nil {
		return nil, err
	}
	if t.Scopes == nil {
		t.Scopes = scopesOf(form.Get("scope")) // RFC 6749, section 5.1
	}
	return t, nil
}

// errNoToken tells of an answer that is no token; it holds nothing of it.
var errNoToken = errors.New("the answer of the token endpoint holds no token that can be used")

// parseToken reads the answer of a token endpoint (RFC 6749, section 5.1; RFC 8693,
// section 2.2.1) that came now. Errors hold no text of it but a code.
func parseToken(raw []byte, now time.Time) (*token, error) {
	var d struct {
		Error     string         `json:"error"`
		Access    string         `json:"access_token"`
		ID        string         `json:"id_token"`
		Refresh   string         `json:"refresh_token"`
		Type      string         `json:"token_type"`
		ExpiresIn jsontext.Value `json:"expires_in"`
		Scope     string         `json:"scope"`
		Issued    string         `json:"issued_token_type"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return nil, errNoToken
	}
	if d.Error != "" { // some servers refuse with 200
		return nil, refusal(http.StatusOK, raw)
	}
	switch {
	case !strings.EqualFold(d.Type, "Bearer"):
		return nil, errors.New("the token endpoint gives a token that is no bearer token")
	case !isVisible(d.Access, maxToken) || strings.Contains(d.Access, " "):
		return nil, errNoToken
	case d.Refresh != "" && !isVisible(d.Refresh, maxToken), d.ID != "" && !isVisible(d.ID, maxToken):
		return nil, errNoToken
	case d.Issued != "" && d.Issued != typeAccessToken && d.Issued != typeJWT:
		return nil, errors.New("the token endpoint gives a token that is no access token")
	}
	t := &token{Access: d.Access, Refresh: d.Refresh, Got: now, ID: d.ID}
	life, said, ok := lifeOf(d.ExpiresIn)
	if !ok {
		return nil, errNoToken
	}
	t.Expires, t.Unsaid = now.Add(life), !said
	if d.Scope != "" {
		t.Scopes = scopesOf(d.Scope)
	}
	return t, nil
}

// lifeOf reads expires_in: seconds, also in a string, as some servers have it. said is
// false where there is none.
func lifeOf(raw jsontext.Value) (life time.Duration, said, ok bool) {
	text := string(raw)
	if text == "" || text == "null" {
		return defaultLife, false, true
	}
	if raw.Kind() == '"' {
		if json.Unmarshal(raw, &text) != nil {
			return 0, false, false
		}
	}
	var seconds float64
	if json.Unmarshal([]byte(text), &seconds) != nil || seconds < 1 {
		return 0, false, false
	}
	return time.Duration(min(seconds, maxLife.Seconds())) * time.Second, true, true
}

// refusal gives the error for an answer that is not what was asked for.
func refusal(status int, raw []byte) error {
	var d struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &d) != nil || !isCode(d.Error) {
		return &statusError{status}
	}
	return &oauthError{d.Error, status}
}

// isCode tells whether s looks like an error code: it is shown, so it must not be a
// text that was sent.
func isCode(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// statusError is an answer that tells nothing but its status.
type statusError struct{ status int }

// Error tells the status.
func (e *statusError) Error() string {
	return fmt.Sprintf("the authorization server answers with status %d", e.status)
}
