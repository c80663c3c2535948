package redis

import (
	"context"
	"slices"
	"sync"

	"github.com/causeway-mcp/causeway/cache"
)

// maxChanges is how many changes wait for one follower singly. Over it, those of
// one topic are told as one of all that it has.
const maxChanges = 1000

// Follow implements cache.Responses. changed is called on a goroutine of its own.
func (r *Responses) Follow(tenant string, changed func(cache.Change)) (stop func()) {
	f := newFollower(changed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		f.stop()
		return func() {}
	}
	tt := r.tenant(tenant)
	tt.followers = append(tt.followers, f)
	signal(r.rework)
	return func() {
		r.mu.Lock()
		tt.followers = slices.DeleteFunc(tt.followers, func(o *follower) bool { return o == f })
		signal(r.rework)
		r.mu.Unlock()
		f.stop()
	}
}

// follower is one who is told of changes. What waits for it is handed over by a
// goroutine of its own, so that a slow one holds up nobody but itself.
type follower struct {
	changed func(cache.Change)
	wake    chan struct{}
	ended   chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	mu    sync.Mutex
	queue []cache.Change
	limit int // of the queue, at which it is merged
}

func newFollower(changed func(cache.Change)) *follower {
	f := &follower{changed: changed, wake: make(chan struct{}, 1), ended: make(chan struct{}), limit: maxChanges}
	f.wg.Go(f.run)
	return f
}

// stop ends it and waits for its running call.
func (f *follower) stop() {
	f.once.Do(func() { close(f.ended) })
	f.wg.Wait()
}

func (f *follower) push(c cache.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, c)
	if len(f.queue) > f.limit {
		f.queue = merge(f.queue)
		f.limit = max(maxChanges, 2*len(f.queue)) // so that it is not done for each
	}
	signal(f.wake)
}

// merge makes one change of those of each topic.
func merge(queue []cache.Change) []cache.Change {
	last := map[cache.Topic]int{}
	for i, c := range queue {
		last[c.Topic] = i
	}
	var merged []cache.Change
	for i, c := range queue {
		if last[c.Topic] == i {
			c.Param = ""
			merged = append(merged, c)
		}
	}
	return merged
}

func (f *follower) run() {
	for {
		select {
		case <-f.ended:
			return
		case <-f.wake:
		}
		f.mu.Lock()
		queue := f.queue
		f.queue = nil
		f.mu.Unlock()
		for _, c := range queue {
			select {
			case <-f.ended:
				return
			default:
				f.changed(c)
			}
		}
	}
}

// subscribe keeps the subscriptions of tenants that are followed, or of which
// something is in memory, until ctx ends.
func (r *Responses) subscribe(ctx context.Context) {
	stops := map[string]func(){}
	for {
		want := r.wanted()
		for name, stop := range stops {
			if !want[name] {
				stop()
				delete(stops, name)
			}
		}
		for name := range want {
			if stops[name] == nil {
				stops[name] = r.store.Subscribe(channelOf(name), func(body []byte, gap bool) { r.receive(name, body, gap) })
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return
		case <-r.rework:
		}
	}
}

// wanted gives the tenants whose notices are needed.
func (r *Responses) wanted() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want := map[string]bool{}
	for name, tt := range r.tenants {
		if r.near != nil || len(tt.followers) > 0 {
			want[name] = true
		}
	}
	return want
}

// receive takes what came in a tenant's channel.
func (r *Responses) receive(tenant string, body []byte, gap bool) {
	if gap {
		r.look()
		return
	}
	n, err := decodeNotice(body)
	switch {
	case err != nil || n.topic.Tenant != tenant:
		r.look() // of another version; what it is about shows
	case n.kind == noticeDrop:
		r.dropped(n)
	case n.kind == noticeTenant:
		r.look()
	case n.gen == 0:
		r.postpone(n)
	default:
		r.changed(n, false)
	}
}
