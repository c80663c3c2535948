package broker

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// connectionsPage shows what a user has let the gateway have.
type connectionsPage struct {
	page
	Tenant, Issuer string
	Connections    []connection
	Action, CSRF   string
}

type connection struct {
	Alias, Host, SignedIn string
	Scopes, Clients       []string
}

// aboutConnections is what the forms of the page are about.
const aboutConnections = "connections"

// connections shows the page to whoever signs in at an issuer of the tenant.
func (in *signIns) connections(w http.ResponseWriter, r *http.Request, form url.Values) error {
	if form.Get("tenant") == "" {
		return &pageError{
			status: http.StatusBadRequest, title: "Which tenant is it?",
			text: []string{"The address of this page ends with ?tenant= and the name of a tenant."},
		}
	}
	t, err := in.b.opts.Tenant(r.Context(), form.Get("tenant"))
	if err != nil {
		return noTenant(err)
	}
	is, err := in.chosen(t, form.Get("issuer"))
	if err != nil {
		return err
	}
	s := in.session(r)
	if s == nil || !s.signedInAt(t.Name, is.Issuer) {
		return in.startSignIn(r.Context(), w, t, is, nil, false)
	}
	p := &connectionsPage{page: page{Title: "What you have allowed"}, Tenant: t.Name, Issuer: is.Issuer, Action: in.site.root + revokePath}
	if p.CSRF, err = in.newCSRF(s, aboutConnections); err != nil {
		return err
	}
	for i := range t.Upstreams {
		u := &t.Upstreams[i]
		if u.Auth.Mode != tenant.CredentialUser {
			continue
		}
		rec, err := in.b.record(r.Context(), userKey{t.Name, u.Alias, s.Issuer, s.Subject}, boundTo(u))
		if err != nil {
			return err
		}
		if rec.token != nil || len(rec.consents.Clients) > 0 {
			p.Connections = append(p.Connections, shownConnection(u, &rec))
		}
	}
	in.pages.show(w, http.StatusOK, "connections", p)
	return nil
}

func shownConnection(u *tenant.Upstream, rec *userRecord) connection {
	c := connection{Alias: u.Alias, Host: hostOf(u.URL)}
	if t := rec.token; t != nil {
		c.SignedIn = t.SignedIn.UTC().Format("2 January 2006")
		for _, s := range t.Scopes {
			c.Scopes = append(c.Scopes, shown(s, maxShown))
		}
	}
	for _, one := range rec.consents.Clients {
		c.Clients = append(c.Clients, shownClient(one.Client))
	}
	return c
}

// chosen gives the issuer at which a user of a tenant signs in: the one that is named,
// or the only one. Where there are several the error asks which.
func (in *signIns) chosen(t *tenant.Tenant, issuer string) (*tenant.Issuer, error) {
	var logins []*tenant.Issuer
	for i := range t.Auth.Issuers {
		is := &t.Auth.Issuers[i]
		if is.Login != nil && (issuer == "" || is.Issuer == issuer) {
			logins = append(logins, is)
		}
	}
	switch len(logins) {
	case 0:
		return nil, noTenant(errNoLogin)
	case 1:
		return logins[0], nil
	}
	which := &pageError{status: http.StatusOK, title: "Where do you sign in?"}
	for _, is := range logins {
		which.links = append(which.links, pageLink{
			hostOf(is.Issuer), in.site.root + connectionsPath + "?" + url.Values{"tenant": {t.Name}, "issuer": {is.Issuer}}.Encode(),
		})
	}
	return nil, which
}

// revoke takes a user's token and consents for one upstream away.
func (in *signIns) revoke(w http.ResponseWriter, r *http.Request, form url.Values) error {
	s := in.session(r)
	name, issuer := form.Get("tenant"), form.Get("issuer")
	switch {
	case s == nil || !s.signedInAt(name, issuer):
		return errNoSession()
	case !in.checkCSRF(s, aboutConnections, form.Get("csrf")):
		in.log(name, "", "revocation", "forged form")
		return &pageError{status: http.StatusForbidden, title: "This form is not from here", text: []string{startAgain}}
	}
	at, err := in.registered(r.Context(), name, form.Get("alias"))
	if err != nil {
		return noTenant(err)
	}
	k := userKey{name, at.u.Alias, s.Issuer, s.Subject}
	rec, err := in.b.record(r.Context(), k, boundTo(at.u))
	if err != nil {
		return err
	}
	for _, kind := range []string{kindUserConsent, kindUserToken} {
		if err := in.b.opts.Vault.DeleteSecret(r.Context(), k.vaultKey(kind), tenant.Any); err != nil {
			return err
		}
	}
	in.forget(k)
	text := []string{"The gateway does not act for you at " + k.alias + " any more."}
	if rec.token != nil {
		if err := in.withdraw(r.Context(), at, rec.token); err != nil {
			in.b.opts.Logger.Warn("a token cannot be revoked at its server", "tenant", k.tenant, "upstream", k.alias, "error", err)
			text = append(text, "Its server could not be told: what it gave is deleted here, and ends there by itself.")
		}
	}
	if in.b.opts.Connected != nil {
		in.b.opts.Connected(r.Context(), k.tenant, k.alias, &tenant.Principal{Tenant: k.tenant, Issuer: k.issuer, Subject: k.subject})
	}
	in.log(k.tenant, k.alias, "revocation", "done")
	in.pages.show(w, http.StatusOK, "message", &messagePage{
		page: page{Title: "Withdrawn"}, Text: text,
		Links: []pageLink{{"See what you have allowed", in.site.root + connectionsPath + "?" + url.Values{"tenant": {name}, "issuer": {issuer}}.Encode()}},
	})
	return nil
}

// withdraw tells the server that gave a token that it is not used any more (RFC 7009),
// where the server takes that.
func (in *signIns) withdraw(ctx context.Context, at *registered, t *userToken) error {
	s, err := in.b.serverOf(ctx, at.t, at.u, nil)
	if err != nil {
		return err
	}
	if s.Issuer != t.Issuer || s.RevocationEndpoint == "" {
		return nil
	}
	c, err := in.b.clientOf(ctx, at.t, at.u, s)
	if err != nil {
		return err
	}
	if c.ID != t.ClientID {
		return nil
	}
	form := url.Values{"token": {t.Access}, "token_type_hint": {"access_token"}}
	if t.Refresh != "" { // the server ends the access token with it
		form = url.Values{"token": {t.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	req, err := c.request(ctx, s.RevocationEndpoint, form)
	if err != nil {
		return err
	}
	answer, err := in.b.ask(req, s.trust.allows(s.RevocationEndpoint))
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK {
		return errors.New("it does not revoke the token")
	}
	return nil
}
