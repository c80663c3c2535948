package broker

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Types of tokens (RFC 8693, section 3).
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// errNothingToExchange tells a user what is wrong with its request.
var errNothingToExchange = errors.New("this upstream needs an access token of the user, and none was shown that is still good")

// exchangeSource shows tokens that the gateway gets in exchange for those that its user
// shows the gateway (CredentialExchange; RFC 8693). Nothing of them is kept elsewhere
// than in memory, and they go to the token endpoint only.
type exchangeSource struct {
	asker
	keeper *keeper
	key    sourceKey

	subjectMu sync.Mutex
	size      int       // of the token that is shown
	subject   string    // the user's access token
	expires   time.Time // of subject; zero where nobody knows
	bad       mark      // the subject that the token endpoint refused last
}

func newExchangeSource(b *Broker, key sourceKey, t *tenant.Tenant, u *tenant.Upstream) *exchangeSource {
	s := &exchangeSource{asker: asker{b: b, t: t, u: u}, key: key}
	s.keeper = &keeper{b: b, get: s.get, log: s.failed}
	return s
}

// Take tells the source what its user shows the gateway now. It keeps the token that
// lasts longest.
func (s *exchangeSource) Take(token string, expires time.Time) {
	if token == "" || len(token) > maxToken {
		return
	}
	s.subjectMu.Lock()
	if token == s.subject || s.bad.is(token) || s.lasts() && !expires.After(s.expires) {
		s.subjectMu.Unlock()
		return
	}
	had := s.lasts()
	s.subject, s.expires = token, expires
	size := len(token) + s.size
	s.subjectMu.Unlock()
	s.b.weigh(s.key, s, size)
	if !had {
		s.keeper.restart() // it could not have got one before
	}
}

// lasts tells whether there is a subject whose end is known and yet to come.
// s.subjectMu is held.
func (s *exchangeSource) lasts() bool {
	return s.subject != "" && s.b.now().Before(s.expires)
}

// current gives the subject to exchange; empty for none.
func (s *exchangeSource) current() string {
	s.subjectMu.Lock()
	defer s.subjectMu.Unlock()
	if !s.expires.IsZero() && !s.b.now().Before(s.expires) {
		s.subject, s.expires = "", time.Time{}
	}
	return s.subject
}

// Credential implements Source.
func (s *exchangeSource) Credential(ctx context.Context) (http.Header, error) {
	t, err := s.keeper.current(ctx)
	if err != nil {
		return nil, err
	}
	return bearerHeader(t.Access), nil
}

// Refused implements Source, as that of clientSource does.
func (s *exchangeSource) Refused(_ context.Context, sent http.Header, status int, challenges []string) (bool, error) {
	if status != http.StatusUnauthorized {
		return false, nil
	}
	s.heard(challenges)
	return s.keeper.refuse(shownBy(sent)), nil
}

// get exchanges the subject (RFC 8693, section 2.1).
func (s *exchangeSource) get(ctx context.Context, _ mark) (*token, error) {
	subject := s.current()
	if subject == "" {
		return nil, errNothingToExchange
	}
	form := url.Values{
		"grant_type":    {grantExchange},
		"subject_token": {subject}, "subject_token_type": {typeAccessToken}, "requested_token_type": {typeAccessToken},
	}
	if a := s.u.Auth.Audience; a != "" {
		form.Set("audience", a)
	}
	t, err := s.token(ctx, form)
	if refused, ok := errors.AsType[*oauthError](err); ok && (refused.Code == "invalid_grant" || refused.Code == "invalid_request") {
		s.drop(subject)
	}
	if err != nil {
		return nil, err
	}
	s.subjectMu.Lock()
	s.size = len(t.Access)
	size := len(s.subject) + s.size
	s.subjectMu.Unlock()
	s.b.weigh(s.key, s, size)
	return t, nil
}

// drop forgets a subject that the token endpoint takes for invalid (RFC 8693, section
// 2.2.2), until another one comes.
func (s *exchangeSource) drop(subject string) {
	s.subjectMu.Lock()
	defer s.subjectMu.Unlock()
	if s.subject == subject {
		s.subject, s.expires, s.bad = "", time.Time{}, markOf(subject)
	}
}

// failed logs an attempt that failed, unless it was for want of a token.
func (s *exchangeSource) failed(err error) {
	if !errors.Is(err, errNothingToExchange) {
		s.asker.failed(err)
	}
}
