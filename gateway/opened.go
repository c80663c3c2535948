package gateway

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// opened is what a configuration has opened beside the gateway itself, and what
// closes it after the gateway.
type opened struct{ cleanups cleanups }

// registry sets Store to the tenants of the file, over those of the registry, and Vault
// to what the registry keeps sealed.
func (o *opened) registry(ctx context.Context, cfg *config.Config, deps *Deps, opts *Options) error {
	file := deps.Tenants
	if file == nil {
		file = tenant.NewMemory(cfg.Tenants)
	}
	r, err := OpenRegistry(ctx, cfg, deps.LookupEnv, opts.Logger)
	if err != nil {
		return err
	}
	o.cleanups.push("registry", func(context.Context) error { return r.Close() })
	layered := tenant.Layered(file, r)
	layered.Logger = opts.Logger
	o.cleanups.push("layers of the registry", func(context.Context) error {
		layered.Close()
		return nil
	})
	opts.Store, opts.StoreDegraded, opts.Keys, opts.Vault = layered, r.Degraded, r, r.Vault
	o.reseal(ctx, &resealer{registry: r, ring: opts.Ring, log: opts.Logger})
	return nil
}

// reseal runs beside the gateway, until it stops.
func (o *opened) reseal(ctx context.Context, s *resealer) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { s.run(running) })
	o.cleanups.push("sealing anew", func(context.Context) error {
		stop()
		done.Wait()
		return nil
	})
}

// shared sets Cache, Cluster and Counters to what replicas share, where there are
// several. Redis need not be reachable.
func (o *opened) shared(cfg *config.Config, deps *Deps, opts *Options) error {
	if cfg.Redis == nil {
		return nil
	}
	conn, err := cfg.RedisConnection(deps.LookupEnv)
	if err != nil {
		return err
	}
	store, err := redis.Open(redis.Options{
		Connection: conn,
		Prefix:     cfg.Redis.Prefix,
		Timeout:    cfg.Redis.Timeout,
		Logger:     opts.Logger,
		Metrics:    opts.Registerer,
	})
	if err != nil {
		return err
	}
	o.cleanups.push("shared Redis", func(context.Context) error { return store.Close() })
	awaitContact(store)
	responses := redis.NewResponses(store, cache.NewMemory(cfg.Limits.CacheBytes))
	o.close("cached responses", responses)
	lists := redis.NewResponses(store, nil)
	o.close("shared lists", lists)

	opts.Cache = responses
	opts.Counters = store
	opts.QuotaFailClosed = cfg.Redis.Limits == config.LimitsClosed
	opts.Cluster = &Cluster{
		Cluster: federation.Cluster{
			Replica: rand.Text(), // 130 random bits: no two are ever the same
			Lists:   lists,
			Leases:  store,
			Boards:  store,
			Bus:     store,
		},
		Values:      store,
		PeerListen:  cfg.PeerListen(),
		PeerAddress: cfg.Peer.Address,
		Degraded:    store.Degraded,
	}
	return nil
}

// firstContact is how long a start waits for Redis. Replicas that start together
// and serve before they reach it would each ask all upstreams for all lists.
const firstContact = time.Second

// awaitContact waits until Redis was reached, or for a while.
func awaitContact(store *redis.Store) {
	reached := make(chan struct{}, 1)
	defer store.OnRecovered(func() {
		select {
		case reached <- struct{}{}:
		default:
		}
	})()
	if store.Degraded() == "" {
		return
	}
	select {
	case <-reached:
	case <-time.After(firstContact):
	}
}

// close closes r when the gateway has stopped.
func (o *opened) close(name string, r *redis.Responses) {
	o.cleanups.push(name, func(context.Context) error {
		r.Close()
		return nil
	})
}
