package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// maxTicketScopes bounds the scopes that a link asks for, in bytes with their spaces: a
// ticket has to fit into a URL and a cookie.
const maxTicketScopes = 1 << 10

// ticket is what a link says. It is sealed, and the link alone gives nothing: whoever
// opens it has to be the user.
type ticket struct {
	Tenant  string   `json:"tenant"`
	Alias   string   `json:"alias"`
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Client  string   `json:"client"`           // which wants to act for the user
	Scopes  []string `json:"scopes,omitempty"` // besides those of the registration
	SignIn  bool     `json:"signIn,omitzero"`  // whether the token of that time is of no use
	Issued  int64    `json:"issued"`           // in milliseconds since 1970
	Expires int64    `json:"expires"`          // in seconds since 1970
	Nonce   string   `json:"nonce"`
}

func (tk *ticket) user() userKey { return userKey{tk.Tenant, tk.Alias, tk.Issuer, tk.Subject} }

// about is what the form of a ticket is about.
func (tk *ticket) about() string { return "consent " + tk.Nonce }

// link gives a URL of the page that a ticket leads to.
func (in *signIns) link(tk *ticket) (string, error) {
	now := in.now()
	tk.Nonce, tk.Issued, tk.Expires = rand.Text(), now.UnixMilli(), now.Add(ticketTime).Unix()
	if len(strings.Join(tk.Scopes, " ")) > maxTicketScopes {
		return "", errors.New("more scopes are wanted than a link has room for")
	}
	return in.linkTo(connectPath, tk)
}

var errNoSite = errors.New("users cannot sign in without a publicURL that is an https one, or of this machine")

func (in *signIns) linkTo(path string, tk *ticket) (string, error) {
	if in.site.root == "" {
		return "", errNoSite
	}
	sealed, err := in.seal(sealTicket, tk, "")
	if err != nil {
		return "", err
	}
	return in.site.root + path + "?ticket=" + sealed, nil
}

// opened gives what a ticket is about, with the issuer where its user signs in.
func (in *signIns) opened(ctx context.Context, sealed string) (*ticket, *registered, *tenant.Issuer, error) {
	tk := &ticket{}
	if !in.open(sealTicket, sealed, "", tk) || in.past(tk.Expires) {
		return nil, nil, nil, &pageError{
			status: http.StatusBadRequest, title: "This link is not good any more",
			text: []string{"Links are good for a few minutes.", "Go back to your application and try again there: it gives you a new one."},
		}
	}
	at, err := in.registered(ctx, tk.Tenant, tk.Alias)
	if err != nil {
		return nil, nil, nil, noTenant(err)
	}
	is, err := loginOf(at.t, tk.Issuer)
	if err != nil {
		return nil, nil, nil, noTenant(err)
	}
	return tk, at, is, nil
}

// registered gives an upstream where users sign in, as it is registered now.
func (in *signIns) registered(ctx context.Context, name, alias string) (*registered, error) {
	t, err := in.b.opts.Tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(t.Upstreams, func(u tenant.Upstream) bool {
		return u.Alias == alias && u.Auth.Mode == tenant.CredentialUser
	})
	if at < 0 {
		return nil, tenant.ErrNotFound
	}
	return &registered{t, &t.Upstreams[at]}, nil
}

// forAnother is shown to somebody who has opened the link of somebody else.
func (in *signIns) forAnother(tk *ticket) error {
	in.log(tk.Tenant, tk.Alias, "consent", "another user")
	again, err := in.linkTo(signInPath, tk)
	if err != nil {
		return err
	}
	return &pageError{
		status: http.StatusForbidden, title: "This link is for another user",
		text:  []string{"If somebody sent it to you, close this page: it would let their application act with your account.", "If it is your own, sign in as the user whom your application knows."},
		links: []pageLink{{"Sign in as another user", again}},
	}
}

// consentPage asks whether a client may act for the user.
type consentPage struct {
	page
	Client, ClientHost       string
	Alias, Host, Description string
	Tenant, Server           string
	Scopes                   []string
	SignIn                   bool
	Action, Ticket, CSRF     string
}

// connect shows a link's page to its user, and has others sign in first.
func (in *signIns) connect(w http.ResponseWriter, r *http.Request, form url.Values) error {
	tk, at, is, err := in.opened(r.Context(), form.Get("ticket"))
	if err != nil {
		return err
	}
	s := in.session(r)
	switch {
	case s == nil || !s.signedInAt(tk.Tenant, tk.Issuer):
		return in.startSignIn(r.Context(), w, at.t, is, tk, false)
	case !s.is(tk.Issuer, tk.Subject):
		return in.forAnother(tk)
	}
	wants, err := in.wants(r.Context(), tk, at)
	if err != nil {
		return err
	}
	token, err := in.newCSRF(s, tk.about())
	if err != nil {
		return err
	}
	p := &consentPage{
		page: page{Title: "Let an application use " + tk.Alias}, Client: shownClient(tk.Client), ClientHost: clientHost(tk.Client),
		Alias: tk.Alias, Host: hostOf(at.u.URL), Description: shown(at.u.Description, maxDetail), Tenant: tk.Tenant,
		SignIn: wants.signIn, Action: in.site.root + consentPath, Ticket: form.Get("ticket"), CSRF: token,
	}
	if wants.signIn {
		p.Server = hostOf(wants.server.AuthorizationEndpoint)
	}
	for _, scope := range wants.scopes {
		p.Scopes = append(p.Scopes, shown(scope, maxShown))
	}
	in.pages.show(w, http.StatusOK, "consent", p)
	return nil
}

// wanted is what a link needs: the user to agree, and perhaps to sign in.
type wanted struct {
	signIn bool
	scopes []string
	server *server // where to sign in
}

// wants finds out what a link needs now.
func (in *signIns) wants(ctx context.Context, tk *ticket, at *registered) (*wanted, error) {
	rec, err := in.b.record(ctx, tk.user(), boundTo(at.u))
	if err != nil {
		return nil, err
	}
	t := rec.token
	w := &wanted{}
	switch {
	case t == nil, !t.covers(tk.Scopes), t.Refresh == "" && !t.valid(in.now()):
		w.signIn = true
	case tk.SignIn:
		w.signIn = t.SignedIn.UnixMilli() <= tk.Issued // else the user has signed in since
	}
	if !w.signIn {
		w.scopes = t.Scopes
		return w, nil
	}
	s, err := in.b.serverOf(ctx, at.t, at.u, nil)
	if err != nil {
		return nil, upstreamError(at, err)
	}
	w.server = s
	// What is configured, else what the challenge wants, else what the resource offers
	// (basic/authorization, Scope Selection Strategy), and what was given before.
	base := at.u.Auth.Scopes
	if len(base) == 0 && len(tk.Scopes) == 0 {
		base = s.ScopesSupported
	}
	w.scopes = union(base, tk.Scopes)
	if t != nil {
		w.scopes = union(w.scopes, t.Asked)
		if len(tk.Scopes) > 0 { // they are wanted besides what there is
			w.scopes = union(w.scopes, t.Scopes)
		}
	}
	if s.OfflineAccess {
		w.scopes = union(w.scopes, []string{offlineAccess})
	}
	return w, nil
}

// offlineAccess asks for a refresh token (basic/authorization, Refresh Tokens).
const offlineAccess = "offline_access"

// consent takes the answer of the page.
func (in *signIns) consent(w http.ResponseWriter, r *http.Request, form url.Values) error {
	tk, at, _, err := in.opened(r.Context(), form.Get("ticket"))
	if err != nil {
		return err
	}
	s := in.session(r)
	switch {
	case s == nil || !s.signedInAt(tk.Tenant, tk.Issuer):
		return errNoSession()
	case !s.is(tk.Issuer, tk.Subject):
		return in.forAnother(tk)
	case !in.checkCSRF(s, tk.about(), form.Get("csrf")):
		in.log(tk.Tenant, tk.Alias, "consent", "forged form")
		return &pageError{status: http.StatusForbidden, title: "This form is not from here", text: []string{startAgain}}
	}
	if form.Get("decision") != "allow" {
		in.log(tk.Tenant, tk.Alias, "consent", "denied")
		in.pages.show(w, http.StatusOK, "message", &messagePage{page: page{Title: "You did not allow it"}, Text: []string{"Nothing was changed. You can close this page."}})
		return nil
	}
	wants, err := in.wants(r.Context(), tk, at)
	if err != nil {
		return err
	}
	if wants.signIn {
		return in.authorize(w, r, s, tk, at, wants)
	}
	if err := in.b.agree(r.Context(), tk.user(), boundTo(at.u), tk.Client, in.now()); err != nil {
		return err
	}
	in.connected(w, r, tk.user(), tk.Client)
	return nil
}

// connected tells everybody that a user has agreed to a client.
func (in *signIns) connected(w http.ResponseWriter, r *http.Request, k userKey, client string) {
	in.forget(k)
	in.log(k.tenant, k.alias, "consent", "allowed")
	if in.b.opts.Connected != nil {
		in.b.opts.Connected(r.Context(), k.tenant, k.alias, &tenant.Principal{Tenant: k.tenant, Issuer: k.issuer, Subject: k.subject, ClientID: client})
	}
	in.pages.show(w, http.StatusOK, "message", &messagePage{
		page: page{Title: "Connected"}, Text: []string{"Your application can use " + k.alias + " now. Go back to it; you can close this page."},
		Links: []pageLink{{"See what you have allowed", in.site.root + connectionsPath + "?" + url.Values{"tenant": {k.tenant}, "issuer": {k.issuer}}.Encode()}},
	})
}

func errNoSession() error {
	return &pageError{
		status: http.StatusForbidden, title: "You are not signed in here any more",
		text: []string{"This page was open for too long, or in another browser.", startAgain},
	}
}

func upstreamError(at *registered, err error) error {
	return &pageError{
		status: http.StatusBadGateway, title: "You cannot sign in there now",
		text: []string{"The upstream's authorization server could not be asked, or cannot be used.", startAgain},
		err:  fmt.Errorf("upstream %s of tenant %s: %w", at.u.Alias, at.t.Name, err),
	}
}

// shownClient gives what a client is called: nobody has checked what it says itself. An id
// is ASCII (RFC 6749, appendix A.1), so that letters of others are there to deceive.
func shownClient(id string) string {
	if id == "" {
		return "an application without a name"
	}
	return shown(strings.Map(func(r rune) rune {
		if r > '~' {
			return unicode.ReplacementChar
		}
		return r
	}, id), maxShown)
}

// clientHost gives the host of a client whose id is the URL of its metadata
// (basic/authorization/client-registration, Client ID Metadata Documents); empty for
// others.
func clientHost(id string) string {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "https" || u.Path == "" || u.Path == "/" {
		return ""
	}
	return hostOf(id)
}
