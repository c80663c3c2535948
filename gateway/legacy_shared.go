package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// channelSessions carries signals between replicas.
const channelSessions = "sessions"

// outageTime is for how long all must go well until an outage counts as over.
const outageTime = 5 * time.Second

// sharedStates is the softStates of one of several replicas. What they cannot share
// for a while it keeps here alone, and shares it later.
type sharedStates struct {
	values cache.Values
	bus    cache.Bus
	// near is what this replica knows of the states, and who is attached here.
	near *memoryStates
	name string // of this replica, to know its own messages again
	log  *slog.Logger

	stop  context.CancelFunc
	leave func()        // unsubscribes
	wake  chan struct{} // there is something to mend
	work  sync.WaitGroup

	mu       sync.Mutex
	failing  time.Time // when something failed last; zero when all goes well
	unshared map[string]debt
	doubtful map[string]struct{} // sessions of which signals may have been missed
	doubtAll bool                // and all of them
}

var _ softStates = (*sharedStates)(nil)

// newSharedStates makes it. close ends it.
func newSharedStates(values cache.Values, bus cache.Bus, near *memoryStates, log *slog.Logger) *sharedStates {
	s := &sharedStates{
		values: values, bus: bus, near: near, name: rand.Text(), log: log,
		wake: make(chan struct{}, 1), unshared: map[string]debt{}, doubtful: map[string]struct{}{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.work.Go(func() { s.mend(ctx) })
	s.leave = bus.Subscribe(channelSessions, s.receive)
	return s
}

// close ends what it does in the background.
func (s *sharedStates) close(context.Context) error {
	s.leave()
	s.stop()
	s.work.Wait()
	return nil
}

func stateKey(id string) string { return "session:" + id }

// get implements softStates. When the shared state cannot be had, it gives what is
// known here.
func (s *sharedStates) get(ctx context.Context, id string) (softState, error) {
	state, err := s.read(ctx, id)
	if err == nil {
		return state, nil
	}
	if ctx.Err() != nil {
		return softState{}, context.Cause(ctx)
	}
	s.failed(err)
	return s.near.get(ctx, id)
}

// read gives the shared state.
func (s *sharedStates) read(ctx context.Context, id string) (softState, error) {
	raw, err := s.values.Get(ctx, stateKey(id))
	if err != nil {
		return softState{}, err
	}
	s.worked()
	state, expires, ok := parseState(raw)
	known, knownExpires := s.near.known(id)
	if ok && knownExpires.IsZero() {
		s.near.set(id, expires, state)
		return state, nil
	}
	if knownExpires.IsZero() {
		return state, nil // nobody knows anything
	}
	if !ok || known.deleted && !state.deleted {
		s.share(id, owesLost)
	}
	if !ok {
		return known, nil
	}
	state = s.merged(id, state, known)
	s.near.set(id, expires, state)
	return state, nil
}

// merged gives the state of a session from what is shared and what is known here. A
// session that was deleted stays so, whatever is lost; what was set here and could
// not be shared counts.
func (s *sharedStates) merged(id string, shared, known softState) softState {
	s.mu.Lock()
	ours := s.unshared[id].owes == owesChange
	s.mu.Unlock()
	if ours {
		shared.level, shared.uris = known.level, known.uris
		shared.stream = max(shared.stream, known.stream)
	}
	shared.deleted = shared.deleted || known.deleted
	return shared
}

// update implements softStates. When the shared state cannot be changed, it changes
// what is known here, and shares it later.
func (s *sharedStates) update(ctx context.Context, id string, expires time.Time, change func(*softState) error) error {
	next, refused, err := s.write(ctx, id, expires, change)
	switch {
	case refused != nil:
		return refused
	case err == nil:
		s.near.set(id, expires, next)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.failed(err)
	if err := s.near.update(ctx, id, expires, change); err != nil {
		return err
	}
	s.share(id, owesChange)
	return nil
}

// write changes the shared state. refused is what change failed with.
func (s *sharedStates) write(ctx context.Context, id string, expires time.Time, change func(*softState) error) (next softState, refused, err error) {
	err = s.values.Update(ctx, stateKey(id), max(time.Until(expires), time.Millisecond), func(old []byte) ([]byte, error) {
		state, _, ok := parseState(old)
		if known, e := s.near.known(id); !e.IsZero() {
			if !ok {
				state = known
			} else {
				state = s.merged(id, state, known)
			}
		}
		if refused = change(&state); refused != nil {
			return nil, refused
		}
		next = state
		return appendState(nil, &state, expires), nil
	})
	if err == nil {
		s.worked()
	}
	return next, refused, err
}

// signal implements softStates. An answer is for this replica alone.
func (s *sharedStates) signal(ctx context.Context, id string, sig signal) error {
	if err := s.near.signal(ctx, id, sig); err != nil || sig.kind == signalAnswer {
		return err
	}
	if err := s.publish(ctx, id, sig); err != nil {
		s.failed(err)
		if sig.kind != signalCancel {
			s.share(id, owesNews)
		}
	}
	return nil
}

// publish tells the other replicas.
func (s *sharedStates) publish(ctx context.Context, id string, sig signal) error {
	m := news{from: s.name, session: id, signal: sig}
	if _, m.expires = s.near.known(id); m.expires.IsZero() {
		m.expires = time.UnixMilli(0)
	}
	return s.bus.Publish(ctx, channelSessions, appendNews(nil, &m))
}

// attach implements softStates.
func (s *sharedStates) attach(id string, receive func(signal)) (detach func()) {
	return s.near.attach(id, receive)
}

// receive is told of what other replicas publish.
func (s *sharedStates) receive(raw []byte, gap bool) {
	if gap {
		s.doubt("")
		return
	}
	m, ok := parseNews(raw)
	if !ok || m.from == s.name {
		return
	}
	switch m.signal.kind {
	case signalAnswer: // goes from replica to replica in another way
	case signalState:
		s.doubt(m.session)
	case signalDeleted:
		// It holds here whatever becomes of the shared state.
		s.near.set(m.session, m.expires, softState{deleted: true})
		_ = s.near.signal(context.Background(), m.session, m.signal) // never fails
	default:
		_ = s.near.signal(context.Background(), m.session, m.signal) // never fails
	}
}

// failed notes that something could not be shared, and says so once.
func (s *sharedStates) failed(err error) {
	s.mu.Lock()
	first := s.failing.IsZero()
	s.failing = time.Now()
	s.mu.Unlock()
	if first {
		s.log.Warn("the state of clients' sessions cannot be shared: this replica goes on with what it knows", "error", err)
	}
}

// worked notes that something could be shared.
func (s *sharedStates) worked() {
	s.mu.Lock()
	over := !s.failing.IsZero() && time.Since(s.failing) > outageTime
	if over {
		s.failing = time.Time{}
	}
	s.mu.Unlock()
	if over {
		s.log.Info("the state of clients' sessions is shared again")
	}
}
