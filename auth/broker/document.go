package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/work"
)

// Times of what servers publish, and of questions to them.
const (
	askTime     = 10 * time.Second // for a document, a registration or a token, with all attempts
	findTime    = 30 * time.Second // for an authorization server, also where several are named
	askInterval = 10 * time.Second // between two attempts at the same document
	freshTime   = time.Hour        // for which a document is not read again
	staleTime   = 24 * time.Hour   // for which one is used while no newer one can be had
)

// Bounds of what is kept of servers; what was not used for the longest time goes first,
// and is read again.
const (
	maxServers   = 1 << 10 // authorization servers
	maxResources = 1 << 12 // upstreams
	maxClientIDs = 1 << 12 // registrations
)

var (
	errClosed      = errors.New("the gateway is ending")
	errUnavailable = errors.New("no answer in time")
)

// document is something that is read from elsewhere: once at a time, and not too often.
type document[T any] struct {
	mu      sync.Mutex
	value   *T
	at      time.Time     // when the value was read
	old     bool          // whether it is to be read again, whatever its time
	tried   time.Time     // when the latest attempt began
	err     error         // of the latest attempt that ended
	running chan struct{} // closed when the attempt under way ends; nil for none
}

// get gives the document: the one that is known while it is fresh, else what read
// gives. An old one is used while no newer one can be had.
func (d *document[T]) get(ctx context.Context, b *Broker, read func(ctx context.Context) (*T, error)) (*T, error) {
	d.mu.Lock()
	now := b.now()
	if d.value != nil && !d.old && now.Sub(d.at) < freshTime {
		defer d.mu.Unlock()
		return d.value, nil
	}
	if d.running == nil && (d.tried.IsZero() || now.Sub(d.tried) >= askInterval) {
		d.begin(b, read)
	}
	running := d.running
	d.mu.Unlock()
	if running != nil {
		work.Await(ctx, running, askTime+time.Second)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.value != nil && b.now().Sub(d.at) < staleTime:
		return d.value, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case d.err != nil && d.running == nil:
		return nil, d.err
	}
	return nil, errUnavailable
}

// begin begins an attempt. d.mu is held, but not while read runs.
func (d *document[T]) begin(b *Broker, read func(ctx context.Context) (*T, error)) {
	done := make(chan struct{})
	started := b.work.Start(askTime, func(ctx context.Context) {
		defer close(done)
		value, err := read(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running, d.err = nil, err
		if err == nil {
			d.value, d.at, d.old = value, b.now(), false
		}
	})
	if !started {
		d.err = errClosed
		return
	}
	d.running, d.tried = done, b.now()
}

// age has the document read again at the next use. It stays of use until then; soon
// allows that although it was read a short while ago.
func (d *document[T]) age(soon bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.old = true; soon {
		d.tried = time.Time{}
	}
}

// drop forgets the document.
func (d *document[T]) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value, d.err = nil, nil
}
