package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end after it was asked to.
const stopTimeout = 5 * time.Second

// child is a process that this one started, and that it ends by its handle.
type child struct {
	name   string
	cmd    *exec.Cmd
	log    string // file of its standard error
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// startChild starts cmd with its standard error in a file of dir. addrs is how
// many lines with an address it prints; they are read before startChild
// returns, and then its standard input stays open until this process ends.
func startChild(dir, name string, cmd *exec.Cmd, addrs int) (*child, []string, error) {
	c := &child{name: name, cmd: cmd, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close() // the process has its own
	cmd.Stderr = log
	var stdout io.ReadCloser
	if addrs > 0 {
		if stdout, err = cmd.StdoutPipe(); err != nil {
			return nil, nil, err
		}
		if _, err = cmd.StdinPipe(); err != nil {
			return nil, nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", name, err)
	}
	var lines []string
	if addrs > 0 {
		for s := bufio.NewScanner(stdout); len(lines) < addrs && s.Scan(); {
			lines = append(lines, s.Text())
		}
	}
	go func() {
		c.err = cmd.Wait()
		close(c.exited)
	}()
	if len(lines) < addrs {
		return nil, nil, errors.Join(fmt.Errorf("%s ended before it listened: %s", name, c.tail()), c.stop())
	}
	return c, lines, nil
}

// stop asks the process to end, and then ends it. It returns when it has ended.
func (c *child) stop() error {
	select {
	case <-c.exited:
		return nil
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-c.exited
	return fmt.Errorf("%s did not end within %v and was killed", c.name, stopTimeout)
}

// tail gives the end of what the process wrote to standard error.
func (c *child) tail() string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const most = 2 << 10
	if len(data) > most {
		data = data[len(data)-most:]
	}
	if text := strings.TrimSpace(string(data)); text != "" {
		return text
	}
	return "(it wrote nothing to standard error)"
}

// self makes a command that runs a subcommand of this program.
func self(args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(exe, args...), nil
}

// freePorts gives ports of 127.0.0.1 that nobody listens on, for programs that
// cannot choose one themselves.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		ln, err := net.Listen("tcp", loopback)
		if err != nil {
			return nil, err
		}
		// All at once, so that no port comes twice.
		defer ln.Close()
		ports[i] = ln.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// buildCauseway builds the gateway as make build does.
func buildCauseway(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "causeway")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/causeway-mcp/causeway/cmd/causeway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build causeway: %w\n%s", err, out)
	}
	return bin, nil
}
