package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// openAtOnce is how many streams are being opened at once.
const openAtOnce = 64

// lineSize is the size of a listener's two buffers, in bytes: there are thousands
// of listeners.
const lineSize = 512

// audience are clients that listen to changes of the list of tools.
type audience struct {
	work sync.WaitGroup // one reader for each

	mu      sync.Mutex
	all     []*listener
	heard   int           // notifications, of all
	want    int           // how many of them end a wait
	reached chan struct{} // closed when they are there
	failed  chan error    // the first failure
}

// listener is one client with one open listen stream.
type listener struct {
	conn  net.Conn
	id    string      // of its subscription, as JSON
	times []time.Time // when it was notified; guarded by the audience
}

func newAudience() *audience { return &audience{failed: make(chan error, 1)} }

// open has n more listen at an endpoint, and returns when all are acknowledged.
func (a *audience) open(ctx context.Context, at endpoint, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(openAtOnce)
	for range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return a.openOne(ctx, at)
		})
	}
	return group.Wait()
}

func (a *audience) openOne(ctx context.Context, at endpoint) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at.addr)
	if err != nil {
		return err
	}
	a.mu.Lock()
	l := &listener{conn: c, id: fmt.Sprintf(`"listener %d"`, len(a.all))}
	a.all = append(a.all, l) // from here on close closes it
	a.mu.Unlock()
	if err := c.SetDeadline(time.Now().Add(grace)); err != nil {
		return err
	}
	lines, err := l.begin(at)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", at.addr, err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	a.work.Go(func() { a.read(l, lines) })
	return nil
}

// begin sends the request and reads the acknowledgement.
func (l *listener) begin(at endpoint) (*bufio.Reader, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"notifications":{"toolsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"loadtest","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, l.id, methodListen)
	_, err := fmt.Fprintf(l.conn, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: loadtest\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nContent-Length: %d\r\n\r\n%s",
		at.path, at.addr, methodListen, len(body), body)
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(l.conn, lineSize), nil)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(resp.Body, lineSize)
	if resp.StatusCode != http.StatusOK {
		line, _ := readLine(lines) // says more about the status, if anything
		return nil, fmt.Errorf("status %d: %.200s", resp.StatusCode, line)
	}
	data, err := readData(lines)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(data, noteAcknowledged) || !strings.Contains(data, l.id) || !strings.Contains(data, `"toolsListChanged":true`) {
		return nil, fmt.Errorf("the first message is no acknowledgement: %.200s", data)
	}
	return lines, nil
}

// readData gives the data of the next event that has some. One line of data is all
// that an event of the gateway has.
func readData(r *bufio.Reader) (string, error) {
	for {
		line, err := readLine(r)
		if err != nil {
			return "", err
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			return strings.TrimPrefix(data, " "), nil
		}
	}
}

// read notes each notification until the stream ends, which is a failure unless
// the listener itself has left.
func (a *audience) read(l *listener, lines *bufio.Reader) {
	for {
		data, err := readData(lines)
		at := time.Now()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			a.fail(fmt.Errorf("a listen stream ended: %w", err))
			return
		case !strings.Contains(data, noteToolsChanged) || !strings.Contains(data, l.id):
			a.fail(fmt.Errorf("a listen stream brought %.200s", data))
			return
		}
		a.note(l, at)
	}
}

func (a *audience) note(l *listener, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.times = append(l.times, at)
	if a.heard++; a.heard == a.want {
		close(a.reached)
	}
}

// fail keeps the first failure.
func (a *audience) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// expect says that each listener is to be notified once more. The channel is
// closed when all were.
func (a *audience) expect() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.want, a.reached = a.heard+len(a.all), make(chan struct{})
	return a.reached
}

// await waits until all that was expected has come.
func (a *audience) await(ctx context.Context, reached <-chan struct{}) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-reached:
		return nil
	case err := <-a.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Errorf("%d of %d notifications came within %v", a.heard-(a.want-len(a.all)), len(a.all), grace)
}

// latencies gives, sorted, how long after each of several changes each listener was
// notified, without the first few changes. It fails unless each listener was
// notified of each change once.
func (a *audience) latencies(changes []time.Time, without int) ([]time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]time.Duration, 0, len(a.all)*len(changes))
	for _, l := range a.all {
		if len(l.times) != len(changes) {
			return nil, fmt.Errorf("a client was notified %d times of %d changes", len(l.times), len(changes))
		}
		for i := without; i < len(changes); i++ {
			all = append(all, l.times[i].Sub(changes[i]))
		}
	}
	slices.Sort(all)
	return all, nil
}

// close has all leave, and waits until they have.
func (a *audience) close() {
	a.mu.Lock()
	for _, l := range a.all {
		_ = l.conn.Close() // the gateway may have closed it first
	}
	a.mu.Unlock()
	a.work.Wait()
}
