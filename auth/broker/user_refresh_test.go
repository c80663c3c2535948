package broker_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestUserTokenIsRefreshedAhead has a token replaced before its end while the old one is in use.
func TestUserTokenIsRefreshedAhead(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	r.person("ann-at-idp", "ann-at-travel").connect(rep.link("ann-at-idp", "editor"))
	first := rep.token("ann-at-idp", "editor")
	r.clock.advance(3 * time.Minute)
	if got := rep.token("ann-at-idp", "editor"); got != first || r.as.refreshes() != 0 {
		t.Errorf("refreshed after 3 of 5 minutes")
	}
	r.clock.advance(70 * time.Second) // within a minute of its end
	eventually(t, "the token is replaced", func() bool { return rep.token("ann-at-idp", "editor") != first })
	if n := r.as.refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
	for _, f := range r.as.posted {
		if f.Get("grant_type") == "refresh_token" && (f.Get("resource") != "http://127.0.0.1:9/mcp" || f.Get("client_id") != "gateway-at-travel") {
			t.Errorf("refreshed with %v", f)
		}
	}
	// After its end there is nothing to wait with.
	second := rep.token("ann-at-idp", "editor")
	r.clock.advance(time.Hour)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := rep.shown("ann-at-idp", "editor"); err != nil || got == second {
				t.Errorf("an old token, or none: %v", err)
			}
		})
	}
	wg.Wait()
	if n := r.as.refreshes(); n != 2 {
		t.Errorf("refreshed %d times, want twice", n)
	}
}

// eventually waits until something holds: what others do in the background.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestReplicasShareUserTokens has two replicas need a new token at the same time: one of
// them gets it, and both use it.
func TestReplicasShareUserTokens(t *testing.T) {
	r := newConsentRig(t)
	a := r.replica()
	b := r.replica(func(o *broker.Options) { o.PublicURL = a.site.URL })
	r.person("ann-at-idp", "ann-at-travel").connect(a.link("ann-at-idp", "editor"))
	if a.token("ann-at-idp", "editor") != b.token("ann-at-idp", "editor") {
		t.Error("the replicas show different tokens")
	}
	for round := range 3 {
		r.clock.advance(time.Hour)
		got := make([]string, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				rep := []*replica{a, b}[i%2]
				var err error
				if got[i], err = rep.shown("ann-at-idp", "editor"); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		for _, one := range got {
			if one != got[0] {
				t.Errorf("round %d: the replicas show different tokens", round)
			}
		}
		if n := r.as.refreshes(); n != round+1 {
			t.Errorf("refreshed %d times, want %d", n, round+1)
		}
	}
}

// noLeases are those of a store that cannot be reached.
type noLeases struct{ cache.Leases }

// Acquire implements cache.Leases.
func (noLeases) Acquire(context.Context, cache.Scope, string, string, time.Duration) (cache.Lease, bool, error) {
	return cache.Lease{}, false, errors.New("no connection")
}

// TestOtherReplicaWasFaster has another replica use up the refresh token, without a
// lease that would tell: what it has put into the vault is used.
func TestOtherReplicaWasFaster(t *testing.T) {
	r := newConsentRig(t)
	a := r.replica(func(o *broker.Options) { o.Leases = noLeases{} })
	b := r.replica(func(o *broker.Options) { o.Leases, o.PublicURL = noLeases{}, a.site.URL })
	r.person("ann-at-idp", "ann-at-travel").connect(a.link("ann-at-idp", "editor"))
	a.token("ann-at-idp", "editor")
	r.clock.advance(time.Hour)
	entered, other := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	r.as.set(func() {
		r.as.tokens = func(http.ResponseWriter, *http.Request) bool {
			if first.CompareAndSwap(false, true) { // it waits until the second is done
				close(entered)
				<-other
			}
			return false
		}
	})
	var wg sync.WaitGroup
	var slow string
	var slowErr error
	wg.Go(func() { slow, slowErr = a.shown("ann-at-idp", "editor") })
	<-entered
	fast := b.token("ann-at-idp", "editor")
	close(other)
	wg.Wait()
	if slowErr != nil || slow != fast {
		t.Errorf("the slow one shows another token than the fast one: %v", slowErr)
	}
	if n := r.as.refreshes(); n != 2 {
		t.Errorf("refreshed %d times, want twice", n)
	}
}

// TestRotationIsKeptFirst has a process end between the answer of the server and the
// vault's: the new access token was not used by then. Where the process goes on, it is
// kept in memory until the vault takes it.
func TestRotationIsKeptFirst(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	r.person("ann-at-idp", "ann-at-travel").connect(rep.link("ann-at-idp", "editor"))
	first := rep.token("ann-at-idp", "editor")
	r.clock.advance(time.Hour)
	down := errors.New("the vault is down")
	r.vault.watch(func(tenant.VaultKey) error { return down })
	if got, err := rep.shown("ann-at-idp", "editor"); !errors.Is(err, down) {
		t.Errorf("a token was shown before it was kept: %v, %v", got != first, err)
	}
	if n := r.as.refreshes(); n != 1 {
		t.Errorf("refreshed %d times, want once", n)
	}
	// Another process knows nothing of it: the old refresh token is of no use.
	other := r.replica(func(o *broker.Options) { o.PublicURL = rep.site.URL })
	if _, err := other.shown("ann-at-idp", "editor"); !errors.Is(err, down) && !asked(err) {
		t.Errorf("another process: %v", err)
	}
	// The first one has it still.
	r.vault.watch(nil)
	if got, err := rep.shown("ann-at-idp", "editor"); err != nil || got == first || r.as.account(got) != "ann-at-travel" {
		t.Errorf("the token was lost: %v", err)
	}
	if got := other.token("ann-at-idp", "editor"); got != rep.token("ann-at-idp", "editor") {
		t.Error("the replicas show different tokens")
	}
}

// TestLostRotation has a process end before the new refresh token was kept: its user is
// asked again.
func TestLostRotation(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	r.clock.advance(time.Hour)
	r.vault.watch(func(tenant.VaultKey) error { return errors.New("ended") })
	if _, err := rep.shown("ann-at-idp", "editor"); err == nil || asked(err) {
		t.Errorf("while the vault is down: %v", err)
	}
	r.vault.watch(nil)
	next := r.replica()
	ann.connect(next.link("ann-at-idp", "editor"))
	next.token("ann-at-idp", "editor")
}

// TestSealedAnew has the value in the vault sealed anew while its token is refreshed.
func TestSealedAnew(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	r.person("ann-at-idp", "ann-at-travel").connect(rep.link("ann-at-idp", "editor"))
	r.clock.advance(time.Hour)
	r.as.set(func() {
		r.as.tokens = func(http.ResponseWriter, *http.Request) bool {
			all, err := r.vault.Secrets(t.Context(), tenant.VaultKey{}, 100)
			if err != nil {
				t.Error(err)
			}
			for _, v := range all {
				if _, err := r.vault.PutSecret(t.Context(), v.Key, v.Sealed, v.Revision); err != nil {
					t.Error(err)
				}
			}
			return false
		}
	})
	access := rep.token("ann-at-idp", "editor")
	other := r.replica(func(o *broker.Options) { o.PublicURL = rep.site.URL })
	if got := other.token("ann-at-idp", "editor"); got != access {
		t.Error("what was refreshed is not in the vault")
	}
}

// TestServerFails holds that a server which does not answer costs nobody the sign-in,
// and that one which refuses does.
func TestServerFails(t *testing.T) {
	r := newConsentRig(t)
	rep := r.replica()
	ann := r.person("ann-at-idp", "ann-at-travel")
	ann.connect(rep.link("ann-at-idp", "editor"))
	first := rep.token("ann-at-idp", "editor")
	status := http.StatusServiceUnavailable
	r.as.set(func() {
		r.as.tokens = func(w http.ResponseWriter, _ *http.Request) bool {
			if status == 0 {
				return false
			}
			w.WriteHeader(status)
			return true
		}
	})
	r.clock.advance(4*time.Minute + 10*time.Second)
	for range 3 {
		if got := rep.token("ann-at-idp", "editor"); got != first {
			t.Error("another token while the server is down")
		}
	}
	eventually(t, "a refresh was tried", func() bool {
		rep.token("ann-at-idp", "editor") // what began before that looks no more
		return r.as.refreshes() > 0
	})
	r.clock.advance(time.Hour)
	shown := func() {
		t.Helper()
		if _, err := rep.shown("ann-at-idp", "editor"); err == nil || asked(err) {
			t.Errorf("after the token's end, while the server is down: %v", err)
		}
	}
	// The refresh that was tried may come back only now, and is not followed at once.
	eventually(t, "another one was tried", func() bool {
		r.clock.advance(time.Minute)
		shown()
		return r.as.refreshes() > 1
	})
	tried := r.as.refreshes()
	for range 3 {
		shown()
	}
	if n := r.as.refreshes(); n != tried {
		t.Errorf("refreshed %d times, want %d: a server that fails is spared", n, tried)
	}
	r.as.set(func() { status = 0 })
	r.clock.advance(time.Minute)
	rep.token("ann-at-idp", "editor")
	r.as.set(func() { clear(r.as.families) })
	r.clock.advance(time.Hour)
	if _, err := rep.shown("ann-at-idp", "editor"); !asked(err) {
		t.Errorf("with a dead refresh token: %v", err)
	}
	ann.connect(rep.link("ann-at-idp", "editor"))
	rep.token("ann-at-idp", "editor")
	mustNotLog(t, r)
}
