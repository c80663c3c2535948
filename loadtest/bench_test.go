package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain lets the test's own program be the processes of a run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{cmdUpstream, cmdProxy, cmdServers}, os.Args[1]) {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

func readRequest(wire []byte) (*http.Request, error) {
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return req, err
}

func noCPU() (time.Duration, bool) { return 0, false }

func startUpstream(t *testing.T, sse bool) string {
	t.Helper()
	u, err := newUpstream(madeUpCatalogue().first(smallList), sse)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(u)
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// serveTools starts an upstream in this process, and gives it with its address.
func serveTools(t *testing.T, tools []tool) (*upstream, string) {
	t.Helper()
	u, err := newUpstream(tools, false)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(u)
	t.Cleanup(srv.Close)
	return u, srv.Listener.Addr().String()
}

// The generator finds every answer right through the bare reverse proxy.
func TestGenerate(t *testing.T) {
	tests := []struct {
		name, method string
		sse          bool
		clients      int
	}{
		{"call, JSON", methodCall, false, 1},
		{"call, SSE", methodCall, true, 1},
		{"call, SSE, many clients", methodCall, true, 16},
		{"list", methodList, false, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			proxy := httptest.NewServer(newProxy(startUpstream(t, tt.sse)))
			defer proxy.Close()
			at := endpoint{addr: proxy.Listener.Addr().String(), path: "/mcp"}
			r := newRequest(at, tt.method, madeUpCatalogue().first(smallList))
			size, err := once(t.Context(), at.addr, r)
			if err != nil {
				t.Fatal(err)
			}
			if r.list != nil {
				r.list.size = size
			}
			got, err := generate(t.Context(), []string{at.addr}, r, tt.clients, 100*time.Millisecond, noCPU)
			if err != nil {
				t.Fatal(err)
			}
			if got.p99 < got.p50 || (got.rate > 0) != (got.p50 > 0) {
				t.Errorf("sample %+v", got)
			}
		})
	}
}

func TestGenerateFails(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter, n int)
		want   string
	}{
		{"error later", func(w http.ResponseWriter, n int) {
			if n > 5 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}, "status 502"},
		{"cut later", func(w http.ResponseWriter, n int) {
			if n > 5 {
				panic(http.ErrAbortHandler)
			}
		}, "EOF"},
		{"closes", func(w http.ResponseWriter, n int) { w.Header().Set("Connection", "close") }, "closes the connection"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := newUpstream(madeUpCatalogue().first(1), false)
			if err != nil {
				t.Fatal(err)
			}
			n := 0 // one client, one connection
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n++
				tt.answer(w, n)
				u.ServeHTTP(w, r)
			}))
			defer srv.Close()
			addr := srv.Listener.Addr().String()
			r := newRequest(endpoint{addr: addr, path: "/mcp"}, methodCall, madeUpCatalogue().first(1))
			_, err = generate(t.Context(), []string{addr}, r, 1, 10*time.Second, noCPU)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// The upstream is a server that an independent client understands.
func TestUpstreamWithGoSDK(t *testing.T) {
	for _, sse := range []bool{false, true} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + startUpstream(t, sse) + "/mcp"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Tools) != smallList {
			t.Errorf("%d tools, want %d", len(list.Tools), smallList)
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: list.Tools[0].Name, Arguments: map[string]any{"query": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != answerText {
			t.Errorf("result %+v", result.Content)
		}
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil {
			t.Error("an unknown tool was called")
		}
	}
}

// Every request that is sent is told, also those that do not count.
func TestGenerateSent(t *testing.T) {
	u, err := newUpstream(madeUpCatalogue().first(1), false)
	if err != nil {
		t.Fatal(err)
	}
	var had atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		had.Add(1)
		u.ServeHTTP(w, r)
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	r := newRequest(endpoint{addr: addr, path: "/mcp"}, methodCall, madeUpCatalogue().first(1))
	got, err := generate(t.Context(), []string{addr}, r, 3, 20*time.Millisecond, noCPU)
	if err != nil || got.sent != had.Load() || got.sent < 3 {
		t.Errorf("%d sent (%v), the server had %d", got.sent, err, had.Load())
	}
}

// What takes turns in another measurement's rounds follows it there, for each
// system that leads to its upstream.
func TestTurns(t *testing.T) {
	all := map[string]endpoint{upJSON: {}, upSSE: {}, upBig: {}}
	more := map[string]endpoint{upJSON: {}, upSSE: {}, upBig: {}, upHandshake: {}}
	systems := []*system{{name: sysProxy, at: all}, {name: sysCauseway, at: more}}
	tests := []struct {
		name, only string
		want       []string
	}{
		{"all", "", []string{"proxy call-json", "causeway call-json", "causeway call-handshake"}},
		{"alone", "call-json", []string{"proxy call-json", "causeway call-json"}},
		{"brings the other one", "call-handshake", []string{"proxy call-json", "causeway call-json", "causeway call-handshake"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			only, err := parseSelection(tt.only)
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{options: &options{only: only}, systems: systems}
			var got []string
			for _, turn := range b.turns(measurements()[0]) {
				got = append(got, turn.system.name+" "+turn.measurement.name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run with real processes reports, and leaves nothing behind.
func TestMeasure(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	out := filepath.Join(t.TempDir(), "RESULTS.md")
	var stdout, stderr bytes.Buffer
	args := []string{"-only", "direct,proxy,list-20", "-duration", "1s", "-rounds", "1", "-catalogue", "missing.json", "-out", out}
	if err := measure(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	for _, want := range []string{
		"missing.json is missing, so the tools are made up", "median of 1 round(s) of 1s",
		"## tools/list, 20 tools", "| 16 | (a) upstream directly |", "| 16 | (b) httputil.ReverseProxy |",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, stdout.String())
		}
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stdout.String(), string(written)); diff != "" {
		t.Errorf("the file differs from standard output:\n%s", diff)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left in the temporary directory (%v)", left, err)
	}
}

func TestMeasureStops(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o, err := parseOptions([]string{"-only", "proxy", "-catalogue", "missing.json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBench(o, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.start(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := b.measureAll(ctx); err == nil {
		t.Error("a run that was stopped gave results")
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.children {
		if c.cmd.ProcessState == nil {
			t.Errorf("%s still runs", c.name)
		}
	}
}
