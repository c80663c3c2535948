package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	cacheredis "github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/redis"
	"github.com/causeway-mcp/causeway/federation/tenant/tenanttest"
)

// dial gives a client of a Redis, as the gateway has it.
func dial(t *testing.T, c cacheredis.Connection) goredis.UniversalClient {
	t.Helper()
	client, err := cacheredis.Dial(c, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func open(t *testing.T, client goredis.UniversalClient, opts redis.Options) *redis.Registry {
	t.Helper()
	r, err := redis.Open(t.Context(), client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// suite runs the suite of registries on a Redis; each content has a prefix of its
// own, and each of the two registries a client.
func suite(t *testing.T, c cacheredis.Connection) {
	var contents atomic.Int32
	tenanttest.TestRegistry(t, func(t *testing.T) (a, b tenant.Registry) {
		opts := redis.Options{Prefix: fmt.Sprintf("causeway%d", contents.Add(1))}
		return open(t, dial(t, c), opts), open(t, dial(t, c), opts)
	})
}

func TestStandalone(t *testing.T) {
	suite(t, cacheredis.Connection{URL: redistest.Start(t).URL()})
}

func TestCluster(t *testing.T) {
	suite(t, cacheredis.Connection{URL: redistest.StartCluster(t).URL(), Mode: cacheredis.ModeCluster})
}

// TestRestrictedUser runs the suite as a user over TLS who may use only keys and
// channels of the prefix, and may not ask about the server.
func TestRestrictedUser(t *testing.T) {
	certificates := redistest.NewCertificates(t)
	s := redistest.StartWith(t, redistest.Options{
		TLS: certificates, User: "causeway", Password: "causeway-password", Prefix: "causeway",
	})
	suite(t, cacheredis.Connection{URL: s.URL(), TLS: certificates.Client})
}

func TestSentinel(t *testing.T) {
	s := redistest.StartSentinels(t)
	client := dial(t, cacheredis.Connection{URL: s.URL(), Mode: cacheredis.ModeSentinel, Master: redistest.Master})
	r := open(t, client, redis.Options{})
	if _, err := r.Put(t.Context(), &tenant.Tenant{Name: "acme"}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tenant(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
}

// vaultSuite is suite for sealed values.
func vaultSuite(t *testing.T, c cacheredis.Connection) {
	var contents atomic.Int32
	tenanttest.TestVault(t, func(t *testing.T) (a, b tenanttest.Vaulted) {
		opts := redis.Options{Prefix: fmt.Sprintf("causeway%d", contents.Add(1))}
		return open(t, dial(t, c), opts), open(t, dial(t, c), opts)
	})
}

func TestVaultStandalone(t *testing.T) {
	vaultSuite(t, cacheredis.Connection{URL: redistest.Start(t).URL()})
}

func TestVaultCluster(t *testing.T) {
	vaultSuite(t, cacheredis.Connection{URL: redistest.StartCluster(t).URL(), Mode: cacheredis.ModeCluster})
}

func TestVaultRestrictedUser(t *testing.T) {
	s := redistest.StartWith(t, redistest.Options{User: "causeway", Password: "causeway-password", Prefix: "causeway"})
	vaultSuite(t, cacheredis.Connection{URL: s.URL()})
}
