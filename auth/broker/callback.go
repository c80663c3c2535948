package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// maxPending bounds the sign-ins of one user of one upstream that are under way: the
// oldest one ends where there are more.
const maxPending = 5

// authorization is a sign-in at an upstream's server that is under way: what was asked,
// for whom, and in which browser.
type authorization struct {
	Session  string   `json:"session"` // of the browser
	Tenant   string   `json:"tenant"`
	Alias    string   `json:"alias"`
	Issuer   string   `json:"issuer"` // of the user
	Subject  string   `json:"subject"`
	Client   string   `json:"client"` // which the user has agreed to
	Bound    string   `json:"bound"`  // to what of the registration
	Server   string   `json:"server"` // its issuer, which the answer has to be from
	Token    string   `json:"token"`  // its token endpoint
	ClientID string   `json:"clientID"`
	Resource string   `json:"resource,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	Verifier string   `json:"verifier"`
	Expires  int64    `json:"expires"`
}

func (a *authorization) user() userKey { return userKey{a.Tenant, a.Alias, a.Issuer, a.Subject} }

// stateKey is where the authorization of a state is. The state itself is nowhere but in
// the browser and at the server.
func stateKey(state string) string { return "oauth/state/" + digest(state) }

// authorize sends a user to the upstream's server, after the user has agreed.
func (in *signIns) authorize(w http.ResponseWriter, r *http.Request, s *browser, tk *ticket, at *registered, wants *wanted) error {
	server := wants.server
	if !server.S256 {
		return upstreamError(at, errors.New("it does not say that it knows PKCE with S256"))
	}
	c, err := in.b.clientOf(r.Context(), at.t, at.u, server)
	if err != nil {
		return upstreamError(at, err)
	}
	state := rand.Text()
	a := &authorization{
		Session: s.ID, Tenant: tk.Tenant, Alias: tk.Alias, Issuer: tk.Issuer, Subject: tk.Subject, Client: tk.Client,
		Bound: boundTo(at.u), Server: server.Issuer, Token: server.TokenEndpoint, ClientID: c.ID, Resource: server.Resource,
		Scopes: wants.scopes, Verifier: newVerifier(), Expires: in.now().Add(signInTime).Unix(),
	}
	q := url.Values{
		"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {in.b.redirectURI()}, "state": {state},
		"code_challenge": {s256(a.Verifier)}, "code_challenge_method": {"S256"},
	}
	if a.Resource != "" {
		q.Set("resource", a.Resource)
	}
	if len(a.Scopes) > 0 {
		q.Set("scope", strings.Join(a.Scopes, " "))
	}
	if server.OfflineAccess {
		q.Set("prompt", "consent") // else offline_access counts for nothing (OpenID Connect Core 1.0, section 11)
	}
	to, err := withQuery(server.AuthorizationEndpoint, q)
	if err != nil {
		return upstreamError(at, err)
	}
	if err := in.begun(r.Context(), state, a); err != nil {
		return err
	}
	if err := in.setSession(w, *s); err != nil { // it has to last until the user comes back
		return err
	}
	in.log(tk.Tenant, tk.Alias, "authorization", "begun")
	in.pages.show(w, http.StatusOK, "leave", &leavePage{page{Title: "On to the sign-in", Leave: to}, hostOf(to)})
	return nil
}

// leavePage leads elsewhere. It is a page, and no redirect, since browsers hold the
// redirects after a form to the form-action of its page.
type leavePage struct {
	page
	Server string
}

// begun keeps an authorization until its answer comes.
func (in *signIns) begun(ctx context.Context, state string, a *authorization) error {
	key := stateKey(state)
	sealed, err := in.seal(sealState, a, key)
	if err != nil {
		return err
	}
	var ended []string
	pending := "oauth/pending/" + digest(a.Tenant, a.Alias, a.Issuer, a.Subject)
	err = in.b.opts.Values.Update(ctx, pending, signInTime, func(old []byte) ([]byte, error) {
		var keys []string // the latest last
		if old != nil && json.Unmarshal(old, &keys) != nil {
			keys = nil
		}
		keys = append(keys, key)
		over := max(0, len(keys)-maxPending)
		ended = keys[:over]
		return json.Marshal(keys[over:])
	})
	if err != nil {
		return err
	}
	for _, k := range ended {
		if err := in.b.opts.Values.Update(ctx, k, time.Second, func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			return err
		}
	}
	return in.b.opts.Values.Update(ctx, key, signInTime, func([]byte) ([]byte, error) { return []byte(sealed), nil })
}

// errNotHere tells that a state is not one of this browser's, or not one at all.
var errNotHere = errors.New("no such sign-in in this browser")

// take gives the authorization of a state, once, and to the browser that it was begun in
// only: to another one it is not even used up.
func (in *signIns) take(ctx context.Context, state string, s *browser) (*authorization, error) {
	key := stateKey(state)
	var a authorization
	err := in.b.opts.Values.Update(ctx, key, signInTime, func(old []byte) ([]byte, error) {
		a = authorization{}
		if old == nil || !in.open(sealState, string(old), key, &a) || in.past(a.Expires) {
			return nil, errNotHere
		}
		if !same(a.Session, s.ID) || !s.signedInAt(a.Tenant, a.Issuer) || !s.is(a.Issuer, a.Subject) {
			return nil, errNotHere
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return &a, nil
}

// callback takes a browser back from an upstream's server.
func (in *signIns) callback(w http.ResponseWriter, r *http.Request, form url.Values) error {
	s := in.session(r)
	if s == nil {
		return errNoSession()
	}
	a, err := in.take(r.Context(), form.Get("state"), s)
	if errors.Is(err, errNotHere) {
		return &pageError{
			status: http.StatusBadRequest, title: "This sign-in is not known here",
			text: []string{"It was begun in another browser, has ended already, or was begun too long ago.", startAgain},
		}
	}
	if err != nil {
		return err
	}
	at, err := in.registered(r.Context(), a.Tenant, a.Alias)
	if err != nil {
		return noTenant(err)
	}
	if err := in.redeem(r.Context(), a, at, form); err != nil {
		in.log(a.Tenant, a.Alias, "authorization", "failed")
		return err
	}
	in.log(a.Tenant, a.Alias, "authorization", "done")
	in.connected(w, r, a.user(), a.Client)
	return nil
}

// redeem gets the token that an answer stands for, and keeps it: from the server and as
// the client that were recorded when the user was sent there, and from no others.
func (in *signIns) redeem(ctx context.Context, a *authorization, at *registered, form url.Values) error {
	changed := &pageError{
		status: http.StatusConflict, title: "Something was changed meanwhile",
		text: []string{"The registration of the upstream is not what you agreed to.", startAgain},
	}
	if a.Bound != boundTo(at.u) {
		return changed
	}
	server, err := in.b.serverOf(ctx, at.t, at.u, nil)
	if err != nil {
		return upstreamError(at, err)
	}
	if server.Issuer != a.Server || server.TokenEndpoint != a.Token {
		return changed
	}
	code, err := authorized(server, form)
	if err != nil {
		return err
	}
	c, err := in.b.clientOf(ctx, at.t, at.u, server)
	if err != nil {
		return upstreamError(at, err)
	}
	if c.ID != a.ClientID {
		return changed
	}
	exchange := url.Values{
		"grant_type": {grantCode}, "code": {code}, "redirect_uri": {in.b.redirectURI()}, "code_verifier": {a.Verifier},
	}
	if a.Resource != "" {
		exchange.Set("resource", a.Resource)
	}
	now := in.now()
	got, err := in.b.tokenFrom(ctx, server, c, exchange)
	if err != nil {
		return upstreamError(at, err)
	}
	t := &userToken{
		Bound: a.Bound, Issuer: a.Server, ClientID: a.ClientID, Access: got.Access, Refresh: got.Refresh,
		SignedIn: now, Obtained: now, Expires: got.Expires, Unsaid: got.Unsaid, Scopes: got.Scopes, Asked: a.Scopes,
	}
	if len(t.Scopes) == 0 {
		t.Scopes = a.Scopes // what is not said is what was asked for (RFC 6749, section 5.1)
	}
	if err := in.b.replaceToken(ctx, a.user(), t); err != nil {
		return err
	}
	return in.b.agree(ctx, a.user(), a.Bound, a.Client, now)
}
