package tenant

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Watchers are those who watch a Store: Watch is that of the Store, which tells
// them of its changes by Queue and Flush, or by Tell. The zero value has none.
type Watchers struct {
	mu      sync.Mutex
	idle    *sync.Cond // a call has ended
	list    []*watcher
	pending []string // changed names whose watchers have not been called yet
	calling bool     // somebody works on pending
}

// watcher is one Watch.
type watcher struct {
	ended   <-chan struct{} // the context of Watch has ended
	changed func(name string)
	stopped bool
	running bool // changed is being called
}

// Watch implements Store. changed may use the store, and may call stop.
func (w *Watchers) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	own := &watcher{ended: ctx.Done(), changed: changed}
	w.mu.Lock()
	if w.idle == nil {
		w.idle = sync.NewCond(&w.mu)
	}
	w.list = append(w.list, own)
	w.mu.Unlock()

	remove := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		own.stopped = true
		w.list = slices.DeleteFunc(w.list, func(o *watcher) bool { return o == own })
	}
	release := context.AfterFunc(ctx, remove)
	return func() {
		release()
		remove()
		if insideCall() {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for own.running {
			w.idle.Wait()
		}
	}
}

// Queue notes names as changed, in their order. It calls nobody, so that a store
// can do it under its own lock, which keeps the names of several changes in order.
func (w *Watchers) Queue(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, names...)
}

// Flush calls the watchers for all names that are noted, before it returns; only
// when another Flush is calling them, that one calls them for these too.
func (w *Watchers) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calling {
		return
	}
	w.calling = true
	for len(w.pending) > 0 {
		name := w.pending[0]
		w.pending = w.pending[1:]
		for _, one := range slices.Clone(w.list) {
			w.callLocked(one, name)
		}
	}
	w.pending, w.calling = nil, false
}

// Tell is Queue and Flush.
func (w *Watchers) Tell(names ...string) {
	w.Queue(names...)
	w.Flush()
}

// callLocked calls a watcher without the lock, unless it was stopped.
func (w *Watchers) callLocked(one *watcher, name string) {
	select {
	case <-one.ended:
		return
	default:
	}
	if one.stopped {
		return
	}
	one.running = true
	w.mu.Unlock()
	one.call(name)
	w.mu.Lock()
	one.running = false
	w.idle.Broadcast()
}

// call is the frame that insideCall looks for.
//
//go:noinline
func (w *watcher) call(name string) { w.changed(name) }

// insideCall tells whether this goroutine is in a watcher's call.
func insideCall() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for {
			f, more := frames.Next()
			if strings.HasSuffix(f.Function, "tenant.(*watcher).call") {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
