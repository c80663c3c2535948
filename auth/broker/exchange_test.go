package broker

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// exchanging gives a stage whose server gives a token for each subject.
func exchanging(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, staticClient(tenant.Credential{Mode: tenant.CredentialExchange, Audience: "api"}))
	s.answer(func(form url.Values, n int) (int, any) {
		o := accessToken(n, 600)
		o["access_token"] = "for-" + form.Get("subject_token")
		return http.StatusOK, o
	})
	return s
}

func (s *stage) user(who *tenant.Principal) *exchangeSource { return s.source(who).(*exchangeSource) }

// TestExchangePerUser holds that each user's token is exchanged for one of its own, and
// is shown to nobody but the token endpoint.
func TestExchangePerUser(t *testing.T) {
	s := exchanging(t)
	hour := time.Now().Add(time.Hour)
	var group sync.WaitGroup
	for _, who := range []*tenant.Principal{ann(), bob()} {
		for range 20 {
			group.Go(func() {
				src := s.user(who)
				src.Take("token-of-"+who.Subject, hour)
				if got, want := show(t, src), "Bearer for-token-of-"+who.Subject; got != want {
					t.Errorf("%s shows %q, want %q", who.Subject, got, want)
				}
			})
		}
	}
	group.Wait()
	if got := s.counted(); got != 2 {
		t.Errorf("%d exchanges, want 2", got)
	}
	for _, one := range s.world.to("") {
		for name, values := range one.Header {
			if strings.Contains(strings.Join(values, ""), "token-of") {
				t.Errorf("%s has a user's token in %s", one.URL, name)
			}
		}
		if strings.Contains(one.Body+one.URL, "token-of") && one.URL != "https://as.example.com/token" {
			t.Errorf("%s was sent a user's token", one.URL)
		}
	}
	if strings.Contains(s.log.String(), "token-of") {
		t.Errorf("the log tells a user's token:\n%s", s.log)
	}
}

// TestTake holds which of the tokens that a user shows is exchanged.
func TestTake(t *testing.T) {
	type shown struct {
		token string
		life  time.Duration // 0 where nobody knows
	}
	tests := []struct {
		name  string
		taken []shown
		want  string // empty for none
	}{
		{"none", nil, ""},
		{"an empty one", []shown{{"", time.Hour}}, ""},
		{"one", []shown{{"a", time.Hour}}, "a"},
		{"the longer", []shown{{"a", time.Hour}, {"b", 2 * time.Hour}}, "b"},
		{"not the shorter", []shown{{"a", time.Hour}, {"b", time.Minute}}, "a"},
		{"an ended one", []shown{{"a", -time.Hour}}, ""},
		{"another after it", []shown{{"a", -time.Hour}, {"b", time.Minute}}, "b"},
		{"one without an end", []shown{{"a", 0}}, "a"},
		{"the latest without an end", []shown{{"a", 0}, {"b", 0}}, "b"},
		{"not one without an end in place of a good one", []shown{{"a", time.Hour}, {"b", 0}}, "a"},
		{"a huge one", []shown{{strings.Repeat("a", maxToken+1), time.Hour}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := exchanging(t).user(ann())
			for _, one := range tt.taken {
				var until time.Time
				if one.life != 0 {
					until = time.Now().Add(one.life)
				}
				src.Take(one.token, until)
			}
			h, err := src.Credential(t.Context())
			if got := strings.TrimPrefix(h.Get("Authorization"), "Bearer for-"); got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("exchanged %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// TestExchangeGoesOn holds what happens over time: the exchanged token is used until
// near its end, then another one is got for what the user shows by then.
func TestExchangeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := exchanging(t)
		src := s.user(ann())
		if _, err := src.Credential(t.Context()); err == nil {
			t.Fatal("a token for nothing")
		}
		if strings.Contains(s.log.String(), "WARN") {
			t.Errorf("logged:\n%s", s.log)
		}
		src.Take("a", time.Now().Add(5*time.Minute)) // heals at once
		for range 9 {
			if got := show(t, src); got != "Bearer for-a" {
				t.Fatalf("%q is shown", got)
			}
			time.Sleep(time.Minute)
		}
		if got := s.counted(); got != 1 {
			t.Fatalf("%d exchanges", got)
		}
		time.Sleep(time.Minute)
		if _, err := src.Credential(t.Context()); err == nil {
			t.Fatal("a token in exchange for one that has ended")
		}
		src.Take("b", time.Now().Add(5*time.Minute))
		if got := show(t, src); got != "Bearer for-b" {
			t.Errorf("%q is shown", got)
		}
		if !refuse(t, src, "Bearer for-b", http.StatusUnauthorized) || show(t, src) != "Bearer for-b" || s.counted() != 3 {
			t.Errorf("after a 401 there were %d exchanges, want 3", s.counted())
		}
		if refuse(t, src, "Bearer for-b", http.StatusUnauthorized) || refuse(t, src, "Bearer for-b", http.StatusForbidden) {
			t.Error("another attempt")
		}
	})
}

// TestRefusedSubject holds that a user's token which the server refuses is not sent
// again, and another one is at once.
func TestRefusedSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := exchanging(t)
		s.answer(func(form url.Values, n int) (int, any) {
			if form.Get("subject_token") == "revoked" {
				return http.StatusBadRequest, object{"error": "invalid_grant", "error_description": "revoked is revoked"}
			}
			return http.StatusOK, accessToken(n, 600)
		})
		src := s.user(ann())
		for range 5 {
			src.Take("revoked", time.Now().Add(time.Hour))
			_, err := src.Credential(t.Context())
			if err == nil || strings.Contains(err.Error(), "revoked") {
				t.Fatalf("the error is %v", err)
			}
			time.Sleep(deniedPause)
		}
		if got := s.counted(); got != 1 {
			t.Errorf("it was sent %d times", got)
		}
		src.Take("good", time.Now().Add(time.Minute))
		if got := show(t, src); got != "Bearer at-2" {
			t.Errorf("%q is shown", got)
		}
	})
}
