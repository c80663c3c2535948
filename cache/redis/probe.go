package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// How a Redis is looked after.
const (
	probeTimeout = time.Second // of what may include a new connection
	probeWell    = 2 * time.Second
	probeSoon    = 200 * time.Millisecond // after a failure; doubled with each up to probeWell
	probeLife    = time.Minute            // of what a probe writes
	// probeNames is among how many names one is looked for that each node of a
	// cluster has.
	probeNames = 256
)

// watch looks after Redis until ctx ends, all the time, since somebody has to
// notice also when nobody asks.
func (s *Store) watch(ctx context.Context) {
	pause := probeSoon
	for {
		failed, trouble := s.look(ctx), s.Degraded()
		switch {
		case failed && (trouble == "" || trouble == troubleNew): // the breaker soon knows
			pause = probeSoon
		case trouble != "":
			pause = min(2*pause, probeWell)
		default:
			pause = probeWell
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(pause)):
			continue
		case <-s.health.wake:
		}
		pause = probeSoon
		select { // it has just failed
		case <-ctx.Done():
			return
		case <-time.After(jitter(pause)):
		}
	}
}

// jitter keeps the replicas of a gateway apart.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// look probes once, and notes what it finds. One probe that is not answered in time
// says nothing yet: the breaker tells when there are too many.
func (s *Store) look(ctx context.Context) (failed bool) {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		err := s.probe(ctx)
		s.health.failed(err)
		return struct{}{}, err
	})
	switch {
	case ctx.Err() != nil:
	case refused(err):
		s.health.worse(troubleRefuses)
	case s.breaker.State() != gobreaker.StateClosed:
		s.health.silent()
	case err == nil:
		s.health.well()
	case answered(err):
		s.health.worse(troubleErrors)
	}
	return err != nil
}

// probe tells whether each node answers, and takes a write, as fast as it has to
// for those who ask on behalf of a request.
func (s *Store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	keys, err := s.probeKeys(ctx)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	for _, key := range keys {
		// The first may need a connection, whose making takes longer.
		if err := s.client.Exists(ctx, key).Err(); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
		fast, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		err := s.client.Set(fast, key, "", probeLife).Err()
		cancel()
		if err != nil {
			return fmt.Errorf("probe: %w", err)
		}
	}
	return nil
}

// probeKeys gives a key for each node that takes writes.
func (s *Store) probeKeys(ctx context.Context) ([]string, error) {
	cluster, ok := s.client.(*goredis.ClusterClient)
	if !ok {
		return []string{s.loneKey(kindProbe, "0")}, nil
	}
	var keys []string
	seen := map[string]bool{}
	for i := range probeNames {
		key := s.loneKey(kindProbe, strconv.Itoa(i))
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if addr := node.Options().Addr; !seen[addr] {
			seen[addr] = true
			keys = append(keys, key)
		}
	}
	return keys, nil
}
