package main

import (
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// keysLine is what a configuration with redis needs.
const keysLine = "keys: [{id: k, secret: {env: SERVE_KEY}}]\n"

// TestServeWithRedis holds that a replica says that it is one, also where Redis is
// not there, and that its log has no secret.
func TestServeWithRedis(t *testing.T) {
	t.Setenv("SERVE_KEY", strings.Repeat("k", 32))
	running := redistest.StartWith(t, redistest.Options{User: "gateway", Password: "hush", Prefix: "causeway"})
	gone := redistest.Start(t)
	gone.Kill()
	tests := []struct{ name, url string }{
		{"running", running.URL()},
		{"gone", strings.Replace(gone.URL(), "redis://", "redis://gateway:hush@", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CAUSEWAY_REDIS_URL", tt.url)
			path := writeFile(t, "causeway.yaml", keysLine+"listen: 127.0.0.1:0\ntenants: [{name: a}]")
			s := startServe(t, path)
			s.wantStatus(map[string]int{"a": 200, "b": 404})
			if code := s.stop(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			lines := s.before
			for line := range s.lines {
				lines = append(lines, line)
			}
			replica := false
			for _, line := range lines {
				for _, value := range line {
					if text, ok := value.(string); ok && strings.Contains(text, "hush") {
						t.Errorf("the log shows a secret: %v", line)
					}
				}
				if line["msg"] == "one of several replicas" {
					replica = true
					if host, port, err := net.SplitHostPort(line["peer"].(string)); err != nil || host != "127.0.0.1" || port == "0" {
						t.Errorf("the address for other replicas is %v", line["peer"])
					}
				}
			}
			if !replica {
				t.Errorf("the log does not say that it is a replica: %v", lines)
			}
		})
	}
}

// TestServeWithRegistry holds that the tenants of a registry are served beside those
// of the file, that a reload replaces only the latter, and that changes of both are
// seen.
func TestServeWithRegistry(t *testing.T) {
	t.Setenv("SERVE_KEY", strings.Repeat("k", 32))
	t.Setenv("SERVE_STORE", redistest.Start(t).URL())
	const store = keysLine + "store: {type: redis, url: {env: SERVE_STORE}}\n"
	cfg, err := config.Parse([]byte(store))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gateway.OpenRegistry(t.Context(), cfg, os.LookupEnv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	put := func(name string) {
		t.Helper()
		if _, err := registry.Put(t.Context(), &tenant.Tenant{Name: name, Separator: "_"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	put("kept")
	path := writeFile(t, "causeway.yaml", store+"tenants: [{name: a}]")
	s := startServe(t, path)
	s.wantStatus(map[string]int{"a": 200, "kept": 200, "later": 404})

	replaceFile(t, path, store+"tenants: [{name: b}]")
	s.hangups <- syscall.SIGHUP
	s.await("configuration reloaded")
	s.wantStatus(map[string]int{"a": 404, "b": 200, "kept": 200})

	put("later")
	s.awaitStatus("later", 200)
	if err := registry.Delete(t.Context(), "kept", tenant.Any); err != nil {
		t.Fatal(err)
	}
	s.awaitStatus("kept", 404)
}

// TestServeNeedsRegistry holds that nothing is served without what is registered.
func TestServeNeedsRegistry(t *testing.T) {
	t.Setenv("SERVE_KEY", strings.Repeat("k", 32))
	gone := redistest.Start(t)
	gone.Kill()
	path := writeFile(t, "causeway.yaml", keysLine+"listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nstore: {type: redis, url: '"+gone.URL()+"'}")
	var log strings.Builder
	code := runServe(t.Context(), nil, []string{"--config", path}, io.Discard, &log)
	if code != exitFailure || !strings.Contains(log.String(), "registry") {
		t.Errorf("exit code %d with the log\n%s\nwant 1 and why", code, log.String())
	}
}
