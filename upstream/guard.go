package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/semaphore"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What the breaker is told of an attempt besides nil, the success.
var (
	errFailed    = errors.New("failed")
	errNoVerdict = errors.New("says nothing about the upstream")
)

// guard bounds how many requests an upstream has at a time, and keeps requests
// from one that failed repeatedly.
type guard struct {
	slots   *semaphore.Weighted
	wait    time.Duration // longest wait for a slot
	open    time.Duration
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	probing atomic.Bool            // the breaker is half-open
	probe   atomic.Pointer[ticket] // the latest one
}

func newGuard(conf *Config, log *slog.Logger, s *series) *guard {
	g := &guard{
		slots: semaphore.NewWeighted(int64(conf.MaxInFlight)),
		wait:  conf.ConnectTimeout,
		open:  conf.BreakerOpen,
	}
	failures := uint32(conf.BreakerFailures)
	s.setBreaker(gobreaker.StateClosed)
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Timeout:      conf.BreakerOpen,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return err == errNoVerdict },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			g.probing.Store(to == gobreaker.StateHalfOpen)
			s.setBreaker(to)
			log.Info("upstream breaker changed", "from", from.String(), "to", to.String())
		},
	})
	return g
}

// enter takes one of the slots, waiting in line for at most the connect timeout.
// The error is that of ctx when ctx ended, errBusy, or the breaker's when there is
// no use in waiting.
func (g *guard) enter(ctx context.Context) error {
	if g.slots.TryAcquire(1) {
		return nil
	}
	if g.isOpen() {
		return gobreaker.ErrOpenState
	}
	wait, cancel := context.WithTimeoutCause(ctx, g.wait, errBusy)
	defer cancel()
	if g.slots.Acquire(wait, 1) != nil {
		return context.Cause(wait)
	}
	return nil
}

// isOpen tells whether no request would be let through.
func (g *guard) isOpen() bool { return g.breaker.State() == gobreaker.StateOpen }

var errBusy = errors.New("too many requests are under way")

func (g *guard) leave() { g.slots.Release(1) }

// ticket is the breaker's leave for one attempt.
type ticket struct {
	guard   *guard
	done    func(error)
	settled atomic.Bool
	// Of a probe, which is an attempt while the breaker is half-open:
	timer   *time.Timer
	expired atomic.Bool // settled without a verdict, since it took too long
}

// allow asks the breaker. A ticket must be settled.
//
// While the breaker is half-open it lets one request through at a time. One that
// is slow by its nature must not keep all others out for so long, so after the
// time that the breaker stays open it makes room for another one.
func (g *guard) allow() (*ticket, error) {
	done, err := g.breaker.Allow()
	if err != nil {
		return nil, err
	}
	t := &ticket{guard: g, done: done}
	if g.probing.Load() {
		g.probe.Store(t)
		t.timer = time.AfterFunc(g.open, func() {
			t.expired.Store(true)
			if !t.report(errNoVerdict) {
				t.expired.Store(false)
			}
		})
	}
	return t, nil
}

// settle tells the breaker how the attempt went; only the first word counts. A
// nil ticket is fine.
func (t *ticket) settle(err error) {
	if t == nil {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.report(err) || !t.expired.CompareAndSwap(true, false) || err == errNoVerdict {
		return
	}
	// A probe that took too long has something to say after all: for the one that
	// has taken its room, if there is one.
	if done, refused := t.guard.breaker.Allow(); refused == nil {
		done(err)
	} else if other := t.guard.probe.Load(); other != nil {
		other.report(err)
	}
}

// isProbe tells whether all other requests wait for what this one says.
func (t *ticket) isProbe() bool { return t != nil && t.timer != nil }

// report tells whether it was the first word.
func (t *ticket) report(err error) bool {
	if t.settled.Swap(true) {
		return false
	}
	t.done(err)
	return true
}

// verdict is what an attempt's outcome says about the upstream's health. An
// answer is a success, also one that refuses the request.
func verdict(f *fault) error {
	if f == nil {
		return nil
	}
	if f.unshown {
		return errNoVerdict
	}
	switch f.Class {
	case ClassConnect, ClassInterrupted, ClassProtocol:
		return errFailed
	case ClassTimeout:
		if f.callers {
			return errNoVerdict
		}
		return errFailed
	case ClassStatus:
		if f.status >= 500 {
			return errFailed
		}
	case ClassCanceled, ClassOverloaded, ClassBreakerOpen:
		return errNoVerdict
	}
	return nil
}

// repeatable tells whether a request may be carried out twice without anybody
// noticing.
func repeatable(method string) bool {
	switch method {
	case mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList,
		mcp.MethodTemplatesList, mcp.MethodResourcesRead, mcp.MethodComplete:
		return true
	}
	return false
}

// worthRetry tells whether the gateway itself sends the request once more.
func (f *fault) worthRetry(method string) bool {
	switch f.Class {
	case ClassConnect:
		return (repeatable(method) || f.unsent) && !f.slow && !f.blocked
	case ClassInterrupted:
		return repeatable(method)
	case ClassStatus:
		return repeatable(method) && f.status >= 500
	}
	return false
}
