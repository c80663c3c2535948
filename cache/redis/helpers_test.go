package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache/redistest"
)

// patience is how long tests wait for what has to come.
const patience = 30 * time.Second

// prefixes numbers the prefixes of a test's stores, so that each is empty.
type prefixes struct{ n atomic.Int64 }

func (p *prefixes) next() string { return fmt.Sprintf("test%d", p.n.Add(1)) }

// open opens a Store that ends with the test. Its operations may take long unless
// opts say otherwise, since the machine of a test may be busy.
func open(t *testing.T, opts Options) *Store {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	opts.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openWell is open, and waits until the Store works.
func openWell(t *testing.T, opts Options) *Store {
	t.Helper()
	s := open(t, opts)
	eventually(t, "the store works", func() bool { return s.Degraded() == "" })
	return s
}

// at gives the options of a standalone server.
func at(url string) Options { return Options{Connection: Connection{URL: url}} }

// logWriter has a test show what is logged.
type logWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

// wantAllExpire scans all keys of the servers, and fails on one that is kept for
// ever.
func wantAllExpire(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	ctx := context.Background() // that of the test has ended in a clean-up
	keys := 0
	for _, s := range servers {
		iter := s.Client().Scan(ctx, 0, "*", 1000).Iterator()
		for iter.Next(ctx) {
			keys++
			left, err := s.Client().PTTL(ctx, iter.Val()).Result()
			if err != nil {
				t.Fatal(err)
			}
			if left == -1 { // of a key without an expiry
				t.Errorf("%q does not expire", iter.Val())
			}
		}
		if err := iter.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if keys == 0 {
		t.Error("no keys were found: what was looked at?")
	}
}

// client connects to a server as the Store does.
func client(t *testing.T, c Connection) goredis.UniversalClient {
	t.Helper()
	client, err := Dial(c, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
