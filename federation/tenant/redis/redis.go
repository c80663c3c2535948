// Package redis keeps a tenant.Registry in a Redis that several gateways share. It
// imports package tenant and is given a client.
//
// Each Registry holds all that is registered in memory, as it was written and not
// decoded, and answers from there; Redis is asked in the background, when something is
// written, and for sealed values. So nobody who is served waits for Redis, and what runs goes
// on while Redis is down.
//
// A Redis that lost what it held must not take it from those that run. A registry
// that is empty, older than the one that runs, or begun anew by somebody else, is
// not taken over: what runs stays, Degraded says so, and what is written through such
// a Registry is refused (ErrLost). It heals by itself when the store is the newer one
// again: when the lost server comes back, or an older copy of the same registry is
// written to. Otherwise an operator decides what is right and imports it, from an
// export or, by Registry.Export, from a replica that still runs: an Import is taken
// over by everybody. Only a replica that starts while Redis is empty has nothing to
// hold on to, and serves what it finds.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Defaults of Options.
const (
	DefaultPrefix       = "causeway"
	DefaultPollInterval = 500 * time.Millisecond
)

// Bounds of what Redis is asked.
const (
	openTimeout = 15 * time.Second // of all that Open does
	pollTimeout = 5 * time.Second  // of one look for changes
)

// Options are what a Registry needs. Zero values mean the named defaults.
type Options struct {
	Prefix string // DefaultPrefix; before all keys and the channel
	// PollInterval is how often changes are looked for that nobody told of:
	// DefaultPollInterval. What is promised, to know of each within a second, needs
	// less than a second.
	PollInterval time.Duration
	// AllowVolatile accepts a Redis that may drop what is registered, or keeps it in
	// memory only. It is for development and tests.
	AllowVolatile bool
	Logger        *slog.Logger // nil for none
}

// ErrLost tells that Redis does not hold what runs here, but nothing, something
// older or another registry, so that a change of it would be a change of the wrong
// one. Degraded says which; Import puts it right.
var ErrLost = errors.New("the registry in redis is not the one that runs here")

// Registry is a tenant.Registry and a tenant.Vault in Redis.
type Registry struct {
	opts     Options
	log      *slog.Logger
	client   goredis.UniversalClient
	scripts  *scripts
	keys     []string
	channel  string
	watchers tenant.Watchers

	cancel context.CancelFunc
	done   sync.WaitGroup

	state atomic.Pointer[state]

	syncing sync.Mutex // one look at Redis at a time

	mu       sync.Mutex
	lost     string // why what is in Redis is not taken over
	silent   string // why nothing is known of Redis
	failures int    // looks that have failed in a row
}

var _ tenant.Registry = (*Registry)(nil)

// state is all that is registered, as of one moment. It is not changed.
type state struct {
	epoch    string
	revision uint64
	tenants  map[string]string            // by name: the revision, a space, JSON
	keys     map[string]map[string]string // by tenant and id: the second of the last use, a line feed, JSON
}

// Open opens the registry that a Redis holds under a prefix. Redis has to be there:
// a registry that cannot be read must not look empty. It has to keep what it is given
// (maxmemory-policy noeviction, and append-only file or save points); where that
// cannot be found out, since the user may not ask, a warning is logged. The client
// must not try again by itself what has failed, and stays the caller's.
func Open(ctx context.Context, client goredis.UniversalClient, opts Options) (*Registry, error) {
	opts.Prefix = cmp.Or(opts.Prefix, DefaultPrefix)
	opts.PollInterval = cmp.Or(opts.PollInterval, DefaultPollInterval)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{
		opts: opts, log: opts.Logger, client: client, scripts: newScripts(),
		channel: opts.Prefix + ":registry",
	}
	for _, name := range []string{"meta", "tenants", "keys", "ids", "changes", "history", "vault", "vaultids", "vaultrevision"} {
		// One hash tag, so that a cluster has all in one slot.
		r.keys = append(r.keys, fmt.Sprintf("%s:{%[1]s/registry}:%s", opts.Prefix, name))
	}
	r.state.Store(&state{})
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := r.checkServers(ctx); err != nil {
		return nil, fmt.Errorf("open registry in redis: %w", err)
	}
	if err := r.sync(ctx); err != nil {
		return nil, fmt.Errorf("open registry in redis: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = stop
	r.done.Go(func() { r.follow(running) })
	return r, nil
}

// Close ends what runs in the background. What is known stays readable.
func (r *Registry) Close() error {
	r.cancel()
	r.done.Wait()
	return nil
}

// Degraded says in a few words why what runs may not be what is registered: Redis
// cannot be asked, or holds something else; empty when all is well.
func (r *Registry) Degraded() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.silent, r.lost)
}

// Tenant implements tenant.Store.
func (r *Registry) Tenant(_ context.Context, name string) (*tenant.Tenant, error) {
	value, ok := r.state.Load().tenants[name]
	if !ok {
		return nil, tenant.ErrNotFound
	}
	t, err := decodeTenant(value)
	if err != nil {
		return nil, fmt.Errorf("read tenant %s from redis: %w", name, err)
	}
	return t, nil
}

func decodeTenant(value string) (*tenant.Tenant, error) {
	revision, encoded, _ := strings.Cut(value, " ")
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return nil, errors.New("a value without a revision")
	}
	t, err := tenant.DecodeTenant([]byte(encoded))
	if err != nil {
		return nil, err
	}
	t.Revision = n
	return t, nil
}

// Names implements tenant.Store.
func (r *Registry) Names(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(r.state.Load().tenants)), nil
}

// Watch implements tenant.Store.
func (r *Registry) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	return r.watchers.Watch(ctx, changed)
}

// Keys implements tenant.Registry.
func (r *Registry) Keys(_ context.Context, of string) ([]tenant.APIKey, error) {
	s := r.state.Load()
	if _, ok := s.tenants[of]; !ok {
		return nil, tenant.ErrNotFound
	}
	return s.keysOf(of)
}

// keysOf gives the keys of a tenant, sorted.
func (s *state) keysOf(of string) ([]tenant.APIKey, error) {
	keys := make([]tenant.APIKey, 0, len(s.keys[of]))
	for _, id := range slices.Sorted(maps.Keys(s.keys[of])) {
		k, err := decodeKey(s.keys[of][id])
		if err != nil {
			return nil, fmt.Errorf("read key %s of %s from redis: %w", id, of, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func decodeKey(value string) (tenant.APIKey, error) {
	used, encoded, _ := strings.Cut(value, "\n")
	second, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return tenant.APIKey{}, errors.New("a value without its last use")
	}
	k, err := tenant.DecodeKey([]byte(encoded))
	if err != nil {
		return tenant.APIKey{}, err
	}
	if second != 0 {
		k.LastUsed = time.Unix(second, 0).UTC()
	}
	return k, nil
}

// Key implements tenant.Registry.
func (r *Registry) Key(_ context.Context, of, id string) (tenant.APIKey, error) {
	value, ok := r.state.Load().keys[of][id]
	if !ok {
		return tenant.APIKey{}, tenant.ErrNotFound
	}
	k, err := decodeKey(value)
	if err != nil {
		return tenant.APIKey{}, fmt.Errorf("read key %s of %s from redis: %w", id, of, err)
	}
	return k, nil
}

// Export implements tenant.Registry. It gives what runs, also where Redis has lost
// it.
func (r *Registry) Export(context.Context) (*tenant.Snapshot, error) {
	state := r.state.Load()
	s := &tenant.Snapshot{Revision: state.revision}
	for _, name := range slices.Sorted(maps.Keys(state.tenants)) {
		t, err := decodeTenant(state.tenants[name])
		if err != nil {
			return nil, fmt.Errorf("read tenant %s from redis: %w", name, err)
		}
		keys, err := state.keysOf(name)
		if err != nil {
			return nil, err
		}
		s.Tenants, s.Keys = append(s.Tenants, t), append(s.Keys, keys...)
	}
	return s, nil
}
