package gateway

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// registered gives a configuration with a registry of that type.
func registered(t *testing.T, kind, url string) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	cfg.Keys = []config.Key{{ID: "k", Secret: config.Secret{Env: "KEY"}}}
	cfg.Store = config.Store{Type: kind}
	cfg.Store.URL.Text = url
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestOpenRegistry holds that each kind of registry opens, and which ones keep what
// they are given.
func TestOpenRegistry(t *testing.T) {
	server := redistest.Start(t)
	tests := []struct {
		name, kind, url string
		want            bool // kept
	}{
		{"memory", config.StoreMemory, "", false},
		{"file", config.StoreFile, "", true},
		{"redis", config.StoreRedis, server.URL(), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := registered(t, tt.kind, tt.url)
			open := func() *Registry {
				r, err := OpenRegistry(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			first := open()
			if _, err := first.Put(t.Context(), &tenant.Tenant{Name: "acme", Separator: "_"}, 0); err != nil {
				t.Error(err)
			}
			if err := first.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			again := open()
			_, err := again.Tenant(t.Context(), "acme")
			if kept := err == nil; kept != tt.want {
				t.Errorf("the tenant is there: %t (%v), want %t", kept, err, tt.want)
			}
			if err := again.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// TestOpenRegistryRefuses holds that nothing starts on a registry that is not there,
// that another process has, or that may lose what is registered.
func TestOpenRegistryRefuses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	gone := redistest.Start(t)
	gone.Kill()
	if _, err := OpenRegistry(t.Context(), registered(t, config.StoreRedis, gone.URL()), nil, log); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a Redis that is gone: %v", err)
	}
	evicting := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	cfg := registered(t, config.StoreRedis, evicting.URL())
	if _, err := OpenRegistry(t.Context(), cfg, nil, log); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("a Redis that evicts: %v", err)
	}
	cfg.Store.AllowVolatile = true
	if r, err := OpenRegistry(t.Context(), cfg, nil, log); err != nil {
		t.Errorf("a Redis that may evict: %v", err)
	} else if err := r.Close(); err != nil {
		t.Error(err)
	}
	cfg.Store.URL = config.URL{From: config.Secret{Env: "NONE"}}
	var faults config.Faults
	if _, err := OpenRegistry(t.Context(), cfg, nil, log); !errors.As(err, &faults) || faults[0].Path != "store.url" {
		t.Errorf("a URL that is not there: %v, want a fault of store.url", err)
	}
	file := registered(t, config.StoreFile, "")
	first, err := OpenRegistry(t.Context(), file, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(t.Context(), file, nil, log); !errors.Is(err, bolt.ErrLocked) {
		t.Errorf("a file that is in use: %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}
