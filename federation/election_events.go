package federation

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// publish tells the other replicas.
func (e *election) publish(ctx context.Context, ev *event) error {
	m := e.l.member
	ev.origin, ev.alias, ev.version = e.cluster.Replica, m.scope(), m.conf.Version
	return e.cluster.Bus.Publish(ctx, m.domain.channel(), ev.appendTo(nil))
}

// tell tells the others of what came from the upstream, if this replica listens for
// them. What could not be told is made up for as soon as that is possible. A nil
// election has nobody to tell.
func (e *election) tell(ctx context.Context, ev event) {
	if e == nil {
		return
	}
	e.mu.Lock()
	ev.lease = e.lease.Fence
	holds := e.role == holder
	e.mu.Unlock()
	if !holds {
		return
	}
	// A stream that ends meanwhile does not take back what it said.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opWait)
	defer cancel()
	if err := e.publish(ctx, &ev); err != nil {
		e.log().Debug("tell other replicas", "error", err)
		e.owe()
	}
}

// tellNames tells an event in as many parts as its names need.
func (e *election) tellNames(ctx context.Context, ev event, names []string) {
	if e == nil {
		return
	}
	parts, ok := split(names)
	if !ok {
		e.owe() // the others take it that any of them may have changed
	}
	for _, part := range parts {
		ev.names = part
		e.tell(ctx, ev)
	}
}

// owe notes that the others have missed something, if this replica listens for them.
func (e *election) owe() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owes = true
}

// again tells the others that changes may have been missed up to now, of resources
// too if all. What was fetched before the fence that it gives does not count; zero
// when there is none to be had.
func (e *election) again(ctx context.Context, all bool) cache.Fence {
	if !e.is(holder) {
		return cache.Fence{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opWait)
	defer cancel()
	e.mu.Lock()
	owed := e.owes
	e.owes = false
	e.mu.Unlock()
	floor, err := e.cluster.Leases.Draw(ctx, e.scope)
	if err != nil {
		e.log().Debug("have lists read again", "error", err)
		e.owe()
		return cache.Fence{}
	}
	e.mu.Lock()
	e.floor = floor
	e.mu.Unlock()
	// Who comes too late for the event finds the fence on the board.
	if _, err := e.post(ctx); err != nil {
		e.log().Debug("have lists read again", "error", err)
		e.owe()
	}
	e.tell(ctx, event{kind: eventAgain, floor: floor, all: all || owed})
	return floor
}

// heard takes the fence under which somebody listens, and tells whether that is
// nobody whom another one has followed since.
func (e *election) heard(f cache.Fence) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Epoch == e.latest.Epoch && f.N < e.latest.N {
		return false
	}
	e.latest = f
	if e.role == holder && f != e.lease.Fence {
		poke(e.try) // another one has it
	}
	return true
}

// receive acts on what another replica tells as if the upstream had told it here.
func (l *listener) receive(ctx context.Context, ev *event) {
	e := l.election
	switch ev.kind {
	case eventInterest:
		poke(e.look)
		return
	case eventReleased:
		poke(e.try)
		return
	case eventRead:
		e.toldRead(ev.list, ev.floor)
		l.hub.rereadOlder(l.member, ev.list, ev.floor)
		return
	}
	if !e.heard(ev.lease) {
		e.log().Debug("too late: another replica listens", "replica", ev.origin)
		return
	}
	switch ev.kind {
	case eventList:
		l.member.invalidated(ev.list, ev.gen, true)
	case eventUpdated:
		l.receiveUpdated(ev)
	case eventTask:
		l.receiveTask(ev)
	case eventAgain:
		l.hub.rereadKnown(l.member, ev.floor)
		if ev.all {
			l.allUpdated()
			l.askAllTasks()
		}
	case eventRefused:
		l.refused(ev.all, ev.names)
	}
}

func (l *listener) receiveUpdated(ev *event) {
	for _, uri := range ev.names {
		l.queueUpdate(uri, updatedMessage(uri))
	}
	if len(ev.raw) == 0 {
		return
	}
	msg, err := mcp.ParseMessage(ev.raw, l.hub.domain.fed.opts.Limits.MaxDepth)
	if err != nil || msg.Method != mcp.NotificationResourceUpdated || !msg.URI.IsString {
		l.election.log().Warn("another replica told of no update", "replica", ev.origin)
		return
	}
	l.queueUpdate(msg.URI.Value, ev.raw)
}

func (l *listener) receiveTask(ev *event) {
	if l.askTasks(ev.names, ev.all); len(ev.raw) == 0 {
		return
	}
	msg, err := mcp.ParseMessage(ev.raw, l.hub.domain.fed.opts.Limits.MaxDepth)
	if err != nil || msg.Method != mcp.NotificationTasks || !msg.TaskID.IsString {
		l.election.log().Warn("another replica told of no task", "replica", ev.origin)
		return
	}
	l.tellTask(msg)
}

// allUpdated tells the streams here that what they watch may have changed.
func (l *listener) allUpdated() {
	for _, uri := range slices.Sorted(maps.Keys(l.hub.interest(l.member).uris)) {
		l.queueUpdate(uri, updatedMessage(uri))
	}
}

// makeUp acts on events that may have been missed.
func (l *listener) makeUp(ctx context.Context) {
	e := l.election
	switch {
	case e.is(holder):
		poke(e.look)
	case !e.is(alone):
		l.hub.rereadStale(ctx, l.member, e.floorOf(ctx))
		l.allUpdated()
		l.askAllTasks()
	}
}

// read is told that a list is another one than it was, as of a fence, so that those
// hear of it who do not ask for it themselves, if nobody has told it yet. It may be
// called with any lock held.
func (e *election) read(k kind, at cache.Fence) {
	if e == nil || at == (cache.Fence{}) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[k].Before(at) {
		e.reads[k] = at
		poke(e.news)
	}
}

// toldRead notes that all know of a list as of a fence.
func (e *election) toldRead(k kind, at cache.Fence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[k] = at
	if !at.Before(e.reads[k]) {
		e.reads[k] = cache.Fence{}
	}
}

// tellReads tells the others of lists that are other ones than they were.
func (e *election) tellReads(ctx context.Context) {
	e.mu.Lock()
	reads := e.reads
	e.mu.Unlock()
	for i, at := range reads {
		if at == (cache.Fence{}) {
			continue
		}
		if err := e.publish(ctx, &event{kind: eventRead, list: kind(i), floor: at}); err != nil {
			e.log().Debug("tell other replicas", "error", err)
			return // the next campaign tries again
		}
		e.toldRead(kind(i), at)
	}
}

// settle waits a moment, in which what was told twice becomes one.
func (h *hub) settle(ctx context.Context) bool {
	select {
	case <-time.After(h.domain.fed.opts.Limits.Coalesce):
		return true
	case <-ctx.Done():
		return false
	}
}
