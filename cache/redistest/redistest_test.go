package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

func client(t *testing.T, url string) *goredis.Client {
	t.Helper()
	opts, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
	c := goredis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// answers tells whether PING is answered within a moment.
func answers(t *testing.T, c *goredis.Client) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	return c.Ping(ctx).Err() == nil
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := Start(t, "--maxmemory", "50mb")
	c := client(t, s.URL())
	if got := fmt.Sprint(s.Do("CONFIG", "GET", "maxmemory")); !strings.Contains(got, "52428800") {
		t.Errorf("maxmemory is %s, want 50mb", got)
	}
	s.Do("SET", "k", "v")
	s.Pause()
	if answers(t, c) {
		t.Error("a paused server answers")
	}
	s.Resume()
	await(t, "an answer after Resume", func() bool { return answers(t, c) })
	s.Stop()
	if answers(t, c) {
		t.Error("a stopped server answers")
	}
	s.Restart(false)
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("after a restart k is %v, want v", got)
	}
	s.Kill()
	s.Restart(true)
	if got := s.Do("GET", "k"); got != nil {
		t.Errorf("after an empty restart k is %v, want none", got)
	}
	await(t, "an answer after a restart", func() bool { return answers(t, c) })
}

func TestReplica(t *testing.T) {
	t.Parallel()
	s := Start(t)
	r := StartWith(t, Options{ReplicaOf: s})
	s.Do("SET", "k", "v")
	await(t, "the replica's copy", func() bool { return r.Do("GET", "k") == "v" })
	if err := client(t, r.URL()).Set(t.Context(), "k", "w", 0).Err(); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a write to the replica gives %v, want READONLY", err)
	}
}

func TestTLSAndUser(t *testing.T) {
	t.Parallel()
	certs := NewCertificates(t)
	s := StartWith(t, Options{TLS: certs, User: "causeway", Password: "secret", Prefix: "cw:"})
	opts, err := goredis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.TLSConfig = certs.Client
	c := goredis.NewClient(opts)
	defer c.Close()
	if err := c.Set(t.Context(), "cw:k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err == nil {
		t.Error("a key without the prefix may be written")
	}
	if s.Do("GET", "cw:k") != "v" {
		t.Error("Do does not work without TLS")
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := StartCluster(t)
	opts, err := goredis.ParseClusterURL(cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClusterClient(opts)
	defer c.Close()
	for i := range 100 {
		if err := c.Set(t.Context(), fmt.Sprint("k", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range cluster.Nodes {
		if n := s.Do("DBSIZE"); n == int64(0) {
			t.Errorf("node %d has no keys", i)
		}
	}
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t)
	opts, err := goredis.ParseFailoverURL(s.URL() + "&master_name=" + Master)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewFailoverClient(opts)
	defer c.Close()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Primary.Kill()
	await(t, "a write after failover", func() bool { return c.Set(t.Context(), "k", "w", 0).Err() == nil })
	if got := s.Replica.Do("GET", "k"); got != "w" {
		t.Errorf("the replica that was has %v, want w", got)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := Slow(t, s.Addr(), 0)
	c := client(t, p.URL())
	if !answers(t, c) {
		t.Fatal("no answer through the proxy")
	}
	p.Delay(time.Hour)
	if answers(t, c) {
		t.Error("an answer comes at once through a slow proxy")
	}
	p.Delay(0)
	await(t, "an answer after the delay", func() bool { return answers(t, c) })
	p.Cut()
	if answers(t, c) {
		t.Error("an answer comes although the connection is cut")
	}
	p.Heal()
	await(t, "an answer after Heal", func() bool { return answers(t, c) })
}
