package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// TestNeedRestart compares the example, which sets every key, with an empty
// file: whatever differs is reported, but tenants and what upstreams inherit.
func TestNeedRestart(t *testing.T) {
	example, err := config.Loader{}.Load("testdata/causeway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := config.NeedRestart(example, example); len(got) > 0 {
		t.Errorf("NeedRestart of equal configurations = %v", got)
	}
	other := config.Default()
	other.Listen, other.Admin.Listen, other.DataDir = "localhost:1", "localhost:2", "/elsewhere"
	other.AllowUnauthenticated, other.Log.Level, other.Store.AllowVolatile = true, -4, true
	other.Egress.TrustProxy = true
	want := []string{
		"listen", "publicURL", "admin.listen", "store.dataDir",
		"store.type", "store.url", "store.mode", "store.username", "store.password", "store.tls", "store.prefix", "store.allowVolatile",
		"redis.url", "redis.mode", "redis.master", "redis.username", "redis.password", "redis.tls",
		"redis.prefix", "redis.timeout", "redis.limits", "peer.listen", "peer.address", "keys", "allowedOrigins", "trustedProxies",
		"allowUnauthenticated", "egress.allow", "egress.trustProxy", "log.level", "log.format",
		"server.headerTimeout", "server.bodyTimeout", "server.idleTimeout", "server.writeTimeout", "server.keepAlive", "server.drainDelay", "server.shutdownGrace",
		"limits.header", "limits.body", "limits.message", "limits.depth", "limits.bufferedBytes", "limits.cacheBytes",
		"limits.pageSize", "limits.pages", "limits.items", "limits.listBytes", "limits.instructions", "limits.inFlight", "limits.listenStreams",
		"limits.listenQueue", "limits.watches", "limits.streams", "limits.streamsPerPrincipal",
		"limits.sessions", "limits.processes", "limits.parked", "limits.parkedPerPrincipal",
		"limits.clientSessions", "limits.asking", "limits.askingPerPrincipal", "limits.streamLifetime", "limits.stateTTL",
		"limits.coalesce", "limits.pollInterval", "limits.tenantIdle", "limits.sessionIdle", "limits.parkMax", "limits.clientSessionLifetime",
		"timeouts.revalidate", "timeouts.idle", "breaker.failures", "breaker.open",
	}
	if diff := cmp.Diff(want, config.NeedRestart(example, other)); diff != "" {
		t.Errorf("NeedRestart (-want +got):\n%s", diff)
	}
	// Each is a key that the file knows: given a wrong type, it is not unknown.
	for _, key := range want {
		parts := strings.Split(key, ".")
		text := strings.Join(parts, ": {") + ": [{}]" + strings.Repeat("}", len(parts)-1)
		if _, err := config.Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "unknown key") {
			t.Errorf("Parse(%q): %v", text, err)
		}
	}
}

func TestSealKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("f", 40)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := env(map[string]string{"LONG": strings.Repeat("e", 32), "SHORT": "hush"})
	c := &config.Config{Keys: []config.Key{{ID: "a", Secret: config.Secret{Env: "LONG"}}, {ID: "b", Secret: config.Secret{File: file}}}}
	got, err := c.SealKeys(vars)
	if err != nil {
		t.Fatal(err)
	}
	want := []seal.Key{{ID: "a", Secret: []byte(strings.Repeat("e", 32))}, {ID: "b", Secret: []byte(strings.Repeat("f", 40))}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SealKeys (-want +got):\n%s", diff)
	}
	c.Keys = []config.Key{{ID: "a", Secret: config.Secret{Env: "SHORT"}}, {ID: "b", Secret: config.Secret{Env: "UNSET"}}}
	wantErr := "keys[0].secret: the secret has 4 bytes and needs at least 32\nkeys[1].secret: environment variable UNSET is not set"
	if _, err := c.SealKeys(vars); err == nil || err.Error() != wantErr {
		t.Errorf("SealKeys = %v, want %s", err, wantErr)
	}
	if keys, err := config.Default().SealKeys(nil); keys != nil || err != nil {
		t.Errorf("SealKeys without keys = %v, %v", keys, err)
	}
}
