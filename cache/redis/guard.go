package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// When the breaker opens: after so many failures in a row, or so many of at least
// minCalls in the last window, since one node of a cluster may be what fails.
const (
	maxInARow   = 5
	minCalls    = 20
	maxFailed   = 0.2
	countWindow = 10 * time.Second
	countPeriod = time.Second
	// openFor is how long no probe is let through. Callers are not until one was
	// answered.
	openFor = 100 * time.Millisecond
)

// ErrUnavailable is what an operation fails with that was not begun, because Redis
// does not answer at the moment.
var ErrUnavailable = errors.New("redis is not used until it answers again")

// errLeft excludes from the breaker's counts what a caller gave up by itself.
var errLeft = errors.New("the caller left")

// newBreaker makes the breaker. opened is called when it opens; it must not block.
func newBreaker(opened func()) *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "redis",
		Interval:     countWindow,
		BucketPeriod: countPeriod,
		Timeout:      openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= maxInARow ||
				c.Requests >= minCalls && float64(c.TotalFailures) >= maxFailed*float64(c.Requests)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				opened()
			}
		},
		IsSuccessful: answered,
		IsExcluded:   func(err error) bool { return errors.Is(err, errLeft) },
	})
}

// guard runs one operation within the Store's timeout, unless the breaker is open.
// Every use of the client on behalf of a request goes through it.
func (s *Store) guard(ctx context.Context, op func(ctx context.Context) error) error {
	// A half-open breaker waits for the probe, not for a caller.
	if s.breaker.State() != gobreaker.StateClosed {
		return ErrUnavailable
	}
	_, err := s.breaker.Execute(func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		err := op(bounded)
		if err != nil && ctx.Err() != nil {
			return struct{}{}, fmt.Errorf("%w: %w", errLeft, err)
		}
		s.health.failed(err)
		return struct{}{}, err
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return ErrUnavailable
	case refused(err):
		s.health.worse(troubleRefuses)
	}
	return err
}

// answered tells whether Redis has done its part: a refusal is an answer.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var reply goredis.Error
	if !errors.As(err, &reply) {
		return false
	}
	return !hasPrefix(reply, "LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "ERR max number of clients", "NOAUTH ", "WRONGPASS ")
}

// refused tells whether Redis takes no writes: it is full, a replica, or cannot
// persist or replicate as it is told to.
func refused(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && hasPrefix(reply, "OOM ", "READONLY ", "MISCONF ", "NOREPLICAS ")
}

func hasPrefix(reply goredis.Error, prefixes ...string) bool {
	// An error within a script is told as one of Redis 6 with more words before it.
	text := strings.TrimPrefix(reply.Error(), "ERR Error running script: ")
	for _, p := range prefixes {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}
