package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// TestSignInAtReplicas has a user sign in where each step is at another replica, and
// then many calls at both need a token in place of one that has expired: one replica
// refreshes it, and nobody is asked again. What the user gave is in the registry alone.
func TestSignInAtReplicas(t *testing.T) {
	shared, registry := redistest.Start(t), redistest.Start(t)
	s := &signIns{realms: newRealms(t), t: t}
	s.banks = map[string]*bank{"new": newBank(t, s.bank, "/short/new/mcp", true), "old": newBank(t, s.bank, "/short/old/mcp", false)}
	store := fmt.Sprintf("store: {type: redis, url: %q}\nredis: {timeout: 2s}\n", registry.URL())
	replicas := gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{
		N: 2, RedisURL: shared.URL(),
		Config: s.securedConfig(store, upstreamOf("new", s.banks["new"].url(), s.userAuth()), upstreamOf("old", s.banks["old"].url(), s.userAuth())),
	})
	first, second := replicas.All[0], replicas.All[1]
	s.url = first.URL
	ann := s.user("ann", func(path string) string {
		if path == "/oauth/callback" || path == "/oauth/signed-in" {
			return first.URL
		}
		return second.URL
	})
	bob := s.user("bob", nil)
	if got, want := ann.tools(), []string{"new_connect", "old_connect"}; !slices.Equal(got, want) {
		t.Errorf("before the sign-in ann sees %v, want %v", got, want)
	}
	stream := ann.at(second.URL).open(ann.message("{}", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), ann.bearer())
	stream.next()
	for _, alias := range []string{"new", "old"} {
		link, again := ann.asked(ann.whoami(alias, ""))
		ann.connect(link)
		if got := stream.next(); !strings.Contains(got, "notifications/tools/list_changed") {
			t.Errorf("after the sign-in at %s the stream of the other replica heard %s", alias, got)
		}
		ann.told(alias, ann.call(second, alias, again))
		ann.told(alias, ann.call(first, alias, ""))
		bob.asked(bob.call(second, alias, ""))
	}

	s.expire(t, ann)
	var calls sync.WaitGroup
	for alias := range s.banks {
		for _, r := range replicas.All {
			for range 6 {
				calls.Go(func() { ann.told(alias, ann.call(r, alias, "")) })
			}
		}
	}
	calls.Wait()
	want := grants{Given: map[string]int{"authorization_code": 2, "refresh_token": 2}, Refused: map[string]int{}}
	if diff := cmp.Diff(want, s.bank.grants()); diff != "" {
		t.Errorf("grants of both upstreams (-want +got):\n%s", diff)
	}
	s.holdKept(t, registry, shared)

	// A cluster that begins anew has what was kept, and nothing else.
	first.Stop(t)
	second.Stop(t)
	shared.Do("FLUSHALL")
	second.Start(t)
	for alias := range s.banks {
		ann.told(alias, ann.call(second, alias, ""))
		bob.asked(bob.call(second, alias, ""))
	}
	if diff := cmp.Diff(want, s.bank.grants()); diff != "" {
		t.Errorf("grants after the restart (-want +got):\n%s", diff)
	}
	for _, b := range s.banks {
		b.never(ann.token, bob.token)
	}
}

// call has the user call whoami at a replica.
func (u *signer) call(r *gatewaytest.Replica, alias, more string) reply {
	u.t.Helper()
	return u.at(r.URL).send(u.message(opensURLs, "tools/call", `"name":"`+alias+`_whoami","arguments":{}`+more), u.bearer())
}

// expire waits until the user's first tokens have.
func (s *signIns) expire(t *testing.T, u *signer) {
	t.Helper()
	eventually(t, "the tokens have expired", func() bool {
		for _, b := range s.banks {
			if time.Now().Unix() <= b.claimsOf(u.name+"-at-bank").Expires {
				return false
			}
		}
		return true
	})
}

// holdKept holds that what users gave is sealed, and in the registry alone.
func (s *signIns) holdKept(t *testing.T, registry, shared *redistest.Server) {
	t.Helper()
	kept, others := everything(t, registry), everything(t, shared)
	for _, kind := range []string{"user_token", "user_consent"} {
		if !strings.Contains(kept, kind) {
			t.Errorf("no %s is in the registry", kind)
		}
	}
	for alias, b := range s.banks {
		tokens := b.tokens()
		if len(tokens) != 2 {
			t.Errorf("%s was shown %d tokens, want one and the one that a refresh gave", alias, len(tokens))
		}
		for _, token := range tokens {
			if parts := strings.Split(token, ".")[1:]; containsAny(kept+others, parts) {
				t.Error("a token is in Redis as it is")
			}
		}
	}
}

// everything gives all keys and values of a Redis.
func everything(t *testing.T, s *redistest.Server) string {
	t.Helper()
	var all strings.Builder
	keys, ok := s.Do("KEYS", "*").([]any)
	if !ok || len(keys) == 0 {
		t.Errorf("the Redis at %s is empty", s.Addr())
	}
	for _, key := range keys {
		read := map[string][]any{
			"string": {"GET", key}, "hash": {"HGETALL", key}, "set": {"SMEMBERS", key}, "zset": {"ZRANGE", key, 0, -1}, "list": {"LRANGE", key, 0, -1},
		}[fmt.Sprint(s.Do("TYPE", key))]
		if read == nil {
			continue // it has ended
		}
		fmt.Fprintln(&all, key, s.Do(read...))
	}
	return all.String()
}
