package upstream_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// startOn starts a program that listens on the port that PORT names, and waits
// until it does. It ends with the test.
func startOn(t *testing.T, command ...string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	deadline := time.After(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			tick.Stop()
			return addr
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("%s ended before it listened", command)
		case <-deadline:
			t.Fatalf("%s does not listen: %v", command, err)
		}
	}
}

// The TypeScript SDK's server over the deprecated transport is found, listed and
// called.
func TestRealSSE(t *testing.T) {
	node := gatewaytest.NewNode(t)
	addr := startOn(t, node.Path, filepath.Join(node.Modules, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "sse")
	before := gatewaytest.CountRunning()
	d := upstream.Connect(upstream.Config{Tenant: "acme", Alias: "files", URL: "http://" + addr + "/sse", CallTimeout: 30 * time.Second}, egress.New(egress.Options{}), upstream.Deps{})
	t.Cleanup(func() {
		d.(interface{ Close() }).Close()
		gatewaytest.AwaitNoMore(t, before)
	})
	if tools := do(t, d, 1, mcp.MethodToolsList, ""); len(tools.Result.Tools) != 13 {
		t.Errorf("%d tools are listed, want 13: %+v", len(tools.Result.Tools), tools)
	}
	got := do(t, d, 2, mcp.MethodToolsCall, `"name":"trigger-long-running-operation","arguments":{"duration":0.2,"steps":2},`)
	if got.Error != nil || !strings.Contains(got.text(), "completed") || len(got.notes) == 0 {
		t.Errorf("the call gives %+v", got)
	}
}
