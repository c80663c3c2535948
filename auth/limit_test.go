package auth_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

const perMinute = 1000 // of newRig

// from sends a token from an address.
func (r *rig) from(t *testing.T, address, token string) *auth.Refusal {
	t.Helper()
	req := r.request("Bearer " + token)
	if address != "" {
		req.Source = netip.MustParseAddr(address)
	} else {
		req.Source = netip.Addr{}
	}
	_, refusal := r.send(t.Context(), req)
	return refusal
}

// mustLimit fails unless an address may not try any more.
func (r *rig) mustLimit(t *testing.T, address string) {
	t.Helper()
	got := r.from(t, address, r.idp.token(object{"jti": time.Now().String()}))
	if got == nil || got.Status != http.StatusTooManyRequests || got.Reason != "rate" || got.Challenge != "" || got.RetryAfter < time.Second {
		t.Errorf("from %s: %+v, want 429", address, got)
	}
}

func (r *rig) fail(t *testing.T, address string, times int, token string) {
	t.Helper()
	for n := range times {
		if got := r.from(t, address, token); got == nil || got.Status == http.StatusTooManyRequests {
			t.Fatalf("failure %d from %s: %+v", n, address, got)
		}
	}
}

func TestFailuresAreLimited(t *testing.T) {
	guess, _ := auth.NewKey(tenant.APIKey{})
	for name, token := range map[string]string{"keys": guess, "opaque tokens": opaque, "signatures": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if token == "" {
					token = newES256(t, "k1").sign(nil, r.idp.claims(nil))
				}
				good, key := r.idp.token(nil), must2(r.key(t, tenant.APIKey{Scopes: []string{"mcp"}}))
				r.mustAccept(t, good)
				r.mustAccept(t, key)
				r.fail(t, "192.0.2.1", perMinute-1, token)
				if got := r.from(t, "192.0.2.1", r.idp.token(object{"jti": 2})); got != nil {
					t.Errorf("refused for %s before the limit", got.Reason)
				}
				r.fail(t, "192.0.2.1", 1, token) // the success has not reset anything
				reads, fetches := r.keys.count(), r.idp.count("/keys")
				r.mustLimit(t, "192.0.2.1")
				if got := r.from(t, "192.0.2.1", guess); got == nil || got.Reason != "rate" {
					t.Errorf("guess: %+v", got)
				}
				if r.keys.count() != reads || r.idp.count("/keys") != fetches {
					t.Error("something was verified over the limit")
				}

				// Who is known goes on, behind the same address too.
				r.mustAccept(t, good)
				r.mustAccept(t, key)
				time.Sleep(6 * time.Second) // and is verified again
				r.fail(t, "192.0.2.1", 100, token)
				r.mustAccept(t, key)

				// So does everybody else.
				if got := r.from(t, "192.0.2.2", r.idp.token(object{"jti": 3})); got != nil {
					t.Errorf("another address is refused for %s", got.Reason)
				}
				r.mustLimit(t, "::ffff:192.0.2.1")
				time.Sleep(time.Minute)
				r.fail(t, "192.0.2.1", perMinute, token)
				r.mustLimit(t, "192.0.2.1")
			})
		})
	}
}

func must2[T, U any](v T, _ U) T { return v }

func TestSources(t *testing.T) {
	tests := []struct {
		name, one, other string
		same             bool
	}{
		{"one network", "2001:db8::1", "2001:db8::ffff:1:2:3", true},
		{"another network", "2001:db8::1", "2001:db8:0:1::1", false},
		{"a zone", "fe80::1%eth0", "fe80::2%eth1", true},
		{"mapped", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"neighbours", "192.0.2.1", "192.0.2.2", false},
		{"unknown", "", "", true},
		{"unknown and known", "", "192.0.2.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.fail(t, tt.one, perMinute, opaque)
				r.mustLimit(t, tt.one)
				if got := r.from(t, tt.other, r.idp.token(nil)); (got != nil) != tt.same {
					t.Errorf("from %s: %+v", tt.other, got)
				}
			})
		})
	}
}

// What is no attempt does not count.
func TestNoAttempts(t *testing.T) {
	tests := []struct {
		name string
		send func(r *rig) *auth.Request
	}{
		{"nothing shown", func(r *rig) *auth.Request { return r.request() }},
		{"another scheme", func(r *rig) *auth.Request { return r.request("Basic eDp5") }},
		{"malformed", func(r *rig) *auth.Request { return r.request("Bearer") }},
		{"expired", func(r *rig) *auth.Request { return r.request("Bearer " + r.idp.token(object{"exp": 1})) }},
		{"scope missing", func(r *rig) *auth.Request { return r.request("Bearer " + r.idp.token(object{"scope": "x"})) }},
		{"issuer down", func(r *rig) *auth.Request {
			r.idp.set(func(i *idp) { i.keys, i.jwks = nil, "x" })
			return r.request("Bearer " + r.idp.token(nil))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for range perMinute + 1 {
					if _, refusal := r.send(t.Context(), tt.send(r)); refusal == nil || refusal.Reason == "rate" {
						t.Fatalf("refusal = %+v", refusal)
					}
				}
			})
		})
	}
}

// A credential that was good is no guess when it ends.
func TestEndOfGoodToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIntrospecting(t, nil)
		r.mustAccept(t, opaque)
		r.idp.set(func(i *idp) { i.answers[opaque]["active"] = false })
		time.Sleep(time.Minute)
		r.mustRefuse(t, opaque, "inactive")
		r.fail(t, "192.0.2.1", perMinute, "x")
		r.mustLimit(t, "192.0.2.1")
	})
}

func TestOptions(t *testing.T) {
	_, err := auth.New(auth.Options{FailuresPerMinute: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("New without anything: %v", err)
	}
}
