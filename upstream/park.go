package upstream

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What a requestState of ours says.
const (
	statePark  = "park:"  // a parked call, with its name
	stateAgain = "repeat" // the call is to be made again
)

// parkPurpose separates the names of parked calls from all other tokens of the ring.
const parkPurpose = "park"

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

	ring    *seal.Ring // nil where no other process needs to know who holds a call
	holder  string     // this process's address
	binding []byte     // of names to the upstream

	mu      sync.Mutex
	calls   map[string]*parked
	perUser map[string]int
	closed  bool
}

func newParking(conf *Config, deps *Deps) *parking {
	s := &conf.Sessions
	return &parking{
		max: s.MaxParked, maxPerPrincipal: s.MaxParkedPerPrincipal, time: s.ParkMax, metrics: deps.Metrics,
		ring: deps.Ring, holder: deps.Holder, binding: parkBinding(conf.Tenant, conf.Alias),
		calls: map[string]*parked{}, perUser: map[string]int{},
	}
}

// name makes the requestState of a call that is to be parked. Sealed, it tells the
// other processes who holds the call, and no server can make up one.
func (p *parking) name() string {
	if p.ring == nil {
		return statePark + rand.Text()
	}
	// The nonce in it makes it unlike all others.
	return statePark + p.ring.Seal(parkPurpose, []byte(p.holder), p.binding)
}

// parkBinding is what the names of an upstream's parked calls are bound to.
func parkBinding(tenant, alias string) []byte {
	b := binary.AppendUvarint(nil, uint64(len(tenant)))
	return append(append(b, tenant...), alias...)
}

// HolderOf gives the address of the process that holds a parked call of an upstream,
// as its Deps.Holder says. state is the requestState of a retry, raw JSON; ok is
// false when it names no call that a process with the ring has parked: it may be a
// server's own, whatever it looks like.
func HolderOf(ring *seal.Ring, tenant, alias string, state []byte) (holder string, ok bool) {
	text, ok := mcp.String(state, mcp.Span{End: len(state)})
	if !ok {
		return "", false
	}
	name, ok := strings.CutPrefix(text, statePark)
	if !ok {
		return "", false
	}
	plain, err := ring.Open(parkPurpose, name, parkBinding(tenant, alias))
	return string(plain), err == nil
}

// put parks a call and gives the requestState that names it; false when there is
// no room for it.
func (p *parking) put(f *flight, who owner) (string, bool) {
	state := p.name()
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
