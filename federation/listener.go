package federation

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Times of a listener.
const (
	reopenLeast = 500 * time.Millisecond // before a lost stream is opened again
	reopenMost  = 30 * time.Second
	ackWait     = 10 * time.Second // for an upstream's acknowledgement
)

// interest is what a tenant's streams want of one upstream. The changes of its
// lists are always wanted, since they keep the catalogue true.
type interest struct {
	uris  map[string]bool
	tasks map[string]bool
}

// covers tells whether all that other wants is wanted. Nil covers nothing.
func (in *interest) covers(other *interest) bool {
	if in == nil {
		return false
	}
	for uri := range other.uris {
		if !in.uris[uri] {
			return false
		}
	}
	for id := range other.tasks {
		if !in.tasks[id] {
			return false
		}
	}
	return true
}

// listener holds the one listen stream towards an upstream, and polls what the
// upstream cannot push.
type listener struct {
	hub    *hub
	member *member
	cancel context.CancelFunc
	kick   chan struct{} // the interest changed

	mu      sync.Mutex
	want    *interest
	open    *interest         // what the open stream was asked for; nil for none
	calls   int64             // the member's calls when want was first not covered
	updated map[string][]byte // notifications/resources/updated that wait for the coalescing window, by URI

	noTasks atomic.Bool // the upstream does not push task notifications
	poll    poller
}

// newListener starts a listener. It ends with stop or the domain.
func newListener(h *hub, m *member, want *interest) *listener {
	l := &listener{hub: h, member: m, want: want, kick: make(chan struct{}, 1), updated: map[string][]byte{}, calls: m.calls.Load()}
	ctx, cancel := context.WithCancel(h.domain.ctx)
	l.cancel = cancel
	started := h.domain.run(func(context.Context) { l.run(ctx) }) &&
		h.domain.run(func(context.Context) { l.poll.loop(ctx, l) })
	if !started {
		cancel()
	}
	return l
}

// stop ends the listener without waiting for it; the domain's close does.
func (l *listener) stop() { l.cancel() }

// set takes what the streams want now.
func (l *listener) set(in *interest) {
	l.mu.Lock()
	if l.open.covers(l.want) {
		l.calls = l.member.calls.Load()
	}
	l.want = in
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *listener) wanted() *interest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want
}

// run keeps the stream open: a changed interest opens the new one, awaits its
// acknowledgement and then closes the old; a lost one is opened again with
// backoff, and the lists are read once more, since changes may have been missed.
func (l *listener) run(ctx context.Context) {
	var cur *connection
	defer func() { cur.close() }()
	backoff, failing := reopenLeast, false
	var opened time.Time
	retry := time.NewTimer(0)
	defer retry.Stop()
	due, lost := true, false
	for {
		if due && (cur == nil || !cur.granted.covers(l.wanted())) {
			next, err := l.connect(ctx)
			switch {
			case err == nil:
				cur.close()
				l.catchUp(ctx, next.granted, lost)
				if cur == nil {
					l.rereadAll()
				}
				cur, backoff, failing, lost, opened = next, reopenLeast, false, false, time.Now()
			case ctx.Err() != nil:
				return
			default:
				backoff, failing = l.failed(err, backoff), true
				retry.Reset(jitter(backoff))
			}
		}
		due = false
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			// Many clients tend to come at once: the first opens a new stream, and
			// one more serves all that come soon after.
			if !failing && cur != nil {
				retry.Reset(l.hub.domain.fed.opts.Limits.Coalesce - time.Since(opened))
			}
		case <-retry.C:
			due = true
		case <-cur.ended():
			cur.close()
			cur, lost = nil, true
			l.setOpen(nil)
			retry.Reset(jitter(backoff))
		}
	}
}

// catchUp tells of resources that may have changed while nobody told us: all of
// them after a lost stream, and those that were just subscribed to when something
// was called between their acknowledgement and this stream. Being told once too
// often does no harm.
func (l *listener) catchUp(ctx context.Context, now *interest, lost bool) {
	l.mu.Lock()
	before, called := l.open, l.member.calls.Load() != l.calls
	l.open = now
	l.mu.Unlock()
	if !lost && !called {
		return
	}
	for uri := range now.uris {
		if lost || before == nil || !before.uris[uri] {
			raw := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotificationResourceUpdated+`","params":{"uri":`...)
			l.resourceUpdated(ctx, uri, append(mcp.AppendQuote(raw, uri), "}}"...))
		}
	}
}

func (l *listener) setOpen(in *interest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = in
}

// failed notes a stream that could not be opened and gives the next backoff.
func (l *listener) failed(err error, backoff time.Duration) time.Duration {
	if errors.Is(err, errCannotPush) {
		l.poll.push.Store(nil)
		return max(10*l.hub.domain.fed.opts.Limits.PollInterval, reopenMost)
	}
	l.hub.domain.log.Debug("listen to upstream", "upstream", l.member.conf.Alias, "error", err)
	return min(2*backoff, reopenMost)
}

// jitter spreads d by a fifth.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// errCannotPush tells that the upstream has no subscriptions/listen.
var errCannotPush = errors.New("the upstream has no listen streams")

// connection is one open stream towards the upstream.
type connection struct {
	granted *interest
	cancel  context.CancelFunc
	done    chan struct{}
}

// close ends the connection and waits for its reader. A nil connection is fine.
func (c *connection) close() {
	if c != nil {
		c.cancel()
		<-c.done
	}
}

// ended is closed when the stream has ended; a nil connection never ends.
func (c *connection) ended() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// connect opens a stream and waits for its acknowledgement.
func (l *listener) connect(ctx context.Context) (*connection, error) {
	want := l.wanted()
	ctx, cancel := context.WithCancel(ctx)
	resp, err := l.member.doer.Do(ctx, l.request(want))
	if err != nil {
		cancel()
		return nil, err
	}
	c := &connection{granted: want, cancel: cancel, done: make(chan struct{})}
	acked := make(chan error, 1)
	l.hub.domain.work.Go(func() {
		defer close(c.done)
		defer resp.Close()
		l.read(ctx, resp, acked)
	})
	timeout := time.NewTimer(ackWait)
	defer timeout.Stop()
	select {
	case err = <-acked:
	case <-timeout.C:
		err = l.member.nonsense(upstream.ClassTimeout, "no acknowledgement of subscriptions/listen")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// request makes the listen request.
func (l *listener) request(want *interest) *upstream.Request {
	f := l.hub.domain.fed
	filter := []byte(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`)
	if len(want.uris) > 0 {
		filter = appendStrings(append(filter, `,"resourceSubscriptions":`...), want.uris)
	}
	if len(want.tasks) > 0 {
		filter = appendStrings(append(filter, `,"taskIds":`...), want.tasks)
	}
	filter = append(filter, '}')
	id := f.nextID()
	buf := mcp.GetBuffer(512)
	buf.B = mcp.AppendRequest(buf.B, id, mcp.MethodListen, f.clientInfo, ownCapabilities, []mcp.Param{{Key: "notifications", Value: filter}})
	return &upstream.Request{Method: mcp.MethodListen, ID: strconv.AppendInt(nil, id, 10), Body: buf, Listen: true}
}

func appendStrings(b []byte, set map[string]bool) []byte {
	b = append(b, '[')
	for i, s := range slices.Sorted(maps.Keys(set)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = mcp.AppendQuote(b, s)
	}
	return append(b, ']')
}

// read takes the stream's messages until it ends. What comes first decides
// whether it is open.
func (l *listener) read(ctx context.Context, resp upstream.Answer, acked chan<- error) {
	for {
		msg, err := resp.Next()
		if err != nil {
			acked <- err
			return
		}
		switch {
		case msg.Kind == mcp.KindNotification && msg.Method == mcp.NotificationAcknowledged:
			l.acknowledged(msg)
			acked <- nil
			acked = make(chan error, 1) // nobody waits any more
		case msg.Kind == mcp.KindNotification && msg.Method == mcp.NotificationCancelled, msg.Kind == mcp.KindResult:
			acked <- l.member.nonsense(upstream.ClassInterrupted, "subscriptions/listen ended at once")
			return
		case msg.Kind == mcp.KindError:
			if msg.Code == mcp.CodeMethodNotFound {
				acked <- errCannotPush
			} else {
				acked <- l.member.nonsense(upstream.ClassRejected, "subscriptions/listen answered with error %d", msg.Code)
			}
			return
		case msg.Kind == mcp.KindNotification:
			l.take(ctx, msg)
		}
	}
}

// acknowledged notes what the upstream will push; the rest is polled.
func (l *listener) acknowledged(msg *mcp.Message) {
	p := &pushed{uris: map[string]bool{}}
	tasks := false
	for m := range mcp.Members(msg.Raw, msg.Notifications) {
		yes := string(m.Value.In(msg.Raw)) == "true"
		switch m.Key {
		case "toolsListChanged":
			p.lists[kindTools] = yes
		case "promptsListChanged":
			p.lists[kindPrompts] = yes
		case "resourcesListChanged":
			p.lists[kindResources] = yes
		case "resourceSubscriptions":
			for at := range mcp.Elements(msg.Raw, m.Value) {
				if uri, ok := mcp.String(msg.Raw, at); ok {
					p.uris[uri] = true
				}
			}
		case "taskIds":
			tasks = true
		}
	}
	l.poll.push.Store(p)
	if len(l.wanted().tasks) > 0 && !tasks {
		l.noTasks.Store(true)
		l.hub.dropTasks(l.member)
	}
}

// take acts on one notification of the upstream.
func (l *listener) take(ctx context.Context, msg *mcp.Message) {
	m := l.member
	count := func(kind string) { l.hub.domain.fed.metrics.notified(kind, "received") }
	switch msg.Method {
	case mcp.NotificationToolsChanged:
		count("tools")
		l.listChanged(ctx, kindTools)
	case mcp.NotificationPromptsChanged:
		count("prompts")
		l.listChanged(ctx, kindPrompts)
	case mcp.NotificationResourcesChanged:
		count("resources")
		l.listChanged(ctx, kindResources)
		l.listChanged(ctx, kindTemplates)
	case mcp.NotificationResourceUpdated:
		count("updated")
		if msg.URI.IsString {
			l.resourceUpdated(ctx, msg.URI.Value, slices.Clone(msg.Raw))
		}
	case mcp.NotificationTasks:
		count("tasks")
		if msg.TaskID.IsString {
			l.hub.taskChanged(ctx, m, msg)
		}
	}
}

// listChanged invalidates a list and reads it again; the streams are told when
// that changed their view.
func (l *listener) listChanged(ctx context.Context, k kind) {
	l.hub.announced(l.member, k, false)
	l.member.invalidate(ctx, k)
	l.reread(k)
}

// reread reads a list until it could be had. What is not known yet counts as
// changed, since the client may know it from elsewhere.
func (l *listener) reread(k kind) {
	s := &l.member.slots[k]
	s.mu.Lock()
	if s.cur.Load() == nil {
		s.missed = true
	}
	s.mu.Unlock()
	l.hub.domain.run(func(ctx context.Context) {
		for wait := reopenLeast; ; wait = min(2*wait, reopenMost) {
			_, err := l.member.refresh(ctx, k)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				l.hub.announced(l.member, k, true)
				return
			}
			select {
			case <-time.After(jitter(wait)):
			case <-ctx.Done():
				return
			}
			if !l.hub.domain.current().has(l.member) {
				return
			}
		}
	})
}

// rereadAll reads the lists that are known, after a time in which changes may
// have been missed.
func (l *listener) rereadAll() {
	for k := range kindDiscover {
		if l.member.known(k) != nil {
			l.reread(k)
		}
	}
}

// resourceUpdated drops what is cached of the resource and tells the streams
// after the coalescing window, once for each URI.
func (l *listener) resourceUpdated(ctx context.Context, uri string, raw []byte) {
	if _, err := l.hub.domain.fed.opts.Cache.Invalidate(ctx, l.member.topic(mcp.MethodResourcesRead), uri); err != nil {
		l.hub.domain.log.Warn("invalidate the cache", "upstream", l.member.conf.Alias, "error", err)
	}
	l.mu.Lock()
	first := len(l.updated) == 0
	l.updated[uri] = raw
	l.mu.Unlock()
	if !first {
		return
	}
	l.hub.domain.run(func(ctx context.Context) {
		select {
		case <-time.After(l.hub.domain.fed.opts.Limits.Coalesce):
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		updated := l.updated
		l.updated = map[string][]byte{}
		l.mu.Unlock()
		for _, uri := range slices.Sorted(maps.Keys(updated)) {
			l.hub.resourceChanged(ctx, l.member, uri, updated[uri])
		}
	})
}
