package broker_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUsersSignIn has two users with accounts of their own at the upstream's server go
// all the way: each gets their own token, and nobody else's.
func TestUsersSignIn(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann, bob := r.person("ann-at-idp", "ann-at-travel"), r.person("bob-at-idp", "bob-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	bob.connect(rep.link("bob-at-idp", "editor"))
	for user, account := range map[string]string{"ann-at-idp": "ann-at-travel", "bob-at-idp": "bob-at-travel"} {
		if got := r.as.account(rep.token(user, "editor")); got != account {
			t.Errorf("%s acts as %q, want %q", user, got, account)
		}
	}
	if rep.source("ann-at-idp", "editor") != rep.source("ann-at-idp", "editor") {
		t.Error("one user of one client has two sources")
	}
	if rep.source("ann-at-idp", "editor") == rep.source("bob-at-idp", "editor") || rep.source("ann-at-idp", "editor") == rep.source("ann-at-idp", "other") {
		t.Error("two users, or two clients, have one source")
	}
	want := []string{"acme travel ann-at-idp editor", "acme travel bob-at-idp editor"}
	if diff := cmp.Diff(want, r.connected); diff != "" {
		t.Errorf("who was told to be connected (-want +got):\n%s", diff)
	}
	asked := r.as.asked[0]
	for name, want := range map[string]string{
		"client_id": "gateway-at-travel", "response_type": "code", "scope": "trips", "resource": "http://127.0.0.1:9/mcp",
		"redirect_uri": rep.site.URL + "/oauth/callback", "code_challenge_method": "S256",
	} {
		if got := asked.Get(name); got != want {
			t.Errorf("the upstream's server was asked with %s %q, want %q", name, got, want)
		}
	}
	asked = r.idp.asked[0]
	for name, want := range map[string]string{
		"client_id": "gateway-login", "scope": "openid profile", "redirect_uri": rep.site.URL + "/oauth/signed-in", "code_challenge_method": "S256", "prompt": "",
	} {
		if got := asked.Get(name); got != want {
			t.Errorf("the issuer was asked with %s %q, want %q", name, got, want)
		}
	}
	mustNotLog(t, r)
}

// mustNotLog looks for what no line of the log may hold.
func mustNotLog(t *testing.T, r *consentRig) {
	t.Helper()
	log := r.log.String()
	secrets := []string{"ann-at", "bob-at", "at-", "rt-", "ticket=", "code=", "state=", "secret of"}
	for _, s := range []*authServer{r.idp, r.as} {
		s.set(func() {
			for _, f := range s.posted {
				secrets = append(secrets, f.Get("code"), f.Get("code_verifier"), f.Get("refresh_token"))
			}
			for _, f := range s.asked {
				secrets = append(secrets, f.Get("state"), f.Get("nonce"))
			}
		})
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(log, secret) {
			t.Errorf("the log holds %q:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, "tenant=acme upstream=travel outcome=") {
		t.Errorf("the log does not tell what happened:\n%s", log)
	}
}

// TestStolenLink has a link of one user opened by another one.
func TestStolenLink(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	link := rep.link("ann-at-idp", "editor")
	mallory := r.person("mallory-at-idp", "mallory-at-travel")
	s := mallory.open(link)
	mustHave(t, s, http.StatusForbidden, "This link is for another user", "Sign in as another user")
	if strings.Contains(s.body, "ann-at") || strings.Contains(s.body, "mallory-at") || strings.Contains(s.body, "<form") {
		t.Errorf("the page names somebody, or has a form:\n%s", s.body)
	}
	// Neither does the form help, with a token of Mallory's own page.
	to, fields := mallory.open(rep.link("mallory-at-idp", "editor")).form(t)
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	fields.Set("ticket", u.Query().Get("ticket"))
	fields.Set("decision", "allow")
	mustHave(t, mallory.send(to, fields, nil), http.StatusForbidden, "This link is for another user")
	if len(r.as.asked) != 0 {
		t.Error("Mallory was sent to the upstream's server")
	}
	// Whoever is signed in as somebody else by chance can go on.
	again := linkNamed(t, s, "Sign in as another user")
	mallory.issuer = "ann-at-idp"
	mustHave(t, mallory.open(again), http.StatusOK, "<form")
	if got := r.idp.asked[len(r.idp.asked)-1].Get("prompt"); got != "login" {
		t.Errorf("the issuer was asked with prompt %q, want login", got)
	}
}

// linkNamed gives where the link with that text leads.
func linkNamed(t *testing.T, s *seen, name string) string {
	t.Helper()
	before, _, ok := strings.Cut(s.body, `">`+name+`</a>`)
	at := strings.LastIndex(before, `href="`)
	if !ok || at < 0 {
		t.Fatalf("no link %q:\n%s", name, s.body)
	}
	return strings.ReplaceAll(before[at+len(`href="`):], "&amp;", "&")
}

// TestCallbackElsewhere has the answer of the upstream's server arrive in another
// browser than the one that was sent there: an attacker may have brought it there to
// have a victim act with the attacker's account, or to get the victim's token.
func TestCallbackElsewhere(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	back := ann.agree(rep.link("ann-at-idp", "editor"), atCallback).url
	stranger := r.person("bob-at-idp", "bob-at-travel")
	mustHave(t, stranger.open(back), http.StatusForbidden, "You are not signed in here any more")
	stranger.open(rep.link("bob-at-idp", "editor")) // now the browser has a session
	mustHave(t, stranger.open(back), http.StatusBadRequest, "This sign-in is not known here")
	other := r.person("ann-at-idp", "ann-at-travel")
	other.open(rep.link("ann-at-idp", "editor"))
	mustHave(t, other.open(back), http.StatusBadRequest, "This sign-in is not known here")
	if n := len(r.as.posted); n != 0 {
		t.Errorf("the code was used %d times", n)
	}
	mustHave(t, ann.open(back), http.StatusOK, "<h1>Connected</h1>")
	mustHave(t, ann.open(back), http.StatusBadRequest, "This sign-in is not known here")
	if n := len(r.as.posted); n != 1 {
		t.Errorf("the code was used %d times, want once", n)
	}
}

// TestSignInElsewhere has the answer of the tenant's issuer arrive in another browser:
// nobody can be signed in as somebody else.
func TestSignInElsewhere(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	mallory, ann := r.person("mallory-at-idp", "m"), r.person("ann-at-idp", "a")
	atSignedIn := func(to string) bool { return strings.Contains(to, "/oauth/signed-in?") }
	back := mallory.open(rep.link("mallory-at-idp", "editor"), atSignedIn).url
	mustHave(t, ann.open(back), http.StatusBadRequest, "This sign-in is not known here")
	ann.open(rep.link("ann-at-idp", "editor"), atSignedIn)
	mustHave(t, ann.open(back), http.StatusBadRequest, "This sign-in is not known here")
	if n := len(r.idp.posted); n != 0 {
		t.Errorf("the code was used %d times", n)
	}
}

// TestAuthorizationResponse holds whose answers are used (RFC 9207), for both servers.
func TestAuthorizationResponse(t *testing.T) {
	const secret = "what-an-attacker-says"
	for _, tt := range []struct {
		name   string
		says   bool // authorization_response_iss_parameter_supported
		answer func(a url.Values)
		want   string // on the page
		shown  bool   // whether it shows what the server said
	}{
		{"right", true, nil, "", false},
		{"absent though it is said", true, func(a url.Values) { a.Del("iss") }, "not from the server that was asked", false},
		{"absent and not said", false, nil, "", false},
		{"right though it is not said", false, func(a url.Values) { a.Set("iss", "ISSUER") }, "", false},
		{"of another server", true, func(a url.Values) { a.Set("iss", "https://evil.example.com") }, "not from the server that was asked", false},
		{"of another server, and not said", false, func(a url.Values) { a.Set("iss", "https://evil.example.com") }, "not from the server that was asked", false},
		{"with a slash", true, func(a url.Values) { a.Set("iss", a.Get("iss")+"/") }, "not from the server that was asked", false},
		{"in capitals", true, func(a url.Values) { a.Set("iss", strings.Replace(a.Get("iss"), "http", "HTTP", 1)) }, "not from the server that was asked", false},
		{"empty", true, func(a url.Values) { a.Set("iss", "") }, "not from the server that was asked", false},
		{"twice", true, func(a url.Values) { a.Add("iss", a.Get("iss")) }, "cannot be understood", false},
		{"an error", true, func(a url.Values) { refused(a, secret) }, "did not go through", true},
		{"an error without iss", true, func(a url.Values) { refused(a, secret); a.Del("iss") }, "not from the server that was asked", false},
		{"an error of another server", false, func(a url.Values) { refused(a, secret); a.Set("iss", "https://evil.example.com") }, "not from the server that was asked", false},
		{"no code", true, func(a url.Values) { a.Del("code") }, "cannot be understood", false},
		{"two codes", true, func(a url.Values) { a.Add("code", "x") }, "cannot be understood", false},
		{"no state", true, func(a url.Values) { a.Del("state") }, "is not known here", false},
		{"another state", true, func(a url.Values) { a.Set("state", "x") }, "is not known here", false},
	} {
		for _, login := range []bool{false, true} {
			name := "upstream/" + tt.name
			if login {
				name = "login/" + tt.name
			}
			t.Run(name, func(t *testing.T) {
				r := newConsentRig(t)
				rep := r.replica()
				s := r.as
				if login {
					s = r.idp
				}
				s.iss = tt.says
				if tt.answer != nil {
					s.answer = func(a url.Values) {
						if tt.answer(a); a.Get("iss") == "ISSUER" {
							a.Set("iss", s.URL)
						}
					}
				}
				ann := r.person("ann-at-idp", "ann-at-travel")
				if tt.want == "" {
					ann.connect(rep.link("ann-at-idp", "editor"))
					return
				}
				page := ann.open(rep.link("ann-at-idp", "editor"))
				if !login {
					to, fields := page.form(t)
					fields.Set("decision", "allow")
					page = ann.send(to, fields, nil)
				}
				if !strings.Contains(page.body, tt.want) || page.status != http.StatusBadRequest {
					t.Errorf("%d, want a page with %q:\n%s", page.status, tt.want, page.body)
				}
				if got := strings.Contains(page.body, secret); got != tt.shown {
					t.Errorf("what the answer said is shown: %v, want %v\n%s", got, tt.shown, page.body)
				}
				if strings.Contains(page.body, "<b>") || strings.Contains(page.body, "\u202e") {
					t.Errorf("the page is made of what somebody else has said:\n%s", page.body)
				}
				if n := len(s.posted); n != 0 {
					t.Errorf("the token endpoint was asked %d times", n)
				}
				if _, err := rep.shown("ann-at-idp", "editor"); err == nil {
					t.Error("there is a token")
				}
			})
		}
	}
}

// refused makes an authorization response one of an error.
func refused(a url.Values, secret string) {
	a.Del("code")
	a.Set("error", "access_denied")
	a.Set("error_description", secret+"\u202e<b>"+strings.Repeat("x", 5000))
}

// TestMixUp has an upstream's server answer with the state and the issuer of its own,
// in the place of another upstream's: the code goes nowhere.
func TestMixUp(t *testing.T) {
	r := newConsentRig(t)
	evil := newAuthServer(t, r.clock.Now)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	back := ann.agree(rep.link("ann-at-idp", "editor"), atCallback).url
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("iss", evil.URL)
	u.RawQuery = q.Encode()
	mustHave(t, ann.open(u.String()), http.StatusBadRequest, "not from the server that was asked")
	// The state is used up: the right issuer does not help any more.
	mustHave(t, ann.open(back), http.StatusBadRequest, "is not known here")
	if len(evil.posted)+len(r.as.posted) != 0 {
		t.Error("the code was sent somewhere")
	}
	if slices.ContainsFunc(r.connected, func(string) bool { return true }) {
		t.Error("somebody is connected")
	}
}
