package broker

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// Times of sign-ins.
const (
	ticketTime  = 10 * time.Minute // a link may be used
	signInTime  = 10 * time.Minute // for signing in at an issuer, and as long at an upstream's server
	sessionTime = 15 * time.Minute // a browser is known; at least signInTime after each consent
)

// Purposes of what is sealed for browsers and clients.
const (
	sealTicket  = "oauth-ticket"
	sealSession = "oauth-session"
	sealSignIn  = "oauth-sign-in"
	sealCSRF    = "oauth-csrf"
	sealState   = "oauth-state"
)

// Names of cookies, without __Host-.
const (
	sessionCookie = "causeway-user"
	signInCookie  = "causeway-sign-in"
)

// maxCookie bounds a cookie's value in bytes: browsers take 4096 for all of a cookie.
const maxCookie = 3900

// browser is one that is known: somebody has signed in there at a tenant's issuer.
type browser struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Expires int64  `json:"expires"` // in seconds since 1970
}

// signedInAt tells whether the session is for a tenant and issuer.
func (s *browser) signedInAt(tenant, issuer string) bool {
	return same(s.Tenant, tenant) && same(s.Issuer, issuer)
}

// is tells whether the session is that of a user. All is compared, whatever differs.
func (s *browser) is(issuer, subject string) bool {
	i, u := same(s.Issuer, issuer), same(s.Subject, subject)
	return i && u
}

// cookieName gives the full name of a cookie. __Host- keeps other hosts of the domain
// from setting it; browsers know it for secure ones only.
func (s *site) cookieName(name string) string {
	if s.secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for a time; 0 takes it away.
func (s *site) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: s.path + "/oauth/", MaxAge: int(life / time.Second),
		Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if s.secure {
		c.Path = "/" // __Host- wants it
	}
	if life <= 0 {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// seal seals a value for a purpose.
func (in *signIns) seal(purpose string, value any, binding string) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return in.b.opts.Ring.Seal(purpose, plain, []byte(binding)), nil
}

// open undoes seal; false is all that is told of what cannot be opened.
func (in *signIns) open(purpose, sealed, binding string, value any) bool {
	plain, err := in.b.opts.Ring.Open(purpose, sealed, []byte(binding))
	return err == nil && json.Unmarshal(plain, value) == nil
}

// past tells whether a time is over.
func (in *signIns) past(seconds int64) bool { return in.now().Unix() >= seconds }

// session gives the session of a browser; nil where it has none that is good.
func (in *signIns) session(r *http.Request) *browser {
	c, err := r.Cookie(in.site.cookieName(sessionCookie))
	if err != nil {
		return nil
	}
	s := &browser{}
	if !in.open(sealSession, c.Value, "", s) || in.past(s.Expires) {
		return nil
	}
	return s
}

// setSession makes the browser one that is known, from now on for sessionTime.
func (in *signIns) setSession(w http.ResponseWriter, s browser) error {
	s.Expires = in.now().Add(sessionTime).Unix()
	value, err := in.seal(sealSession, &s, "")
	if err != nil {
		return err
	}
	if len(value) > maxCookie {
		return errTooLong
	}
	in.site.setCookie(w, sessionCookie, value, sessionTime)
	return nil
}

// csrf is what a form proves by: that it was made for this session, and for what it is
// about.
type csrf struct {
	Expires int64 `json:"expires"`
}

// newCSRF gives the token of a form.
func (in *signIns) newCSRF(s *browser, about string) (string, error) {
	return in.seal(sealCSRF, &csrf{in.now().Add(sessionTime).Unix()}, digest(s.ID, about))
}

// checkCSRF tells whether a form has the token of this session, about the same.
func (in *signIns) checkCSRF(s *browser, about, token string) bool {
	var c csrf
	return in.open(sealCSRF, token, digest(s.ID, about), &c) && !in.past(c.Expires)
}
