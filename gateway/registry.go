package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
	tenantredis "github.com/causeway-mcp/causeway/federation/tenant/redis"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// registryFile is the file of the registry, in the data directory.
const registryFile = "registry.db"

// registryTimeout bounds one use of a registry in Redis. No request waits for it.
const registryTimeout = 5 * time.Second

// Registry is what is registered besides the tenants of the configuration file.
type Registry struct {
	tenant.Registry
	// Vault keeps what is given for users, where the registry is.
	Vault tenant.Vault
	// Degraded says why what runs may not be what is registered; nil where that
	// cannot be.
	Degraded func() string

	close []func() error
}

// Close closes what OpenRegistry has opened.
func (r *Registry) Close() error {
	var errs []error
	for _, c := range r.close {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// OpenRegistry opens the registry that a configuration asks for. One in Redis has to
// answer; ctx bounds how long it may take. lookupEnv is os.LookupEnv or nil. The
// error is config.Faults where the configuration is wrong.
func OpenRegistry(ctx context.Context, cfg *config.Config, lookupEnv func(string) (string, bool), log *slog.Logger) (*Registry, error) {
	switch cfg.StoreType() {
	case config.StoreMemory:
		r := tenant.NewMemoryRegistry()
		return &Registry{Registry: r, Vault: r}, nil
	case config.StoreFile:
		if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of the registry: %w", err)
		}
		r, err := bolt.Open(filepath.Join(cfg.DataDir, registryFile))
		if err != nil {
			return nil, err
		}
		return &Registry{Registry: r, Vault: r, close: []func() error{r.Close}}, nil
	}
	conn, err := cfg.StoreConnection(lookupEnv)
	if err != nil {
		return nil, err
	}
	client, err := redis.Dial(conn, registryTimeout)
	if err != nil {
		return nil, err
	}
	r, err := tenantredis.Open(ctx, client, tenantredis.Options{
		Prefix: cfg.Store.Prefix, AllowVolatile: cfg.Store.AllowVolatile, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &Registry{Registry: r, Vault: r, Degraded: r.Degraded, close: []func() error{r.Close, client.Close}}, nil
}
