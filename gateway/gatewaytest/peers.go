package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Environment variables that scripts/peers sets.
const (
	envPeers       = "CAUSEWAY_PEERS"
	envNodeMissing = "CAUSEWAY_NODE_MISSING"
)

// startTimeout bounds how long a peer may take to listen.
const startTimeout = 30 * time.Second

// GoPeer gives the path of one of the Go SDK's conformance peers:
// everything-server or everything-client. The test is skipped where scripts/peers
// did not start it, and fails where CI is true.
func GoPeer(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv(envPeers)
	if dir == "" {
		unavailable(tb, "the independent MCP programs are not installed: run make test, or scripts/peers go test ...")
	}
	return filepath.Join(dir, "go", name)
}

// Node is an installed Node with the packages of testdata/node.
type Node struct {
	Path    string // of the node binary
	Modules string // the node_modules directory
}

// NewNode finds Node. The test is skipped where it is missing, and fails where CI
// is true.
func NewNode(tb testing.TB) Node {
	tb.Helper()
	dir := os.Getenv(envPeers)
	switch reason := os.Getenv(envNodeMissing); {
	case dir == "":
		unavailable(tb, "the npm packages of testdata/node are not installed: run make test, or scripts/peers go test ...")
	case reason != "":
		unavailable(tb, reason)
	}
	return Node{
		Path:    filepath.Join(dir, "node", "bin", "node"),
		Modules: filepath.Join(dir, "node", "node_modules"),
	}
}

// unavailable skips a test, or fails it in continuous integration, where nothing
// may be missing.
func unavailable(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// Everything starts the Go SDK's conformance server, which speaks 2026-07-28 with
// plain names, and gives its URL. It ends with the test. With the flag
// -stateless=false it speaks the revisions with a handshake instead.
func Everything(tb testing.TB, flags ...string) string {
	tb.Helper()
	path := GoPeer(tb, "everything-server")
	// The server is told its port and does not tell it, so one that was free a
	// moment ago may be taken by now.
	var err error
	for range 3 {
		var addr string
		if addr, err = freeAddr(); err != nil {
			break
		}
		if err = startPeer(tb, addr, path, append(flags, "-http="+addr)...); err == nil {
			return "http://" + addr + "/"
		}
	}
	tb.Fatal(err)
	return ""
}

// StartNode starts a server that is a script for Node, and gives its URL with the
// given path. The server learns its port from the environment variable portEnv. It
// ends with the test.
func StartNode(tb testing.TB, node Node, path, portEnv, script string, args ...string) string {
	tb.Helper()
	var err error
	for range 3 {
		var addr string
		if addr, err = freeAddr(); err != nil {
			break
		}
		_, port, _ := net.SplitHostPort(addr)
		env := append(os.Environ(), portEnv+"="+port)
		if err = startPeerWith(tb, env, addr, node.Path, append([]string{script}, args...)...); err == nil {
			return "http://" + addr + path
		}
	}
	tb.Fatal(err)
	return ""
}

// freeAddr gives a loopback address that nobody listens on.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// startPeer starts a program and waits until it accepts connections at addr.
func startPeer(tb testing.TB, addr, path string, args ...string) error {
	return startPeerWith(tb, nil, addr, path, args...)
}

// startPeerWith is startPeer with an environment; nil for that of the test.
func startPeerWith(tb testing.TB, env []string, addr, path string, args ...string) error {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		cancel()
		return fmt.Errorf("start a peer: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed, so its state tells nothing
	}()
	stop := func() {
		cancel()
		<-ended
	}
	if err := awaitListener(addr, ended); err != nil {
		stop()
		return fmt.Errorf("%s: %w\n%s", filepath.Base(path), err, &output)
	}
	tb.Cleanup(stop)
	return nil
}

var errEnded = errors.New("ended before it listened")

// awaitListener waits until addr accepts connections.
func awaitListener(addr string, ended <-chan struct{}) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return errEnded
		case <-deadline:
			return fmt.Errorf("no listener after %s: %w", startTimeout, err)
		}
	}
}
