package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// longest is the time that the longest calls of a load take at the worker, in ms.
const longest = 30

// worker is an upstream whose tool work says which call it carries out. The calls
// that it holds tell their progress, and end when they are let go.
type worker struct {
	*announcer
	held, proceed chan struct{} // both are received from

	counting sync.Mutex
	executed map[int64]int // how often each call was carried out
}

// newWorker starts one. It ends with the test.
func newWorker(tb testing.TB) *worker {
	tb.Helper()
	w := &worker{announcer: newAnnouncer(tb), held: make(chan struct{}), proceed: make(chan struct{}), executed: map[int64]int{}}
	w.tools("work")
	w.handle("tools/call", w.call)
	return w
}

func (u *worker) call(w http.ResponseWriter, r *http.Request, a *asked) {
	var params struct {
		Arguments struct {
			N    int64
			Hold bool
		}
	}
	if err := json.Unmarshal(memberOf(u.tb, a.body, "params"), &params); err != nil {
		u.tb.Errorf("a call with %s: %v", a.body, err)
	}
	n := params.Arguments.N
	u.counting.Lock()
	u.executed[n]++
	u.counting.Unlock()
	if params.Arguments.Hold {
		answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+string(a.Params.Meta.ProgressToken)+`,"progress":1}}`)
		for _, step := range []chan struct{}{u.held, u.proceed} {
			select {
			case step <- struct{}{}:
			case <-r.Context().Done():
				return
			}
		}
		answerEvents(w, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":`+worked(n)+`}`)
		return
	}
	select {
	case <-time.After(time.Duration(n%longest) * time.Millisecond): // some are always under way
		answerResult(worked(n))(w, r, a)
	case <-r.Context().Done():
	}
}

// worked is the result of a call.
func worked(n int64) string {
	return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"number %d"}]}`, n)
}

// load are clients that call the tool of a worker again and again.
type load struct {
	tb   testing.TB
	url  string
	next atomic.Int64 // number of the next call
	quit chan struct{}
	once sync.Once
	work sync.WaitGroup

	mu     sync.Mutex
	failed []string
}

// newLoad makes one at an endpoint that shows the worker as w. It ends with the test.
func newLoad(tb testing.TB, url string) *load {
	l := &load{tb: tb, url: url, quit: make(chan struct{})}
	tb.Cleanup(l.stop)
	return l
}

// stop waits until no call is under way any more.
func (l *load) stop() {
	l.once.Do(func() { close(l.quit) })
	l.work.Wait()
}

// modern adds a client without a session.
func (l *load) modern() {
	c := newRawClient(l.tb, l.url)
	l.repeat(func(n int64) error {
		r, err := c.do(c.request(ask("tools/call", fmt.Sprintf(`"name":"w_work","arguments":{"n":%d}`, n))))
		if err == nil && (r.status != http.StatusOK || !strings.Contains(r.last(), fmt.Sprintf(`"number %d"`, n))) {
			err = fmt.Errorf("%d %v %q", r.status, r.header, r.messages)
		}
		return err
	})
}

// handshake adds a client's calls in a session.
func (l *load) handshake(c *oldClient) {
	l.repeat(func(n int64) error {
		req := c.request(http.MethodPost, oldRequest(int(n), "tools/call", fmt.Sprintf(`"name":"w_work","arguments":{"n":%d}`, n)))
		res, err := c.transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && (res.StatusCode != http.StatusOK || !strings.Contains(string(text), fmt.Sprintf(`"number %d"`, n))) {
			err = fmt.Errorf("%d %v %q", res.StatusCode, res.Header, text)
		}
		return err
	})
}

// repeat calls until the load ends.
func (l *load) repeat(call func(n int64) error) {
	l.work.Go(func() {
		for {
			var pause time.Duration
			n := l.next.Add(1)
			if err := call(n); err != nil {
				l.mu.Lock()
				l.failed = append(l.failed, fmt.Sprintf("call %d: %v", n, err))
				l.mu.Unlock()
				pause = callPause
			}
			select {
			case <-l.quit:
				return
			case <-time.After(pause):
			}
		}
	})
}

// goOn waits for that many more calls.
func (l *load) goOn(n int64) {
	l.tb.Helper()
	until := l.next.Load() + n
	eventually(l.tb, "calls go on", func() bool { return l.next.Load() >= until })
}

// end ends the load and holds that each of its calls was answered, and carried out
// once.
func (l *load) end(u *worker) {
	l.tb.Helper()
	l.stop()
	for _, failure := range l.failed {
		l.tb.Error(failure)
	}
	u.counting.Lock()
	defer u.counting.Unlock()
	for n := int64(1); n <= l.next.Load(); n++ {
		if u.executed[n] != 1 {
			l.tb.Errorf("call %d was carried out %d times", n, u.executed[n])
		}
	}
	l.tb.Logf("%d calls, %d of them failed", l.next.Load(), len(l.failed))
}

// getStream is the GET stream of a session, opened again whenever it ends.
type getStream struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	opened atomic.Int64
	heard  chan string
}

// keepListening opens the stream of a client. It is closed when the test ends.
func (c *oldClient) keepListening() *getStream {
	ctx, cancel := context.WithCancel(c.tb.Context())
	g := &getStream{cancel: cancel, heard: make(chan string, 64)}
	g.work.Go(func() {
		for ctx.Err() == nil {
			if err := g.once(c, ctx); err != nil && ctx.Err() == nil {
				c.tb.Errorf("a GET stream: %v", err)
				return
			}
		}
	})
	c.tb.Cleanup(func() {
		cancel()
		g.work.Wait()
	})
	return g
}

// once opens the stream and reads it to its end.
func (g *getStream) once(c *oldClient, ctx context.Context) error {
	res, err := c.transport.RoundTrip(c.request(http.MethodGet, "").WithContext(ctx))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "" {
		return nil // it came to one that was about to end
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	g.opened.Add(1)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			g.heard <- data
		}
	}
	return lines.Err()
}
