package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/config"
)

// keyed gives a file with a key, without which there is no redis.
func keyed(text string) string { return text + "\nkeys: [{id: k, secret: {env: K}}]" }

func TestFaultsOfRedis(t *testing.T) {
	const (
		form     = "redis.url: must be a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS (line 1)"
		password = "redis.url: must not hold a password: make the url a reference, {env: NAME} or {file: path}, or set password (line 1)"
	)
	tests := []faultCase{
		{"nothing", keyed("redis: {}"), []string{"redis.url: is required (line 1)"}},
		{"no keys", "redis: {url: 'redis://h:1'}", []string{
			"keys: at least one is required with redis: what one replica seals, the others have to open",
		}},
		{"no keys for a registry", "store: {type: redis, url: 'redis://h:1'}\nredis: {url: 'redis://h:2'}", []string{
			"keys: at least one is required with redis: what one replica seals, the others have to open",
		}},
		{"password", keyed("redis: {url: 'redis://u:hush@h:1'}"), []string{password}},
		{"password without a user", keyed("redis: {url: 'redis://:hush@h:1'}"), []string{password}},
		{"literal password", keyed("redis: {url: 'redis://h:1', password: hush}"), []string{
			"redis.password: must be a reference, {env: NAME} or {file: path}, and never the secret itself (line 1)",
		}},
		{"other scheme", keyed("redis: {url: 'http://u:hush@h:1'}"), []string{form}},
		{"no URL", keyed("redis: {url: 'redis://u:hush@h:%zz'}"), []string{form}},
		{"no host", keyed("redis: {url: 'redis:///0'}"), []string{form}},
		{"database", keyed("redis: {url: 'redis://h/hush'}"), []string{
			"redis.url: must end with the number of a database, or nothing (line 1)",
		}},
		{"database of a cluster", keyed("redis: {url: 'redis://h/1', mode: cluster}"), []string{
			"redis.url: a cluster has database 0 only (line 1)",
		}},
		{"query", keyed("redis: {url: 'redis://h?password=hush'}"), []string{
			"redis.url: addr is all that its query may hold: user, password and TLS have keys of their own (line 1)",
		}},
		{"addresses of one node", keyed("redis: {url: 'redis://h?addr=i:1'}"), []string{
			"redis.url: addr is for mode: cluster and mode: sentinel (line 1)",
		}},
		{"addresses", keyed("redis: {url: 'redis://h?addr=hush', mode: cluster}"), []string{
			"redis.url: each addr must be host:port, such as 10.0.0.2:6379 (line 1)",
		}},
		{"references", keyed("redis: {url: {env: A, file: b}, password: {}}\nstore: {type: redis, url: {}}"), []string{
			"redis.url: must be a reference: either {env: NAME} or {file: path} (line 1)",
			"store.url: is required (line 2)",
		}},
		{"modes", keyed("redis: {url: 'redis://h', mode: many, master: m}\nstore: {type: redis, url: 'redis://h', mode: sentinel}"), []string{
			`redis.mode: "many" must be standalone, cluster or sentinel (line 1)`,
			"redis.master: is for mode: sentinel (line 1)",
			"store.master: is required with mode: sentinel (line 2)",
		}},
		{"TLS", keyed("redis: {url: 'redis://h', tls: {ca: a}}\nstore: {type: redis, url: 'rediss://h', tls: {cert: a}}"), []string{
			"redis.url: must begin with rediss:// where tls is set (line 1)",
			"store.tls: cert and key belong together (line 2)",
		}},
		{"values", keyed("redis: {url: 'redis://h', prefix: '{a}', timeout: 25s, limits: soft, Timeout: 1s}\nstore: {type: redis, url: 'redis://h', prefix: 'a b'}"), []string{
			`redis.Timeout: unknown key; did you mean "timeout"? (line 1)`,
			`redis.prefix: "{a}" must match ^[A-Za-z0-9._:-]{1,64}$ (line 1)`,
			"redis.timeout: 25s must be more than 0 and at most 5s (line 1)",
			`redis.limits: "soft" must be open or closed (line 1)`,
			`store.prefix: "a b" must match ^[A-Za-z0-9._:-]{1,64}$ (line 2)`,
		}},
		{"all together", "listen: ':8080'\nallowUnauthenticated: true\nredis: {url: x}\nstore: {type: file}\npeer: {address: '0.0.0.0:1'}", []string{
			"keys: at least one is required with redis: what one replica seals, the others have to open",
			"redis.url: must be a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS (line 3)",
			"store.type: several replicas, which redis is for, cannot share a file: use redis, or memory (line 4)",
			"peer.listen: is required, as listen is not on a loopback address: how do other replicas reach this one? (line 5)",
			`peer.address: "0.0.0.0:1" must be the host:port at which other replicas reach this one (line 5)`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestFaultsOfStoreAndPeer(t *testing.T) {
	const redis = "redis: {url: 'redis://h'}\n"
	tests := []faultCase{
		{"type", "store: {type: disk}", []string{`store.type: "disk" must be memory, file or redis (line 1)`}},
		{"keys of Redis", "store: {url: 'redis://u:hush@h', mode: cluster, master: m, username: u, password: {env: A}, tls: {ca: a}, prefix: p, allowVolatile: true}", []string{
			"store.url: is for a store of type redis (line 1)",
			"store.mode: is for a store of type redis (line 1)",
			"store.master: is for a store of type redis (line 1)",
			"store.username: is for a store of type redis (line 1)",
			"store.password: is for a store of type redis (line 1)",
			"store.tls: is for a store of type redis (line 1)",
			"store.prefix: is for a store of type redis (line 1)",
			"store.allowVolatile: is for a store of type redis (line 1)",
		}},
		{"peer alone", "peer: {listen: 'localhost:1', address: 'h:1'}", []string{
			"peer.listen: is for several replicas, which need redis (line 1)",
			"peer.address: is for several replicas, which need redis (line 1)",
		}},
		{"peer address", keyed(redis + "peer: {listen: x, address: h}"), []string{
			`peer.listen: "x" must be host:port, such as 127.0.0.1:8080 or :8080 (line 2)`,
			`peer.address: "h" must be the host:port at which other replicas reach this one (line 2)`,
		}},
		{"peer of all addresses", keyed(redis + "peer: {listen: ':9091'}"), []string{
			"peer.address: is required, as peer.listen stands for all addresses: which one do other replicas use? (line 2)",
		}},
		{"peer of all IPv6 addresses", keyed(redis + "peer: {listen: '[::]:9091', address: '[::]:9091'}"), []string{
			`peer.address: "[::]:9091" must be the host:port at which other replicas reach this one (line 2)`,
		}},
		{"peer on another listener", keyed(redis + "peer: {listen: '127.0.0.1:9090'}"), []string{
			`peer.listen: "127.0.0.1:9090" is the address of admin.listen too (line 2)`,
		}},
		{"listen is wrong already", keyed(redis + "listen: x"), []string{
			`listen: "x" must be host:port, such as 127.0.0.1:8080 or :8080 (line 2)`,
		}},
		{"quotas", "tenants:\n- name: a\n  limits: {callsPerMinute: 0, principal: {inFlight: 0, listenStreams: 1}}\n  upstreams:\n" +
			"  - {alias: b, url: 'http://h/', limits: {callsPerMinute: -1, inFlight: x}}", []string{
			"tenants[0].limits.callsPerMinute: 0 must be between 1 and 2147483647 (line 3)",
			"tenants[0].limits.principal.inFlight: 0 must be between 1 and 2147483647 (line 3)",
			"tenants[0].limits.principal.listenStreams: unknown key (line 3)",
			"tenants[0].upstreams[0].limits.callsPerMinute: -1 must be between 1 and 2147483647 (line 5)",
			"tenants[0].upstreams[0].limits.inFlight: must be an integer, not a string (line 5)",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestReplicas(t *testing.T) {
	type choice struct{ Store, Listen string }
	tests := []struct {
		name, text string
		want       choice
	}{
		{"one process", "", choice{"file", "127.0.0.1:0"}},
		{"one process that keeps nothing", "store: {type: memory}", choice{"memory", "127.0.0.1:0"}},
		{"one process with a registry in Redis", keyed("store: {type: redis, url: 'redis://h'}"), choice{"redis", "127.0.0.1:0"}},
		{"replicas on one machine", keyed("redis: {url: 'redis://u@h:1/3'}"), choice{"memory", "127.0.0.1:0"}},
		{"replicas with a registry", keyed("redis: {url: 'redis://h'}\nstore: {type: redis, url: {file: f}}"), choice{"redis", "127.0.0.1:0"}},
		{"replicas on many machines", keyed("redis: {url: 'redis://h'}\nlisten: ':1'\nallowUnauthenticated: true\npeer: {listen: '10.0.0.1:9091'}"),
			choice{"memory", "10.0.0.1:9091"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := (choice{c.StoreType(), c.PeerListen()}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestRedisOverrides holds that a URL from the environment may hold a password, as
// it is a reference, and one from the command line, which other users of a machine
// can see, may not.
func TestRedisOverrides(t *testing.T) {
	vars := env(map[string]string{
		"CAUSEWAY_REDIS_URL": "redis://u:hush@h", "CAUSEWAY_PEER_LISTEN": "0.0.0.0:9091", "CAUSEWAY_PEER_ADDRESS": "10.0.0.1:9091",
	})
	got, err := config.Loader{LookupEnv: vars}.Parse([]byte(keyed("redis: {url: 'redis://other', prefix: p}")))
	if err != nil {
		t.Fatal(err)
	}
	wantRedis := &config.Redis{Prefix: "p", Connection: config.Connection{URL: config.URL{From: config.Secret{Env: "CAUSEWAY_REDIS_URL"}}}}
	if diff := cmp.Diff(wantRedis, got.Redis); diff != "" {
		t.Errorf("redis (-want +got):\n%s", diff)
	}
	if want := (config.Peer{Listen: "0.0.0.0:9091", Address: "10.0.0.1:9091"}); got.Peer != want {
		t.Errorf("peer = %+v, want %+v", got.Peer, want)
	}
	_, err = config.Loader{Flags: map[string]string{"redis.url": "redis://u:hush@h"}}.Parse([]byte(keyed("")))
	want := "redis.url: must not hold a password: make the url a reference, {env: NAME} or {file: path}, or set password (command line)"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
