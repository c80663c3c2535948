package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Environment variables that scripts/peers sets.
const (
	envRedis   = "CAUSEWAY_REDIS" // path of redis-server
	envMissing = "CAUSEWAY_REDIS_MISSING"
)

// startTimeout bounds how long a server may take to do what it was told.
const startTimeout = 30 * time.Second

// find gives the path of redis-server.
func find(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv(envRedis); path != "" {
		return path
	}
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	reason := os.Getenv(envMissing)
	if reason == "" {
		reason = "redis-server is not installed: run make test, or scripts/peers go test ..."
	}
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
	return ""
}

// randomPort gives a port that is probably free: none of those that systems give
// to connections and to listeners without a port of their own, so that a server
// that is started again finds its port free.
func randomPort() int { return 15000 + rand.IntN(17000) }

var errPortTaken = errors.New("the port is taken")

func isPortTaken(err error) bool { return errors.Is(err, errPortTaken) }

// process is one process of redis-server, which may be started again.
type process struct {
	path  string
	args  []string
	ready string // what it prints when it is ready

	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
}

// start starts the process and waits until it is ready.
func (p *process) start() error {
	p.output = &output{ready: p.ready, seen: make(chan struct{})}
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	endWithParent(p.cmd)
	p.ended = make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// A child that ends with its parent ends with the parent's thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it is killed, so its state tells nothing
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start: %w", err)
	}
	select {
	case <-p.output.seen:
		return nil
	case <-p.ended:
		text := p.output.String()
		if strings.Contains(text, "Address already in use") {
			return errPortTaken
		}
		return fmt.Errorf("ended at once:\n%s", text)
	case <-time.After(startTimeout):
		p.kill()
		return fmt.Errorf("not ready after %s:\n%s", startTimeout, p.output)
	}
}

// kill ends the process if it runs.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// terminate has the process end by itself.
func (p *process) terminate() error {
	if err := p.signal("TERM"); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(startTimeout):
		return fmt.Errorf("redis-server has not ended %s after SIGTERM:\n%s", startTimeout, p.output)
	}
}

// signal sends a signal by its name; not all systems know all by number.
func (p *process) signal(name string) error {
	out, err := exec.Command("kill", "-"+name, strconv.Itoa(p.cmd.Process.Pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("send SIG%s to redis-server: %w: %s", name, err, out)
	}
	return nil
}

// output keeps what a process prints and tells when it is ready.
type output struct {
	ready string
	seen  chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	done bool
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	if !o.done && bytes.Contains(o.text.Bytes(), []byte(o.ready)) {
		o.done = true
		close(o.seen)
	}
	return len(b), nil
}

// String gives what was printed.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
