package federation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// hub fans one tenant's notifications out to its listen streams, and keeps one
// listener for each upstream that somebody listens to.
type hub struct {
	domain  *domain
	streams atomic.Int64 // how many are open

	// mu comes before a slot's lock.
	mu        sync.Mutex
	closed    bool
	open      map[*stream]struct{}
	demands   map[*member]*demand
	listeners map[*member]*listener
	topics    map[topicKey]*topic
	flushing  bool // a flush is due or under way
	tuned     bool // other replicas are heard
}

func newHub(d *domain) *hub {
	return &hub{
		domain:    d,
		open:      map[*stream]struct{}{},
		demands:   map[*member]*demand{},
		listeners: map[*member]*listener{},
		topics:    map[topicKey]*topic{},
	}
}

// topicKey names a list as an audience sees it.
type topicKey struct {
	audience audience
	viewKey
}

// has tells whether a list of a member belongs to the topic.
func (t *topic) has(key topicKey, m *member, k kind) bool {
	if key.kind != k.told() || key.alias != "" && key.alias != m.conf.Alias {
		return false
	}
	if key.audience == (audience{}) {
		return m.lane == nil
	}
	// Names are given among all members, also those of whom nothing is to be seen.
	return t.from.own.has(m)
}

// topic is a list that streams are told of.
type topic struct {
	from    *roster // of the audience
	streams map[*stream]struct{}
	told    sight // what they were last told of, or began with
	// What is to be looked at after the coalescing window.
	dirty  bool // the view may have changed
	forced bool // a change of the only upstream behind it was announced by itself
	quiet  bool // the view has changed in a way that is no news
	// What clients were shown besides told since it was set.
	stray  sight
	strays int
}

// sight is what a topic looks like: the digests of its views.
type sight [2][32]byte

// at is the place of a kind's digest in the sight of its topic.
func (k kind) at() int {
	if k == kindTemplates {
		return 1
	}
	return 0
}

// waits tells whether the topic is to be looked at.
func (t *topic) waits() bool { return t.dirty || t.quiet || t.strays > 0 }

// demand is what streams want of one member. The changes of its lists are wanted
// from its listener in any case, since they keep the catalogue true.
type demand struct {
	lists int                // streams that want to know of its lists
	uris  map[string]exposed // by the upstream's own URI
	tasks map[string]exposed // by the upstream's own id
}

// exposed holds the streams that want something, and what they call it.
type exposed map[*stream]string

// listKinds are the kinds whose changes are told; templates belong to resources.
var listKinds = [...]kind{kindTools, kindPrompts, kindResources}

// told gives the list that a client is told of for a kind.
func (k kind) told() kind {
	if k == kindTemplates {
		return kindResources
	}
	return k
}

// add takes a stream in. The caller holds the lock.
func (h *hub) add(s *stream, d *roster) {
	h.open[s] = struct{}{}
	h.streams.Add(1)
	for _, k := range listKinds {
		if !s.wants[k] {
			continue
		}
		h.enlist(s, k, d)
	}
	h.count(s, d)
	h.employ(s)
}

// count adds what a stream wants to the demands. The caller holds the lock.
func (h *hub) count(s *stream, d *roster) {
	s.heard = nil
	if s.wantsLists() {
		s.heard = d.at(s.alias)
	}
	for _, m := range s.heard {
		h.demand(m).lists++
	}
	for _, w := range s.uris {
		if want(h.demand(w.member).uris, w, s) {
			h.grew(w.member)
		}
	}
	for _, w := range s.tasks {
		if want(h.demand(w.member).tasks, w, s) {
			h.grew(w.member)
		}
	}
}

func (h *hub) demand(m *member) *demand {
	dm := h.demands[m]
	if dm == nil {
		dm = &demand{uris: map[string]exposed{}, tasks: map[string]exposed{}}
		h.demands[m] = dm
	}
	return dm
}

// want notes that a stream wants a resource or task, and tells whether it is the
// first.
func want(in map[string]exposed, w watch, s *stream) bool {
	by, ok := in[w.name]
	if !ok {
		by = exposed{}
		in[w.name] = by
	}
	by[s] = w.exposed
	return !ok
}

// grew tells the member's listener, if it has one, that more is wanted.
func (h *hub) grew(m *member) {
	if l := h.listeners[m]; l != nil {
		l.grow()
	}
}

// employ starts the listeners that a stream needs. The caller holds the lock.
func (h *hub) employ(s *stream) {
	for _, m := range s.heard {
		h.listenTo(m)
	}
	for _, w := range s.uris {
		h.listenTo(w.member)
	}
	for _, w := range s.tasks {
		h.listenTo(w.member)
	}
}

func (h *hub) listenTo(m *member) {
	if h.listeners[m] == nil {
		h.listeners[m] = newListener(h, m)
	}
}

// dismiss stops the member's listener if nobody needs it. The caller holds the
// lock.
func (h *hub) dismiss(m *member) {
	if h.needs(m) {
		return
	}
	delete(h.demands, m)
	if l := h.listeners[m]; l != nil {
		l.stop()
		delete(h.listeners, m)
	}
}

// needs tells whether somebody listens to the member. The caller holds the lock.
func (h *hub) needs(m *member) bool {
	if !h.domain.current().has(m.parent()) {
		return false
	}
	dm := h.demands[m]
	return dm != nil && (dm.lists > 0 || len(dm.uris) > 0 || len(dm.tasks) > 0)
}

// listens tells whether the member has a listener.
func (h *hub) listens(m *member) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listeners[m] != nil
}

// leave ends a stream for its client.
func (h *hub) leave(s *stream) {
	h.domain.used.Store(h.domain.fed.now().UnixNano())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish(s)
}

// finish takes a stream out. The caller holds the lock.
func (h *hub) finish(s *stream) {
	if s.ended {
		return
	}
	s.ended = true
	delete(h.open, s)
	h.streams.Add(-1)
	s.queue.End()
	for _, k := range listKinds {
		if s.wants[k] {
			h.delist(s, k)
		}
	}
	for _, m := range s.heard {
		if dm := h.demands[m]; dm != nil {
			dm.lists--
		}
		h.dismiss(m)
	}
	s.heard = nil
	for _, w := range s.uris {
		h.unwatch(w, s, func(dm *demand) map[string]exposed { return dm.uris })
	}
	for _, w := range s.tasks {
		h.unwatch(w, s, func(dm *demand) map[string]exposed { return dm.tasks })
	}
}

// unwatch takes back what want noted.
func (h *hub) unwatch(w watch, s *stream, of func(*demand) map[string]exposed) {
	dm := h.demands[w.member]
	if dm == nil {
		return
	}
	set := of(dm)
	delete(set[w.name], s)
	if len(set[w.name]) == 0 {
		delete(set, w.name)
	}
	h.dismiss(w.member)
}

// changed is told by the catalogue that a member's segment of kind k has been
// replaced by another one. The caller holds the lock since before that.
func (h *hub) changed(m *member, k kind, n news) {
	if n.other && (k == kindTools || k == kindDiscover) {
		h.domain.tools.changed()
	}
	if k == kindDiscover {
		return
	}
	if l, seg := h.listeners[m], m.known(k); n.other && l != nil && seg != nil {
		l.election.read(k, seg.fence)
	}
	for key, t := range h.topics {
		if !t.has(key, m, k) {
			continue
		}
		if n.other {
			t.dirty, t.quiet = t.dirty || !n.first, t.quiet || n.first
		}
		if n.announced && key.alias != "" {
			// To those from whom something is hidden only what they see is news.
			t.dirty, t.forced = true, !key.audience.hidden
		}
	}
	h.schedule()
}

// news is what a new segment means to those who listen.
type news struct {
	other     bool // it has other items
	first     bool // it is the first, and no list has been served without it: no change for anyone
	announced bool // the upstream said that the list changed: news in any case where it is shown alone, as it would be without us
}

// schedule makes sure that what waits is looked at after the coalescing window.
// The caller holds the lock.
func (h *hub) schedule() {
	if h.flushing || h.closed || !h.due() {
		return
	}
	h.flushing = h.domain.run(func(ctx context.Context) {
		select {
		case <-time.After(h.domain.fed.opts.Limits.Coalesce):
			h.flush()
		case <-ctx.Done():
		}
	})
}

func (h *hub) due() bool {
	for _, t := range h.topics {
		if t.waits() {
			return true
		}
	}
	return false
}

// flush tells the streams whose own view changed.
func (h *hub) flush() {
	h.mu.Lock()
	waiting := map[topicKey]topic{}
	for key, t := range h.topics {
		if t.waits() {
			waiting[key] = *t
			t.dirty, t.forced, t.quiet = false, false, false
		}
	}
	h.mu.Unlock()
	for key, t := range waiting {
		d := t.from.renewed()
		if d.audience != key.audience {
			continue // the registration has changed, and with it who is told of what
		}
		// A view may take long to make. What changes meanwhile is marked anew.
		now := h.look(key, d)
		h.mu.Lock()
		h.tell(key, t, now)
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flushing = false
	h.schedule()
}

// tell sends the notification of a topic, as it was marked, if it has news. The
// caller holds the lock.
func (h *hub) tell(key topicKey, marked topic, now sight) {
	t := h.topics[key]
	if t == nil {
		return
	}
	strayed := t.strays > 1 || t.strays == 1 && t.stray != now
	if marked.dirty && (marked.forced || t.told != now) || strayed {
		for s := range t.streams {
			h.tellOne(s, key.kind)
		}
	}
	t.told, t.strays = now, 0
}

// look gives what a topic looks like now in the roster of its audience.
func (h *hub) look(key topicKey, d *roster) (now sight) {
	now[0] = d.shown(key.viewKey, d.view(key.alias, key.kind)).digest
	if key.kind == kindResources {
		now[1] = d.view(key.alias, kindTemplates).digest
	}
	return now
}

// shown is told that a client gets a view. One that the streams have not been told
// of may be gone again before they would be.
func (h *hub) shown(key topicKey, v *view) {
	if h.streams.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := key.kind.at()
	key.kind = key.kind.told()
	t := h.topics[key]
	if t == nil || t.told[at] == v.digest {
		return
	}
	seen := t.told
	seen[at] = v.digest
	if t.strays == 0 || t.stray != seen {
		t.stray = seen
		t.strays++
	}
	h.schedule()
}

// reconfigure makes next what the tenant consists of; false once the hub is
// closed. It holds the lock all the while, so that nothing that is told meanwhile
// counts as told of the members that came or went.
func (h *hub) reconfigure(next *roster) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	old := h.domain.roster.Swap(next)
	for s := range h.open {
		if !s.fits(next) {
			h.finish(s)
		}
	}
	h.demands = map[*member]*demand{}
	for s := range h.open {
		d := next.seenBy(s.caller)
		h.count(s, d)
		h.move(s, d)
	}
	for m, l := range h.listeners {
		if !h.needs(m) {
			l.stop()
			delete(h.listeners, m)
		}
	}
	for m := range h.demands {
		if h.needs(m) {
			h.listenTo(m)
		}
	}
	fresh := map[*member]bool{}
	for _, m := range next.without(old) {
		fresh[m] = true
	}
	for key, t := range h.topics {
		t.dirty = true
		for _, m := range t.from.at(key.alias) {
			if !fresh[m.parent()] {
				continue
			}
			for k := range kindDiscover {
				if t.has(key, m, k) {
					h.reread(m, k)
				}
			}
		}
	}
	h.schedule()
	return true
}

// close ends all streams gracefully. The listeners end with the domain's
// context.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.open {
		h.finish(s)
	}
}
