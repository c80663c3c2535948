package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Replica is one gateway process.
type Replica struct {
	// URL is that of the root, and AdminURL that of the admin listener, both without
	// a slash at the end. They stay the same when the process is started again.
	URL, AdminURL string

	path string
	env  []string
	args []string
	out  atomic.Bool // taken out of the balancer

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended, once ended is closed
	log   *output
}

// errPortTaken tells that somebody listens where the replica was to.
var errPortTaken = errors.New("a port is taken")

// randomPort gives a port that is probably free, and none that systems give to
// those that do not choose, so that it is still free when a replica comes back.
func randomPort() int { return 15000 + rand.IntN(17000) }

// newReplica starts a process and waits until it is ready.
func newReplica(tb testing.TB, path, file string, env []string) *Replica {
	tb.Helper()
	dir := tb.TempDir()
	for {
		listen, admin := "127.0.0.1:"+strconv.Itoa(randomPort()), "127.0.0.1:"+strconv.Itoa(randomPort())
		r := &Replica{
			URL: "http://" + listen, AdminURL: "http://" + admin, path: path, log: &output{},
			args: []string{"serve", "--config", file, "--listen", listen, "--admin-listen", admin, "--data-dir", dir},
			env:  append(os.Environ(), env...),
		}
		err := r.start()
		switch {
		case err == nil:
			tb.Cleanup(func() {
				r.Kill()
				if strings.Contains(r.Log(), "WARNING: DATA RACE") {
					tb.Errorf("the replica %s has a data race", r.URL)
				}
				if tb.Failed() {
					tb.Logf("replica %s:\n%s", r.URL, r.Log())
				}
			})
			return r
		case !errors.Is(err, errPortTaken):
			tb.Fatal(err)
		}
	}
}

// start starts the process and waits until it is ready.
func (r *Replica) start() error {
	cmd := exec.Command(r.path, r.args...)
	cmd.Env = r.env
	cmd.Stdout, cmd.Stderr = r.log, r.log
	endWithParent(cmd)
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		defer close(ended)
		// A child that ends with its parent ends with the parent's thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start a replica: %w", err)
	}
	r.mu.Lock()
	r.cmd, r.ended, r.err = cmd, ended, nil
	r.mu.Unlock()
	if err := r.awaitReady(); err != nil {
		r.Kill()
		if strings.Contains(r.Log(), "address already in use") {
			return errPortTaken
		}
		return fmt.Errorf("%w\n%s", err, r.Log())
	}
	r.out.Store(false)
	return nil
}

// awaitReady waits until /readyz says that the replica may be used.
func (r *Replica) awaitReady() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(startTimeout)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	for {
		if ready, _ := r.readiness(context.Background(), client); ready {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.ended:
			return errors.New("a replica ended before it was ready")
		case <-deadline:
			return fmt.Errorf("a replica is not ready after %s", startTimeout)
		}
	}
}

// readiness asks /readyz, and gives what it says.
func (r *Replica) readiness(ctx context.Context, client *http.Client) (ready bool, says string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.AdminURL+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	res, err := client.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err != nil {
		return false, err.Error()
	}
	return res.StatusCode == http.StatusOK, strings.TrimSpace(string(body))
}

// Readiness gives what /readyz says, and whether it says that the replica may be
// used.
func (r *Replica) Readiness(tb testing.TB) (ready bool, says string) {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	return r.readiness(tb.Context(), client)
}

// TakeOut has the balancer send nothing new to the replica until it is started
// again, as an orchestrator does before it ends one.
func (r *Replica) TakeOut() { r.out.Store(true) }

// Start starts the replica again after Stop or Kill, and waits until it is ready.
func (r *Replica) Start(tb testing.TB) {
	tb.Helper()
	if err := r.start(); err != nil {
		tb.Fatal(err)
	}
}

// Stop takes the replica out of the balancer, has it end in good order (SIGTERM)
// and waits until it has. One that fails to, fails the test.
func (r *Replica) Stop(tb testing.TB) {
	tb.Helper()
	r.TakeOut()
	if err := r.signal("TERM"); err != nil {
		tb.Error(err)
		return
	}
	select {
	case <-r.ended:
	case <-time.After(stopTimeout):
		r.Kill()
		tb.Errorf("the replica %s has not ended %s after SIGTERM", r.URL, stopTimeout)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		tb.Errorf("the replica %s ended badly: %v", r.URL, r.err)
	}
}

// Kill ends the replica at once (SIGKILL), if it runs.
func (r *Replica) Kill() {
	r.mu.Lock()
	cmd, ended := r.cmd, r.ended
	r.mu.Unlock()
	_ = cmd.Process.Kill() // it may have ended
	<-ended
}

// Pause has the replica do nothing (SIGSTOP): its connections stand.
func (r *Replica) Pause(tb testing.TB) {
	tb.Helper()
	if err := r.signal("STOP"); err != nil {
		tb.Fatal(err)
	}
}

// Resume ends what Pause began (SIGCONT).
func (r *Replica) Resume(tb testing.TB) {
	tb.Helper()
	if err := r.signal("CONT"); err != nil {
		tb.Fatal(err)
	}
}

// PID gives the process id.
func (r *Replica) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd.Process.Pid
}

// Log gives all that the replica has logged.
func (r *Replica) Log() string { return r.log.String() }

// signal sends a signal by its name; not all systems know all by number.
func (r *Replica) signal(name string) error {
	out, err := exec.Command("kill", "-"+name, strconv.Itoa(r.PID())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("send SIG%s to a replica: %w: %s", name, err, out)
	}
	return nil
}

// output keeps what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String gives what was printed.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
