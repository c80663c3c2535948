package auth_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// signedBy gives a good token of another key.
func (i *idp) signedBy(s *signer, changes object) string {
	return s.sign(object{"typ": "at+jwt"}, i.claims(changes))
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old, next := r.idp.key, newES256(t, "k2")
		r.mustAccept(t, r.idp.token(nil))
		if got := r.idp.count("/keys"); got != 1 {
			t.Fatalf("%d fetches of keys after one token", got)
		}
		r.mustRefuse(t, r.idp.signedBy(next, nil), "unknown_key")

		// A new key is known as soon as keys may be fetched again.
		r.idp.set(func(i *idp) { i.keys = []jose.JSONWebKey{next.public(), old.public()} })
		time.Sleep(10 * time.Second)
		r.mustAccept(t, r.idp.signedBy(next, nil))

		// One that is taken away is not used for long, though none that is unknown
		// is named.
		r.idp.set(func(i *idp) { i.keys = []jose.JSONWebKey{next.public()} })
		time.Sleep(11 * time.Minute)
		r.mustAccept(t, r.idp.signedBy(next, nil))
		synctest.Wait()
		r.mustRefuse(t, r.idp.signedBy(old, nil), "unknown_key")
	})
}

// After an idle hour a key that is gone is not used even once.
func TestRotationWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustAccept(t, r.idp.token(nil))
		r.idp.set(func(i *idp) { i.keys = nil; i.jwks = `{"keys":[]}` })
		time.Sleep(time.Hour)
		r.mustRefuse(t, r.idp.token(nil), "unknown_key")
	})
}

// A token that does not name its key may be signed with a new one.
func TestRotationWithoutNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustAccept(t, r.idp.token(nil))
		next := newES256(t, "")
		r.idp.set(func(i *idp) { i.keys = append(i.keys, next.public()) })
		time.Sleep(10 * time.Second)
		r.mustAccept(t, next.sign(object{"kid": nil}, r.idp.claims(nil)))
	})
}

// The keys move to another place.
func TestKeysMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.idp.set(func(i *idp) { i.document["jwks_uri"] = "https://idp.example.com/old" })
		r.mustRefuse(t, r.idp.token(nil), "unavailable")
		r.idp.set(func(i *idp) { i.document["jwks_uri"] = "https://idp.example.com/keys" })
		time.Sleep(10 * time.Second)
		r.mustAccept(t, r.idp.token(nil))
	})
}

// Tokens that name unknown keys cause a fetch each ten seconds, and none that is known
// waits for it.
func TestUnknownKeyFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustAccept(t, r.idp.token(nil))
		hold := make(chan struct{})
		r.idp.set(func(i *idp) { i.hold = hold })
		stranger := newES256(t, "")
		var flood sync.WaitGroup
		for second := range 60 {
			for n := range 10 {
				token := stranger.sign(object{"kid": strings.Repeat("k", 1+second) + string(rune('a'+n))}, r.idp.claims(nil))
				flood.Go(func() {
					if _, refusal := r.authenticate(t.Context(), token); refusal == nil {
						t.Error("a token of a stranger is accepted")
					}
				})
			}
			before := time.Now()
			r.mustAccept(t, r.idp.token(object{"jti": second}))
			if waited := time.Since(before); waited != 0 {
				t.Errorf("a known key waited %v for an unknown one", waited)
			}
			time.Sleep(time.Second)
		}
		close(hold)
		flood.Wait()
		if got := r.idp.count("/keys"); got > 8 {
			t.Errorf("%d fetches of keys in a minute", got)
		}
	})
}

// Tokens that can be verified with keys that are known are accepted for a day.
func TestIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustAccept(t, r.idp.token(nil))
		r.idp.set(func(i *idp) { i.down = true })
		for hours := range 23 {
			time.Sleep(time.Hour)
			before := time.Now()
			r.mustAccept(t, r.idp.token(nil))
			if waited := time.Since(before); waited > 2*time.Second {
				t.Errorf("after %d hours a token waited %v", hours, waited)
			}
		}
		refusal := r.mustRefuse(t, r.idp.signedBy(newES256(t, "k2"), nil), "unavailable")
		if refusal.Status != 503 || refusal.RetryAfter <= 0 || refusal.Challenge != "" {
			t.Errorf("refusal = %+v, want 503", refusal)
		}
		time.Sleep(2 * time.Hour)
		r.mustRefuse(t, r.idp.token(nil), "unavailable")
		r.idp.set(func(i *idp) { i.down = false })
		time.Sleep(10 * time.Second)
		r.mustAccept(t, r.idp.token(nil))
		if r.log.String() == "" {
			t.Error("nothing is logged")
		}
	})
}

// A black hole delays those who need it, and not for ever; nobody else.
func TestIssuerDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.mustAccept(t, r.idp.token(nil))
		r.idp.set(func(i *idp) { i.hold = make(chan struct{}) })
		time.Sleep(2 * time.Hour)
		waited := func(token, reason string) time.Duration {
			before := time.Now()
			if reason == "" {
				r.mustAccept(t, token)
			} else {
				r.mustRefuse(t, token, reason)
			}
			return time.Since(before)
		}
		if got := waited(r.idp.token(nil), ""); got != 2*time.Second {
			t.Errorf("the first token waited %v for newer keys, want 2s", got)
		}
		time.Sleep(10 * time.Second) // the fetch has failed
		if got := waited(r.idp.token(object{"jti": 2}), ""); got != 0 {
			t.Errorf("the next token waited %v", got)
		}
		if got := waited(r.idp.signedBy(newES256(t, "k2"), nil), "unavailable"); got != 5*time.Second {
			t.Errorf("an unknown key waited %v, want 5s", got)
		}
	})
}

// A client that leaves is no failure, and Close ends what is under way.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.idp.set(func(i *idp) { i.hold = make(chan struct{}) })
		ctx, cancel := contextWithTimeout(t, time.Second)
		defer cancel()
		if _, refusal := r.authenticate(ctx, r.idp.token(nil)); refusal == nil || refusal.Status != 503 {
			t.Errorf("refusal = %+v", refusal)
		}
		if got := r.failures(t, "unavailable"); got != 0 {
			t.Errorf("%v failures are counted", got)
		}
		before := time.Now()
		r.Close()
		if got := time.Since(before); got != 0 {
			t.Errorf("Close took %v", got)
		}
		r.mustRefuse(t, r.idp.token(nil), "unavailable")
	})
}

func TestVerifiedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		token := r.idp.token(object{"exp": time.Now().Add(7 * time.Minute).Unix()})
		first := r.mustAccept(t, token)
		if again := r.mustAccept(t, token); again != first {
			t.Error("a verified token is verified again")
		}

		// It is nothing at another endpoint, or to another tenant.
		req := r.request("Bearer " + token)
		req.Resource = "https://gateway.example.com/t/acme/s/readonly/mcp"
		if _, refusal := r.send(t.Context(), req); refusal == nil || refusal.Reason != "audience" {
			t.Errorf("at another endpoint: %+v", refusal)
		}
		other := *r.tenant
		other.Name = "other"
		req = r.request("Bearer " + token)
		req.Tenant, req.Resource = &other, "https://gateway.example.com/t/other/mcp"
		if _, refusal := r.send(t.Context(), req); refusal == nil || refusal.Reason != "audience" {
			t.Errorf("to another tenant: %+v", refusal)
		}

		time.Sleep(5 * time.Minute)
		if again := r.mustAccept(t, token); again == first {
			t.Error("a verified token is remembered for more than 5 minutes")
		}
		time.Sleep(2 * time.Minute)
		r.mustRefuse(t, token, "expired")
	})
}

// An issuer that is taken away or changed has an effect at once.
func TestIssuerChanges(t *testing.T) {
	tests := []struct {
		name string
		edit func(one *tenant.Tenant)
		want string // the reason; empty where the token stays good
	}{
		{"nothing", func(*tenant.Tenant) {}, ""},
		{"issuer taken away", func(one *tenant.Tenant) { one.Auth.Issuers = nil }, "issuer"},
		{"algorithms", issuer(func(is *tenant.Issuer) { is.Algorithms = []string{"RS256"} }), "algorithm"},
		{"tenant claim", issuer(func(is *tenant.Issuer) { is.TenantClaim = "org" }), "tenant"},
		{"scopes", func(one *tenant.Tenant) { one.Auth.Scopes = []string{"more"} }, "scope"},
		{"keys only", func(one *tenant.Tenant) { one.Auth.Mode = tenant.AuthKeys }, "malformed"},
		{"another issuer before it", func(one *tenant.Tenant) {
			one.Auth.Issuers = append([]tenant.Issuer{{Issuer: "https://x.example.com"}}, one.Auth.Issuers...)
		}, ""},
		{"the same issuer before it", func(one *tenant.Tenant) {
			one.Auth.Issuers = append([]tenant.Issuer{{Issuer: issuerURL, TenantClaim: "org"}}, one.Auth.Issuers...)
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			token := r.idp.token(nil)
			c := r.mustAccept(t, token)
			changed := *r.tenant
			changed.Auth.Issuers = append([]tenant.Issuer{}, r.tenant.Auth.Issuers...)
			tt.edit(&changed)
			before := r.tenant
			r.tenant = &changed
			if tt.want == "" {
				r.mustAccept(t, token)
			} else {
				r.mustRefuse(t, token, tt.want)
			}
			if got := r.Valid(t.Context(), &changed, c); got != (tt.want == "") {
				t.Errorf("Valid = %v", got)
			}
			if !r.Valid(t.Context(), before, c) {
				t.Error("not valid under the registration that it was verified under")
			}
		})
	}
}

func TestValidExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.mustAccept(t, r.idp.token(nil))
		time.Sleep(59 * time.Minute)
		if !r.Valid(t.Context(), r.tenant, c) {
			t.Error("not valid before it expires")
		}
		time.Sleep(time.Minute)
		if r.Valid(t.Context(), r.tenant, c) {
			t.Error("valid after it has expired")
		}
	})
}

func TestValidAnybody(t *testing.T) {
	r := newRig(t)
	open := &tenant.Tenant{Name: "acme"}
	c := r.mustAccept(t, r.idp.token(nil))
	nobody := &auth.Caller{Principal: tenant.Principal{Tenant: "acme"}}
	tests := []struct {
		name string
		t    *tenant.Tenant
		c    *auth.Caller
		want bool
	}{
		{"anybody where anybody may call", open, nobody, true},
		{"anybody where tokens are needed", r.tenant, nobody, false},
		{"somebody where anybody may call", open, c, false},
		{"anybody at another tenant", &tenant.Tenant{Name: "other"}, nobody, false},
		{"somebody at another tenant", &tenant.Tenant{Name: "other", Auth: r.tenant.Auth}, c, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := r.Valid(t.Context(), tt.t, tt.c); got != tt.want {
				t.Errorf("Valid = %v, want %v", got, tt.want)
			}
		})
	}
}
