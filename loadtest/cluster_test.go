package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseClusterOptions(t *testing.T) {
	tests := []struct {
		name string
		args string
		want string // in the error; empty means none
	}{
		{"defaults", "", ""},
		{"all", "-duration 100ms -rounds 1 -listeners 10 -changes 2 -streams 100 -out x.md", ""},
		{"faults together", "-duration 1h -streams 0", "-duration 1h0m0s is not between 10ms and 10s\n-streams 0 is not between 1 and 100000"},
		{"too many changes", "-changes 1000", "-changes 1000 is not between 1 and 200"},
		{"argument", "more", `unexpected argument "more"`},
		{"unknown", "-x", flag.ErrHelp.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseClusterOptions(strings.Fields(tt.args), io.Discard)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRedisVersion(t *testing.T) {
	for in, want := range map[string]string{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n": "7.0.15",
		"something else\n": "something else",
	} {
		if got := redisVersion(in); got != want {
			t.Errorf("redisVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

// A client takes its connections in turn.
func TestGenerateTakesTurns(t *testing.T) {
	tools := madeUpCatalogue().first(1)
	var ups []*upstream
	var addrs []string
	for range 3 {
		u, addr := serveTools(t, tools)
		ups, addrs = append(ups, u), append(addrs, addr)
	}
	r := newRequest(endpoint{addr: addrs[0], path: "/mcp"}, methodCall, tools)
	got, err := generate(t.Context(), addrs, r, 1, 100*time.Millisecond, noCPU)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for i, u := range ups {
		n := u.requests.Load()
		if sum += n; n < got.sent/3 || n > got.sent/3+1 {
			t.Errorf("upstream %d had %d of %d calls", i, n, got.sent)
		}
	}
	if sum != got.sent {
		t.Errorf("%d calls were sent, and %d came", got.sent, sum)
	}
}

// needRedis skips a test where redis-server is missing, and fails it where CI is
// true.
func needRedis(t *testing.T) {
	t.Helper()
	if os.Getenv(envRedis) != "" {
		return
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const reason = "redis-server is not installed: run make test, or scripts/peers go test ..."
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// A run with real processes reports, and leaves nothing behind.
func TestMeasureCluster(t *testing.T) {
	needRedis(t)
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system has no /proc, which tells how much memory a process takes")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	out := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := os.WriteFile(out, []byte(headingBench+"\n\nearlier\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"-duration", "500ms", "-rounds", "1", "-listeners", "10", "-changes", "2", "-streams", "50", "-catalogue", "missing.json", "-out", out}
	if err := measureCluster(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	for _, want := range []string{
		"| 16 | 1, without Redis |", "| 16 | 3 |", "| 64 | 3, Redis stopped |", "\n| 3 | 30 | 2 |",
		"with 50 listen streams", "listen streams that the upstream saw at once: 1, the goal is 1: reached",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout.String())
		}
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(headingBench+"\n\nearlier\n\n"+stdout.String(), string(written)); diff != "" {
		t.Errorf("the file differs from standard output after its earlier part:\n%s", diff)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left in the temporary directory (%v)", left, err)
	}
}

// A run that is ended ends what it started, also a Redis that is stopped.
func TestClusterStops(t *testing.T) {
	needRedis(t)
	t.Setenv("TMPDIR", t.TempDir())
	b, err := newBench(&options{catalogue: "missing.json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	redis, _, _, err := b.startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &cluster{bench: b, redis: redis}
	if err := pause(redis.cmd.Process); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the system cannot stop a process for a while")
	} else if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.resumeRedis(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if redis.cmd.ProcessState == nil {
		t.Error("redis-server still runs")
	}
}
