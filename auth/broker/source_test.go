package broker

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

func TestOptionsFaults(t *testing.T) {
	_, err := New(Options{PublicURL: "ftp://x?y"})
	if err == nil {
		t.Fatal("no fault")
	}
	for _, name := range []string{"Tenant", "Vault", "Values", "Leases", "Ring", "Secrets", "Client", "Logger", "Registerer", "PublicURL"} {
		if !strings.Contains(err.Error(), name+" ") {
			t.Errorf("%q does not name %s", err, name)
		}
	}
}

// TestSourceIdentity holds who shares a source, since sources are compared.
func TestSourceIdentity(t *testing.T) {
	s := newStage(t, tenant.Credential{Mode: tenant.CredentialExchange})
	other, changed := *s.u, *s.u
	other.ManagedBy, changed.Auth.Audience = tenant.ManagedByFile, "x"
	a := s.source(ann())
	tests := []struct {
		name string
		got  Source
		same bool
	}{
		{"the same user", s.source(ann()), true},
		{"another snapshot of the same", s.Source(&tenant.Tenant{Name: "acme", Revision: 7}, new(*s.u), ann()), true},
		{"another user", s.source(bob()), false},
		{"nobody", s.source(nil), false},
		{"no user", s.source(&tenant.Principal{Tenant: "acme"}), false},
		{"another tenant", s.Source(&tenant.Tenant{Name: "other"}, s.u, ann()), false},
		{"another keeper of the registration", s.Source(s.t, &other, ann()), false},
		{"another configuration", s.Source(s.t, &changed, ann()), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if (tt.got == a) != tt.same {
				t.Errorf("the same source: %v, want %v", tt.got == a, tt.same)
			}
		})
	}
	s.Forget("other")
	if s.source(ann()) != a {
		t.Error("another tenant's sources were forgotten")
	}
	if s.Forget("acme"); s.source(ann()) == a {
		t.Error("a source was not forgotten")
	}
	if _, err := s.source(nil).Credential(t.Context()); err == nil {
		t.Error("nobody has a credential")
	}
}

func TestNoSource(t *testing.T) {
	for _, mode := range []tenant.CredentialMode{"", tenant.CredentialNone, tenant.CredentialForward} {
		if got := newStage(t, tenant.Credential{Mode: mode}).source(ann()); got != nil {
			t.Errorf("%q has a source", mode)
		}
	}
}

// TestSourcesAreBounded holds that users do not cost memory without end, whatever the
// size of their tokens.
func TestSourcesAreBounded(t *testing.T) {
	s := newStage(t, tenant.Credential{Mode: tenant.CredentialExchange})
	s.u.Version = "v"
	kept, first := s.source(ann()), s.source(bob())
	who, hour := ann(), time.Now().Add(time.Hour)
	huge := strings.Repeat("x", maxToken)
	const most = maxSources / (sourceBytes + maxToken)
	for n := range 2 * most {
		who.Subject = fmt.Sprint("user", n)
		s.user(who).Take(huge, hour)
		if n%100 == 0 {
			s.source(ann())
		}
	}
	if got := s.sources.Len(); got > most+10 || got < most-10 {
		t.Errorf("%d sources are kept, want about %d", got, most)
	}
	if s.source(ann()) != kept || s.source(bob()) == first {
		t.Error("it is not the one used last that stays")
	}
}

func TestFixedSecrets(t *testing.T) {
	bearer := tenant.Credential{Mode: tenant.CredentialBearer, Token: tenant.Secret{Env: "TOKEN"}}
	headers := tenant.Credential{Mode: tenant.CredentialHeaders, Headers: []tenant.SecretHeader{
		{Name: "X-Api-Key", Value: tenant.Secret{Env: "TOKEN"}}, {Name: "x-account", Value: tenant.Secret{Env: "SECRET"}},
	}}
	tests := []struct {
		name  string
		conf  tenant.Credential
		token string
		want  http.Header // nil for an error
	}{
		{"bearer", bearer, "tok-1", http.Header{"Authorization": {"Bearer tok-1"}}},
		{"headers", headers, "tok-1", http.Header{"X-Api-Key": {"tok-1"}, "X-Account": {"top secret"}}},
		{"UTF-8", headers, "tök", http.Header{"X-Api-Key": {"tök"}, "X-Account": {"top secret"}}},
		{"two lines", bearer, "tok\r\nX-Evil: 1", nil},
		{"a line end", bearer, "tok\n", nil},
		{"a space after it", headers, "tok ", nil},
		{"nothing", bearer, "", nil},
		{"too long", bearer, strings.Repeat("x", maxSecretLine+1), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tt.conf)
			s.secrets.set("TOKEN", tt.token)
			got, err := s.source(ann()).Credential(t.Context())
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if err != nil && tt.token != "" && strings.Contains(err.Error(), tt.token) {
				t.Errorf("%q tells the secret", err)
			}
		})
	}
	t.Run("not set", func(t *testing.T) {
		s := newStage(t, tenant.Credential{Mode: tenant.CredentialBearer, Token: tenant.Secret{Env: "NONE"}})
		if _, err := s.source(nil).Credential(t.Context()); err == nil {
			t.Error("a secret that is not there is shown")
		}
	})
}

// TestFixedRotation holds when a secret that was replaced is used.
func TestFixedRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, tenant.Credential{Mode: tenant.CredentialBearer, Token: tenant.Secret{Env: "TOKEN"}})
		src := s.source(nil)
		show(t, src)
		s.secrets.set("TOKEN", "tok-2")
		if got := show(t, src); got != "Bearer tok-1" || s.secrets.reads != 1 {
			t.Errorf("a moment later %q is shown, after %d reads", got, s.secrets.reads)
		}
		time.Sleep(secretTime)
		if got := show(t, src); got != "Bearer tok-2" {
			t.Errorf("a while later %q is shown", got)
		}
		s.secrets.set("TOKEN", "tok-3")
		if !refuse(t, src, "Bearer tok-2", http.StatusUnauthorized) || show(t, src) != "Bearer tok-3" {
			t.Error("a secret that was replaced is not read when the old one is refused")
		}
		if refuse(t, src, "Bearer tok-3", http.StatusUnauthorized) {
			t.Error("the same secret is to be tried again")
		}
		if refuse(t, src, "Bearer tok-2", http.StatusForbidden) {
			t.Error("another attempt after a 403")
		}
	})
}

// TestFold holds that many requests at the same time ask for one token.
func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
		s.world.host("https://as.example.com", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second) // so that all of them wait
			s.serve(w, r)
		})
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if got := show(t, s.source(nil)); got != "Bearer at-1" {
					t.Errorf("%q is shown", got)
				}
			})
		}
		group.Wait()
		if got := s.counted(); got != 1 {
			t.Errorf("%d tokens were asked for", got)
		}
		if got := len(s.world.to("https://as.example.com/.well-known")); got != 1 {
			t.Errorf("metadata was read %d times", got)
		}
		for range 100 { // and all of them are refused
			group.Go(func() {
				if !refuse(t, s.source(nil), "Bearer at-1", http.StatusUnauthorized) {
					t.Error("no other attempt")
				}
				if got := show(t, s.source(nil)); got != "Bearer at-2" {
					t.Errorf("%q is shown", got)
				}
			})
		}
		group.Wait()
		if got := s.counted(); got != 2 {
			t.Errorf("%d tokens were asked for", got)
		}
	})
}

// TestRefreshAhead holds that a token is replaced before its end, and that nobody waits
// for that.
func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
		src := s.source(nil)
		show(t, src)
		time.Sleep(time.Hour - ahead - time.Second)
		if show(t, src); s.counted() != 1 {
			t.Fatal("a token was replaced that is good for long")
		}
		time.Sleep(time.Second)
		begun := time.Now()
		s.world.host("https://as.example.com", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			s.serve(w, r)
		})
		if got := show(t, src); got != "Bearer at-1" || time.Since(begun) != 0 {
			t.Errorf("%q is shown after %v", got, time.Since(begun))
		}
		if got := show(t, src); got != "Bearer at-1" {
			t.Errorf("meanwhile %q is shown", got)
		}
		time.Sleep(10 * time.Second) // the metadata is old too
		synctest.Wait()
		if got := show(t, src); got != "Bearer at-2" || s.counted() != 2 {
			t.Errorf("%q is shown, and %d were asked for", got, s.counted())
		}
	})
}

// TestServerDown holds that a token is used up to its end while the server is down, and
// that the server is spared.
func TestServerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
		src := s.source(nil)
		show(t, src)
		s.answer(func(url.Values, int) (int, any) { return http.StatusServiceUnavailable, "down" })
		time.Sleep(time.Hour - ahead)
		for s.counted() < 5 {
			if got := show(t, src); got != "Bearer at-1" {
				t.Fatalf("%q is shown", got)
			}
			time.Sleep(failedPause)
		}
		time.Sleep(ahead)
		_, err := src.Credential(t.Context())
		if err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("the error is %v", err)
		}
		if got := strings.Count(s.log.String(), "cannot get a token"); got != 1 {
			t.Errorf("logged %d times", got)
		}
		before := s.counted()
		for range 50 {
			_, _ = src.Credential(t.Context())
		}
		if got := s.counted() - before; got != 0 {
			t.Errorf("a server that is down was asked %d times at once", got)
		}
		s.answer(nil)
		time.Sleep(failedPause)
		if got := show(t, src); !strings.HasPrefix(got, "Bearer at-") {
			t.Errorf("%q is shown", got)
		}
	})
}

// TestRefusedTokens holds what a 401 of the upstream does.
func TestRefusedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
		src := s.source(nil)
		show(t, src)
		if refuse(t, src, "Bearer at-1", http.StatusForbidden, `Bearer error="insufficient_scope", scope="more"`) {
			t.Error("another attempt after a 403")
		}
		if !refuse(t, src, "Bearer at-1", http.StatusUnauthorized) || show(t, src) != "Bearer at-2" {
			t.Fatal("no other token after a 401")
		}
		if !refuse(t, src, "Bearer at-1", http.StatusUnauthorized) || show(t, src) != "Bearer at-2" {
			t.Error("a late 401 for the old token does not lead to the new one alone")
		}
		if refuse(t, src, "Bearer at-2", http.StatusUnauthorized) {
			t.Error("another attempt although the new token is refused too")
		}
		if got := s.counted(); got != 2 {
			t.Errorf("%d tokens were asked for, want 2", got)
		}
		time.Sleep(renewPause)
		if !refuse(t, src, "Bearer at-2", http.StatusUnauthorized) || show(t, src) != "Bearer at-3" {
			t.Error("no other token after a while")
		}
	})
}

// TestReplicasShareTokens holds that one replica gets the gateway's own token for all.
func TestReplicasShareTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
		s.world.host("https://as.example.com", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			s.serve(w, r)
		})
		all := []*Broker{s.Broker, s.replica(t), s.replica(t)}
		each := func(want string) {
			t.Helper()
			var group sync.WaitGroup
			for _, b := range all {
				group.Go(func() {
					if got := show(t, b.Source(s.t, s.u, nil)); got != want {
						t.Errorf("%q is shown, want %q", got, want)
					}
				})
			}
			group.Wait()
		}
		each("Bearer at-1")
		if got := s.counted(); got != 1 {
			t.Errorf("%d tokens were asked for", got)
		}
		for _, b := range all {
			refuse(t, b.Source(s.t, s.u, nil), "Bearer at-1", http.StatusUnauthorized)
		}
		each("Bearer at-2")
		if got := s.counted(); got != 2 {
			t.Errorf("%d tokens were asked for after a 401", got)
		}
		sealed, err := s.shared.Get(t.Context(), all[0].Source(s.t, s.u, nil).(*clientSource).key)
		if err != nil || len(sealed) == 0 || strings.Contains(string(sealed), "at-2") {
			t.Errorf("the shared token is not sealed: %q, %v", sealed, err)
		}
	})
}

// TestClosed holds that nothing is asked after Close.
func TestClosed(t *testing.T) {
	s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialClient}))
	s.Close()
	if _, err := s.source(nil).Credential(t.Context()); err == nil {
		t.Error("a token after the end")
	}
	if got := s.world.asked(); len(got) > 0 {
		t.Errorf("asked %q", got)
	}
}
