package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/config"
)

func TestConnections(t *testing.T) {
	certs := redistest.NewCertificates(t)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("redis://u:hush@h:1/2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Keys = []config.Key{{ID: "k", Secret: config.Secret{Env: "K"}}}
	c.Redis = &config.Redis{Connection: config.Connection{
		URL: config.URL{Text: "rediss://u@h:1?addr=i:2"}, Mode: "sentinel", Master: "m", Password: config.Secret{Env: "PASSWORD"},
		TLS: config.TLS{CA: certs.CA, Cert: certs.Cert, Key: certs.Key, ServerName: "redis.example.com"},
	}}
	c.Store = config.Store{Type: config.StoreRedis, Connection: config.Connection{URL: config.URL{From: config.Secret{File: file}}}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	vars := env(map[string]string{"PASSWORD": "hush"})
	if err := c.CheckConnections(vars); err != nil {
		t.Errorf("CheckConnections: %v", err)
	}
	shared, err := c.RedisConnection(vars)
	if err != nil {
		t.Fatal(err)
	}
	want := redis.Connection{URL: "rediss://u@h:1?addr=i:2", Mode: redis.ModeSentinel, Master: "m", Username: "u", Password: "hush"}
	if diff := cmp.Diff(want, shared, cmpopts.IgnoreFields(redis.Connection{}, "TLS")); diff != "" {
		t.Errorf("RedisConnection (-want +got):\n%s", diff)
	}
	if got := shared.TLS; got == nil || got.ServerName != "redis.example.com" || !got.RootCAs.Equal(certs.Client.RootCAs) || len(got.Certificates) != 1 {
		t.Errorf("TLS = %+v", got)
	}
	registry, err := c.StoreConnection(vars)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(redis.Connection{URL: "redis://u:hush@h:1/2", Username: "u", Password: "hush"}, registry); diff != "" {
		t.Errorf("StoreConnection (-want +got):\n%s", diff)
	}
}

func TestFaultsOfConnections(t *testing.T) {
	c := config.Default()
	c.Keys = []config.Key{{ID: "k", Secret: config.Secret{Env: "K"}}}
	c.Redis = &config.Redis{Connection: config.Connection{
		URL: config.URL{From: config.Secret{Env: "URL"}}, Password: config.Secret{Env: "NONE"}, TLS: config.TLS{CA: "redis_test.go"},
	}}
	c.Store = config.Store{Type: config.StoreRedis, Connection: config.Connection{
		URL: config.URL{From: config.Secret{Env: "BAD"}}, TLS: config.TLS{Cert: "no", Key: "no"},
	}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	err := c.CheckConnections(env(map[string]string{"URL": "redis://u:hush@h", "BAD": "hush"}))
	want := `store.url: must be a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS
store.tls: read cert and key: open no: no such file or directory
redis.url: must begin with rediss:// where tls is set
redis.password: environment variable NONE is not set
redis.tls: there is no certificate in redis_test.go`
	if err == nil || err.Error() != want {
		t.Errorf("CheckConnections = %v, want %s", err, want)
	}
	if err := config.Default().CheckConnections(nil); err != nil {
		t.Errorf("CheckConnections of the default: %v", err)
	}
}
