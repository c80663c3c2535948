package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// newLegacyStdio makes a client of a program of the handshake era that
// conf.Process starts. One process is one session (2025-11-25, basic/transports,
// stdio).
func newLegacyStdio(conf Config, deps Deps) *Legacy {
	p := &stdioProgram{launcher: newLauncher(conf, deps), ending: map[*process]bool{}}
	l := NewLegacy(conf, p.open, deps)
	l.shut = p.close
	return l
}

// stdioProgram is what all sessions with one program share.
type stdioProgram struct {
	launcher *launcher

	mu     sync.Mutex
	ending map[*process]bool // those that were told to end and have not
}

// open is a linkMaker. A program is shown nobody.
func (p *stdioProgram) open(ctx context.Context, in incoming, _ CredentialSource) (link, error) {
	s := &stdioLink{in: in, program: p, ready: make(chan struct{})}
	process, err := p.launcher.launch(ctx, s)
	if err != nil {
		return nil, linkConnect(err)
	}
	s.process = process
	close(s.ready)
	return s, nil
}

// end makes a session's process end.
func (p *stdioProgram) end(s *stdioLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.over {
		p.ending[s.process] = true
	}
	s.process.stop()
}

// forget notes that a session's process has ended.
func (p *stdioProgram) forget(s *stdioLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.over = true
	delete(p.ending, s.process)
}

// close waits until all processes have ended that were told to, so that none is
// left when the gateway ends.
func (p *stdioProgram) close() {
	p.mu.Lock()
	ending := slices.Collect(maps.Keys(p.ending))
	p.mu.Unlock()
	for _, run := range ending {
		<-run.done
	}
}

// linkConnect makes the error of a connection that could not be made.
func linkConnect(err error) error {
	if egress.NotSent(err) {
		return linkFailure(ClassConnect, true, err)
	}
	return err
}

// stdioLink is a session with a process.
type stdioLink struct {
	in      incoming
	program *stdioProgram
	ready   chan struct{} // closed when process is set
	process *process
	over    bool // guarded by program.mu
	pace    pacer
}

var (
	_ link     = (*stdioLink)(nil)
	_ receiver = (*stdioLink)(nil)
)

// request implements link.
func (s *stdioLink) request(ctx context.Context, msg []byte, _ linkMeta, _ func(*mcp.Buffer) error) error {
	return s.process.send(ctx, asLine(msg))
}

// post implements link.
func (s *stdioLink) post(ctx context.Context, msg []byte, _ linkMeta) error {
	return s.process.send(ctx, asLine(msg))
}

// negotiated implements link: no message says which version it is of.
func (s *stdioLink) negotiated(string) {}

// listen implements link: everything comes by itself.
func (s *stdioLink) listen(_ context.Context, opened func()) error {
	opened()
	return nil
}

// close implements link. It does not wait for the end of the process, which takes
// seconds when it has to be made to end.
func (s *stdioLink) close(context.Context) { s.program.end(s) }

// line implements receiver.
func (s *stdioLink) line(buf *mcp.Buffer) {
	defer buf.Release()
	if first := buf.B[0]; first != '{' && first != '[' { // batches are of 2025-03-26
		notMessage(&s.pace, s.program.launcher.log, len(buf.B), errors.New("it is no JSON object"))
		return
	}
	s.in.message(buf.B)
}

// lost implements receiver. A request that waits for the message learns why there
// is none.
func (s *stdioLink) lost(id []byte, err error) {
	class := ClassTooLarge
	if errors.Is(err, mcp.ErrOverBudget) {
		class = ClassOverloaded
	}
	if to, ok := s.in.(misser); ok && id != nil {
		to.missed(id, linkFailure(class, false, err))
	}
}

// misser is an incoming that takes the failure of one request alone.
type misser interface {
	missed(id []byte, err error)
}

var _ misser = (*session)(nil)

// missed implements misser.
func (s *session) missed(id []byte, err error) {
	s.mu.Lock()
	f := s.flights[string(id)]
	s.mu.Unlock()
	if f != nil {
		f.end(err)
	}
}

// ended implements receiver.
func (s *stdioLink) ended(err error) {
	<-s.ready
	s.program.forget(s)
	if err == nil {
		return
	}
	s.program.launcher.failed(time.Since(s.process.began))
	s.in.gone(linkFailure(ClassInterrupted, false, err))
}

// notMessage logs that a program wrote to its standard output what does not
// belong there. What it is may be a part of somebody's result, so it is not shown.
func notMessage(pace *pacer, log *slog.Logger, size int, err error) {
	pace.log(log, slog.LevelWarn, "skip what is not a message on the process's stdout", "bytes", size, "error", err.Error())
}

// send writes one line and returns when it is written, or with the cause of ctx.
func (p *process) send(ctx context.Context, line []byte) error {
	out := p.in.put(line)
	select {
	case <-out.written:
		if out.err != nil {
			return linkFailure(ClassConnect, true, fmt.Errorf("write to the process: %w", out.err))
		}
		return nil
	case <-ctx.Done():
		p.in.withdraw(out)
		return context.Cause(ctx)
	}
}
