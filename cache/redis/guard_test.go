package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

var acme = cache.Scope{Tenant: "acme", Upstream: "files"}

// maxTried is how many of a hundred operations may be tried on a Redis that does
// not answer, each of which waits for the whole timeout: more than the breaker
// needs, since a probe may be answered in between.
const maxTried = 20

// fast gives the options of a Store as it is in use.
func fast(url string) Options {
	opts := at(url)
	opts.Timeout = DefaultTimeout
	return opts
}

// try has a hundred operations one after the other, and gives how many of them
// were tried at all.
func try(t *testing.T, s *Store, op func(ctx context.Context) error) (tried int) {
	t.Helper()
	for range 100 {
		_ = s.guard(t.Context(), func(ctx context.Context) error {
			tried++
			return op(ctx)
		})
	}
	return tried
}

// TestSilence holds that a Redis that does not answer in time costs little, is
// told of, and is used again when it does.
func TestSilence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		breaks func(s *redistest.Server, p *redistest.Proxy)
		heals  func(s *redistest.Server, p *redistest.Proxy)
	}{
		{
			"stopped",
			func(s *redistest.Server, p *redistest.Proxy) { s.Stop() },
			func(s *redistest.Server, p *redistest.Proxy) { s.Restart(false) },
		},
		{
			"killed, and empty when it comes again",
			func(s *redistest.Server, p *redistest.Proxy) { s.Kill() },
			func(s *redistest.Server, p *redistest.Proxy) { s.Restart(true) },
		},
		{
			"paused",
			func(s *redistest.Server, p *redistest.Proxy) { s.Pause() },
			func(s *redistest.Server, p *redistest.Proxy) { s.Resume() },
		},
		{
			"slow",
			func(s *redistest.Server, p *redistest.Proxy) { p.Delay(200 * time.Millisecond) },
			func(s *redistest.Server, p *redistest.Proxy) { p.Delay(0) },
		},
		{
			"cut off",
			func(s *redistest.Server, p *redistest.Proxy) { p.Cut() },
			func(s *redistest.Server, p *redistest.Proxy) { p.Heal() },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.Slow(t, server.Addr(), 0)
			s := openWell(t, fast(proxy.URL()))
			before := drawn(t, s)
			var recovered atomic.Int64
			stop := s.OnRecovered(func() { recovered.Add(1) })
			tt.breaks(server, proxy)
			if n := try(t, s, func(ctx context.Context) error { return s.client.Get(ctx, "x").Err() }); n > maxTried {
				t.Errorf("%d of 100 operations were tried, want at most %d", n, maxTried)
			}
			if got := s.Degraded(); got != troubleSilent {
				t.Errorf("Degraded = %q, want %q", got, troubleSilent)
			}
			tt.heals(server, proxy)
			eventually(t, "the store works again, and says so", func() bool { return s.Degraded() == "" && recovered.Load() > 0 })
			if after := drawn(t, s); after.N <= before.N {
				t.Errorf("fence %+v after %+v", after, before)
			}
			stop()
		})
	}
}

// drawn draws a fence, also where the machine is so busy that it takes a few tries.
func drawn(t *testing.T, s *Store) (f cache.Fence) {
	t.Helper()
	eventually(t, "a fence is drawn", func() (ok bool) {
		var err error
		f, err = s.Draw(t.Context(), acme)
		return err == nil
	})
	return f
}

// TestStaysSlow holds that probes, which have more time, do not have a Redis used
// again that is as slow as before.
func TestStaysSlow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.Slow(t, server.Addr(), 0)
	s := openWell(t, fast(proxy.URL()))
	proxy.Delay(200 * time.Millisecond)
	try(t, s, func(ctx context.Context) error { return s.client.Get(ctx, "x").Err() })
	var recovered atomic.Bool
	defer s.OnRecovered(func() { recovered.Store(true) })()
	before := probes(t, server)
	eventually(t, "some probes are made", func() bool { return probes(t, server) >= before+3 })
	if recovered.Load() {
		t.Error("Redis is used again although it is slow")
	}
}

// probes tells how many probes a server has had.
func probes(t *testing.T, s *redistest.Server) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_exists:calls=(\d+)`).FindStringSubmatch(fmt.Sprint(s.Do("INFO", "commandstats")))
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRefusal holds that a Redis that takes no writes is told of and goes on to be
// read, and that it is noticed when it takes them again.
func TestRefusal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		refuse, accept []any
	}{
		{"full", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"replica", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
		{"too few replicas", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := openWell(t, at(server.URL()))
			if err := s.Post(t.Context(), acme, "board", "a", []byte("1"), patience); err != nil {
				t.Fatal(err)
			}
			var recovered atomic.Bool
			defer s.OnRecovered(func() { recovered.Store(true) })()
			server.Do(tt.refuse...)
			n := try(t, s, func(ctx context.Context) error {
				err := postScript.Run(ctx, s.client, []string{s.key(acme, kindBoard, "board")}, "a", "2", 1000).Err()
				if !refused(err) {
					t.Errorf("a write gives the error %v, which is not known as a refusal", err)
				}
				return err
			})
			if n != 100 {
				t.Errorf("%d of 100 operations were tried, want all", n)
			}
			if got := s.Degraded(); got != troubleRefuses {
				t.Errorf("Degraded = %q, want %q", got, troubleRefuses)
			}
			if got, err := s.Read(t.Context(), acme, "board"); err != nil || string(got["a"]) != "1" {
				t.Errorf("Read = %q, %v, want what was written before", got, err)
			}
			server.Do(tt.accept...)
			eventually(t, "the store works again, and says so", func() bool { return s.Degraded() == "" && recovered.Load() })
		})
	}
}

// TestRefusalIsNoticed holds that nobody need write for it to be known that Redis
// takes no writes.
func TestRefusalIsNoticed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openWell(t, at(server.URL()))
	server.Do("CONFIG", "SET", "maxmemory", "1")
	eventually(t, "the store says that Redis takes no writes", func() bool { return s.Degraded() == troubleRefuses })
}

// TestOneNodeIsSilent holds that a cluster is left alone when one of its nodes does
// not answer, and used again when all do.
func TestOneNodeIsSilent(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	opts := fast(cluster.URL())
	opts.Mode = ModeCluster
	s := openWell(t, opts)
	cluster.Nodes[1].Pause()
	i, n := 0, 0
	for range 10 {
		n += try(t, s, func(ctx context.Context) error {
			i++
			return s.client.Get(ctx, strconv.Itoa(i)).Err()
		})
	}
	if n > 300 {
		t.Errorf("%d of 1000 operations were tried", n)
	}
	eventually(t, "the store says that Redis cannot be reached", func() bool { return s.Degraded() == troubleSilent })
	cluster.Nodes[1].Resume()
	eventually(t, "the store works again", func() bool { return s.Degraded() == "" })
	drawn(t, s)
}

// TestErrors holds that a Redis that answers every time, but with errors, is told
// of: one where the user may not do what is needed.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := redistest.StartWith(t, redistest.Options{User: "causeway", Password: "secret", Prefix: "cw"})
	opts := at(server.URL())
	opts.Prefix = "another"
	s := open(t, opts)
	eventually(t, "the store says that Redis answers with errors", func() bool { return s.Degraded() == troubleErrors })
	server.Do("ACL", "SETUSER", "causeway", "~*", "&*")
	eventually(t, "the store works", func() bool { return s.Degraded() == "" })
}

func TestNeverReached(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	s := open(t, fast(server.URL()))
	if s.Degraded() == "" {
		t.Error("a store that was not reached says that all is well")
	}
	if _, err := s.Draw(t.Context(), acme); err == nil {
		t.Error("a fence was drawn from a Redis that does not run")
	}
	server.Restart(true)
	eventually(t, "the store works", func() bool { return s.Degraded() == "" })
	drawn(t, s)
}

// TestCallersWhoLeave holds that they say nothing about Redis.
func TestCallersWhoLeave(t *testing.T) {
	t.Parallel()
	s := openWell(t, at(redistest.Start(t).URL()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := s.Draw(ctx, acme); !errors.Is(err, context.Canceled) {
			t.Fatalf("the error is %v, want %v", err, context.Canceled)
		}
	}
	if _, err := s.Draw(t.Context(), acme); err != nil {
		t.Error(err)
	}
}

// TestCrowd has many more callers than there are connections, more than can be
// served in time. They say nothing about Redis either.
func TestCrowd(t *testing.T) {
	t.Parallel()
	s := openWell(t, at(redistest.Start(t).URL()))
	s.opts.Timeout = 200 * time.Millisecond
	enter, leave := make(chan struct{}), make(chan struct{})
	var holders, rest sync.WaitGroup
	for range cap(s.turns) {
		holders.Go(func() {
			err := s.guard(context.WithoutCancel(t.Context()), func(context.Context) error {
				enter <- struct{}{}
				<-leave
				return nil
			})
			if err != nil {
				t.Errorf("an operation that was done gives the error %v", err)
			}
		})
	}
	for range cap(s.turns) {
		<-enter
	}
	for range 100 {
		rest.Go(func() {
			if _, err := s.Draw(t.Context(), acme); !errors.Is(err, ErrBusy) {
				t.Errorf("the error is %v, want %v", err, ErrBusy)
			}
		})
	}
	rest.Wait()
	close(leave)
	holders.Wait()
	if _, err := s.Draw(t.Context(), acme); err != nil {
		t.Error(err)
	}
}

// TestScriptsAreSentAgain has the server forget the scripts that it was sent.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openWell(t, at(server.URL()))
	for range 2 {
		if _, err := s.Draw(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		server.Do("SCRIPT", "FLUSH")
	}
}

// TestLostCounter holds that a store that lost its fences gives out higher ones,
// under another epoch.
func TestLostCounter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openWell(t, at(server.URL()))
	l, ok, err := s.Acquire(t.Context(), acme, "listen", "a", patience)
	if err != nil || !ok {
		t.Fatalf("Acquire = %v, %v", ok, err)
	}
	server.Do("FLUSHALL")
	if ok, err := s.Renew(t.Context(), l, patience); err != nil || ok {
		t.Errorf("Renew of a lease that was lost = %v, %v", ok, err)
	}
	next, ok, err := s.Acquire(t.Context(), acme, "listen", "b", patience)
	if err != nil || !ok {
		t.Fatalf("Acquire = %v, %v", ok, err)
	}
	if next.Fence.N <= l.Fence.N || next.Fence.Epoch == l.Fence.Epoch {
		t.Errorf("fence %+v after %+v, want a higher one of another epoch", next.Fence, l.Fence)
	}
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Renew(t.Context(), next, patience); err != nil || !ok {
		t.Errorf("Renew = %v, %v: the old holder released another one's lease", ok, err)
	}
}

func TestAnswered(t *testing.T) {
	tests := []struct {
		name          string
		err           error
		want, refused bool
	}{
		{"nothing wrong", nil, true, false},
		{"timeout", context.DeadlineExceeded, false, false},
		{"loading", reply("LOADING Redis is loading the dataset in memory"), false, false},
		{"cluster down", fmt.Errorf("get: %w", reply("CLUSTERDOWN The cluster is down")), false, false},
		{"full", fmt.Errorf("get: %w", reply("OOM command not allowed when used memory > 'maxmemory'.")), true, true},
		{"replica", reply("READONLY You can't write against a read only replica."), true, true},
		{"wrong type", reply("WRONGTYPE Operation against a key holding the wrong kind of value"), true, false},
		{"password", reply("WRONGPASS invalid username-password pair or user is disabled."), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := answered(tt.err); got != tt.want {
				t.Errorf("answered = %v, want %v", got, tt.want)
			}
			if got := refused(tt.err); got != tt.refused {
				t.Errorf("refused = %v, want %v", got, tt.refused)
			}
		})
	}
}

// reply is an error that Redis answered with.
type reply string

// Error implements error.
func (r reply) Error() string { return string(r) }

// RedisError implements goredis.Error.
func (reply) RedisError() {}
