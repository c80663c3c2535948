package upstream

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"
)

// What a requestState of ours says.
const (
	statePark  = "park:"  // a parked call, with its id
	stateAgain = "repeat" // the call is to be made again
)

// errParkExpired tells that nobody came back to a parked call in time.
var errParkExpired = errors.New("the user's answer did not come in time")

// owner is who may come back to a parked call: a user, and for a client of the
// handshake era its session.
type owner struct{ principal, session string }

// parked is a call that waits for a user's answer.
type parked struct {
	flight *flight
	owner  owner
	timer  *time.Timer
}

// parking holds the parked calls of one upstream. While it is there, a call holds
// no place in the concurrency limit, and no deadline but the parking's own runs.
type parking struct {
	max, maxPerPrincipal int
	time                 time.Duration
	metrics              *Metrics

	mu      sync.Mutex
	calls   map[string]*parked
	perUser map[string]int
	closed  bool
}

func newParking(conf *Sessions, metrics *Metrics) *parking {
	return &parking{
		max: conf.MaxParked, maxPerPrincipal: conf.MaxParkedPerPrincipal, time: conf.ParkMax, metrics: metrics,
		calls: map[string]*parked{}, perUser: map[string]int{},
	}
}

// put parks a call and gives the requestState that names it; false when there is
// no room for it.
func (p *parking) put(f *flight, who owner) (string, bool) {
	state := statePark + rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.calls) >= p.max || p.perUser[who.principal] >= p.maxPerPrincipal {
		return "", false
	}
	c := &parked{flight: f, owner: who}
	p.calls[state] = c
	p.perUser[who.principal]++
	p.metrics.addParked(1)
	f.leaveAlone(true)
	c.timer = time.AfterFunc(p.time, func() {
		if p.remove(state, c) {
			f.abort(errParkExpired)
		}
	})
	return state, true
}

// claim gives a parked call to who comes back to it, once: nil when there is none
// with that name, or it is another's.
func (p *parking) claim(state string, who owner, method string) *flight {
	p.mu.Lock()
	c := p.calls[state]
	p.mu.Unlock()
	if c == nil || c.owner != who || c.flight.method != method || !p.remove(state, c) {
		return nil
	}
	c.flight.leaveAlone(false)
	return c.flight
}

// remove takes a call out; false when somebody else has done it.
func (p *parking) remove(state string, c *parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[state] != c {
		return false
	}
	delete(p.calls, state)
	if p.perUser[c.owner.principal]--; p.perUser[c.owner.principal] == 0 {
		delete(p.perUser, c.owner.principal)
	}
	p.metrics.addParked(-1)
	c.timer.Stop()
	return true
}

// close ends all parked calls and parks no more.
func (p *parking) close() {
	p.mu.Lock()
	p.closed = true
	calls := make(map[string]*parked, len(p.calls))
	for state, c := range p.calls {
		calls[state] = c
	}
	p.mu.Unlock()
	for state, c := range calls {
		if p.remove(state, c) {
			c.flight.abort(errClosed)
		}
	}
}

func isParkState(state string) bool { return strings.HasPrefix(state, statePark) }
