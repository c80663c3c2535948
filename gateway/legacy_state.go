package gateway

import (
	"container/list"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// softStates keeps what changes in the sessions of handshake clients, and carries
// signals to whatever works for one. It is in memory here; a cluster puts it where
// all replicas reach it, since a client's next request may arrive at any of them.
type softStates interface {
	// get gives a session's state; that of an unknown one is the zero state.
	get(ctx context.Context, id string) (softState, error)
	// update changes a session's state. It is kept until the session's token
	// expires. What change fails with is given back, and nothing is changed.
	update(ctx context.Context, id string, expires time.Time, change func(*softState) error) error
	// signal tells all that is attached to the session, wherever it runs; an answer
	// only what is in this process.
	signal(ctx context.Context, id string, s signal) error
	// attach has receive told of the session's signals until detach is called.
	// receive must not block, nor call back.
	attach(id string, receive func(signal)) (detach func())
}

// softState is what changes in one session.
type softState struct {
	level string // the least severe log level that the client wants; empty for none
	// uris are the resources that it subscribed to. The slice is never changed in
	// place.
	uris    []string
	stream  uint64 // the number of the active GET stream: each is higher than the one before
	deleted bool   // nothing of the session is served any more
}

// signal is news about one session.
type signal struct {
	kind   signalKind
	key    string    // of signalCancel the request's id, of signalAnswer that of our request
	body   []byte    // of signalAnswer: the client's response
	stream uint64    // of signalStream
	state  softState // of signalState
}

type signalKind uint8

const (
	signalCancel    signalKind = iota // the client cancelled a request
	signalAnswer                      // the client answered a request of ours
	signalStream                      // a GET stream was opened: earlier ones end
	signalSubscribe                   // the resources that it subscribed to changed
	signalDeleted                     // the session was deleted
	signalState                       // signals may have been missed: this is how things are
)

// sweepInterval is how often expired states are looked for.
const sweepInterval = time.Minute

// memoryStates is the softStates of one process.
type memoryStates struct {
	max int // states that are kept
	log *slog.Logger

	mu       sync.Mutex
	states   map[string]*list.Element // of *stateEntry
	used     list.List                // the one that was changed last in front
	swept    time.Time
	attached map[string]map[*receiver]struct{}
}

// stateEntry is the state of one session.
type stateEntry struct {
	id      string
	expires time.Time
	state   softState
}

type receiver struct{ receive func(signal) }

var _ softStates = (*memoryStates)(nil)

// newMemoryStates keeps the states of max sessions. When there are more, those
// that were not changed for the longest time are lost.
func newMemoryStates(max int, log *slog.Logger) *memoryStates {
	return &memoryStates{max: max, log: log, states: map[string]*list.Element{}, attached: map[string]map[*receiver]struct{}{}}
}

func (m *memoryStates) get(_ context.Context, id string) (softState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.states[id]; e != nil {
		return e.Value.(*stateEntry).state, nil
	}
	return softState{}, nil
}

func (m *memoryStates) update(_ context.Context, id string, expires time.Time, change func(*softState) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.states[id]
	if e == nil {
		var s softState
		if err := change(&s); err != nil {
			return err
		}
		m.makeRoom(time.Now())
		m.states[id] = m.used.PushFront(&stateEntry{id: id, expires: expires, state: s})
		return nil
	}
	entry := e.Value.(*stateEntry)
	s := entry.state
	if err := change(&s); err != nil {
		return err
	}
	entry.state = s
	m.used.MoveToFront(e)
	return nil
}

// known gives what is known of a session, and when its token expires: zero when
// nothing is.
func (m *memoryStates) known(id string) (softState, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.states[id]; e != nil {
		entry := e.Value.(*stateEntry)
		return entry.state, entry.expires
	}
	return softState{}, time.Time{}
}

// set notes the state of a session. One that was deleted stays so.
func (m *memoryStates) set(id string, expires time.Time, s softState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.states[id]; e != nil {
		entry := e.Value.(*stateEntry)
		s.deleted = s.deleted || entry.state.deleted
		entry.state, entry.expires = s, expires
		m.used.MoveToFront(e)
		return
	}
	m.makeRoom(time.Now())
	m.states[id] = m.used.PushFront(&stateEntry{id: id, expires: expires, state: s})
}

// isAttached tells whether somebody is attached to the session.
func (m *memoryStates) isAttached(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.attached[id]) > 0
}

// attachedTo gives the sessions to which somebody is attached.
func (m *memoryStates) attachedTo() map[string]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make(map[string]struct{}, len(m.attached))
	for id := range m.attached {
		ids[id] = struct{}{}
	}
	return ids
}

// makeRoom forgets the states of sessions that have expired and, if that is not
// enough, the one that was not changed for the longest time. The caller holds the
// lock.
func (m *memoryStates) makeRoom(now time.Time) {
	full := len(m.states) >= m.max
	if now.Sub(m.swept) >= sweepInterval {
		m.swept = now
		for _, e := range m.states {
			if !now.Before(e.Value.(*stateEntry).expires) {
				m.forget(e)
			}
		}
		if full && len(m.states) >= m.max {
			m.log.Warn("too many sessions of clients: what some of them set is forgotten", "limit", m.max)
		}
	}
	for len(m.states) >= m.max && m.used.Len() > 0 {
		m.forget(m.used.Back())
	}
}

func (m *memoryStates) forget(e *list.Element) {
	delete(m.states, e.Value.(*stateEntry).id)
	m.used.Remove(e)
}

func (m *memoryStates) signal(_ context.Context, id string, s signal) error {
	m.mu.Lock()
	receivers := slices.Collect(maps.Keys(m.attached[id]))
	m.mu.Unlock()
	for _, r := range receivers {
		r.receive(s)
	}
	return nil
}

func (m *memoryStates) attach(id string, receive func(signal)) (detach func()) {
	r := &receiver{receive}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attached[id] == nil {
		m.attached[id] = map[*receiver]struct{}{}
	}
	m.attached[id][r] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.attached[id], r)
		if len(m.attached[id]) == 0 {
			delete(m.attached, id)
		}
	}
}
