package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// closer is a Doer that holds something.
type closer interface {
	Doer
	Close()
}

// auto speaks with a server of either era. It finds out which when it is first
// used, remembers it, and asks again when the server behaves otherwise.
type auto struct {
	conf Config
	log  *slog.Logger
	make [ways]func() closer // nil for ways that are not to be tried

	current  atomic.Pointer[choice]
	asked    atomic.Int64
	spares   sync.Pool     // of *spare
	pause    time.Duration // doubtPause
	patience time.Duration // ProbeTimeout

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	doers   [ways]closer // those that were made
	doubted time.Time    // when a doubt was last looked into
	// runs are the probes under way, by what they show of who asks: what one user is
	// told, a link for him to follow perhaps, is nothing to another, and nobody waits
	// for another's credentials.
	runs map[CredentialSource]*probing
}

var _ closer = (*auto)(nil)

// choice is a way that was found to fit.
type choice struct {
	way  way
	doer closer
}

// probing is one attempt to find out, which all wait for who want to know.
type probing struct {
	done    chan struct{}
	doubted *choice // what was believed when it began, and no longer
	choice  *choice // nil when nothing fits
	err     error   // why
}

func newAuto(conf Config, log *slog.Logger, makers [ways]func() closer) *auto {
	a := &auto{conf: conf, log: log, make: makers, pause: doubtPause, patience: ProbeTimeout, runs: map[CredentialSource]*probing{}}
	//nolint:gosec // the cancel function is kept and called by Close
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Close ends all that is held towards the server. It may be called twice.
func (a *auto) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.work.Wait()
	a.keepOnly(ways)
}

// keepOnly closes all ways but one.
func (a *auto) keepOnly(w way) {
	a.mu.Lock()
	var gone []closer
	for i, d := range a.doers {
		if d != nil && way(i) != w {
			gone = append(gone, d)
			a.doers[i] = nil
		}
	}
	a.mu.Unlock()
	for _, d := range gone {
		d.Close()
	}
}

// doer gives the Doer of a way, making it on first use.
func (a *auto) doer(w way) (closer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, a.gone()
	}
	if a.doers[w] == nil {
		a.doers[w] = a.make[w]()
	}
	return a.doers[w], nil
}

func (a *auto) gone() error {
	e := a.failure(ClassConnect, errClosed)
	e.Retryable = true
	return e
}

// Do implements Doer.
func (a *auto) Do(ctx context.Context, req *Request) (Answer, error) {
	c := a.current.Load()
	var waited time.Duration
	if c == nil {
		start := time.Now()
		var err error
		if c, err = a.find(ctx, req, nil); err != nil {
			req.Body.Release()
			return nil, err
		}
		waited = time.Since(start)
	}
	spare := a.spareOf(req)
	defer a.release(spare)
	answer, err := c.doer.Do(ctx, req)
	if err != nil {
		if !a.doubtful(c, err) {
			return nil, err
		}
		return a.heal(ctx, c, spare, nil, err)
	}
	// What a Legacy gives has its first message already, and so has what a Client
	// gives with such a status.
	if peek := answer.Status() >= 400 || c.way != wayModern || spare.req.Method == mcp.MethodDiscover; peek && !spare.req.Listen {
		seen := &seenAnswer{Answer: answer, waited: waited}
		seen.message, seen.err = answer.Next()
		if a.refused(c, seen, spare.req.Method) {
			return a.heal(ctx, c, spare, seen, nil)
		}
		return seen, nil
	}
	if waited > 0 {
		return &seenAnswer{Answer: answer, waited: waited, used: true}, nil
	}
	return answer, nil
}

// find gives the way that fits, asking the server where that is not known or no
// longer believed. Whoever asks at the same time with the same credentials waits for
// the same probe.
func (a *auto) find(ctx context.Context, req *Request, doubted *choice) (*choice, error) {
	limit := a.conf.CallTimeout
	if req.Timeout > 0 {
		limit = req.Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	run, known, err := a.start(req, doubted)
	if err != nil || known != nil {
		return known, err
	}
	select {
	case <-run.done:
		if run.choice != nil {
			return run.choice, nil
		}
		if c := a.current.Load(); c != nil && c != doubted {
			return c, nil // another probe has found it
		}
		return nil, run.err
	case <-ctx.Done():
	}
	class := ClassCanceled
	if cause := context.Cause(ctx); errors.Is(cause, errDeadline) || errors.Is(cause, context.DeadlineExceeded) {
		class = ClassTimeout
	}
	e := a.failure(class, context.Cause(ctx))
	e.Retryable = class == ClassTimeout // it was not sent
	return nil, e
}

// start joins the probe under way or begins one, unless somebody else has found
// the answer meanwhile.
func (a *auto) start(req *Request, doubted *choice) (*probing, *choice, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, a.gone()
	}
	if c := a.current.Load(); c != nil && c != doubted {
		return nil, c, nil
	}
	source := a.conf.source(req)
	if run := a.runs[source]; run != nil {
		return run, nil, nil
	}
	run := &probing{done: make(chan struct{}), doubted: doubted}
	a.runs[source] = run
	// The request may be gone before the probe ends.
	template := &Request{
		Header: req.Header, Principal: req.Principal, Session: req.Session, Credentials: req.Credentials,
		Body: mcp.GetBuffer(len(req.Body.B)),
	}
	template.Body.B = append(template.Body.B, req.Body.B...)
	a.work.Go(func() {
		defer template.Body.Release()
		a.search(run, template)
		a.mu.Lock()
		delete(a.runs, source)
		a.mu.Unlock()
		close(run.done)
	})
	return run, nil, nil
}

// search tries the ways one after the other.
func (a *auto) search(run *probing, template *Request) {
	allSSE := true // each refusal so far was one of a server of 2024-11-05
	for w := range ways {
		if a.make[w] == nil || w == waySSE && !allSSE {
			continue
		}
		if c := a.current.Load(); c != nil && c != run.doubted {
			run.choice = c // another probe has found it
			return
		}
		found, err := a.probe(a.ctx, w, template)
		switch found {
		case fits, fitsForNow:
			doer, err := a.doer(w)
			if err != nil {
				run.err = err
				return
			}
			run.choice = &choice{w, doer}
			if found == fits {
				a.remember(run.choice)
			}
			return
		case unclear:
			run.err = err
			return
		}
		allSSE = allSSE && found == mismatchSSE
		a.log.Debug("the upstream does not speak this way", "way", w.String(), "error", err)
		if w != waySSE { // what a GET that few servers expect led to tells less than the others
			run.err = err
		}
	}
	// The server was reached and speaks neither era.
	a.forget(run.doubted)
}

// remember keeps what was found for this process.
func (a *auto) remember(c *choice) {
	old := a.current.Swap(c)
	if old == nil || old.way != c.way {
		a.log.Info("upstream era found", "era", c.way.String())
	}
	a.keepOnly(c.way)
}
