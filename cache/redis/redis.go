// Package redis is the Redis back end of package cache: what the replicas of one
// gateway share. It works with a standalone Redis, a Redis Cluster and a primary
// that Sentinels watch, and is made so that a Redis that is slow, full, read-only
// or gone costs its callers a bounded time and then none. It imports package cache.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/causeway-mcp/causeway/cache"
)

// Mode says how a Redis is made up.
type Mode string

// Modes.
const (
	ModeStandalone Mode = "standalone"
	ModeCluster    Mode = "cluster"
	ModeSentinel   Mode = "sentinel"
)

// Connection says how a Redis is reached.
type Connection struct {
	// URL is redis://host:port/db, or rediss:// for TLS. Further nodes of a cluster,
	// and further Sentinels, are named with ?addr=host:port.
	URL  string
	Mode Mode // empty for ModeStandalone
	// Master is the name by which Sentinels know the primary.
	Master             string
	Username, Password string      // in place of those in URL
	TLS                *tls.Config // in place of the system's; only with rediss://
}

// Options are what a Store needs. Zero values mean the named defaults.
type Options struct {
	Connection
	Prefix  string        // DefaultPrefix; before all keys and channels
	Timeout time.Duration // DefaultTimeout; the longest that one operation keeps its caller waiting
	// PollInterval is how often generations are looked at, for those that nobody told
	// of: DefaultPollInterval.
	PollInterval time.Duration
	Logger       *slog.Logger
	Metrics      prometheus.Registerer // may be nil
}

// Defaults of Options.
const (
	DefaultPrefix       = "causeway"
	DefaultTimeout      = 25 * time.Millisecond
	DefaultPollInterval = 3 * time.Second
)

// Store is the shared state in one Redis.
type Store struct {
	opts    Options
	client  goredis.UniversalClient
	breaker *gobreaker.CircuitBreaker[struct{}]
	health  *health
	bus     *bus
	turns   chan struct{} // has something in it for each operation that is under way

	cancel context.CancelFunc
	work   sync.WaitGroup
}

var (
	_ cache.Leases   = (*Store)(nil)
	_ cache.Boards   = (*Store)(nil)
	_ cache.Bus      = (*Store)(nil)
	_ cache.Values   = (*Store)(nil)
	_ cache.Counters = (*Store)(nil)
)

// Open makes a Store. Redis need not be reachable: the Store is degraded until it
// is.
func Open(opts Options) (*Store, error) {
	if strings.ContainsAny(opts.Prefix, "{}") {
		return nil, errors.New("redis: a prefix with braces would undo what they mean in keys")
	}
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	opts.PollInterval = cmp.Or(opts.PollInterval, DefaultPollInterval)
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	client, err := Dial(opts.Connection, max(opts.Timeout, probeTimeout))
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, client: client, turns: newTurns()}
	up := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "causeway_redis_up",
		Help:        "Whether Redis answers and takes writes.",
		ConstLabels: prometheus.Labels{"use": "cache"},
	})
	if opts.Metrics != nil {
		if err := opts.Metrics.Register(up); err != nil {
			return nil, errors.Join(fmt.Errorf("redis: %w", err), client.Close())
		}
	}
	s.health = newHealth(opts.Logger, up)
	s.breaker = newBreaker(opts.Timeout, s.health.silent)
	s.bus = newBus(func(ctx context.Context) *goredis.PubSub { return client.Subscribe(ctx) })
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = func() {
		cancel()
		if opts.Metrics != nil {
			opts.Metrics.Unregister(up)
		}
	}
	s.work.Go(func() { s.watch(ctx) })
	s.work.Go(func() { s.bus.run(ctx) })
	return s, nil
}

// Close ends all that the Store does, subscriptions too.
func (s *Store) Close() error {
	s.cancel()
	s.work.Wait()
	s.bus.end()
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// Degraded says in a few words what does not work at the moment: that Redis cannot
// be reached, or takes no writes; empty when all is well.
func (s *Store) Degraded() string {
	if s.breaker.State() != gobreaker.StateClosed {
		return troubleSilent
	}
	return s.health.get()
}

// OnRecovered has f called each time that Redis works again after Degraded told of
// something, also the first time, until stop is called. Calls come one after the
// other; no call runs when stop has returned. f must not block, nor call stop.
func (s *Store) OnRecovered(f func()) (stop func()) { return s.health.add(f) }
