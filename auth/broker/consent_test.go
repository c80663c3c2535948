package broker_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestTickets holds which links lead to the page.
func TestTickets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ticket func(r *consentRig, ticket string) string
		status int
	}{
		{"as it is", func(_ *consentRig, ticket string) string { return ticket }, http.StatusOK},
		{"just before its end", func(r *consentRig, ticket string) string {
			r.clock.advance(9*time.Minute + 50*time.Second)
			return ticket
		}, http.StatusOK},
		{"expired", func(r *consentRig, ticket string) string {
			r.clock.advance(10*time.Minute + time.Second)
			return ticket
		}, http.StatusBadRequest},
		{"none", func(*consentRig, string) string { return "" }, http.StatusBadRequest},
		{"tampered", func(_ *consentRig, ticket string) string { return flipped(ticket, len(ticket)/2) }, http.StatusBadRequest},
		{"cut off", func(_ *consentRig, ticket string) string { return ticket[:len(ticket)-4] }, http.StatusBadRequest},
		{"of another gateway", func(*consentRig, string) string {
			return seal.NewRandom().Seal("oauth-ticket", []byte(`{"tenant":"acme","alias":"travel","expires":99999999999}`), nil)
		}, http.StatusBadRequest},
		{"sealed for another purpose", func(r *consentRig, ticket string) string {
			plain, err := r.ring.Open("oauth-ticket", ticket, nil)
			if err != nil {
				r.t.Fatal(err)
			}
			return r.ring.Seal("oauth-session", plain, nil)
		}, http.StatusBadRequest},
		{"of an upstream that is gone", func(r *consentRig, ticket string) string {
			r.edit(func(t *tenant.Tenant) { t.Upstreams = nil })
			return ticket
		}, http.StatusNotFound},
		{"of an upstream with another mode", func(r *consentRig, ticket string) string {
			r.edit(func(t *tenant.Tenant) { t.Upstreams[0].Auth.Mode = tenant.CredentialNone })
			return ticket
		}, http.StatusNotFound},
		{"of an issuer that is gone", func(r *consentRig, ticket string) string {
			r.edit(func(t *tenant.Tenant) { t.Auth.Issuers = nil })
			return ticket
		}, http.StatusNotFound},
		{"twice", func(_ *consentRig, ticket string) string { return ticket + "&ticket=" + ticket }, http.StatusBadRequest},
		{"huge", func(*consentRig, string) string { return strings.Repeat("x", 20<<10) }, http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newConsentRig(t)
			rep := r.replica()
			before, ticket, _ := strings.Cut(rep.link("ann-at-idp", "editor"), "?ticket=")
			s := r.person("ann-at-idp", "ann-at-travel").open(before + "?ticket=" + tt.ticket(r, ticket))
			mustHave(t, s, tt.status)
			if got := strings.Contains(s.body, "<form"); got != (tt.status == http.StatusOK) {
				t.Errorf("the page has a form: %v", got)
			}
			if tt.status != http.StatusOK && len(r.idp.asked) != 0 {
				t.Error("the user was sent to the issuer")
			}
		})
	}
}

// flipped gives s with another letter at a place.
func flipped(s string, at int) string {
	letter := "A"
	if s[at] == 'A' {
		letter = "B"
	}
	return s[:at] + letter + s[at+1:]
}

// TestForgedForms holds which forms count as the user's answer.
func TestForgedForms(t *testing.T) {
	for _, tt := range []struct {
		name   string
		forge  func(r *consentRig, rep *replica, ann *person, fields url.Values, header http.Header)
		status int
	}{
		{"as it is", func(*consentRig, *replica, *person, url.Values, http.Header) {}, http.StatusOK},
		{"said to be from here", func(_ *consentRig, _ *replica, _ *person, _ url.Values, h http.Header) {
			h.Set("Sec-Fetch-Site", "same-origin")
		}, http.StatusOK},
		{"of another site", func(_ *consentRig, _ *replica, _ *person, _ url.Values, h http.Header) {
			h.Set("Sec-Fetch-Site", "cross-site")
		}, http.StatusForbidden},
		{"of another host of the site", func(_ *consentRig, _ *replica, _ *person, _ url.Values, h http.Header) {
			h.Set("Sec-Fetch-Site", "same-site")
		}, http.StatusForbidden},
		{"no token", func(_ *consentRig, _ *replica, _ *person, f url.Values, _ http.Header) { f.Del("csrf") }, http.StatusForbidden},
		{"a tampered token", func(_ *consentRig, _ *replica, _ *person, f url.Values, _ http.Header) {
			f.Set("csrf", flipped(f.Get("csrf"), 40))
		}, http.StatusForbidden},
		{"the ticket as the token", func(_ *consentRig, _ *replica, _ *person, f url.Values, _ http.Header) {
			f.Set("csrf", f.Get("ticket"))
		}, http.StatusForbidden},
		{"the token of another browser", func(r *consentRig, rep *replica, _ *person, f url.Values, _ http.Header) {
			_, other := r.person("ann-at-idp", "x").open(rep.site.URL + "/oauth/connect?ticket=" + f.Get("ticket")).form(r.t)
			f.Set("csrf", other.Get("csrf"))
		}, http.StatusForbidden},
		{"the token of another link", func(r *consentRig, rep *replica, ann *person, f url.Values, _ http.Header) {
			_, other := ann.open(rep.link("ann-at-idp", "other")).form(r.t)
			f.Set("csrf", other.Get("csrf"))
		}, http.StatusForbidden},
		{"the token of the other page", func(r *consentRig, rep *replica, ann *person, f url.Values, _ http.Header) {
			r.person("ann-at-idp", "ann-at-travel").connect(rep.link("ann-at-idp", "other"))
			_, other := ann.open(rep.site.URL + "/oauth/connections?tenant=acme").form(r.t)
			f.Set("csrf", other.Get("csrf"))
		}, http.StatusForbidden},
		{"after the session", func(r *consentRig, _ *replica, _ *person, _ url.Values, _ http.Header) {
			r.clock.advance(16 * time.Minute)
		}, http.StatusBadRequest},
		{"without a session", func(r *consentRig, _ *replica, ann *person, _ url.Values, _ http.Header) {
			ann.client.Jar = nil
		}, http.StatusForbidden},
		{"two decisions", func(_ *consentRig, _ *replica, _ *person, f url.Values, _ http.Header) { f.Add("decision", "deny") }, http.StatusBadRequest},
		{"too large", func(_ *consentRig, _ *replica, _ *person, f url.Values, _ http.Header) {
			f.Set("more", strings.Repeat("x", 20<<10))
		}, http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newConsentRig(t)
			rep := r.replica()
			ann := r.person("ann-at-idp", "ann-at-travel")
			to, fields := ann.open(rep.link("ann-at-idp", "editor")).form(t)
			fields.Set("decision", "allow")
			header := http.Header{}
			tt.forge(r, rep, ann, fields, header)
			before := len(r.as.asked)
			s := ann.send(to, fields, header)
			mustHave(t, s, tt.status)
			if done := len(r.as.asked) > before; done != (tt.status == http.StatusOK) {
				t.Errorf("the user was sent on: %v\n%s", done, s.body)
			}
		})
	}
}

// TestPlainRequests holds what no page is.
func TestPlainRequests(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/oauth/consent", http.StatusMethodNotAllowed},
		{http.MethodPost, "/oauth/connect", http.StatusMethodNotAllowed},
		{http.MethodHead, "/oauth/connect", http.StatusMethodNotAllowed},
		{http.MethodGet, "/oauth/revoke", http.StatusMethodNotAllowed},
		{http.MethodGet, "/oauth/other", http.StatusNotFound},
		{http.MethodGet, "/oauth/", http.StatusNotFound},
		{http.MethodGet, "/oauth/connect?%zz", http.StatusBadRequest},
		{http.MethodGet, "/oauth/connections?tenant=other", http.StatusNotFound},
		{http.MethodGet, "/oauth/connections", http.StatusBadRequest},
		{http.MethodGet, "/oauth/connections?tenant=acme&issuer=https://other.example.com", http.StatusNotFound},
		{http.MethodGet, "/oauth/callback?state=x&code=y", http.StatusForbidden},
		{http.MethodGet, "/oauth/signed-in?state=x&code=y", http.StatusBadRequest},
		{http.MethodGet, "/oauth/client.json", http.StatusOK},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			rep.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if w.Code != tt.status {
				t.Errorf("status %d, want %d\n%s", w.Code, tt.status, w.Body)
			}
			if tt.status != http.StatusOK {
				mustBeGuarded(t, w.Header(), w.Body.String())
			}
		})
	}
	w := httptest.NewRecorder()
	r.replica(func(o *broker.Options) { o.PublicURL = "" }).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oauth/connections?tenant=acme", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("without a public URL: status %d", w.Code)
	}
}

// mustBeGuarded looks at the headers of a page.
func mustBeGuarded(t *testing.T, h http.Header, body string) {
	t.Helper()
	style := ""
	if _, rest, ok := strings.Cut(body, "<style>"); ok {
		style, _, _ = strings.Cut(rest, "</style>")
	}
	sum := sha256.Sum256([]byte(style))
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"Referrer-Policy":         "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Content-Type": "text/html; charset=utf-8",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if strings.Contains(body, "<script") || strings.Contains(body, "src=") || strings.Contains(body, "@import") {
		t.Errorf("the page has a script, or something from elsewhere:\n%s", body)
	}
}

// TestPages holds what the pages on the way say, and the headers of each.
func TestPages(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	const client = "<script>alert(1)</script>\u202Eevil"
	ann := r.person("ann-at-idp", "ann-at-travel")
	s := ann.open(rep.link("ann-at-idp", client))
	mustHave(t, s, http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt;\uFFFDevil", "Books &lt;hotels&gt;", "travel at 127.0.0.1:9",
		"acme", "<dd>"+strings.TrimPrefix(r.as.URL, "http://")+"</dd>", "<code>trips</code>", `<html lang="en">`, "width=device-width", "prefers-color-scheme:dark")
	mustBeGuarded(t, s.header, s.body)
	to, fields := s.form(t)
	fields.Set("decision", "allow")
	var leaving string
	s = ann.send(to, fields, nil, func(next string) bool { leaving = next; return strings.HasPrefix(next, r.as.URL) })
	mustHave(t, s, http.StatusOK, "On to the sign-in", ">Continue</a>")
	mustBeGuarded(t, s.header, s.body)
	if got := linkNamed(t, s, "Continue"); got != leaving {
		t.Errorf("the page leads to %q, and its link to %q", leaving, got)
	}
	s = ann.open(leaving)
	mustHave(t, s, http.StatusOK, "<h1>Connected</h1>")
	mustBeGuarded(t, s.header, s.body)
	s = ann.open(linkNamed(t, s, "See what you have allowed"))
	mustHave(t, s, http.StatusOK, "&lt;script&gt;", "Withdraw travel")
	mustBeGuarded(t, s.header, s.body)
}

// TestNamesThatDeceive holds that a client is not shown as another one whose name looks
// the same.
func TestNamesThatDeceive(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	for client, want := range map[string]string{
		"https://chat.example.com/client.json":                      "https://chat.example.com/client.json<br><span class=\"soft\">of chat.example.com</span>",
		"https://ch\u0430t.example.com/client.json":                 "https://ch\uFFFDt.example.com/client.json</dd>",
		"https://chat.example.com\u2044a.evil.example/client.json":  "https://chat.example.com\uFFFDa.evil.example/client.json</dd>",
		"https://chat.example.com%E2%81%84a.evil.example/client.js": "a.evil.example/client.js</dd>",
	} {
		mustHave(t, ann.open(rep.link("ann-at-idp", client)), http.StatusOK, want)
	}
}

// TestCookies holds how browsers are to keep cookies.
func TestCookies(t *testing.T) {
	r := newConsentRig(t)
	for _, tt := range []struct {
		name, public, path string
		want               []string
	}{
		{"https", "https://gateway.example.com", "/oauth/connections?tenant=acme", []string{"__Host-causeway-sign-in", "Path=/", "Max-Age=600", "HttpOnly", "Secure", "SameSite=Lax"}},
		{"https with a path", "https://gateway.example.com/mcp-gateway/", "/mcp-gateway/oauth/connections?tenant=acme", []string{"__Host-causeway-sign-in", "Path=/", "Max-Age=600", "HttpOnly", "Secure", "SameSite=Lax"}},
		{"http", "http://127.0.0.1:8080/base", "/oauth/connections?tenant=acme", []string{"causeway-sign-in", "Path=/base/oauth/", "Max-Age=600", "HttpOnly", "SameSite=Lax"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rep := r.replica(func(o *broker.Options) { o.PublicURL = tt.public })
			w := httptest.NewRecorder()
			rep.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.path, nil))
			if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), r.idp.URL) {
				t.Fatalf("status %d to %q", w.Code, w.Header().Get("Location"))
			}
			parts := strings.Split(w.Header().Get("Set-Cookie"), "; ")
			parts[0], _, _ = strings.Cut(parts[0], "=")
			if diff := cmp.Diff(tt.want, parts); diff != "" {
				t.Errorf("cookie (-want +got):\n%s", diff)
			}
			back := strings.TrimSuffix(tt.public, "/") + "/oauth/signed-in"
			if to, err := url.Parse(w.Header().Get("Location")); err != nil || to.Query().Get("redirect_uri") != back {
				t.Errorf("the issuer sends the user back to %v, want %s", to, back)
			}
		})
	}
}

// TestConnections has a user see and take back what was allowed.
func TestConnections(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	other := r.replica(func(o *broker.Options) { o.PublicURL = rep.site.URL })
	ann, bob := r.person("ann-at-idp", "ann-at-travel"), r.person("bob-at-idp", "bob-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	ann.connect(rep.link("ann-at-idp", "chat"))
	bob.connect(rep.link("bob-at-idp", "editor"))
	other.token("ann-at-idp", "editor")
	page := rep.site.URL + "/oauth/connections?tenant=acme"
	// A browser that is not known signs in first, and then sees its user's only.
	s := r.person("ann-at-idp", "x").open(page)
	mustHave(t, s, http.StatusOK, "travel at 127.0.0.1:9", "<li>editor</li>", "<li>chat</li>", "<code>trips</code>", "You signed in on")
	s = bob.open(page)
	to, fields := s.form(t)
	if strings.Contains(s.body, "chat") {
		t.Errorf("Bob sees what Ann has allowed:\n%s", s.body)
	}
	forged := values("tenant", "acme", "issuer", r.idp.URL, "alias", "travel", "csrf", fields.Get("csrf"))
	mustHave(t, ann.send(to, forged, nil), http.StatusForbidden, "This form is not from here")
	mustHave(t, r.person("", "").send(to, forged, nil), http.StatusForbidden, "not signed in here any more")
	_, fields = ann.open(page).form(t)
	mustHave(t, ann.send(to, fields, nil), http.StatusOK, "Withdrawn", "does not act for you at travel any more")
	for _, client := range []string{"editor", "chat"} {
		if _, err := rep.shown("ann-at-idp", client); !asked(err) {
			t.Errorf("%s can act still: %v", client, err)
		}
	}
	r.clock.advance(11 * time.Second) // by then the other replica has to know it
	if _, err := other.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("another replica acts still: %v", err)
	}
	rep.token("bob-at-idp", "editor")
	if len(r.as.revoked) != 1 || !strings.HasPrefix(r.as.revoked[0], "rt-ann-at-travel-") {
		t.Errorf("the server was told to revoke %d tokens", len(r.as.revoked))
	}
	mustHave(t, ann.open(page), http.StatusOK, "Nothing is connected.")
	// Where a tenant has several issuers, the user says which.
	r.edit(func(t *tenant.Tenant) {
		t.Auth.Issuers = append(t.Auth.Issuers, tenant.Issuer{Issuer: "https://idp.example.org/two", Login: &tenant.Login{ClientID: "x"}})
	})
	mustHave(t, ann.open(page), http.StatusOK, "Where do you sign in?", ">idp.example.org</a>", ">"+strings.TrimPrefix(r.idp.URL, "http://")+"</a>")
}

// TestPendingSignIns bounds the sign-ins of one user that are under way: the oldest ends.
func TestPendingSignIns(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	var back []string
	for range 7 {
		back = append(back, ann.agree(rep.link("ann-at-idp", "editor"), atCallback).url)
	}
	for i, to := range back {
		want := "This sign-in is not known here"
		if i >= 2 {
			want = "<h1>Connected</h1>"
		}
		if s := ann.open(to); !strings.Contains(s.body, want) {
			t.Errorf("sign-in %d of 7: want %q:\n%s", i+1, want, s.body)
		}
	}
}

// TestSlowSignIn has a user take too long at the upstream's server.
func TestSlowSignIn(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	page := ann.open(rep.link("ann-at-idp", "editor"))
	r.clock.advance(9 * time.Minute) // of the link
	to, fields := page.form(t)
	fields.Set("decision", "allow")
	back := ann.send(to, fields, nil, atCallback).url
	r.clock.advance(9 * time.Minute) // of the sign-in; the browser is known still
	mustHave(t, ann.open(back), http.StatusOK, "<h1>Connected</h1>")
	r.edit(func(t *tenant.Tenant) { t.Upstreams[0].Auth.Resource = "https://moved.example.com" })
	back = ann.agree(rep.link("ann-at-idp", "editor"), atCallback).url
	r.clock.advance(11 * time.Minute)
	mustHave(t, ann.open(back), http.StatusBadRequest, "This sign-in is not known here")
	back = ann.agree(rep.link("ann-at-idp", "editor"), atCallback).url
	r.edit(func(t *tenant.Tenant) { t.Upstreams[0].URL = "http://127.0.0.1:10/mcp" })
	posted := len(r.as.posted)
	mustHave(t, ann.open(back), http.StatusConflict, "Something was changed meanwhile")
	if len(r.as.posted) != posted {
		t.Error("the code was used")
	}
}

// TestTooManyAtOnce bounds the requests for which other servers are asked, so that the
// slow servers of one tenant do not keep others from signing in.
func TestTooManyAtOnce(t *testing.T) {
	r := newConsentRig(t)
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	rep := r.replica(func(o *broker.Options) {
		o.Tenant = func(_ context.Context, name string) (*tenant.Tenant, error) {
			if name != "quick" {
				entered <- struct{}{}
				<-hold
			}
			return nil, tenant.ErrNotFound
		}
	})
	codes := make(chan int, 65)
	for i, name := range []string{"acme", "b", "c", "d"} {
		for range 16 {
			go func() { codes <- statusOf(rep, name) }()
		}
		for range 16 {
			<-entered
		}
		if got := statusOf(rep, name); got != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d, want 503", name, got)
		}
		want := http.StatusNotFound
		if i == 3 {
			want = http.StatusServiceUnavailable
		}
		if got := statusOf(rep, "quick"); got != want {
			t.Errorf("beside %s: status %d, want %d", name, got, want)
		}
	}
	close(hold)
	for range 64 {
		if got := <-codes; got != http.StatusNotFound {
			t.Errorf("status %d, want 404", got)
		}
	}
	if got := statusOf(rep, "acme"); got != http.StatusNotFound {
		t.Errorf("afterwards: status %d", got)
	}
}

func statusOf(rep *replica, name string) int {
	w := httptest.NewRecorder()
	rep.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/oauth/connections?tenant="+name, nil))
	_, _ = io.Copy(io.Discard, w.Body)
	return w.Code
}
