package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// stdioLinks gives the maker of links to a program of the handshake era. One
// process is one session (2025-11-25, basic/transports, stdio).
func stdioLinks(conf Config, deps Deps) linkMaker {
	l := newLauncher(conf, deps)
	return func(ctx context.Context, in incoming) (link, error) {
		s := &stdioLink{in: in, launcher: l, ready: make(chan struct{})}
		p, err := l.launch(ctx, s)
		if err != nil {
			return nil, linkConnect(err)
		}
		s.process = p
		close(s.ready)
		return s, nil
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
	in       incoming
	launcher *launcher
	ready    chan struct{} // closed when process is set
	process  *process
	pace     pacer
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

// close implements link. A process that outlives ctx is killed.
func (s *stdioLink) close(ctx context.Context) {
	s.process.stop()
	select {
	case <-s.process.done:
	case <-ctx.Done():
		s.process.kill()
		<-s.process.done
	}
}

// line implements receiver.
func (s *stdioLink) line(buf *mcp.Buffer) {
	defer buf.Release()
	if first := buf.B[0]; first != '{' && first != '[' { // batches are of 2025-03-26
		notMessage(&s.pace, s.launcher.log, len(buf.B), errors.New("it is no JSON object"))
		return
	}
	s.in.message(buf.B)
}

// lost implements receiver. A request that waits for the message learns why there
// is none.
func (s *stdioLink) lost(id []byte, err error) {
	if id != nil {
		class := ClassTooLarge
		if errors.Is(err, mcp.ErrOverBudget) {
			class = ClassOverloaded
		}
		if to, ok := s.in.(interface{ missed(id []byte, err error) }); ok {
			to.missed(id, linkFailure(class, false, err))
		}
	}
}

// ended implements receiver.
func (s *stdioLink) ended(err error) {
	if err == nil {
		return
	}
	<-s.ready
	s.launcher.failed(time.Since(s.process.began))
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
