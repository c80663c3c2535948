package gatewaytest

import (
	"cmp"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ReplicaOptions say how replicas are to be.
type ReplicaOptions struct {
	// N is how many there are: 3 unless it is set.
	N int
	// Config is the text of their configuration file, as Config gives it. Where it
	// names no keys, some are added. Listeners and the data directory are set for
	// each replica.
	Config string
	// RedisURL is that of the Redis that they share; empty for what Config says.
	RedisURL string
	// Env are more variables of their environment, as NAME=value.
	Env []string
}

// Replicas are gateway processes behind a round-robin balancer.
type Replicas struct {
	// URL is that of the balancer, without a slash at the end.
	URL      string
	All      []*Replica
	Balancer *Balancer
}

// StartReplicas builds the gateway, starts processes of it with one configuration,
// and waits until they are ready. They end with the test, and their logs are in the
// test's where it fails.
func StartReplicas(tb testing.TB, opts ReplicaOptions) *Replicas {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	env := append([]string{"CAUSEWAY_TEST_KEY=" + rand.Text() + rand.Text()}, opts.Env...)
	if opts.RedisURL != "" {
		env = append(env, "CAUSEWAY_REDIS_URL="+opts.RedisURL)
	}
	text := opts.Config
	if !strings.HasPrefix(text, "keys:") && !strings.Contains(text, "\nkeys:") {
		text += "\nkeys: [{id: test, secret: {env: CAUSEWAY_TEST_KEY}}]\n"
	}
	file := filepath.Join(tb.TempDir(), "causeway.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	r := &Replicas{All: make([]*Replica, cmp.Or(opts.N, 3))}
	for i := range r.All {
		r.All[i] = newReplica(tb, path, file, env)
	}
	r.Balancer = StartBalancer(tb, r.All)
	r.URL = r.Balancer.URL
	return r
}
