package cache

import (
	"context"
	"time"
)

// Scope is one upstream of one tenant, or one tenant where Upstream is empty: what
// belongs to a scope is kept together.
type Scope struct{ Tenant, Upstream string }

// Fence is a number that a store gives out: each that it gives out for a scope is
// higher than all before. N is at least the store's time in microseconds, so that
// the rule holds also after a store has lost all it knew; Epoch is another number
// then.
type Fence struct{ Epoch, N uint64 }

// Before tells whether f was given out before o, or under another epoch, where
// nothing is known.
func (f Fence) Before(o Fence) bool { return f.Epoch != o.Epoch || f.N < o.N }

// Lease is the right of one holder to do something alone, for a time.
type Lease struct {
	Scope  Scope
	Name   string // of what is done
	Holder string
	Fence  Fence // drawn when the lease was taken
}

// Leases gives out leases. Two holders may believe for a moment that they have the
// same lease (one that was suspended, a store that was restarted); what they write
// tells them apart by its fence.
type Leases interface {
	// Acquire takes a lease for ttl. When it is taken, by the same holder too, ok is
	// false and the lease is the other one.
	Acquire(ctx context.Context, s Scope, name, holder string, ttl time.Duration) (l Lease, ok bool, err error)
	// Renew makes the lease last for ttl from now on; ok is false when it was lost.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (ok bool, err error)
	// Release gives the lease back, if it is still this one.
	Release(ctx context.Context, l Lease) error
	// Draw gives out a fence.
	Draw(ctx context.Context, s Scope) (Fence, error)
}

// Boards are small maps in which each process has a field of its own, which goes
// when the process does.
type Boards interface {
	// Post writes a field, which is forgotten after ttl.
	Post(ctx context.Context, s Scope, board, field string, value []byte, ttl time.Duration) error
	// Remove takes a field away.
	Remove(ctx context.Context, s Scope, board, field string) error
	// Read gives all fields of a board.
	Read(ctx context.Context, s Scope, board string) (map[string][]byte, error)
}

// Bus carries messages between processes. Messages may be lost, which is told, but
// those of one sender that arrive do so in order.
type Bus interface {
	// Publish sends a message to all that subscribe to the channel, this process
	// too.
	Publish(ctx context.Context, channel string, body []byte) error
	// Subscribe has receive told of each message in the channel until stop is
	// called. gap, then without a body, tells that messages may have been missed
	// before: first when the subscription begins to stand, and after each time it
	// was lost. Calls come one after the other; no call runs when stop has returned.
	// receive must not block; it may publish, but not call stop.
	Subscribe(channel string, receive func(body []byte, gap bool)) (stop func())
}

// Values keeps small values by key.
type Values interface {
	// Get gives a value; nil when there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	// Update replaces a value by what change makes of it, atomically: change may be
	// called again when another process was faster. It is given nil when there is
	// no value, and gives nil when there is to be none. The value is forgotten after
	// ttl. What change fails with is given back, and nothing is changed.
	Update(ctx context.Context, key string, ttl time.Duration, change func(old []byte) ([]byte, error)) error
}

// Rate is a number of things that may happen in any interval, evenly spread in the
// long run; Limit of them may happen at once.
type Rate struct {
	Limit    int64
	Interval time.Duration
}

// Counters bound what all processes do together.
type Counters interface {
	// Take takes up to want things that may happen under a rate, for this process to
	// use. When it got none, wait is how long it takes until there is one.
	Take(ctx context.Context, s Scope, counter string, r Rate, want int64) (got int64, wait time.Duration, err error)
	// Share sets how many of limit things at the same time are the holder's own: up
	// to want, as far as others have left some. It is given back after ttl unless it
	// is set again. What it has and does not want any more is given back at once.
	Share(ctx context.Context, s Scope, counter, holder string, want, limit int64, ttl time.Duration) (got int64, err error)
}
