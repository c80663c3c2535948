package redis

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/sony/gobreaker/v2"
)

// When the breaker opens: after so many failures in a row, or for so many of at
// least minCalls in the last window, since one node of a cluster may be what fails.
// Many calls that time out at the same time are one moment in which this process
// had no processor, or Redis something else to do; so timeouts have to go on for a
// while.
const (
	maxInARow   = 5
	minCalls    = 20
	maxFailed   = 0.2
	countWindow = 10 * time.Second
	countPeriod = time.Second
	// rowLasts times the timeout is how long only timeouts come, before the breaker
	// opens.
	rowLasts = 3
	// someLast is how long there are failures among others, with no quietFor
	// between two.
	someLast = time.Second
	quietFor = 2 * time.Second
	// openFor is how long no probe is let through. Callers are not until one was
	// answered.
	openFor = 100 * time.Millisecond
)

// trip tells when the breaker is to open. The breaker's lock guards it.
type trip struct {
	timeout  time.Duration // of an operation
	timedOut bool          // the latest failure was a timeout
	rowSince time.Time     // the first failure after the latest success
	since    time.Time     // the first failure that none but short pauses followed
	last     time.Time     // the latest failure
}

// newBreaker makes the breaker for operations with a timeout. opened is called when
// it opens; it must not block, nor use the breaker.
func newBreaker(timeout time.Duration, opened func()) *gobreaker.CircuitBreaker[struct{}] {
	t := &trip{timeout: timeout}
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "redis",
		Interval:     countWindow,
		BucketPeriod: countPeriod,
		Timeout:      openFor,
		ReadyToTrip:  t.ready,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				opened()
			}
		},
		IsSuccessful: func(err error) bool {
			ok := answered(err)
			if !ok {
				t.timedOut = isTimeout(err)
			}
			return ok
		},
		IsExcluded: func(err error) bool {
			var not notCounted
			return errors.As(err, &not)
		},
	})
}

// ready tells, after a failure, whether the breaker is to open.
func (t *trip) ready(c gobreaker.Counts) bool {
	now := time.Now()
	if c.ConsecutiveFailures <= 1 {
		t.rowSince = now
	}
	if now.Sub(t.last) > quietFor {
		t.since = now
	}
	t.last = now
	if c.ConsecutiveFailures >= maxInARow && (!t.timedOut || now.Sub(t.rowSince) >= rowLasts*t.timeout) {
		return true
	}
	return c.Requests >= minCalls && float64(c.TotalFailures) >= maxFailed*float64(c.Requests) && now.Sub(t.since) >= someLast
}

// isTimeout tells whether an answer did not come in time.
func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
