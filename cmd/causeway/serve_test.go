package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// served is a running `causeway serve`.
type served struct {
	t       *testing.T
	url     string
	hangups chan os.Signal
	lines   chan map[string]any // of its log
	before  []map[string]any    // those that await has passed by
	stop    func() int          // ends it as a signal does, and gives the exit code
}

// startServe runs the subcommand on ports of its own until the test ends.
func startServe(t *testing.T, path string, args ...string) *served {
	t.Helper()
	s := &served{t: t, hangups: make(chan os.Signal), lines: make(chan map[string]any, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	logs, stderr := io.Pipe()
	args = append([]string{
		"--config", path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--log-format", "json", "--data-dir", filepath.Join(t.TempDir(), "data"),
	}, args...)
	var work sync.WaitGroup
	code := -1
	work.Go(func() {
		code = runServe(ctx, s.hangups, args, io.Discard, stderr)
		_ = stderr.Close() // of a pipe: never an error
	})
	work.Go(func() {
		defer close(s.lines)
		scan := bufio.NewScanner(logs)
		for scan.Scan() {
			var line map[string]any
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				line = map[string]any{"msg": scan.Text()}
			}
			s.lines <- line
		}
	})
	s.stop = func() int {
		cancel()
		work.Wait()
		return code
	}
	t.Cleanup(func() { s.stop() })
	s.url = fmt.Sprintf("http://%s", s.await("serving")["listen"])
	return s
}

// await reads the log up to a message.
func (s *served) await(msg string) map[string]any {
	s.t.Helper()
	for line := range s.lines {
		s.before = append(s.before, line)
		if line["msg"] == msg {
			return line
		}
	}
	s.t.Fatalf("the log ended before %q", msg)
	return nil
}

// discover asks a tenant's endpoint what it is, and gives the HTTP status.
func (s *served) discover(tenant string) int {
	s.t.Helper()
	const body = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/t/"+tenant+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "server/discover")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode
}

// awaitStatus waits until a tenant answers with a status.
func (s *served) awaitStatus(tenant string, want int) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.discover(tenant) != want {
		select {
		case <-tick.C:
		case <-deadline:
			s.t.Fatalf("tenant %s never answers %d", tenant, want)
		}
	}
}

// wantStatus holds what a client of each tenant sees.
func (s *served) wantStatus(want map[string]int) {
	s.t.Helper()
	for tenant, status := range want {
		if got := s.discover(tenant); got != status {
			s.t.Errorf("tenant %s answers %d, want %d", tenant, got, status)
		}
	}
}

func TestServe(t *testing.T) {
	path := writeFile(t, "causeway.yaml", "tenants: [{name: a}]")
	s := startServe(t, path)
	s.wantStatus(map[string]int{"a": 200, "b": 404})

	replaceFile(t, path, "tenants: [{name: b}]")
	s.hangups <- syscall.SIGHUP
	if line := s.await("configuration reloaded"); line["tenants"] != 1.0 {
		t.Errorf("log line %v", line)
	}
	s.wantStatus(map[string]int{"a": 404, "b": 200})

	// A faulty file changes nothing.
	replaceFile(t, path, "tenants: [{name: c}, {name: c}]")
	s.hangups <- syscall.SIGHUP
	if line := s.await("configuration fault"); line["fault"] != `tenants[1].name: "c" is the name of tenants[0] too (line 1)` {
		t.Errorf("log line %v", line)
	}
	s.await("configuration refused; the running one stays")
	s.wantStatus(map[string]int{"b": 200, "c": 404})

	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestServeWithoutTenants holds that an empty file serves, and says so.
func TestServeWithoutTenants(t *testing.T) {
	s := startServe(t, writeFile(t, "causeway.yaml", ""))
	s.wantStatus(map[string]int{"default": 404})
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// TestServeRefuses holds what keeps the process from starting.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	missing := filepath.Join(t.TempDir(), "none.yaml")
	faulty := writeFile(t, "causeway.yaml", "tenants: {}\nspeed: 1")
	secret := writeFile(t, "causeway.yaml", "keys: [{id: k, secret: {env: SERVE_NONE}}]")
	empty := writeFile(t, "causeway.yaml", "")
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no file", []string{"--config", missing}, "causeway serve: read configuration: open " + missing + ": no such file or directory\n"},
		{"faults", []string{"--config", faulty}, faulty + ": 2 faults\n  tenants: must be a list, not a mapping (line 1)\n  speed: unknown key (line 2)\n"},
		{"secret", []string{"--config", secret}, secret + ": 1 fault\n  keys[0].secret: environment variable SERVE_NONE is not set\n"},
		{"address in use", []string{"--config", empty, "--listen", taken.Addr().String(), "--data-dir", t.TempDir()}, "address already in use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := runServe(t.Context(), nil, tt.args, io.Discard, &stderr); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("standard error %q, want %q", stderr.String(), tt.want)
			}
		})
	}
}
