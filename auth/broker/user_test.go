package broker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// asked gives whether the user is asked for something.
func asked(err error) bool {
	var ask *broker.ConsentError
	return errors.As(err, &ask)
}

// refuse tells a source that the upstream has refused a token.
func (rep *replica) refuse(access string, status int, challenges ...string) (bool, error) {
	return rep.source("ann-at-idp", "editor").Refused(rep.r.t.Context(), http.Header{"Authorization": {"Bearer " + access}}, status, challenges)
}

// TestRefusedUserToken has the upstream refuse a token: it is refreshed once, and then
// its user is asked.
func TestRefusedUserToken(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	first := rep.token("ann-at-idp", "editor")
	again, err := rep.refuse(first, http.StatusUnauthorized)
	if !again || err != nil {
		t.Fatalf("after the first 401: %v, %v", again, err)
	}
	second := rep.token("ann-at-idp", "editor")
	if second == first {
		t.Fatal("the refused token is shown again")
	}
	if again, err = rep.refuse(first, http.StatusUnauthorized); !again || err != nil || r.as.refreshes() != 1 {
		t.Errorf("a late 401 for the first token: %v, %v", again, err)
	}
	if again, err = rep.refuse(second, http.StatusUnauthorized); again || !asked(err) {
		t.Errorf("after the second 401: %v, %v", again, err)
	}
	if _, err = rep.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("the refused token is shown again: %v", err)
	}
	if n := r.as.refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
	// The page has the user sign in, though there is a token that looks good.
	ann.connect(rep.link("ann-at-idp", "editor"))
	if third := rep.token("ann-at-idp", "editor"); third == second {
		t.Error("the user has signed in, and the refused token is shown")
	}
	if again, err = rep.refuse("somebody else's", http.StatusForbidden); again || err != nil {
		t.Errorf("a 403 without a challenge: %v, %v", again, err)
	}
}

// TestTokenWithoutEnd has a server give a token without saying when it ends, and no
// refresh token: it is shown until it is refused.
func TestTokenWithoutEnd(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	r.as.tokens = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte(`{"access_token":"endless","token_type":"bearer"}`))
		return true
	}
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	r.clock.advance(100 * time.Hour)
	if got := rep.token("ann-at-idp", "editor"); got != "endless" {
		t.Errorf("shown: %q", got)
	}
	if again, err := rep.refuse("endless", http.StatusUnauthorized); again || !asked(err) {
		t.Errorf("after a 401: %v, %v", again, err)
	}
	if _, err := rep.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("the refused token is shown again: %v", err)
	}
	r.clock.advance(2 * time.Minute) // the upstream may have been wrong
	rep.token("ann-at-idp", "editor")
	// Whoever has let the gateway have a token goes on where nobody can sign in any more.
	r.edit(func(t *tenant.Tenant) { t.Auth.Issuers[0].Login = nil })
	rep.token("ann-at-idp", "editor")
}

// TestStepUp has the upstream want more scopes than the user has let the gateway have.
func TestStepUp(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	access := rep.token("ann-at-idp", "editor")
	const challenge = `Bearer error="insufficient_scope", scope="pay refund"`
	again, err := rep.refuse(access, http.StatusForbidden, challenge)
	if again {
		t.Error("the same token is tried again")
	}
	s := ann.open(linkOf(t, err))
	mustHave(t, s, http.StatusOK, "<code>trips</code>", "<code>pay</code>", "<code>refund</code>")
	ann.connect(linkOf(t, err))
	if got := r.as.asked[len(r.as.asked)-1].Get("scope"); got != "trips pay refund" {
		t.Errorf("the user was asked for %q", got)
	}
	wider := rep.token("ann-at-idp", "editor")
	if again, err = rep.refuse(access, http.StatusForbidden, challenge); !again || err != nil {
		t.Errorf("a late 403 for the first token: %v, %v", again, err)
	}
	if again, err = rep.refuse(wider, http.StatusForbidden, challenge); again || err != nil {
		t.Errorf("the user is asked again for what was given: %v, %v", again, err)
	}
	if again, err = rep.refuse(wider, http.StatusForbidden, `Bearer error="invalid_request"`); again || err != nil {
		t.Errorf("a 403 of another kind: %v, %v", again, err)
	}
	var manyScopes string
	for i := range 200 {
		manyScopes += fmt.Sprintf("scope-%d ", i)
	}
	long := `Bearer error="insufficient_scope", scope="` + manyScopes + `"`
	if again, err = rep.refuse(wider, http.StatusForbidden, long); again || err == nil || asked(err) {
		t.Errorf("with more scopes than a link has room for: %v, %v", again, err)
	}
}

// TestStepUpWithManyScopes has a user with more scopes than a link has room for asked for
// one more.
func TestStepUpWithManyScopes(t *testing.T) {
	r := newConsentRig(t)
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("https://scopes.example.com/auth/%d", i))
	}
	r.edit(func(t *tenant.Tenant) { t.Upstreams[0].Auth.Scopes = many })
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	r.edit(func(t *tenant.Tenant) { t.Upstreams[0].Auth.Scopes = nil }) // what was given is kept
	_, err := rep.refuse(rep.token("ann-at-idp", "editor"), http.StatusForbidden, `Bearer error="insufficient_scope", scope="pay"`)
	ann.connect(linkOf(t, err))
	asked := strings.Fields(r.as.asked[len(r.as.asked)-1].Get("scope"))
	slices.Sort(asked)
	want := slices.Sorted(slices.Values(append(many, "pay")))
	if !slices.Equal(asked, want) {
		t.Errorf("the user was asked for %v", asked)
	}
}

// TestConsentPerClient has clients use a token that the user has let another one use.
func TestConsentPerClient(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	access := rep.token("ann-at-idp", "editor")
	s := ann.open(rep.link("ann-at-idp", "https://chat.example.com/client.json"))
	mustHave(t, s, http.StatusOK, "You are signed in at travel already", "of chat.example.com", "https://chat.example.com/client.json", "acme", "travel at 127.0.0.1:9")
	if strings.Contains(s.body, "You sign in at") {
		t.Errorf("the page sends the user to the server again:\n%s", s.body)
	}
	ann.connect(rep.link("ann-at-idp", "https://chat.example.com/client.json"))
	if len(r.as.asked) != 1 {
		t.Error("the user had to sign in at the upstream's server again")
	}
	for _, client := range []string{"editor", "https://chat.example.com/client.json"} {
		if rep.token("ann-at-idp", client) != access {
			t.Errorf("%s uses another token", client)
		}
	}
	for _, who := range [][2]string{{"ann-at-idp", "other"}, {"ann-at-idp", ""}, {"bob-at-idp", "editor"}, {"", "editor"}} {
		if _, err := rep.shown(who[0], who[1]); !asked(err) {
			t.Errorf("%q with %q: %v", who[0], who[1], err)
		}
	}
	// It is remembered, also by others.
	if other := r.replica(); other.token("ann-at-idp", "editor") != access {
		t.Error("another replica uses another token")
	}
	// And not for another place than the user has agreed to.
	r.edit(func(t *tenant.Tenant) { t.Upstreams[0].URL = "http://127.0.0.1:10/mcp" })
	if _, err := rep.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("the token is shown to another server than it is for: %v", err)
	}
}

// TestDenied has the user not agree.
func TestDenied(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	to, fields := ann.open(rep.link("ann-at-idp", "editor")).form(t)
	fields.Set("decision", "deny")
	mustHave(t, ann.send(to, fields, nil), http.StatusOK, "You did not allow it")
	if _, err := rep.shown("ann-at-idp", "editor"); !asked(err) || len(r.as.asked) != 0 {
		t.Errorf("something was done nevertheless: %v", err)
	}
}

// TestNobodyToAsk holds what callers are told where users cannot sign in.
func TestNobodyToAsk(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(t *tenant.Tenant)
		opts func(o *broker.Options)
		who  *tenant.Principal
		want string
	}{
		{"no login", func(t *tenant.Tenant) { t.Auth.Issuers[0].Login = nil }, nil, nil, "has no login configured"},
		{"another issuer", nil, nil, &tenant.Principal{Tenant: "acme", Issuer: "https://other.example.com", Subject: "x"}, "has no login configured"},
		{"an API key", nil, nil, &tenant.Principal{Tenant: "acme", Subject: "robot"}, "is no user of an issuer"},
		{"no public URL", nil, func(o *broker.Options) { o.PublicURL = "" }, nil, "without a publicURL"},
		{"a public URL without TLS", nil, func(o *broker.Options) { o.PublicURL = "http://gateway.example.com" }, nil, "without a publicURL that is an https one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newConsentRig(t)
			if tt.edit != nil {
				r.edit(tt.edit)
			}
			opts := []func(*broker.Options){}
			if tt.opts != nil {
				opts = append(opts, tt.opts)
			}
			rep := r.replica(opts...)
			who := tt.who
			if who == nil {
				who = r.user("ann-at-idp", "editor")
			}
			reg := r.registration()
			_, err := rep.Source(reg, &reg.Upstreams[0], who).Credential(t.Context())
			if err == nil || asked(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestVaultValues holds that what is kept is sealed, to its place.
func TestVaultValues(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	r.person("ann-at-idp", "ann-at-travel").connect(rep.link("ann-at-idp", "editor"))
	access := rep.token("ann-at-idp", "editor")
	all, err := r.vault.Secrets(t.Context(), tenant.VaultKey{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, v := range all {
		kinds = append(kinds, v.Key.Kind)
		plain, err := r.ring.Open(broker.VaultPurpose, string(v.Sealed), broker.VaultBinding(v.Key))
		if err != nil {
			t.Errorf("%s cannot be opened: %v", v.Key.Kind, err)
		}
		if strings.Contains(v.Key.Name+string(v.Sealed), "ann-at") || v.Key.Kind == "user_token" && !strings.Contains(string(plain), access) {
			t.Errorf("%s is not what it should be", v.Key.Kind)
		}
		// Somebody who may write the vault puts the value where another user's is.
		other := v.Key
		other.Alias = "ledger"
		if _, err := r.ring.Open(broker.VaultPurpose, string(v.Sealed), broker.VaultBinding(other)); err == nil {
			t.Errorf("%s can be opened as another's", v.Key.Kind)
		}
	}
	if diff := cmp.Diff([]string{"user_consent", "user_token"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	// A value that cannot be opened is as none, and can be replaced.
	for _, v := range all {
		if _, err := r.vault.PutSecret(t.Context(), v.Key, []byte("of another ring"), v.Revision); err != nil {
			t.Fatal(err)
		}
	}
	fresh := r.replica()
	r.person("ann-at-idp", "ann-at-travel").connect(fresh.link("ann-at-idp", "editor"))
	fresh.token("ann-at-idp", "editor")
}

// values makes a query of pairs.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}
