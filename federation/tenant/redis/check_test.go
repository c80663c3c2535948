package redis_test

import (
	"strings"
	"testing"

	cacheredis "github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/redis"
)

func TestServerChecks(t *testing.T) {
	const (
		drops    = "may drop what is registered: set its maxmemory-policy to noeviction, not allkeys-lru"
		volatile = "keeps the registry in memory only, and a restart would lose it: set appendonly yes, or save points (save 60 1)"
	)
	tests := []struct {
		name string
		args []string
		want []string // errors, one a line; none when it is fine
	}{
		{"append-only file", nil, nil},
		{"save points", []string{"--appendonly", "no", "--save", "60 1"}, nil},
		{"eviction", []string{"--maxmemory-policy", "allkeys-lru"}, []string{drops}},
		{"memory only", []string{"--appendonly", "no"}, []string{volatile}},
		{"both", []string{"--appendonly", "no", "--maxmemory-policy", "allkeys-lru"}, []string{drops, volatile}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := dial(t, cacheredis.Connection{URL: redistest.Start(t, tt.args...).URL()})
			r, err := redis.Open(t.Context(), client, redis.Options{})
			if err == nil {
				_ = r.Close()
			}
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("Open: %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), "redis "+want) {
					t.Errorf("Open: %v, want %s", err, want)
				}
			}
			log := &journal{}
			open(t, client, redis.Options{AllowVolatile: true, Logger: logTo(log)})
			if n := log.count("level=WARN"); (n == 1) != (len(tt.want) > 0) {
				t.Errorf("with AllowVolatile there are %d warnings:\n%s", n, &log.text)
			}
		})
	}
}

// TestClusterChecks holds that one node of several is enough to refuse.
func TestClusterChecks(t *testing.T) {
	c := redistest.StartCluster(t)
	c.Nodes[1].Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	client := dial(t, cacheredis.Connection{URL: c.URL(), Mode: cacheredis.ModeCluster})
	r, err := redis.Open(t.Context(), client, redis.Options{})
	if err == nil {
		t.Fatal("Open: no error", r.Close())
	}
	if want := "redis at " + c.Nodes[1].Addr() + " may drop"; !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want %s", err, want)
	}
}

// TestMayNotAsk holds that what cannot be found out is said.
func TestMayNotAsk(t *testing.T) {
	s := redistest.StartWith(t, redistest.Options{User: "causeway", Password: "causeway-password", Prefix: "causeway"})
	log := &journal{}
	open(t, dial(t, cacheredis.Connection{URL: s.URL()}), redis.Options{Logger: logTo(log)})
	if n := log.count("it cannot be found out whether"); n != 2 {
		t.Errorf("there are %d warnings, want 2:\n%s", n, &log.text)
	}
	if log.count("causeway-password") > 0 {
		t.Error("the password was logged")
	}
}

func TestWrongPassword(t *testing.T) {
	s := redistest.StartWith(t, redistest.Options{User: "causeway", Password: "causeway-password", Prefix: "causeway"})
	r, err := redis.Open(t.Context(), dial(t, cacheredis.Connection{URL: s.URL(), Username: "causeway", Password: "other-password"}), redis.Options{})
	if err == nil {
		t.Fatal("Open: no error", r.Close())
	}
	if !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "other-password") {
		t.Errorf("Open: %v", err)
	}
}

// TestWritesRefused holds that a refused change is an error that has changed
// nothing, and that reading goes on.
func TestWritesRefused(t *testing.T) {
	s, with := single(t)
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	tests := []struct {
		name         string
		refuse, heal func()
		want         string
	}{
		{
			"memory",
			func() { s.Do("CONFIG", "SET", "maxmemory", "1") }, func() { s.Do("CONFIG", "SET", "maxmemory", "0") }, "OOM",
		},
		{
			"replica",
			func() { s.Do("REPLICAOF", "127.0.0.1", "1") }, func() { s.Do("REPLICAOF", "NO", "ONE") }, "READONLY",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.refuse()
			_, err := r.Put(t.Context(), named("acme", "2"), tenant.Any)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Put: %v, want %s", err, tt.want)
			}
			if _, err := r.Import(t.Context(), &tenant.Snapshot{}, tenant.Any); err == nil {
				t.Error("Import: no error")
			}
			mustHold(t, r, map[string]string{"acme": "1"})
			tt.heal()
			put(t, r, named("acme", "3"))
			put(t, r, named("acme", "1"))
		})
	}
}

// TestForeignContent has something else under our names.
func TestForeignContent(t *testing.T) {
	s, with := single(t)
	s.Do("HSET", "causeway:{causeway/registry}:meta", "revision", "many")
	client := dial(t, cacheredis.Connection{URL: s.URL()})
	for range 2 {
		r, err := redis.Open(t.Context(), client, redis.Options{})
		if err == nil {
			t.Fatal("Open: no error", r.Close())
		}
		s.Do("DEL", "causeway:{causeway/registry}:meta")
		s.Do("SET", "causeway:{causeway/registry}:meta", "x")
	}
	s.Do("DEL", "causeway:{causeway/registry}:meta")

	// What a newer program wrote for one tenant hides no other.
	r := with(redis.Options{PollInterval: short})
	put(t, r, named("acme", "1"))
	put(t, r, named("zoo", "1"))
	s.Do("HSET", "causeway:{causeway/registry}:tenants", "zoo", `1 {"v":1,"tenant":{"name":"zoo","shield":true}}`)
	fresh := with(redis.Options{})
	if _, err := fresh.Tenant(t.Context(), "zoo"); err == nil || !strings.Contains(err.Error(), "tenant.shield: unknown field") {
		t.Errorf("Tenant: %v", err)
	}
	if _, err := fresh.Tenant(t.Context(), "acme"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestCloseEnds holds that nothing runs, and nobody is told, after Close.
func TestCloseEnds(t *testing.T) {
	s, with := single(t)
	a, b := with(redis.Options{PollInterval: short}), with(redis.Options{PollInterval: short})
	defer b.Watch(t.Context(), func(name string) { t.Errorf("%s was told after Close", name) })()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, a, named("acme", "1"))
	eventually(t, "one listener left", func() bool {
		subs := s.Do("PUBSUB", "NUMSUB", "causeway:registry").([]any)
		return subs[1].(int64) == 1
	})
}
