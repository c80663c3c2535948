package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// newReloader makes a reloader of the file at path, which holds text. Its log has
// neither times nor the file's name.
func newReloader(t *testing.T, path, text string) (r *reloader, logs *bytes.Buffer) {
	t.Helper()
	replaceFile(t, path, text)
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	logs = &bytes.Buffer{}
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "file" {
			return slog.Attr{}
		}
		return a
	}
	return &reloader{
		path:    path,
		log:     slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{ReplaceAttr: plain})),
		tenants: tenant.NewMemory(cfg.Tenants),
		started: cfg,
		seen:    sha256.Sum256([]byte(text)),
	}, logs
}

// replaceFile puts a new file in the place of path at once.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, r *reloader) string {
	t.Helper()
	list, err := r.tenants.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

// TestReload goes through the life of a file. Each step changes it and lets the
// reloader look.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "causeway.yaml")
	r, logs := newReloader(t, path, "tenants: [{name: a}]")
	write := func(text string) func() { return func() { replaceFile(t, path, text) } }
	remove := func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	const gone = `level=WARN msg="the configuration cannot be read; the running one stays" error="read configuration: open PATH: no such file or directory"`
	steps := []struct {
		name  string
		do    func() // nil: nothing
		look  func()
		names string
		logs  []string
	}{
		{"no change", nil, r.poll, "a", nil},
		{"a change is seen", write("tenants: [{name: b}, {name: c, upstreams: [{alias: x, url: 'http://h/'}]}]"), r.poll, "a", nil},
		{"and taken over when it stays", nil, r.poll, "b c", []string{`level=INFO msg="configuration reloaded" tenants=2 upstreams=1`}},
		{"once", nil, r.poll, "b c", nil},
		{"a file being written", write("tenants: [{name: d}"), r.poll, "b c", nil},
		{"is not taken", write("tenants: [{name: d}]"), r.poll, "b c", nil},
		{"before it is whole", nil, r.poll, "d", []string{`level=INFO msg="configuration reloaded" tenants=1 upstreams=0`}},
		{"a faulty file", write("tenants: [{name: E}]\nspeed: 1"), r.poll, "d", nil},
		{"is refused with all faults", nil, r.poll, "d", []string{
			`level=ERROR msg="configuration fault" fault="tenants[0].name: \"E\" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 1)"`,
			`level=ERROR msg="configuration fault" fault="speed: unknown key (line 2)"`,
			`level=ERROR msg="configuration refused; the running one stays" faults=2`,
		}},
		{"once", nil, r.poll, "d", nil},
		{"and again at a hangup", nil, r.hangup, "d", []string{
			`level=ERROR msg="configuration fault" fault="tenants[0].name: \"E\" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 1)"`,
			`level=ERROR msg="configuration fault" fault="speed: unknown key (line 2)"`,
			`level=ERROR msg="configuration refused; the running one stays" faults=2`,
		}},
		{"a missing file", remove, r.poll, "d", []string{gone}},
		{"is reported once", nil, r.poll, "d", nil},
		{"and at a hangup", nil, r.hangup, "d", []string{strings.Replace(gone, "WARN", "ERROR", 1)}},
		{"a hangup does not wait", write("listen: 127.0.0.1:1\nlog: {level: debug}\ntenants: [{name: f}]"), r.hangup, "f", []string{
			`level=WARN msg="a changed key takes effect with a restart only" key=listen`,
			`level=WARN msg="a changed key takes effect with a restart only" key=log.level`,
			`level=INFO msg="configuration reloaded" tenants=1 upstreams=0`,
		}},
		{"nor for a change", nil, r.hangup, "f", []string{
			`level=WARN msg="a changed key takes effect with a restart only" key=listen`,
			`level=WARN msg="a changed key takes effect with a restart only" key=log.level`,
			`level=INFO msg="configuration reloaded" tenants=1 upstreams=0`,
		}},
		{"a secret that is missing", write("tenants: [{name: g, upstreams: [{alias: x, url: 'https://h/', auth: {mode: bearer, token: {env: NOT_THERE}}}]}]"), r.hangup, "g", []string{
			`level=WARN msg="a secret cannot be had; what needs it fails until it can" fault="tenants[0].upstreams[0].auth.token: environment variable NOT_THERE is not set"`,
			`level=INFO msg="configuration reloaded" tenants=1 upstreams=1`,
		}},
	}
	for _, s := range steps {
		if s.do != nil {
			s.do()
		}
		s.look()
		var got []string
		for line := range strings.Lines(strings.ReplaceAll(logs.String(), path, "PATH")) {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
		logs.Reset()
		if diff := cmp.Diff(s.logs, got); diff != "" {
			t.Errorf("%s: log (-want +got):\n%s", s.name, diff)
		}
		if got := names(t, r); got != s.names {
			t.Errorf("%s: tenants %q, want %q", s.name, got, s.names)
		}
	}
}

// TestReloadOfConfigMap swaps a symbolic link to a directory, as the kubelet does
// with a mounted ConfigMap: the path stays, and so do both files.
func TestReloadOfConfigMap(t *testing.T) {
	dir := t.TempDir()
	put := func(version, text string) {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "causeway.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data.next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data.next"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("v1", "tenants: [{name: a}]")
	path := filepath.Join(dir, "causeway.yaml")
	if err := os.Symlink("..data/causeway.yaml", path); err != nil {
		t.Fatal(err)
	}
	r, _ := newReloader(t, filepath.Join(t.TempDir(), "causeway.yaml"), "tenants: [{name: a}]")
	r.path = path
	r.poll()
	put("v2", "tenants: [{name: b}]")
	r.poll()
	r.poll()
	if got := names(t, r); got != "b" {
		t.Errorf("tenants %q, want b", got)
	}
}

// TestWatch holds that ticks and hangups are what makes the reloader look.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "causeway.yaml")
	r, _ := newReloader(t, path, "tenants: [{name: a}]")
	changes := make(chan string, 8)
	defer r.tenants.Watch(t.Context(), func(name string) { changes <- name })()
	ctx, cancel := context.WithCancel(t.Context())
	hangups, ticks := make(chan os.Signal), make(chan time.Time)
	var work sync.WaitGroup
	work.Go(func() { r.watch(ctx, hangups, ticks) })

	replaceFile(t, path, "tenants: [{name: a}, {name: b}]")
	ticks <- time.Time{}
	ticks <- time.Time{}
	if got := <-changes; got != "b" {
		t.Errorf("changed tenant %q, want b", got)
	}
	replaceFile(t, path, "tenants: [{name: a}, {name: b}, {name: c}]")
	hangups <- syscall.SIGHUP
	if got := <-changes; got != "c" {
		t.Errorf("changed tenant %q, want c", got)
	}
	cancel()
	work.Wait()
}

// TestReloadKeepsDirectories holds that the directory of a program means the same
// at the start and in a reload: the program goes on.
func TestReloadKeepsDirectories(t *testing.T) {
	path := filepath.Join(t.TempDir(), "causeway.yaml")
	const text = "tenants: [{name: a, upstreams: [{alias: x, command: [x], dir: sub}]}]"
	r, _ := newReloader(t, path, text)
	started, err := r.loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	r.hangup()
	reloaded, err := r.tenants.Tenant(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want, got := started.Tenants[0].Upstreams[0], reloaded.Upstreams[0]
	if dir := filepath.Join(filepath.Dir(path), "sub"); got.Process.Dir != dir || got.Version != want.Version {
		t.Errorf("reloaded with %q and version %s, started with %q and version %s",
			got.Process.Dir, got.Version, want.Process.Dir, want.Version)
	}
}
