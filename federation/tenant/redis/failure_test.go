package redis_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cacheredis "github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/redis"
)

// named gives a tenant whose description tells versions apart.
func named(name, description string) *tenant.Tenant {
	return &tenant.Tenant{Name: name, Upstreams: []tenant.Upstream{
		{Alias: "weather", URL: "http://127.0.0.1:1/mcp", Description: description},
	}}
}

func put(t *testing.T, r tenant.Registry, one *tenant.Tenant) uint64 {
	t.Helper()
	revision, err := r.Put(t.Context(), one, tenant.Any)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// content gives the descriptions of all tenants.
func content(t *testing.T, r tenant.Registry) map[string]string {
	t.Helper()
	s, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, one := range s.Tenants {
		m[one.Name] = one.Upstreams[0].Description
	}
	return m
}

func mustHold(t *testing.T, r tenant.Registry, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, content(t, r)); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
}

func awaitContent(t *testing.T, r tenant.Registry, want map[string]string) {
	t.Helper()
	eventually(t, "the content", func() bool { return cmp.Equal(want, content(t, r)) })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// awaitDegraded waits until a registry says that, or nothing where it is empty.
func awaitDegraded(t *testing.T, r *redis.Registry, want string) {
	t.Helper()
	eventually(t, "degraded: "+want, func() bool {
		got := r.Degraded()
		return got == want || want != "" && strings.HasPrefix(got, want)
	})
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) count(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), what)
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// short has changes looked for so often that a test need not wait.
const short = 10 * time.Millisecond

// never leaves it to the channel.
const never = time.Hour

// single starts a server and gives what opens registries in it.
func single(t *testing.T, args ...string) (*redistest.Server, func(opts redis.Options) *redis.Registry) {
	t.Helper()
	s := redistest.Start(t, args...)
	return s, func(opts redis.Options) *redis.Registry {
		t.Helper()
		return open(t, dial(t, cacheredis.Connection{URL: s.URL()}), opts)
	}
}

// TestToldWithoutPolling and the next hold that each way is enough to hear of a
// change.
func TestToldWithoutPolling(t *testing.T) {
	_, with := single(t)
	a, b := with(redis.Options{}), with(redis.Options{PollInterval: never})
	put(t, a, named("acme", "1"))
	awaitContent(t, b, map[string]string{"acme": "1"})
}

func TestToldWithoutChannel(t *testing.T) {
	s, with := single(t)
	s.Do("ACL", "SETUSER", "default", "resetchannels")
	a, b := with(redis.Options{}), with(redis.Options{})
	put(t, a, named("acme", "1"))
	awaitContent(t, b, map[string]string{"acme": "1"})
}

// TestHeardAfterCut writes while the channel is cut: that it is subscribed to again
// is enough to look.
func TestHeardAfterCut(t *testing.T) {
	s, with := single(t)
	a, b := with(redis.Options{PollInterval: never}), with(redis.Options{PollInterval: never})
	put(t, a, named("acme", "1"))
	awaitContent(t, b, map[string]string{"acme": "1"})
	for i := range 5 {
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		want := string(rune('a' + i))
		put(t, a, named("acme", want))
		awaitContent(t, b, map[string]string{"acme": want})
	}
}

func TestUnreachable(t *testing.T) {
	s, with := single(t)
	log := &journal{}
	r := with(redis.Options{PollInterval: short, Logger: logTo(log)})
	put(t, r, named("acme", "1"))
	for _, tt := range []struct {
		name       string
		stop, heal func()
	}{
		{"stopped", s.Stop, func() { s.Restart(false) }},
		{"killed", s.Kill, func() { s.Restart(false) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.stop()
			awaitDegraded(t, r, "the registry in redis cannot be read")
			mustHold(t, r, map[string]string{"acme": "1"})
			if _, err := r.Put(t.Context(), named("acme", "2"), tenant.Any); err == nil {
				t.Error("Put without Redis: no error")
			}
			if r, err := redis.Open(t.Context(), dial(t, cacheredis.Connection{URL: s.URL()}), redis.Options{}); err == nil {
				t.Error("Open without Redis: no error", r.Close())
			}
			tt.heal()
			awaitDegraded(t, r, "")
			put(t, r, named("acme", "1"))
		})
	}
	if n := log.count("level=ERROR"); n != 2 {
		t.Errorf("%d errors were logged for 2 outages:\n%s", n, &log.text)
	}
}

// TestPaused holds that whoever reads does not notice a Redis that hangs, and that
// whoever writes waits no longer than he wants to.
func TestPaused(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	s.Pause()
	defer s.Resume()
	mustHold(t, r, map[string]string{"acme": "1"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Put(ctx, named("acme", "2"), tenant.Any); err == nil {
		t.Error("Put without Redis: no error")
	}
	s.Resume()
	put(t, r, named("acme", "3"))
	awaitDegraded(t, r, "")
}

// TestEmptied is a Redis that comes back without what it held.
func TestEmptied(t *testing.T) {
	s, with := single(t)
	log := &journal{}
	r := with(redis.Options{PollInterval: short, Logger: logTo(log)})
	put(t, r, named("acme", "1"))
	put(t, r, named("zoo", "1"))
	key := tenant.APIKey{ID: "k", Tenant: "acme", Hash: make([]byte, 32), Subject: "s"}
	if err := r.PutKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	s.Restart(true)
	awaitDegraded(t, r, "the registry in redis is empty")
	all := map[string]string{"acme": "1", "zoo": "1"}
	mustHold(t, r, all)
	if _, err := r.Put(t.Context(), named("acme", "2"), tenant.Any); !errors.Is(err, redis.ErrLost) {
		t.Errorf("Put to an empty store: %v, want ErrLost", err)
	}
	if err := r.DeleteKey(t.Context(), "acme", "k"); !errors.Is(err, redis.ErrLost) {
		t.Errorf("DeleteKey in an empty store: %v, want ErrLost", err)
	}

	// Somebody who knows nothing of what was begins anew.
	stranger := with(redis.Options{PollInterval: short})
	mustHold(t, stranger, map[string]string{})
	for range 3 {
		put(t, stranger, named("acme", "stranger"))
	}
	awaitDegraded(t, r, "the registry in redis was begun anew")
	mustHold(t, r, all)
	if n := log.count("level=ERROR msg=\"the registry in redis is empty"); n != 1 {
		t.Errorf("it was logged %d times that the registry is empty", n)
	}

	// An operator takes what runs and makes it the registry.
	saved, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Import(t.Context(), saved, tenant.Any); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*redis.Registry{r, stranger} {
		awaitDegraded(t, one, "")
		awaitContent(t, one, all)
		eventually(t, "the key", func() bool {
			_, err := one.Key(t.Context(), "acme", "k")
			return err == nil
		})
	}
	put(t, r, named("acme", "2"))
	awaitContent(t, stranger, map[string]string{"acme": "2", "zoo": "1"})
}

// TestImportHeals repairs from within what runs.
func TestImportHeals(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	s.Restart(true)
	awaitDegraded(t, r, "the registry in redis is empty")
	saved, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Import(t.Context(), saved, tenant.Any); err != nil {
		t.Fatal(err)
	}
	awaitDegraded(t, r, "")
	mustHold(t, r, map[string]string{"acme": "1"})
	put(t, r, named("acme", "2"))
}

// backup gives what puts the registry back to what it is now.
func backup(t *testing.T, s *redistest.Server) (restore func()) {
	t.Helper()
	dumps := map[string]string{}
	for _, key := range s.Do("KEYS", "causeway:*").([]any) {
		dumps[key.(string)] = s.Do("DUMP", key).(string)
	}
	return func() {
		// One transaction, so that nobody sees something in between.
		pipe := s.Client().TxPipeline()
		for key, dump := range dumps {
			pipe.RestoreReplace(t.Context(), key, 0, dump)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestOlder is a Redis that has lost the last changes, as one that is promoted
// before it knew them.
func TestOlder(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	restore := backup(t, s)
	put(t, r, named("acme", "2"))
	put(t, r, named("new", "1"))
	now := backup(t, s)

	restore()
	awaitDegraded(t, r, "the registry in redis is older")
	mustHold(t, r, map[string]string{"acme": "2", "new": "1"})
	if _, err := r.Put(t.Context(), named("acme", "3"), tenant.Any); !errors.Is(err, redis.ErrLost) {
		t.Errorf("Put to an older store: %v, want ErrLost", err)
	}

	now() // what was lost comes back
	awaitDegraded(t, r, "")
	put(t, r, named("acme", "3"))

	restore()
	awaitDegraded(t, r, "the registry in redis is older")
	// Somebody goes on from the older one: then it is the newest.
	put(t, with(redis.Options{}), named("zoo", "1"))
	awaitDegraded(t, r, "")
	awaitContent(t, r, map[string]string{"acme": "1", "zoo": "1"})
}

// TestOlderUnnoticed is the same when the loss itself is not seen: by then the
// store is ahead again, of another past.
func TestOlderUnnoticed(t *testing.T) {
	s, with := single(t)
	r, other := with(redis.Options{PollInterval: never}), with(redis.Options{PollInterval: never})
	put(t, other, named("acme", "1"))
	restore := backup(t, s)
	put(t, other, named("acme", "2"))
	put(t, other, named("new", "1"))
	awaitContent(t, r, map[string]string{"acme": "2", "new": "1"})
	restore()
	put(t, with(redis.Options{}), named("zoo", "1"))
	awaitContent(t, r, map[string]string{"acme": "1", "zoo": "1"})
}

// TestManyChangesMissed has a registry sleep through more changes than Redis keeps
// in mind.
func TestManyChangesMissed(t *testing.T) {
	s, with := single(t)
	s.Do("ACL", "SETUSER", "default", "resetchannels")
	r, writer := with(redis.Options{PollInterval: never}), with(redis.Options{PollInterval: never})
	put(t, r, named("gone", "1"))
	put(t, r, named("stays", "1"))
	if err := writer.Delete(t.Context(), "gone", tenant.Any); err != nil {
		t.Fatal(err)
	}
	for range 1100 {
		put(t, writer, named("busy", "1"))
	}
	if n := s.Do("LLEN", "causeway:{causeway/registry}:history").(int64); n != 1000 {
		t.Errorf("the history has %d revisions, want 1000", n)
	}
	put(t, r, named("last", "1"))
	mustHold(t, r, map[string]string{"busy": "1", "last": "1", "stays": "1"})
}
