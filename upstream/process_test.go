package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// sink is a receiver that keeps everything.
type sink struct {
	lines chan string
	ids   chan string // of lost lines
	end   chan error
}

func newSink() *sink {
	return &sink{lines: make(chan string, 100), ids: make(chan string, 100), end: make(chan error, 1)}
}

func (s *sink) line(buf *mcp.Buffer) {
	s.lines <- string(buf.B)
	buf.Release()
}
func (s *sink) lost(id []byte, _ error) { s.ids <- string(id) }
func (s *sink) ended(err error)         { s.end <- err }

// syncBuffer is a log that is written and read at the same time.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// begin starts a peer. When the test ends it, and every goroutine for it, must be
// gone.
func begin(t *testing.T, p *Process) (*process, *sink, *syncBuffer) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	conf := Config{Tenant: "acme", Alias: "ledger", Process: p}
	conf.fill()
	log, to := new(syncBuffer), newSink()
	run, err := startProcess(&conf, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), nil, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run.stop()
		<-run.done
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return run, to, log
}

func TestProcessEnds(t *testing.T) {
	tests := []struct {
		name, how string
		stop      bool
		wantErr   string // how it ended by itself
	}{
		{name: "its input ends", how: "", stop: true},
		{name: "it must be killed", how: "stubborn", stop: true},
		{name: "by itself", how: "die", wantErr: "exit status 3"},
		{name: "it closes its output", how: "mute", wantErr: "exit status 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			watch := watchLives(t)
			run, to, _ := begin(t, peerProcess(tt.how, watch.env()))
			end := watch.begin()
			if tt.stop {
				run.stop()
				run.stop()
			}
			end()
			err := <-to.end
			<-run.done
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("ended with %v, want %q", err, tt.wantErr)
			}
			if run.cmd.ProcessState == nil {
				t.Error("the process was not reaped")
			}
			if out := run.in.put([]byte("late\n")); out.err == nil {
				t.Error("a line was taken after the end")
			}
		})
	}
}

// A process's children end with it, however it ends.
func TestNoOrphans(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*process)
	}{
		{"stop", (*process).stop},
		{"kill", func(p *process) { killGroup(p.cmd.Process) }},
		{"exit", func(p *process) {
			p.in.put([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"vanish"}}` + "\n"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			watch := watchLives(t)
			run, _, _ := begin(t, peerProcess("child", watch.env()))
			parent, child := watch.begin(), watch.begin()
			tt.end(run)
			parent()
			child()
			<-run.done
		})
	}
}

// textOf gives the text of a result of tools/call.
func textOf(t *testing.T, message string) string {
	t.Helper()
	var m struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil || len(m.Result.Content) != 1 {
		t.Fatalf("%s is no result with one text (%v)", message, err)
	}
	return m.Result.Content[0].Text
}

// A process gets what programs need and what is configured for it, and nothing
// else of the gateway's environment.
func TestProcessEnvironment(t *testing.T) {
	t.Setenv("CAUSEWAY_ADMIN_TOKEN", "secret")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TZ", "UTC")
	t.Setenv("NAMED", "by reference")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := peerProcess("", Variable{Name: "TZ", Value: "Europe/Berlin"}, Variable{Name: "KEY", FromEnv: "NAMED"})
	p.Dir = dir
	run, to, _ := begin(t, p)
	ask := func(tool string) string {
		t.Helper()
		run.in.put([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}` + "\n"))
		return textOf(t, <-to.lines)
	}
	env := strings.Split(ask("env"), "\n")
	for _, want := range []string{"LANG=C.UTF-8", "TZ=Europe/Berlin", "KEY=by reference", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment lacks %q", want)
		}
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if name == "NAMED" || name == "CAUSEWAY_ADMIN_TOKEN" || value == "secret" {
			t.Errorf("the environment holds %q", v)
		}
	}
	if got := ask("dir"); got != dir {
		t.Errorf("the working directory is %q, want %q", got, dir)
	}
}

// What a process writes to stderr is logged, but not more than somebody may read.
func TestStderrIsBounded(t *testing.T) {
	_, to, log := begin(t, peerProcess("flood,die"))
	if err := <-to.end; err == nil {
		t.Error("the process did not end")
	}
	text := log.String()
	if n := strings.Count(text, "wrote to stderr"); n < logPerSecond || n > 20*logPerSecond {
		t.Errorf("%d of 10001 lines were logged", n)
	}
	for _, want := range []string{`line="line 0"`, "dropped=", "pid="} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

func TestStderrLines(t *testing.T) {
	log := new(bytes.Buffer)
	input := "one\r\n\n" + strings.Repeat("x", 3*logLineMax) + "\nbad \xff\nlast"
	logStderr(slog.New(slog.NewTextHandler(log, nil)), strings.NewReader(input))
	var got []string
	for line := range strings.Lines(log.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " line=")
		got = append(got, text)
	}
	want := []string{"one", strings.Repeat("x", logLineMax), "\"bad \uFFFD\"", "last"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logged lines (-want +got):\n%s", diff)
	}
}

func TestProcessDoesNotStart(t *testing.T) {
	for _, p := range []*Process{
		{},
		{Command: []string{"/no/such/program"}},
		{Command: []string{os.Args[0]}, Dir: "/no/such/directory"},
		{Command: []string{os.Args[0]}, Env: []Variable{{Name: "A", FromEnv: "NO_SUCH_VARIABLE_IS_SET"}}},
	} {
		conf := Config{Process: p}
		if _, err := startProcess(&conf, slog.New(slog.DiscardHandler), nil, newSink()); err == nil {
			t.Errorf("%+v started", p)
		}
	}
}

// A line that waits can be taken back, and one that has begun is finished.
func TestLineWriter(t *testing.T) {
	r, file := io.Pipe()
	w := newLineWriter(file)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run()
	}()
	first, second, third := w.put([]byte("one\n")), w.put([]byte("two\n")), w.put([]byte("three\n"))
	b := make([]byte, 1)
	r.Read(b) // the first line has begun
	if w.withdraw(first) || !w.withdraw(second) || w.withdraw(second) {
		t.Error("withdraw does not tell lines that have begun from those that have not")
	}
	rest := make([]byte, 100)
	n, _ := r.Read(rest)
	<-first.written
	m, _ := r.Read(rest[n:])
	<-third.written
	if got := string(b) + string(rest[:n+m]); got != "one\nthree\n" || first.err != nil || third.err != nil {
		t.Errorf("written %q with %v and %v", got, first.err, third.err)
	}
	fourth := w.put([]byte("four\n"))
	w.close()
	<-fourth.written
	<-done
	if fourth.err == nil || !w.ended() {
		t.Error("a line was written after the end")
	}
}

func TestAsLine(t *testing.T) {
	if got := string(asLine([]byte("{\"a\":\r\n \"b\\n\"\n}"))); got != "{\"a\":   \"b\\n\" }\n" {
		t.Errorf("line = %q", got)
	}
}

// A write that nobody reads ends with its context, and with the process.
func TestSendIsNotStuck(t *testing.T) {
	run, _, _ := begin(t, peerProcess("deaf"))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errDeadline)
	defer cancel()
	err := run.send(ctx, append(bytes.Repeat([]byte(" "), 1<<20), '\n'))
	var link *linkError
	if !errors.As(err, &link) || !link.fault.unsent {
		t.Errorf("error = %v, want one that says that nothing was taken", err)
	}
	gone, stop := context.WithCancelCause(t.Context())
	stop(errDone)
	if err := run.send(gone, []byte("\n")); err == nil {
		t.Error("a line was taken by a process that reads no more")
	}
}
