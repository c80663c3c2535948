package upstream

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	// endGrace is how long a process may take to end when its input has, and
	// again when it was told to.
	endGrace = 2 * time.Second
	// drainGrace is how long what a process wrote is read after its end. Only
	// somebody whom it started and who left its group can keep it open longer.
	drainGrace = time.Second
)

// receiver takes what comes from a process. Its methods are called by one
// goroutine and must not block for long.
type receiver interface {
	// line takes one line of output and owns it.
	line(buf *mcp.Buffer)
	// lost tells that a line was skipped; id is the raw JSON of its id where that
	// could be found.
	lost(id []byte, err error)
	// ended comes last. The error says how the process ended by itself; it is nil
	// when stop was called before.
	ended(err error)
}

// process is one run of an upstream's program. Whatever happens it is reaped, and
// its whole group ends with it.
type process struct {
	cmd     *exec.Cmd
	log     *slog.Logger
	in      *lineWriter
	began   time.Time
	once    sync.Once
	stopped chan struct{} // closed by stop
	done    chan struct{} // closed when all of it is over
}

// pipes are the gateway's ends of a process's standard streams.
type pipes struct{ stdin, stdout, stderr *os.File }

// startProcess starts the program. Messages go to the receiver until it ends.
func startProcess(conf *Config, log *slog.Logger, budget *mcp.Budget, to receiver) (*process, error) {
	if len(conf.Process.Command) == 0 {
		return nil, errors.New("no command is configured")
	}
	env, err := conf.Process.environment(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(conf.Process.Command[0], conf.Process.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = env, conf.Process.Dir, ownGroup()
	ends, err := launchWith(cmd)
	if err != nil {
		return nil, fmt.Errorf("start the process: %w", err)
	}
	p := &process{
		cmd:     cmd,
		log:     log.With("pid", cmd.Process.Pid),
		in:      newLineWriter(ends.stdin),
		began:   time.Now(),
		stopped: make(chan struct{}),
		done:    make(chan struct{}),
	}
	p.log.Debug("upstream process started")
	// done tells when it is over, and whoever has the process waits for that.
	go p.supervise(ends, newLineReader(ends.stdout, conf.MaxMessage, budget), to)
	return p, nil
}

// launchWith starts the command with a pipe for each of its streams. The pipes of
// os/exec are not used, since they are closed as soon as the process has ended,
// with what it wrote last still in them.
func launchWith(cmd *exec.Cmd) (*pipes, error) {
	var open []*os.File
	fail := func(err error) (*pipes, error) {
		for _, f := range open {
			f.Close()
		}
		return nil, err
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		open = append(open, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = open[0], open[3], open[5]
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	open[0].Close()
	open[3].Close()
	open[5].Close()
	return &pipes{stdin: open[1], stdout: open[2], stderr: open[4]}, nil
}

// supervise serves the process's streams until it has ended.
func (p *process) supervise(ends *pipes, lines *lineReader, to receiver) {
	defer close(p.done)
	var serving, waiting sync.WaitGroup
	exited, deaf, mute := make(chan struct{}), make(chan struct{}), make(chan struct{})
	waiting.Go(func() {
		defer close(exited)
		_ = p.cmd.Wait() // ProcessState says it
	})
	serving.Go(func() {
		defer close(deaf)
		p.in.run()
	})
	serving.Go(func() {
		defer close(mute)
		p.read(lines, to)
	})
	serving.Go(func() { logStderr(p.log, ends.stderr) })
	select {
	case <-exited:
	case <-p.stopped:
		p.end(exited)
	case <-deaf: // it closed its input or its output, so it is of no use any more
		p.end(exited)
	case <-mute:
		p.end(exited)
	}
	waiting.Wait()
	// Whoever it left behind keeps the group's number from being used again, and
	// when there is nobody it is too fresh for that.
	killGroup(p.cmd.Process)
	p.in.close()
	deadline := time.Now().Add(drainGrace)
	_ = ends.stdout.SetReadDeadline(deadline) // pipes have deadlines where this can matter
	_ = ends.stderr.SetReadDeadline(deadline)
	serving.Wait()
	ends.stdout.Close()
	ends.stderr.Close()
	p.over(to)
}

// over tells how it ended.
func (p *process) over(to receiver) {
	life := time.Since(p.began).Round(time.Millisecond)
	select {
	case <-p.stopped:
		p.log.Debug("upstream process stopped", "state", p.cmd.ProcessState.String(), "after", life)
		to.ended(nil)
	default:
		p.log.Warn("upstream process ended", "state", p.cmd.ProcessState.String(), "after", life)
		to.ended(fmt.Errorf("the process ended: %v", p.cmd.ProcessState))
	}
}

// end makes the process end: its input ends, it is told to, it is made to
// (2026-07-28, basic/transports/stdio, Shutdown).
func (p *process) end(exited <-chan struct{}) {
	p.in.close()
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	for _, next := range []func(*os.Process){terminateGroup, killGroup} {
		select {
		case <-exited:
			return
		case <-grace.C:
			next(p.cmd.Process)
			grace.Reset(endGrace)
		}
	}
}

// read gives all lines of output to the receiver.
func (p *process) read(lines *lineReader, to receiver) {
	for {
		buf, err := lines.next()
		var lost *lostLine
		switch {
		case err == nil:
			to.line(buf)
		case errors.As(err, &lost):
			p.log.Warn("skip a message of the upstream", "error", lost.err.Error())
			to.lost(lost.id, lost.err)
		default:
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.log.Warn("read from the upstream process", "error", err)
			}
			return
		}
	}
}

// stop begins to end the process and does not wait for it: done tells when it is
// over. It may be called twice.
func (p *process) stop() { p.once.Do(func() { close(p.stopped) }) }
