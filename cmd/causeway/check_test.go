package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache/redistest"
)

// writeFile makes a file in a directory of the test's own and gives its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	t.Setenv("CHECK_KEY", strings.Repeat("k", 32))
	const good = "tenants: [{name: a, upstreams: [{alias: x, url: 'http://h/'}, {alias: y, url: 'http://h/'}]}]\n"
	tests := []struct {
		name, text string
		args       []string
		want       outcome // FILE stands for the file's path
	}{
		{"empty", "", nil, outcome{0, "OK: 0 tenants, 0 upstreams\n", ""}},
		{"one tenant", good, nil, outcome{0, "OK: 1 tenant, 2 upstreams\n", ""}},
		{"one upstream", "tenants: [{name: a, upstreams: [{alias: x, url: 'http://h/'}]}, {name: b}]", nil, outcome{0, "OK: 2 tenants, 1 upstream\n", ""}},
		{"secret there", "keys: [{id: k, secret: {env: CHECK_KEY}}]", nil, outcome{0, "OK: 0 tenants, 0 upstreams\n", ""}},
		{"secret missing", "keys: [{id: k, secret: {env: CHECK_NONE}}]", nil, outcome{
			1, "", "FILE: 1 fault\n  keys[0].secret: environment variable CHECK_NONE is not set\n",
		}},
		{"variables missing", "keys: [{id: k, secret: {env: CHECK_NONE}}]\ntenants:\n- name: a\n  upstreams:\n" +
			"  - {alias: x, command: [x], env: {A: a, B: {env: CHECK_NONE}, C: {env: CHECK_KEY}}}", nil, outcome{
			1, "", "FILE: 2 faults\n  keys[0].secret: environment variable CHECK_NONE is not set\n" +
				"  tenants[0].upstreams[0].env.B: environment variable CHECK_NONE is not set\n",
		}},
		{"credentials missing", "tenants:\n- name: a\n  upstreams:\n  - {alias: x, url: 'http://h/', auth: {mode: bearer, token: {env: CHECK_NONE}}}\n" +
			"  - {alias: y, url: 'http://h/', auth: {mode: headers, headers: {X-Key: {env: CHECK_KEY}}}}", nil, outcome{
			1, "", "FILE: 1 fault\n  tenants[0].upstreams[0].auth.token: environment variable CHECK_NONE is not set\n",
		}},
		{"Redis", "keys: [{id: k, secret: {env: CHECK_KEY}}]\nredis: {url: {env: CHECK_NONE}, password: {env: CHECK_KEY}}\n" +
			"store: {type: redis, url: {env: CHECK_KEY}}", nil, outcome{
			1, "", "FILE: 2 faults\n  store.url: must be a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS\n" +
				"  redis.url: environment variable CHECK_NONE is not set\n",
		}},
		{"nobody to connect to", good, []string{"--connect"}, outcome{0, "OK: 1 tenant, 2 upstreams\n", ""}},
		{"secret not looked at", "keys: [{id: k, secret: {env: CHECK_NONE}}]", []string{"--skip-secrets"}, outcome{0, "OK: 0 tenants, 0 upstreams\n", ""}},
		{"faults", "tenants:\n- name: A\n  upstreams:\n  - {alias: call, url: ftp://h/}\nspeed: 1\n", nil, outcome{
			1, "", `FILE: 4 faults
  tenants[0].name: "A" must match ^[a-z0-9][a-z0-9-]{0,62}$ (line 2)
  tenants[0].upstreams[0].alias: "call" is reserved (line 4)
  tenants[0].upstreams[0].url: must be an http or https URL such as http://127.0.0.1:7001/mcp (line 4)
  speed: unknown key (line 5)
`,
		}},
		{"flag", good, []string{"--listen", "8080"}, outcome{
			1, "", "FILE: 1 fault\n  listen: \"8080\" must be host:port, such as 127.0.0.1:8080 or :8080 (command line)\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFile(t, "causeway.yaml", tt.text)
			got := invoke(t, append([]string{"check", "--config", path}, tt.args...)...)
			got.Stderr = strings.ReplaceAll(got.Stderr, path, "FILE")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckConnects holds that --connect asks each Redis, and nothing else does.
func TestCheckConnects(t *testing.T) {
	t.Setenv("CHECK_KEY", strings.Repeat("k", 32))
	server := redistest.StartWith(t, redistest.Options{User: "gateway", Password: "hush", Prefix: "causeway"})
	const conf = "keys: [{id: k, secret: {env: CHECK_KEY}}]\nredis: {url: {env: CHECK_REDIS}}\nstore: {type: redis, url: {env: CHECK_STORE}}\n"
	path := writeFile(t, "causeway.yaml", conf)
	t.Setenv("CHECK_REDIS", server.URL())
	t.Setenv("CHECK_STORE", "redis://gateway:wrong@"+server.Addr())
	if got := invoke(t, "check", "--config", path); got != (outcome{0, "OK: 0 tenants, 0 upstreams\n", ""}) {
		t.Errorf("without --connect: %+v", got)
	}
	got := invoke(t, "check", "--connect", "--config", path)
	if got.Code != 1 || !strings.Contains(got.Stderr, ": 1 fault\n  store: ") || strings.Contains(got.Stderr, "hush") || strings.Contains(got.Stderr, "wrong@") {
		t.Errorf("with a wrong password: %+v, want a fault of store that shows no secret", got)
	}
	t.Setenv("CHECK_STORE", server.URL())
	if got := invoke(t, "check", "--connect", "--config", path); got != (outcome{0, "OK: 0 tenants, 0 upstreams\n", ""}) {
		t.Errorf("with both: %+v", got)
	}
}

// TestCheckFindsFile holds how the file is found.
func TestCheckFindsFile(t *testing.T) {
	path := writeFile(t, "other.yaml", "tenants: [{name: a}]")
	t.Setenv("CAUSEWAY_CONFIG", path)
	if got := invoke(t, "check"); got.Stdout != "OK: 1 tenant, 0 upstreams\n" {
		t.Errorf("with CAUSEWAY_CONFIG: %+v", got)
	}
	t.Setenv("CAUSEWAY_CONFIG", "")
	t.Chdir(t.TempDir())
	want := outcome{1, "", "causeway: read configuration: open causeway.yaml: no such file or directory\n"}
	if diff := cmp.Diff(want, invoke(t, "check")); diff != "" {
		t.Errorf("without a file (-want +got):\n%s", diff)
	}
}

// TestCheckExample holds that the documented example passes.
func TestCheckExample(t *testing.T) {
	got := invoke(t, "check", "--skip-secrets", "--config", "../../gateway/config/testdata/causeway.yaml")
	if want := (outcome{0, "OK: 2 tenants, 3 upstreams\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHealthcheck(t *testing.T) {
	ready := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || !ready {
			http.Error(w, "draining", http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	address := srv.Listener.Addr().String()
	// A proxy for other machines must not be asked about this one.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")

	if got := invoke(t, "healthcheck", "--admin-listen", address); got != (outcome{0, "ready\n", ""}) {
		t.Errorf("ready: %+v", got)
	}
	_, port, _ := strings.Cut(address, ":")
	if got := invoke(t, "healthcheck", "--admin-listen", "0.0.0.0:"+port); got.Code != 0 {
		t.Errorf("all addresses: %+v", got)
	}
	t.Setenv("CAUSEWAY_ADMIN_LISTEN", address)
	ready = false
	want := outcome{1, "", "causeway healthcheck: not ready: 503 Service Unavailable: draining\n"}
	if got := invoke(t, "healthcheck"); got != want {
		t.Errorf("not ready: %+v, want %+v", got, want)
	}
	srv.Close()
	if got := invoke(t, "healthcheck"); got.Code != 1 || !strings.Contains(got.Stderr, "connection refused") {
		t.Errorf("nobody listens: %+v", got)
	}
}

func TestDialable(t *testing.T) {
	tests := []struct{ listen, want string }{
		{"127.0.0.1:9090", "127.0.0.1:9090"}, {":9090", "127.0.0.1:9090"}, {"0.0.0.0:9090", "127.0.0.1:9090"},
		{"[::]:9090", "[::1]:9090"}, {"[::1]:9090", "[::1]:9090"}, {"admin.example.com:1", "admin.example.com:1"},
	}
	for _, tt := range tests {
		if got, err := dialable(tt.listen); got != tt.want || err != nil {
			t.Errorf("dialable(%q) = %q, %v, want %q", tt.listen, got, err, tt.want)
		}
	}
	if _, err := dialable("9090"); err == nil {
		t.Error("dialable without a port: no error")
	}
}
