// Package redis is the Redis back end of package cache: what the replicas of one
// gateway share. It works with a standalone Redis, a Redis Cluster and a primary
// that Sentinels watch, and is made so that a Redis that is slow, full, read-only
// or gone costs its callers a bounded time and then none. It imports package cache.
package redis

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

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
	opts   Options
	client goredis.UniversalClient
}

var (
	_ cache.Leases   = (*Store)(nil)
	_ cache.Boards   = (*Store)(nil)
	_ cache.Bus      = (*Store)(nil)
	_ cache.Values   = (*Store)(nil)
	_ cache.Counters = (*Store)(nil)
)

// Dial makes a client of a Redis. It does not connect yet. Errors never hold a
// password. timeout bounds one operation.
func Dial(c Connection, timeout time.Duration) (goredis.UniversalClient, error) { panic("stub") }

// Open makes a Store. Redis need not be reachable: the Store is degraded until it
// is.
func Open(opts Options) (*Store, error) { panic("stub") }

// Close ends all that the Store does.
func (s *Store) Close() error { panic("stub") }

// Degraded says in a few words what does not work at the moment: that Redis cannot
// be reached, or takes no writes; empty when all is well.
func (s *Store) Degraded() string { panic("stub") }

// guard runs one operation within the Store's timeout, unless the breaker is open.
// Every use of the client on behalf of a request goes through it.
func (s *Store) guard(ctx context.Context, op func(ctx context.Context) error) error { panic("stub") }

// Responses is a cache.Responses in a Store, with a cache.Memory in front unless it
// is nil.
type Responses struct {
	store *Store
	near  *cache.Memory
}

var _ cache.Responses = (*Responses)(nil)

// NewResponses makes it. Close ends what it does in the background.
func NewResponses(s *Store, near *cache.Memory) *Responses { panic("stub") }

// Close ends what runs in the background.
func (r *Responses) Close() { panic("stub") }
