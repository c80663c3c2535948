package federation

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// Times of an election. A holder that dies is replaced within leaseTTL and
// leaseEvery.
const (
	leaseTTL   = 3 * time.Second
	leaseEvery = time.Second // between renewals, and between tries to take the lease
	// claimEvery is how often the holder is told of what is wanted at most.
	claimEvery = 50 * time.Millisecond
	// leaseHurry is the time before what failed is tried again, for as long as that may
	// help.
	leaseHurry = leaseEvery / 4
	// aloneAfter is how long the shared state may fail, and up to aloneSpread more at
	// random, before a replica listens for itself.
	aloneAfter  = 2 * time.Second
	aloneSpread = 1500 * time.Millisecond
	// opWait bounds one use of the shared state in the background.
	opWait = time.Second
)

// election lets one replica listen to an upstream for all: who has the lease runs
// the listener's stream and polls, and tells the others what came. While the shared
// state fails each replica listens for itself.
type election struct {
	l       *listener
	cluster *Cluster
	scope   cache.Scope
	name    string // of the lease and the board
	// id is this listener's own, so that it is not taken for another one of this
	// process that is about to end.
	id string

	try  chan struct{} // the lease may be free, or lost
	look chan struct{} // others may want something else

	news chan struct{} // reads waits to be told

	// Only run uses these.
	active   func()        // ends what start began; nil when nothing runs
	followed bool          // another replica has listened for this one
	yields   bool          // another one holds the lease, and what runs here is to end
	down     time.Time     // since when the shared state has failed; zero when it works
	patience time.Duration // how long it may, from down on
	renewed  time.Time     // when the lease was taken, or last renewed
	seen     time.Time     // when the board was last read

	writing sync.Mutex // held while the board is written; it comes before mu
	posted  time.Time  // when it was, last; zero for never
	content [32]byte   // the digest of what was written
	told    [32]byte   // the same of what the others know of

	mu     sync.Mutex
	role   role
	lease  cache.Lease               // of the holder
	latest cache.Fence               // of the holder that was heard of last
	floor  cache.Fence               // of the holder: what was fetched before it does not count
	others *interest                 // of the holder: what the others want
	owes   bool                      // of the holder: something could not be told to the others
	reads  [kindDiscover]cache.Fence // lists that turned out to be other ones, which the others are to be told
	known  [kindDiscover]cache.Fence // the same of what they know
}

// role is what a replica is in an election.
type role uint8

const (
	follower role = iota // another replica listens, or nobody yet
	alone                // this one listens for itself
	holder               // this one listens for all
)

func newElection(l *listener, c *Cluster) *election {
	m := l.member
	return &election{
		l: l, cluster: c,
		scope:  cache.Scope{Tenant: m.domain.name, Upstream: m.scope()},
		name:   "listen " + m.conf.Version,
		id:     c.Replica + "/" + strconv.FormatInt(m.domain.fed.nextID(), 10),
		try:    make(chan struct{}, 1),
		look:   make(chan struct{}, 1),
		news:   make(chan struct{}, 1),
		others: &interest{},
	}
}

func (e *election) log() *slog.Logger {
	return e.l.hub.domain.log.With("upstream", e.l.member.conf.Alias)
}

// poke wakes who waits for a channel. It may be called with any lock held.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run takes part until ctx ends, and then gives back what it has.
func (e *election) run(ctx context.Context) {
	defer e.leave(ctx)
	tick, late := time.NewTimer(0), time.NewTimer(0)
	defer tick.Stop()
	defer late.Stop()
	late.Stop()
	for {
		// What the streams want is the business of what runs here, if something does.
		kick := e.l.kick
		if e.active != nil {
			kick = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(jitter(e.campaign(ctx)))
		case <-e.try:
			e.campaign(ctx)
		case <-e.look:
			if e.is(holder) {
				e.count(ctx)
			}
		case <-e.news:
			e.tellReads(ctx)
		case <-kick:
			// Many clients tend to come at once.
			late.Reset(claimEvery - time.Since(e.postedAt()))
		case <-late.C:
			if e.active == nil {
				e.claim(ctx)
			}
		}
	}
}

// campaign renews the lease, or tries to take it, and gives the time to the next
// one.
func (e *election) campaign(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, opWait)
	defer cancel()
	e.tellReads(ctx)
	if e.is(holder) {
		ok, err := false, error(nil)
		if !e.superseded() {
			ok, err = e.cluster.Leases.Renew(ctx, e.lease, leaseTTL)
		}
		switch {
		case err != nil:
			// It goes on; what it tells under a lost lease is ignored.
			if time.Since(e.renewed) < leaseTTL {
				return leaseHurry
			}
			return leaseEvery
		case ok:
			e.renewed = time.Now()
			e.keep(ctx)
			return leaseEvery
		}
		e.lose()
	}
	l, ok, err := e.cluster.Leases.Acquire(ctx, e.scope, e.name, e.id, leaseTTL)
	if err == nil && !ok && l.Holder == e.id {
		// It was taken by a try whose answer did not arrive.
		ok, err = e.cluster.Leases.Renew(ctx, l, leaseTTL)
	}
	switch {
	case err != nil:
		e.fail()
		if e.active == nil {
			return leaseHurry
		}
	case ok:
		e.hold(ctx, l)
	default:
		e.follow(ctx, l)
	}
	return leaseEvery
}

func (e *election) is(r role) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.role == r
}

// superseded tells whether another one than the holder was heard of since it has the
// lease.
func (e *election) superseded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.latest != e.lease.Fence
}

// lose notes that the lease was lost. If another one has it now, what runs here is
// to end at once.
func (e *election) lose() {
	e.log().Info("the lease of an upstream's listen stream was lost")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.role, e.lease, e.yields = alone, cache.Lease{}, true
}

// fail notes that the shared state cannot be used.
func (e *election) fail() {
	if e.down.IsZero() {
		e.down = time.Now()
		//nolint:gosec // it spreads load
		e.patience = aloneAfter + rand.N(aloneSpread)
	}
	if e.active != nil || time.Since(e.down) < e.patience {
		return
	}
	e.log().Info("listen to an upstream without the other replicas")
	e.mu.Lock()
	e.role, e.others = alone, &interest{}
	e.mu.Unlock()
	e.yields = false
	e.start(e.followed)
}

// hold begins to listen for all replicas.
func (e *election) hold(ctx context.Context, l cache.Lease) {
	e.down, e.yields, e.renewed = time.Time{}, false, time.Now()
	e.mu.Lock()
	e.role, e.lease, e.latest, e.floor = holder, l, l.Fence, cache.Fence{}
	// While it listened for itself, or had lost the lease, it told nobody.
	e.owes = e.active != nil
	e.mu.Unlock()
	// Where somebody has been listening, changes may have been missed since the one
	// who did it for all went.
	taken := e.count(ctx) || e.followed
	if e.active == nil {
		e.start(taken)
	}
	e.keep(ctx)
}

// keep does what a holder has to do from time to time.
func (e *election) keep(ctx context.Context) {
	e.down = time.Time{}
	e.mu.Lock()
	owes := e.owes
	e.mu.Unlock()
	if owes {
		e.again(ctx, true)
	}
	if time.Since(e.postedAt()) >= boardEvery {
		if _, err := e.post(ctx); err != nil {
			e.log().Debug("tell what is wanted of an upstream", "error", err)
		}
	}
	if time.Since(e.seen) >= boardEvery {
		e.count(ctx)
	}
}

// follow lets the holder of l listen.
func (e *election) follow(ctx context.Context, l cache.Lease) {
	e.heard(l.Fence)
	changes := e.active != nil
	if changes && e.yields {
		e.halt()
		e.followed = true
	}
	if (changes || time.Since(e.postedAt()) >= boardEvery) && !e.claim(ctx) {
		return
	}
	e.down = time.Time{}
	// One that listened for itself gives the holder the time to open a stream for all.
	e.yields = e.active != nil
	if !e.followed && !ofReplica(l.Holder, e.cluster.Replica) {
		e.followed = true
		e.l.hub.rereadStale(ctx, e.l.member, e.floorOf(ctx))
	}
}

// start begins to listen. taken tells that another replica did so before.
func (e *election) start(taken bool) {
	ctx, cancel := context.WithCancel(e.l.hub.domain.ctx)
	var work sync.WaitGroup
	e.l.poll.reset()
	work.Go(func() { e.l.run(ctx, taken) })
	work.Go(func() { e.l.poll.loop(ctx, e.l) })
	e.active = func() {
		cancel()
		work.Wait()
	}
}

// halt ends to listen.
func (e *election) halt() {
	if e.active != nil {
		e.active()
		e.active = nil
	}
	e.yields = false
	e.mu.Lock()
	defer e.mu.Unlock()
	e.role, e.others, e.floor, e.owes = follower, &interest{}, cache.Fence{}, false
}

// leave ends it: the stream first, then the lease is given back, so that there are
// never two, and the others are told.
func (e *election) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opWait)
	defer cancel()
	e.mu.Lock()
	lease := e.lease
	e.mu.Unlock()
	e.halt()
	log := e.log()
	if !e.postedAt().IsZero() {
		if err := e.cluster.Boards.Remove(ctx, e.scope, e.name, e.id); err != nil {
			log.Debug("leave a board", "error", err)
		}
	}
	if lease == (cache.Lease{}) {
		return
	}
	if err := e.cluster.Leases.Release(ctx, lease); err != nil {
		log.Debug("release a lease", "error", err)
		return
	}
	e.l.hub.released(e.l.member)
	if err := e.publish(ctx, &event{kind: eventReleased, lease: lease.Fence}); err != nil {
		log.Debug("tell of a released lease", "error", err)
	}
}
