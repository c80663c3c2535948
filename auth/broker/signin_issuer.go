package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

var errTooLong = errors.New("what the user's issuer calls them does not fit into a cookie")

// maxSubject bounds what an issuer calls a user, in bytes; OpenID Connect Core 1.0,
// section 2, allows 255 characters.
const maxSubject = 512

// signInState is a sign-in at an issuer that is under way. The browser has it in a
// sealed cookie, so that nobody else's browser can end it, and nothing is kept for it.
type signInState struct {
	State    string  `json:"state"`
	Nonce    string  `json:"nonce"`
	Verifier string  `json:"verifier"`
	Tenant   string  `json:"tenant"`
	Issuer   string  `json:"issuer"`
	Server   string  `json:"server"`           // its token endpoint
	Ticket   *ticket `json:"ticket,omitempty"` // where to go on; nil for the connections
	Expires  int64   `json:"expires"`
}

// startSignIn sends a browser to an issuer. again has it ask who the user is, also where
// it knows. tk is where to go on then; nil for the connections.
func (in *signIns) startSignIn(ctx context.Context, w http.ResponseWriter, t *tenant.Tenant, is *tenant.Issuer, tk *ticket, again bool) error {
	s, err := in.b.issuerOf(ctx, is.Issuer, is.Private)
	if err == nil && (s.AuthorizationEndpoint == "" || s.TokenEndpoint == "" || s.JWKSURI == "") {
		err = errors.New("its metadata lacks what a sign-in needs")
	}
	if err != nil {
		return issuerError(err)
	}
	st := &signInState{
		State: rand.Text(), Nonce: rand.Text(), Verifier: newVerifier(), Tenant: t.Name, Issuer: is.Issuer, Server: s.TokenEndpoint,
		Ticket: tk, Expires: in.now().Add(signInTime).Unix(),
	}
	q := url.Values{
		"response_type": {"code"}, "client_id": {is.Login.ClientID}, "redirect_uri": {in.site.root + signedInPath},
		"scope": {strings.Join(union([]string{"openid"}, is.Login.Scopes), " ")},
		"state": {st.State}, "nonce": {st.Nonce}, "code_challenge": {s256(st.Verifier)}, "code_challenge_method": {"S256"},
	}
	if again {
		q.Set("prompt", "login")
	}
	to, err := withQuery(s.AuthorizationEndpoint, q)
	if err != nil {
		return issuerError(err)
	}
	value, err := in.seal(sealSignIn, st, "")
	if err != nil {
		return err
	}
	if len(value) > maxCookie {
		return errTooLong
	}
	in.site.setCookie(w, signInCookie, value, signInTime)
	redirect(w, to)
	return nil
}

// signIn sends somebody who has a link, and is known as somebody else, to the issuer.
func (in *signIns) signIn(w http.ResponseWriter, r *http.Request, form url.Values) error {
	tk, at, is, err := in.opened(r.Context(), form.Get("ticket"))
	if err != nil {
		return err
	}
	return in.startSignIn(r.Context(), w, at.t, is, tk, true)
}

// signedIn takes a browser back from an issuer.
func (in *signIns) signedIn(w http.ResponseWriter, r *http.Request, form url.Values) error {
	st := in.signInState(r)
	if st == nil || !same(st.State, form.Get("state")) {
		return &pageError{
			status: http.StatusBadRequest, title: "This sign-in is not known here",
			text: []string{"It was begun in another browser, or too long ago.", startAgain},
		}
	}
	in.site.setCookie(w, signInCookie, "", 0) // once
	t, err := in.b.opts.Tenant(r.Context(), st.Tenant)
	if err != nil {
		return noTenant(err)
	}
	is, err := loginOf(t, st.Issuer)
	if err != nil {
		return noTenant(err)
	}
	s, err := in.b.issuerOf(r.Context(), is.Issuer, is.Private)
	if err == nil && s.TokenEndpoint != st.Server {
		err = errors.New("its token endpoint has changed")
	}
	if err != nil {
		return issuerError(err)
	}
	code, err := authorized(s, form)
	if err != nil {
		in.log(t.Name, "", "login", "refused")
		return err
	}
	subject, err := in.identify(r.Context(), s, is, st, code)
	if err != nil {
		in.log(t.Name, "", "login", "failed")
		return issuerError(err)
	}
	in.log(t.Name, "", "login", "done")
	if err := in.setSession(w, browser{ID: rand.Text(), Tenant: t.Name, Issuer: is.Issuer, Subject: subject}); err != nil {
		return err
	}
	if st.Ticket == nil {
		redirect(w, in.site.root+connectionsPath+"?"+url.Values{"tenant": {t.Name}, "issuer": {is.Issuer}}.Encode())
		return nil
	}
	to, err := in.linkTo(connectPath, st.Ticket)
	if err != nil {
		return err
	}
	redirect(w, to)
	return nil
}

// signInState gives the sign-in that a browser is in; nil for none.
func (in *signIns) signInState(r *http.Request) *signInState {
	c, err := r.Cookie(in.site.cookieName(signInCookie))
	if err != nil {
		return nil
	}
	st := &signInState{}
	if !in.open(sealSignIn, c.Value, "", st) || in.past(st.Expires) {
		return nil
	}
	return st
}

// authorized gives the code of an authorization response, which has to be from the
// server that was asked (2026-07-28, basic/authorization, Authorization Response
// Validation; RFC 9207, section 2.4). Before that is known nothing of it is shown.
func authorized(s *server, form url.Values) (code string, err error) {
	switch iss := form["iss"]; {
	case len(iss) == 0 && s.IssParameter, len(iss) > 0 && iss[0] != s.Issuer:
		return "", &pageError{
			status: http.StatusBadRequest, title: "This answer is not from the server that was asked",
			text: []string{"It was not used.", startAgain}, err: errors.New("the iss of an authorization response is wrong"),
		}
	}
	if refusal := form.Get("error"); refusal != "" || form.Has("error") {
		said := refusal
		if more := form.Get("error_description"); more != "" {
			said += ": " + more
		}
		return "", &pageError{status: http.StatusBadRequest, title: "The sign-in did not go through", text: []string{startAgain}, detail: shown(said, maxDetail)}
	}
	if code = form.Get("code"); code == "" {
		return "", &pageError{status: http.StatusBadRequest, title: "This request cannot be understood", text: []string{startAgain}}
	}
	return code, nil
}

// identify finds out who signed in: the subject of an ID token for this gateway and this
// sign-in (OpenID Connect Core 1.0, section 3.1.3.7).
func (in *signIns) identify(ctx context.Context, s *server, is *tenant.Issuer, st *signInState, code string) (string, error) {
	c := &client{ID: is.Login.ClientID}
	if !is.Login.ClientSecret.IsZero() {
		secret, err := in.b.opts.Secrets(is.Login.ClientSecret)
		if err != nil {
			return "", fmt.Errorf("open the secret of the login: %w", err)
		}
		c.Secret = string(secret)
	}
	if err := c.choose(s.AuthMethods); err != nil {
		return "", err
	}
	got, err := in.b.tokenFrom(ctx, s, c, url.Values{
		"grant_type": {grantCode}, "code": {code}, "redirect_uri": {in.site.root + signedInPath}, "code_verifier": {st.Verifier},
	})
	if err != nil {
		return "", err
	}
	if got.ID == "" {
		return "", errors.New("it gives no ID token")
	}
	keys := in.b.public
	if s.trust.allows(s.JWKSURI) {
		keys = in.b.private
	}
	verifier := oidc.NewVerifier(is.Issuer, oidc.NewRemoteKeySet(oidc.ClientContext(ctx, keys), s.JWKSURI), &oidc.Config{
		ClientID: is.Login.ClientID, SupportedSigningAlgs: algorithms(is), Now: in.b.now,
	})
	id, err := verifier.Verify(ctx, got.ID)
	if err != nil {
		return "", fmt.Errorf("its ID token cannot be verified: %s", shown(err.Error(), maxDetail)) // it may quote what the server says
	}
	var more struct {
		Party string `json:"azp"`
	}
	if err := id.Claims(&more); err != nil {
		return "", errors.New("the claims of its ID token cannot be read")
	}
	switch {
	case id.Issuer != is.Issuer:
		return "", errors.New("its ID token is from another issuer")
	case !same(id.Nonce, st.Nonce):
		return "", errors.New("its ID token is for another sign-in")
	case cmp.Or(more.Party, is.Login.ClientID) != is.Login.ClientID, len(id.Audience) > 1 && more.Party == "":
		return "", errors.New("its ID token is for another client")
	case id.Subject == "" || len(id.Subject) > maxSubject:
		return "", errors.New("its ID token names nobody")
	}
	return id.Subject, nil
}

// algorithms gives the signatures that are accepted of an issuer: none is symmetric.
func algorithms(is *tenant.Issuer) []string {
	if len(is.Algorithms) > 0 {
		return is.Algorithms
	}
	return []string{oidc.RS256, oidc.PS256, oidc.ES256, oidc.ES384, oidc.EdDSA}
}

func issuerError(err error) error {
	return &pageError{
		status: http.StatusBadGateway, title: "You cannot be signed in",
		text: []string{"The server that knows you could not be asked, or did not say who you are.", startAgain}, err: err,
	}
}

// noTenant is for what is not registered, whatever it is.
func noTenant(err error) error {
	if !errors.Is(err, tenant.ErrNotFound) && !errors.Is(err, errNoLogin) && !errors.Is(err, errNobody) {
		return err
	}
	return &pageError{status: http.StatusNotFound, title: "There is nothing to sign in to", text: []string{startAgain}}
}

// newVerifier gives a code verifier (RFC 7636, section 4.1).
func newVerifier() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(raw)
}

// s256 gives the code challenge of a verifier (RFC 7636, section 4.2).
func s256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
