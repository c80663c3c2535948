// Package work runs what outlives the request that began it. It is a leaf: it imports
// none of our packages.
package work

import (
	"context"
	"sync"
	"time"
)

// Group runs functions in the background, and joins them.
type Group struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// New makes a Group. Close ends it.
func New() *Group {
	w := &Group{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start runs do in a goroutine, for limit at most. It does nothing and tells false
// after Close.
func (w *Group) Start(limit time.Duration, do func(ctx context.Context)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, limit)
		defer cancel()
		do(ctx)
	})
	return true
}

// Close cancels all that runs and waits for its end.
func (w *Group) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.group.Wait()
}

// Await waits until done is closed, the request is gone or the time is over, and
// tells whether it was the first.
func Await(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}
