package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/auth/work"
)

// Times and bounds of introspection.
const (
	introspectTime  = 5 * time.Second  // for one question
	introspectFor   = 60 * time.Second // that an answer is used at most
	introspectNotBy = 10 * time.Second // and one that the token is not valid
	introspectPause = time.Second      // without questions after one that failed

	maxAnswers = 16 << 20 // bytes of answers that are kept
)

// question is a token that an issuer is asked about.
type question struct {
	under digest
	mark  [32]byte
}

// answer is what the issuer said.
type answer struct {
	claims claims // nil for a token that is not valid
	until  time.Time
}

// asking is a question under way. What it gave is set before done is closed.
type asking struct {
	done   chan struct{}
	answer answer
	err    error
}

// byIntrospection finds the caller who shows a token that is no JWT (RFC 7662), and
// until when the issuer need not be asked again.
func (a *Authenticator) byIntrospection(ctx context.Context, req *Request, r *realm, token string, mark [32]byte) (*Caller, time.Time, reason) {
	is := r.opaque
	got, err := a.ask(ctx, is, token, question{is.digest, mark})
	if err != nil {
		return nil, time.Time{}, reasonUnavailable
	}
	c := got.claims
	if c == nil {
		return nil, time.Time{}, reasonInactive
	}
	name, ok := c.text("iss")
	if !ok || name != "" && name != is.Issuer.Issuer {
		return nil, time.Time{}, reasonIssuer
	}
	if kind, ok := c.text("token_type"); !ok || strings.EqualFold(kind, "DPoP") {
		return nil, time.Time{}, reasonBound
	}
	if !c.has("sub") && c.has("client_id") {
		// A client of its own right has no resource owner (RFC 9068, section 2.2).
		c = claims{"sub": c["client_id"]}
		for name, v := range got.claims {
			if name != "sub" {
				c[name] = v
			}
		}
	}
	caller, why := is.caller(req, r, c, a.now())
	return caller, got.until, why
}

// ask gives what an issuer says about a token. Questions about one token at the same
// time are one, which goes on when the request is gone.
func (a *Authenticator) ask(ctx context.Context, is *issuer, token string, q question) (answer, error) {
	a.askMu.Lock()
	if got, ok := a.answers.Get(q); ok && a.now().Before(got.until) {
		a.askMu.Unlock()
		return got, nil
	}
	one, ok := a.asked[q]
	if !ok {
		one = &asking{done: make(chan struct{}), err: errUnavailable}
		if !a.work.Start(introspectTime, func(ctx context.Context) { a.askNow(ctx, is, token, q, one) }) {
			a.askMu.Unlock()
			return answer{}, errUnavailable
		}
		a.asked[q] = one
	}
	a.askMu.Unlock()
	if !work.Await(ctx, one.done, introspectTime+time.Second) {
		return answer{}, errUnavailable
	}
	return one.answer, one.err
}

func (a *Authenticator) askNow(ctx context.Context, is *issuer, token string, q question, one *asking) {
	got, size, err := a.introspect(ctx, is, token)
	if err != nil && !errors.Is(err, errUnavailable) {
		is.server.pause()
		a.log.Warn("cannot ask an issuer about a token", "issuer", is.Issuer.Issuer, "error", err)
	}
	a.askMu.Lock()
	defer a.askMu.Unlock()
	defer close(one.done)
	delete(a.asked, q)
	if one.answer, one.err = got, err; err == nil {
		a.answers.Put(q, got, size)
	}
}

// introspect asks the issuer. Errors hold nothing of the token or the answer. It is
// errUnavailable when nothing was asked, for a reason that is told elsewhere.
func (a *Authenticator) introspect(ctx context.Context, is *issuer, token string) (got answer, size int, err error) {
	select {
	case is.server.slots <- struct{}{}:
		defer func() { <-is.server.slots }()
	default:
		return got, 0, errUnavailable
	}
	if is.server.paused() {
		return got, 0, errUnavailable
	}
	req, err := a.introspection(ctx, is, token)
	if err != nil {
		return got, 0, err
	}
	raw, err := is.server.do(req)
	if err != nil {
		return got, 0, fmt.Errorf("introspection: %w", err)
	}
	c, ok := parseClaims(raw)
	var active bool
	if !ok || json.Unmarshal(c["active"], &active) != nil {
		return got, 0, errors.New("introspection: not an answer (RFC 7662, section 2.2)")
	}
	if !active {
		return answer{until: a.now().Add(introspectNotBy)}, len(raw), nil
	}
	return answer{c, a.now().Add(introspectFor)}, len(raw), nil
}

// introspection makes the question (RFC 7662, section 2.1). The gateway says who it is
// by its client secret (RFC 6749, section 2.3.1).
func (a *Authenticator) introspection(ctx context.Context, is *issuer, token string) (*http.Request, error) {
	conf := is.Introspection
	to := conf.URL
	if to == "" {
		meta, err := is.server.metadata(ctx)
		if err != nil {
			return nil, err
		}
		if to = meta.IntrospectionEndpoint; to == "" {
			return nil, errors.New("its metadata has no introspection_endpoint")
		}
	}
	secret, err := a.secrets(conf.ClientSecret)
	if err != nil {
		return nil, fmt.Errorf("client secret for introspection: %w", err)
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the introspection endpoint is not a URL")
	}
	req.SetBasicAuth(url.QueryEscape(conf.ClientID), url.QueryEscape(string(secret)))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req, nil
}
