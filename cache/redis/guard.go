package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// ErrUnavailable is what an operation fails with that was not begun, because Redis
// does not answer at the moment.
var ErrUnavailable = errors.New("redis is not used until it answers again")

// ErrBusy is what an operation fails with that waited for its turn for too long,
// because this process asks more of Redis than it can do.
var ErrBusy = errors.New("too many wait for redis")

// How many operations may be under way at the same time: enough to keep a Redis
// busy, and few enough that each is fast.
const (
	turnsPerCPU = 8
	minTurns    = 16
)

func newTurns() chan struct{} {
	return make(chan struct{}, max(minTurns, turnsPerCPU*runtime.GOMAXPROCS(0)))
}

// notCounted is an error that says nothing about Redis: of a caller who gave up by
// itself, or who had little time left when it was its turn.
type notCounted struct{ error }

// Unwrap gives the error itself.
func (e notCounted) Unwrap() error { return e.error }

// guard runs one operation within the Store's timeout, unless the breaker is open.
// Every use of the client on behalf of a request goes through it.
func (s *Store) guard(ctx context.Context, op func(ctx context.Context) error) error {
	// A half-open breaker waits for the probe, not for a caller.
	if s.breaker.State() != gobreaker.StateClosed {
		return ErrUnavailable
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.turn(ctx, bounded); err != nil {
		return err
	}
	defer func() { <-s.turns }()
	late := time.Since(start) > s.opts.Timeout/2
	_, err := s.breaker.Execute(func() (struct{}, error) {
		err := op(bounded)
		if err != nil && !answered(err) && (late || ctx.Err() != nil) {
			return struct{}{}, notCounted{err}
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

// turn waits until fewer operations are under way than may be at the same time. A
// crowd whose members wait for one another would look like a Redis that does not
// answer.
func (s *Store) turn(ctx, bounded context.Context) error {
	select {
	case s.turns <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turns <- struct{}{}:
		return nil
	case <-bounded.Done():
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for redis: %w", err)
		}
		return ErrBusy
	}
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
