package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	// A process that ended by itself is started again after firstRestart, then
	// after twice as long and so on, at most lastRestart.
	firstRestart = 500 * time.Millisecond
	lastRestart  = 30 * time.Second
	// goodLife is how long a process must have run for its end to be the first one
	// again.
	goodLife = time.Minute
)

// launcher starts the processes of one upstream: when one is wanted, and not too
// often after one that ended by itself. All sessions share its patience, so that
// a program that cannot run is not started for each user in turn.
type launcher struct {
	conf   Config
	log    *slog.Logger
	budget *mcp.Budget

	mu       sync.Mutex
	failures int       // in a row
	next     time.Time // no start before it
}

func newLauncher(conf Config, deps Deps) *launcher {
	conf.fill()
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &launcher{
		conf:   conf,
		log:    deps.Logger.With("tenant", conf.Tenant, "upstream", conf.Alias),
		budget: deps.Budget,
	}
}

// launch starts a process. When the last one ended not long ago it waits, but not
// longer than for a connection. Whoever has the process reports its end. An error
// means that there is none; it is an *egress.DialError, or the cause of ctx.
func (l *launcher) launch(ctx context.Context, to receiver) (*process, error) {
	if err := l.pause(ctx); err != nil {
		return nil, err
	}
	p, err := startProcess(&l.conf, l.log, l.budget, to)
	if err != nil {
		l.failed(0)
		return nil, &egress.DialError{Err: err}
	}
	return p, nil
}

// pause waits until a process may be started.
func (l *launcher) pause(ctx context.Context) error {
	l.mu.Lock()
	left := time.Until(l.next)
	l.mu.Unlock()
	if left <= 0 {
		return nil
	}
	if left > l.conf.ConnectTimeout {
		return &egress.DialError{Err: fmt.Errorf("%w for %s more", errRestarting, left.Round(time.Millisecond))}
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errRestarting = errors.New("the process ended and is not started again")

// failed notes that a process ended by itself, after so long.
func (l *launcher) failed(life time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if life >= goodLife {
		l.failures = 0
	}
	wait := lastRestart
	if l.failures < 6 { // beyond it the product is longer anyway
		wait = min(wait, firstRestart<<l.failures)
	}
	l.failures++
	// Jitter keeps gateways apart that lost the same thing at the same time.
	l.next = time.Now().Add(wait - rand.N(wait/4))
}
