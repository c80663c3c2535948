package federation

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Times of a listener.
const (
	reopenLeast = 500 * time.Millisecond // before a lost stream is opened again
	reopenMost  = 30 * time.Second
	// After the first stream is open the lists are read once more, since they may
	// have changed before; not at once, since many listeners tend to start together.
	firstReread = time.Second
)

// listener holds the one listen stream towards an upstream, and polls what the
// upstream does not push. Of the replicas of a gateway one does so for all.
type listener struct {
	hub      *hub
	member   *member
	election *election // nil where there is one replica
	cancel   context.CancelFunc
	kick     chan struct{} // more is wanted

	mu      sync.Mutex
	grown   bool              // more is wanted than the open stream was asked for
	calls   int64             // the member's calls when that began
	updated map[string][]byte // notifications/resources/updated that wait for the coalescing window, by URI

	poll  poller
	tasks taskAsks
}

// newListener starts a listener. It ends with stop or the domain.
func newListener(h *hub, m *member) *listener {
	l := &listener{hub: h, member: m, kick: make(chan struct{}, 1), updated: map[string][]byte{}, grown: true, calls: m.calls.Load()}
	ctx, cancel := context.WithCancel(h.domain.ctx)
	l.cancel = cancel
	var started bool
	if c := m.cluster(); c != nil {
		l.election = newElection(l, c)
		h.tune(c)
		started = h.domain.run(func(context.Context) { l.election.run(ctx) })
	} else {
		started = h.domain.run(func(context.Context) { l.run(ctx, false) }) &&
			h.domain.run(func(context.Context) { l.poll.loop(ctx, l) })
	}
	if !started {
		cancel()
	}
	return l
}

// stop ends the listener without waiting for it; the domain's close does.
func (l *listener) stop() { l.cancel() }

// interest gives what is wanted of the upstream, by other replicas too.
func (l *listener) interest() *interest {
	in := l.hub.interest(l.member)
	if l.election != nil {
		in = in.with(l.election.wants())
	}
	return in
}

// grow is told that the streams want more than before.
func (l *listener) grow() {
	l.mu.Lock()
	if !l.grown {
		l.grown, l.calls = true, l.member.calls.Load()
	}
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// session is the state of a listener's run.
type session struct {
	cur    *connection
	good   *interest     // what the upstream accepted last
	opened time.Time     // the last one
	lost   bool          // changes may have been missed since the last stream
	taken  bool          // the last one was another replica's, and nobody has acted on that
	wait   time.Duration // before the next try after one that failed
	flap   time.Duration // before the next try after a stream that did not last
	retry  *time.Timer
	held   bool // a try failed: the next one is not to be hastened
	idle   bool // the upstream had nothing to push of what was wanted
}

// run keeps the stream open; taken tells that another replica had it before. A changed interest opens the new one, awaits its
// acknowledgement and then closes the old; a lost one is opened again with
// backoff, and the lists are read once more, since changes may have been missed.
func (l *listener) run(ctx context.Context, taken bool) {
	s := &session{good: &interest{}, lost: taken, taken: taken, wait: reopenLeast, flap: reopenLeast, retry: time.NewTimer(0)}
	defer func() { s.cur.close() }()
	defer s.retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.kick:
			// Many clients tend to come at once: the first opens a new stream, and
			// one more serves all that come soon after.
			if (s.cur != nil || s.idle) && !s.held {
				s.retry.Reset(l.hub.domain.fed.opts.Limits.Coalesce - time.Since(s.opened))
			}
		case <-s.retry.C:
			s.held = false
			if want := l.interest(); s.cur == nil || !s.cur.serves.covers(want) {
				l.open(ctx, s, want)
			}
		case <-s.cur.ended():
			l.lose(s)
		}
	}
}

// open opens a stream for what is wanted, in place of the one that is open.
func (l *listener) open(ctx context.Context, s *session, want *interest) {
	next, err := l.connect(ctx, want)
	if len(want.uris)+len(want.tasks) > 0 {
		// What one client subscribes to must not take the rest from the others: the
		// rest goes on, and what is new is polled, or its streams end.
		switch {
		case s.cur == nil && isRefusal(err):
			next, err = l.connectLess(ctx, s.good.and(want))
		case s.cur != nil && classOf(err) == upstream.ClassRejected:
			next, err = s.cur, nil
		}
	}
	switch {
	case ctx.Err() != nil:
		if next != s.cur {
			next.close()
		}
		return
	case err != nil:
		l.failed(ctx, s, err)
		if s.taken {
			// Nothing says when there will be a stream, so what was missed before is
			// made up for now.
			s.taken = false
			l.missed(ctx, want)
		}
		return
	}
	if next != s.cur {
		s.cur.close()
		l.poll.push.Store(next.pushed)
		s.good, s.opened = next.asked, time.Now()
	}
	switch {
	case s.lost:
		l.missed(ctx, want)
	case s.cur == nil:
		l.catchUp(ctx, s, want)
		l.hub.domain.run(func(context.Context) {
			select {
			case <-time.After(jitter(firstReread)):
				l.readAgain(ctx, false)
			case <-ctx.Done():
			}
		})
	default:
		l.catchUp(ctx, s, want)
	}
	s.cur, s.lost, s.taken, s.idle, s.wait = next, false, false, false, reopenLeast
	next.serves = want
	l.refuse(ctx, next, want)
}

// connectLess opens a stream for less than is wanted: what the upstream accepted
// before, else the lists alone.
func (l *listener) connectLess(ctx context.Context, less *interest) (*connection, error) {
	if len(less.uris)+len(less.tasks) > 0 {
		if next, err := l.connect(ctx, less); !isRefusal(err) {
			return next, err
		}
	}
	return l.connect(ctx, &interest{})
}

// catchUp tells of resources that were just subscribed to and may have changed
// between their acknowledgement and this stream: when something was called
// meanwhile, which may have been on another replica. There tasks are asked for too,
// since it takes longer. Being told once too often does no harm.
func (l *listener) catchUp(ctx context.Context, s *session, now *interest) {
	if called := l.reached(); !called && l.election == nil {
		return
	}
	before := &interest{}
	if s.cur != nil {
		before = s.cur.serves
	}
	uris := beyond(now.uris, before.uris)
	l.presume(ctx, uris)
	l.election.tellNames(ctx, event{kind: eventUpdated}, uris)
	if l.election != nil {
		tasks := beyond(now.tasks, before.tasks)
		l.election.tellNames(ctx, event{kind: eventTask}, tasks)
		l.askTasks(tasks, false)
	}
}

// reached notes that what is wanted has been asked for, and tells whether something
// was called since it is wanted.
func (l *listener) reached() (called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grown = false
	return l.member.calls.Load() != l.calls
}

// missed acts on a time in which changes may have been missed: what is watched
// counts as updated, and the lists are read again.
func (l *listener) missed(ctx context.Context, now *interest) {
	l.reached()
	l.presume(ctx, slices.Sorted(maps.Keys(now.uris)))
	l.readAgain(ctx, true)
	if l.election != nil {
		l.askAllTasks()
	}
}

// maxPresumed bounds the resources that are invalidated one by one where that takes
// time.
const maxPresumed = 16

// presume has resources count as updated on this replica, and what is stored of them
// be dropped.
func (l *listener) presume(ctx context.Context, uris []string) {
	if l.election != nil && len(uris) > maxPresumed {
		l.invalidateReads(ctx, "")
	} else {
		for _, uri := range uris {
			l.invalidateReads(ctx, uri)
		}
	}
	for _, uri := range uris {
		l.queueUpdate(uri, updatedMessage(uri))
	}
}

// readAgain has the lists that are known read again, by all replicas if this one
// listens for them; all tells them that resources may have changed too.
func (l *listener) readAgain(ctx context.Context, all bool) {
	if l.election == nil {
		l.hub.rereadKnown(l.member, cache.Fence{})
		return
	}
	if floor := l.election.again(ctx, all); floor != (cache.Fence{}) {
		l.hub.rereadKnown(l.member, floor)
		return
	}
	l.hub.rereadAnew(l.member)
}

// lose notes that the stream ended. Until there is another one all is polled.
func (l *listener) lose(s *session) {
	s.cur.close()
	lived := time.Since(s.opened)
	wait := s.flap
	switch {
	case s.cur.pushed.nothing():
		// It has nothing to say: go-sdk ends such a stream at once.
		wait, s.idle = l.rarely(), true
	case lived >= reopenMost || lived >= 10*s.flap:
		s.flap = reopenLeast
		wait = s.flap
	default:
		s.flap = min(2*s.flap, reopenMost)
	}
	s.cur, s.lost = nil, true
	l.poll.push.Store(nil)
	s.retry.Reset(jitter(wait))
}

// failed notes a stream that could not be opened.
func (l *listener) failed(ctx context.Context, s *session, err error) {
	s.held = true
	if errors.Is(err, errCannotPush) {
		l.election.tell(ctx, event{kind: eventRefused, all: true})
		l.refused(true, nil)
		s.retry.Reset(jitter(l.rarely()))
		return
	}
	l.hub.domain.log.Debug("listen to upstream", "upstream", l.member.conf.Alias, "error", err)
	s.wait = min(2*s.wait, reopenMost)
	s.retry.Reset(jitter(s.wait))
}

// rarely is how long an upstream without listen streams is left alone.
func (l *listener) rarely() time.Duration {
	return max(10*l.hub.domain.fed.opts.Limits.PollInterval, reopenMost)
}

// refuse ends the streams that watch tasks which the upstream does not push.
func (l *listener) refuse(ctx context.Context, c *connection, want *interest) {
	var ids []string
	for id := range want.tasks {
		if !c.pushed.tasks[id] {
			ids = append(ids, id)
		}
	}
	l.election.tellNames(ctx, event{kind: eventRefused}, ids)
	l.refused(false, ids)
}

// refused acts on tasks that the upstream does not push; all of them if all.
func (l *listener) refused(all bool, ids []string) {
	switch {
	case all:
		l.member.refuseTasks(time.Now())
		l.hub.dropTasks(l.member, func(string) bool { return true })
	case len(ids) > 0:
		l.member.refuseTasks(time.Now(), ids...)
		l.hub.dropTasks(l.member, func(id string) bool { return slices.Contains(ids, id) })
	}
}

// jitter spreads d by a fifth.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// take acts on one notification of the upstream.
func (l *listener) take(ctx context.Context, msg *mcp.Message) {
	count := func(kind noteKind) { l.hub.domain.fed.metrics.notified(kind, outcomeReceived) }
	switch msg.Method {
	case mcp.NotificationToolsChanged:
		count(noteTools)
		l.listChanged(ctx, kindTools)
	case mcp.NotificationPromptsChanged:
		count(notePrompts)
		l.listChanged(ctx, kindPrompts)
	case mcp.NotificationResourcesChanged:
		count(noteResources)
		l.listChanged(ctx, kindResources)
		l.listChanged(ctx, kindTemplates)
	case mcp.NotificationResourceUpdated:
		count(noteUpdated)
		if msg.URI.IsString {
			l.resourceUpdated(ctx, msg.URI.Value, msg.Raw)
		}
	case mcp.NotificationTasks:
		count(noteTasks)
		if msg.TaskID.IsString {
			if len(msg.Raw) <= maxRaw {
				l.election.tell(ctx, event{kind: eventTask, raw: msg.Raw})
			} else {
				l.election.tellNames(ctx, event{kind: eventTask, all: true}, []string{msg.TaskID.Value})
			}
			l.tellTask(msg)
		}
	}
}

// listChanged invalidates a list and reads it again; the streams are told when
// that changed their view.
func (l *listener) listChanged(ctx context.Context, k kind) {
	gen := l.member.invalidate(ctx, k)
	l.election.tell(ctx, event{kind: eventList, list: k, gen: gen})
	l.hub.reread(l.member, k)
}

// resourceUpdated drops what is cached of the resource and tells the streams
// after the coalescing window, once for each URI. raw stays the caller's.
func (l *listener) resourceUpdated(ctx context.Context, uri string, raw []byte) {
	l.invalidateReads(ctx, uri)
	if len(raw) <= maxRaw {
		l.election.tell(ctx, event{kind: eventUpdated, raw: raw})
	} else {
		l.election.tellNames(ctx, event{kind: eventUpdated}, []string{uri})
	}
	l.queueUpdate(uri, raw)
}

// invalidateReads drops what is cached of a resource and its parts, on all replicas;
// of all resources when uri is empty.
func (l *listener) invalidateReads(ctx context.Context, uri string) {
	// A stream that ends meanwhile does not take back what it said.
	ctx = context.WithoutCancel(ctx)
	if _, err := l.hub.domain.fed.opts.Cache.Invalidate(ctx, l.member.topic(mcp.MethodResourcesRead), uri); err != nil {
		l.hub.domain.log.Warn("invalidate the cache", "upstream", l.member.conf.Alias, "error", err)
		l.election.owe() // it is written later, and the others had better hear of it after that
	}
}

// reconcile sees to it that what clients read when they are told of updates is not
// what this replica has kept from before.
func (l *listener) reconcile(ctx context.Context) {
	if l.election == nil {
		return
	}
	if _, err := l.hub.domain.fed.opts.Cache.Generation(ctx, l.member.topic(mcp.MethodResourcesRead)); err != nil {
		l.hub.domain.log.Debug("read a generation from the cache", "upstream", l.member.conf.Alias, "error", err)
	}
}

// updatedMessage makes the notification that a resource was updated.
func updatedMessage(uri string) []byte {
	raw := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotificationResourceUpdated+`","params":{"uri":`...)
	return append(mcp.AppendQuote(raw, uri), "}}"...)
}

// queueUpdate tells the streams of this replica that a resource was updated, after
// the coalescing window. raw stays the caller's.
func (l *listener) queueUpdate(uri string, raw []byte) {
	if !l.hub.watched(l.member, uri) {
		return
	}
	l.mu.Lock()
	first := len(l.updated) == 0
	l.updated[uri] = slices.Clone(raw)
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
		l.reconcile(ctx)
		l.mu.Lock()
		updated := l.updated
		l.updated = map[string][]byte{}
		l.mu.Unlock()
		for _, uri := range slices.Sorted(maps.Keys(updated)) {
			l.hub.resourceChanged(l.member, uri, updated[uri])
		}
	})
}
