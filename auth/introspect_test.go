package auth_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

const opaque = "qZ7xVw0PmKd83hhTz"

// newIntrospecting makes a rig whose issuer knows the opaque token, and says claims
// about it.
func newIntrospecting(t *testing.T, claims object) *rig {
	t.Helper()
	r := newRig(t, issuer(func(is *tenant.Issuer) {
		is.Introspection = &tenant.Introspection{ClientID: "cause:way", ClientSecret: tenant.Secret{Env: "S&T"}}
	}))
	answer := r.idp.claims(claims)
	if _, ok := answer["active"]; !ok {
		answer["active"] = true
	}
	r.idp.answers[opaque] = answer
	return r
}

func TestIntrospection(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name   string
		claims object
		want   string // the reason; empty where it is accepted
	}{
		{"good", nil, ""},
		{"without iss", object{"iss": nil}, ""},
		{"bearer", object{"token_type": "Bearer"}, ""},
		{"a client", object{"sub": nil}, ""},
		{"not active", object{"active": false}, "inactive"},
		{"active in a string", object{"active": "true"}, "unavailable"},
		{"active null", object{"active": []int{}}, "unavailable"},
		{"another issuer's", object{"iss": "https://x.example.com"}, "issuer"},
		{"no audience", object{"aud": nil}, "audience"},
		{"wrong audience", object{"aud": "https://x.example.com"}, "audience"},
		{"no expiry", object{"exp": nil}, "claims"},
		{"expired", object{"exp": now.Add(-time.Second).Unix()}, "expired"},
		{"early", object{"nbf": now.Add(time.Minute).Unix()}, "early"},
		{"bound", object{"cnf": object{"jkt": "x"}}, "bound"},
		{"DPoP", object{"token_type": "dpop"}, "bound"},
		{"no subject at all", object{"sub": nil, "client_id": nil}, "claims"},
		{"no scope", object{"scope": "x"}, "scope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newIntrospecting(t, tt.claims)
			if tt.want != "" {
				r.mustRefuse(t, opaque, tt.want)
				mustNotTell(t, r, []string{opaque}, "")
				return
			}
			want := tenant.Principal{Tenant: "acme", Issuer: issuerURL, Subject: "alice-4f2b9c", ClientID: "editor-77ac", Scopes: []string{"mcp"}}
			if tt.name == "a client" {
				want.Subject = want.ClientID
			}
			if diff := cmp.Diff(want, r.mustAccept(t, opaque).Principal); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
			if r.idp.user != "cause%3Away|s%3AS%26T" {
				t.Errorf("asked as %q, want the client's credentials as RFC 6749 escapes them", r.idp.user)
			}
		})
	}
}

func TestIntrospectionAnswers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"nothing", 200, "", "unavailable"},
		{"empty object", 200, "{}", "unavailable"},
		{"list", 200, "[]", "unavailable"},
		{"active twice", 200, `{"active":false,"active":true}`, "unavailable"},
		{"Active", 200, `{"Active":true}`, "unavailable"},
		{"too large", 200, `{"active":true,"x":"` + strings.Repeat("x", 600<<10) + `"}`, "unavailable"},
		{"our credentials are wrong", 401, `{"error":"invalid_client"}`, "unavailable"},
		{"down", 503, `{"active":true}`, "unavailable"},
		{"echo of the token", 500, opaque, "unavailable"},
		{"least", 200, `{"active":false}`, "inactive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newIntrospecting(t, nil)
			r.idp.reply = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}
			r.mustRefuse(t, opaque, tt.want)
			mustNotTell(t, r, []string{opaque, "s:S&T-------"}, "")
		})
	}
}

// An answer is used for a minute, never past the token's end.
func TestIntrospectionIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIntrospecting(t, object{"exp": time.Now().Add(90 * time.Second).Unix()})
		for range 3 {
			r.mustAccept(t, opaque)
		}
		if got := r.idp.count("/introspect"); got != 1 {
			t.Errorf("asked %d times for three requests", got)
		}
		time.Sleep(59 * time.Second)
		r.idp.set(func(i *idp) { i.down = true })
		r.mustAccept(t, opaque)
		time.Sleep(time.Second)
		if refusal := r.mustRefuse(t, opaque, "unavailable"); refusal.Status != 503 || refusal.RetryAfter == 0 {
			t.Errorf("refusal = %+v", refusal)
		}
		asked := r.idp.count("/introspect")
		for range 100 {
			r.mustRefuse(t, opaque, "unavailable")
		}
		if got := r.idp.count("/introspect"); got != asked {
			t.Errorf("asked %d times more within a second", got-asked)
		}
		r.idp.set(func(i *idp) { i.down = false })
		time.Sleep(time.Second)
		r.mustAccept(t, opaque)
		time.Sleep(29 * time.Second)
		r.mustRefuse(t, opaque, "expired")
	})
}

// That a token is not valid is remembered for ten seconds, and one that is revoked is
// found out within a minute.
func TestIntrospectionOfInactive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIntrospecting(t, object{"active": false})
		r.mustRefuse(t, opaque, "inactive")
		r.idp.set(func(i *idp) { i.answers[opaque]["active"] = true })
		time.Sleep(9 * time.Second)
		r.mustRefuse(t, opaque, "inactive")
		if got := r.idp.count("/introspect"); got != 1 {
			t.Errorf("asked %d times", got)
		}
		time.Sleep(time.Second)
		r.mustAccept(t, opaque)
		r.idp.set(func(i *idp) { i.answers[opaque]["active"] = false })
		time.Sleep(time.Minute)
		r.mustRefuse(t, opaque, "inactive")
	})
}

// Requests with one token at the same time are one question, also when the first of
// them is gone; and there are not too many questions.
func TestIntrospectionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIntrospecting(t, nil)
		hold := make(chan struct{})
		r.idp.set(func(i *idp) { i.hold = hold })
		var all sync.WaitGroup
		ctx, cancel := contextWithTimeout(t, time.Second)
		defer cancel()
		all.Go(func() {
			if _, refusal := r.authenticate(ctx, opaque); refusal == nil {
				t.Error("the first one was not gone")
			}
		})
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if _, refusal := r.authenticate(t.Context(), opaque); refusal != nil {
					t.Errorf("refused for %s", refusal.Reason)
				}
			})
		}
		time.Sleep(2 * time.Second)
		close(hold)
		all.Wait()
		if got := r.idp.count("/introspect"); got != 1 {
			t.Errorf("asked %d times for one token", got)
		}

		r.idp.set(func(i *idp) { i.hold = make(chan struct{}) })
		for n := range 40 {
			all.Go(func() { _, _ = r.authenticate(t.Context(), strings.Repeat("x", n+1)) })
		}
		all.Wait()
		if got := r.idp.count("/introspect"); got != 1+32 {
			t.Errorf("asked %d times at once, want 32", got-1)
		}
	})
}

// A token that does not say whose it is is not shown to several issuers.
func TestIntrospectionBySeveral(t *testing.T) {
	r := newRig(t, func(one *tenant.Tenant) {
		in := &tenant.Introspection{URL: "https://idp.example.com/introspect", ClientID: "causeway"}
		one.Auth.Issuers = []tenant.Issuer{{Issuer: issuerURL, Introspection: in}, {Issuer: "https://two.example.com", Introspection: in}}
	})
	r.mustRefuse(t, opaque, "malformed")
	if len(r.idp.asked) != 0 || !strings.Contains(r.log.String(), "several issuers") {
		t.Errorf("asked %v; log:\n%s", r.idp.asked, r.log)
	}
}
