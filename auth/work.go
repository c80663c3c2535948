package auth

import (
	"context"
	"sync"
	"time"
)

// work runs what outlives the request that began it, and joins it.
type work struct {
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

func newWork() *work {
	w := &work{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// start runs do in a goroutine, for limit at most. It does nothing and tells false
// after close.
func (w *work) start(limit time.Duration, do func(ctx context.Context)) bool {
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

// close cancels all that runs and waits for its end.
func (w *work) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.group.Wait()
}

// await waits until done is closed, the request is gone or the time is over, and
// tells whether it was the first.
func await(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
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
