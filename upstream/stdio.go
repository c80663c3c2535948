package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// NewStdio makes a client of a program of the modern era that conf.Process starts
// (2026-07-28, basic/transports/stdio). One process serves all requests. It is
// started by the first one, and by the next one after it ended.
//
// What a Client knows of deadlines, retries, versions and the breaker holds here
// too: the process takes the place of the connections, and each of its answers
// becomes one of HTTP. Cancelling a request sends notifications/cancelled.
func NewStdio(conf Config, deps Deps) *Client {
	p := &stdioPool{launcher: newLauncher(conf, deps), turn: make(chan struct{}, 1)}
	c := newClient(conf, p, p, deps)
	c.url, c.bad = &url.URL{Scheme: "stdio"}, nil // requests want one; nobody looks at it
	p.depth = c.conf.MaxDepth
	return c
}

// stdioPool is a pool of one process.
type stdioPool struct {
	launcher *launcher
	depth    int
	turn     chan struct{} // held while a process is started

	mu     sync.Mutex
	conn   *stdioConn // the present process; nil when there is none
	calls  int        // under way
	closed bool
}

var _ pool = (*stdioPool)(nil)

// RoundTrip implements http.RoundTripper: it sends the message that is the
// request's body and returns when the answer begins. Its header is not needed.
func (p *stdioPool) RoundTrip(req *http.Request) (*http.Response, error) {
	defer req.Body.Close()
	message, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	line := asLine(message)
	r, bad := mcp.ParseRequest(line, p.depth)
	if bad != nil || r.IsNotification() {
		return nil, fmt.Errorf("the message is no request: %w", bad)
	}
	p.enter()
	call, err := p.open(req.Context(), r)
	if err != nil {
		p.leave()
		return nil, err
	}
	if err := call.send(req.Context(), line); err != nil {
		call.Close()
		return nil, err
	}
	return call.response(), nil
}

// open makes the call of a request, on a process that runs.
func (p *stdioPool) open(ctx context.Context, r *mcp.Request) (*stdioCall, error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.open(r, p.leave)
}

func (p *stdioPool) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
}

// leave lets the process go when it served the last request of a closed client.
func (p *stdioPool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls--; p.calls == 0 && p.closed && p.conn != nil {
		p.conn.process.stop()
	}
}

// connect gives the process, which it starts where there is none.
func (p *stdioPool) connect(ctx context.Context) (*stdioConn, error) {
	conn, good := p.present()
	if good {
		return conn, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if conn, good = p.present(); good {
		return conn, nil
	}
	if conn != nil {
		if err := p.awaitEnd(ctx, conn.process); err != nil {
			return nil, err
		}
	}
	conn = newStdioConn(p)
	process, err := p.launcher.launch(ctx, conn)
	if err != nil {
		return nil, err
	}
	conn.begin(process)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	return conn, nil
}

// present gives the latest process, which may be nil, and tells whether it takes
// requests.
func (p *stdioPool) present() (*stdioConn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn, p.conn != nil && !p.conn.process.in.ended()
}

// awaitEnd waits until a process that takes no more requests is gone, but not
// longer than for a connection: there is never more than one.
func (p *stdioPool) awaitEnd(ctx context.Context, old *process) error {
	timer := time.NewTimer(p.launcher.conf.ConnectTimeout)
	defer timer.Stop()
	select {
	case <-old.done:
		return nil
	case <-timer.C:
		return &egress.DialError{Err: errEnding}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errEnding = errors.New("the process takes no more messages and has not ended")

// Close ends the process and waits for its end. While requests are under way it
// returns at once, and the last of them ends the process.
func (p *stdioPool) Close() {
	p.mu.Lock()
	p.closed = true
	conn, idle := p.conn, p.calls == 0
	p.mu.Unlock()
	if conn != nil && idle {
		conn.process.stop()
		<-conn.process.done
	}
}
