package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Pauses before a session's own stream is opened again.
const (
	streamPauseLeast = time.Second
	streamPauseMost  = 30 * time.Second
)

// streamState is the stream of a session for messages that belong to no request,
// and who listens to it. Its failure never touches a request: what only it could
// have brought is not there then.
type streamState struct {
	session *session
	turn    chan struct{} // held by who changes the resource subscriptions

	mu        sync.Mutex
	running   bool
	opened    chan struct{} // closed when the latest attempt has led to something
	err       error         // what it led to; nil for an open stream
	none      bool          // the server has no such stream
	listeners map[*legacyListener]struct{}
	uris      map[string]int // resource subscriptions, and how many listeners want each
}

func (st *streamState) init(s *session) {
	st.session = s
	st.turn = make(chan struct{}, 1)
	st.listeners, st.uris = map[*legacyListener]struct{}{}, map[string]int{}
}

// warm opens the stream before the first call of a session that may be asked
// something, since some servers send their requests there. It waits for a moment
// only, and only the first time; the error is that of ctx, or that the server
// knows the session no more.
func (st *streamState) warm(ctx context.Context) error {
	st.mu.Lock()
	done := st.none || st.running && isClosed(st.opened)
	st.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.session.pool.conf.ConnectTimeout)
	defer cancel()
	return st.ensure(ctx)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ensure opens the stream unless it is open, and waits for that.
func (st *streamState) ensure(ctx context.Context) error {
	st.mu.Lock()
	if st.none {
		st.mu.Unlock()
		return errNoStream
	}
	if !st.running {
		st.running = true
		st.opened = make(chan struct{})
		go st.run() // ends with the session
	}
	opened := st.opened
	st.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.err
}

// run keeps the stream of a session open that may be asked something, and that of
// another one until it ends for the first time: its listeners open it again. Where
// the source of credentials fails nobody may be there to do something about that, so
// the next request of the session opens it.
func (st *streamState) run() {
	s := st.session
	for pause := streamPauseLeast; ; pause = min(2*pause, streamPauseMost) {
		began := time.Now()
		err := s.link.listen(s.ctx, func() { st.settle(nil) })
		if err == nil {
			return // there is none to hold open, and everything comes without
		}
		if errors.Is(err, errNoSession) && st.knows() {
			err = errNoStream
		}
		again := s.caps.asks() && !errors.Is(err, errNoStream) && !errors.Is(err, errNoSession) && !isUnshown(err) && s.ctx.Err() == nil
		st.broke(err, again)
		if !again {
			return
		}
		if time.Since(began) > streamPauseMost {
			pause = streamPauseLeast
		}
		if sleep(s.ctx, pause+rand.N(pause)) != nil {
			return
		}
	}
}

// knows asks the server whether it knows the session, after it has answered a GET
// as if it did not: some answer so to every GET.
func (st *streamState) knows() bool {
	ctx, cancel := context.WithTimeout(st.session.ctx, tellTime)
	defer cancel()
	_, err := st.session.ask(ctx, methodPing, []byte("{}"))
	return err == nil
}

// settle says what the attempt to open the stream has led to.
func (st *streamState) settle(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.err = err
	if !isClosed(st.opened) {
		close(st.opened)
	}
}

// broke notes that the stream has ended, or could not be opened.
func (st *streamState) broke(err error, again bool) {
	st.settle(err)
	st.mu.Lock()
	st.running = again
	st.none = st.none || errors.Is(err, errNoStream)
	st.mu.Unlock()
	st.end(err)
}

// end ends all listeners.
func (st *streamState) end(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for n := range st.listeners {
		n.end(err)
	}
}

// publish gives a notification to the listeners.
func (st *streamState) publish(m *mcp.Message) {
	switch m.Method {
	case mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged, mcp.NotificationResourcesChanged, mcp.NotificationResourceUpdated:
	default:
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for n := range st.listeners {
		n.add(m)
	}
}

// join adds a listener, leave takes it out.
func (st *streamState) join(n *legacyListener) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.listeners[n] = struct{}{}
}

func (st *streamState) leave(n *legacyListener) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.listeners, n)
}

// subscribe subscribes to resources for one more listener and gives those that
// the server grants.
func (st *streamState) subscribe(ctx context.Context, uris []string) []string {
	var granted []string
	if !st.take(ctx) {
		return nil
	}
	defer st.giveBack()
	for _, uri := range uris {
		if st.count(uri, 1) > 1 || st.change(ctx, methodSubscribe, uri) {
			granted = append(granted, uri)
		} else {
			st.count(uri, -1)
		}
	}
	return granted
}

// unsubscribe takes the subscriptions of one listener back.
func (st *streamState) unsubscribe(ctx context.Context, uris []string) {
	if !st.take(ctx) {
		return
	}
	defer st.giveBack()
	for _, uri := range uris {
		if st.count(uri, -1) == 0 && !st.session.isLost() {
			st.change(ctx, methodUnsubscribe, uri)
		}
	}
}

func (st *streamState) take(ctx context.Context) bool {
	select {
	case st.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (st *streamState) giveBack() { <-st.turn }

// count changes how many listeners want a resource and gives the new number.
func (st *streamState) count(uri string, by int) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	n := st.uris[uri] + by
	if st.uris[uri] = n; n == 0 {
		delete(st.uris, uri)
	}
	return n
}

// change sends resources/subscribe or resources/unsubscribe (2025-11-25,
// server/resources, Subscriptions); false when it was refused or failed.
func (st *streamState) change(ctx context.Context, method, uri string) bool {
	m, err := st.session.ask(ctx, method, append(mcp.AppendQuote([]byte(`{"uri":`), uri), '}'))
	if err != nil || m.Kind == mcp.KindError {
		st.session.pool.log.Debug("change a resource subscription", "method", method, "error", err)
		return false
	}
	return true
}
