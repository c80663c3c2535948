package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
)

// A program that keeps ending is started less and less often, and one that ran
// for long at once.
func TestLauncherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLauncher(Config{ConnectTimeout: 100 * time.Second, Process: &Process{}}, Deps{})
		wait := func() time.Duration {
			t.Helper()
			start := time.Now()
			if err := l.pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		if d := wait(); d != 0 {
			t.Errorf("the first start waits for %s", d)
		}
		most := firstRestart
		for range 10 {
			l.failed(time.Second)
			if d := wait(); d > most || d < most*3/4 {
				t.Errorf("a start waits for %s, want up to %s", d, most)
			}
			most = min(2*most, lastRestart)
		}
		l.failed(goodLife)
		if d := wait(); d > firstRestart {
			t.Errorf("a start after a good life waits for %s", d)
		}
	})
}

// Nobody waits for longer than for a connection.
func TestLauncherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLauncher(Config{ConnectTimeout: time.Second, Process: &Process{}}, Deps{})
		l.failed(0)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errDeadline)
		defer cancel()
		if err := l.pause(ctx); !errors.Is(err, errDeadline) {
			t.Errorf("error = %v, want the cause of the context", err)
		}
		l.failed(0)
		l.failed(0)
		start := time.Now()
		if _, err := l.launch(t.Context(), newSink()); !errors.Is(err, errRestarting) || !egress.NotSent(err) || time.Since(start) != 0 {
			t.Errorf("error = %v after %s, want a refusal at once", err, time.Since(start))
		}
	})
}
