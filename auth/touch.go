package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth/work"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

const (
	touchTime = 5 * time.Second // for one key
	// maxTouches bounds the keys whose use is not written yet. Others are noticed at
	// their next look-up.
	maxTouches = 4096
)

// touched is a key that was used.
type touched struct{ tenant, id string }

// touches writes down, in the background, when keys were last used.
type touches struct {
	keys Keys
	log  *slog.Logger

	mu      sync.Mutex
	pending map[touched]time.Time
	running bool
}

// add notes the use of a key, and begins to write unless that is under way.
func (t *touches) add(k touched, at time.Time, w *work.Group) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) < maxTouches {
		t.pending[k] = at
	}
	if !t.running {
		t.running = w.Start(maxTouches*touchTime, t.write)
	}
}

// write writes until nothing is left.
func (t *touches) write(ctx context.Context) {
	for {
		k, at, ok := t.next(ctx)
		if !ok {
			return
		}
		one, cancel := context.WithTimeout(ctx, touchTime)
		err := t.keys.TouchKey(one, k.tenant, k.id, at)
		cancel()
		if err != nil && ctx.Err() == nil && !errors.Is(err, tenant.ErrNotFound) {
			t.log.Warn("cannot write when an API key was last used", "tenant", k.tenant, "error", without(err, k.id))
		}
	}
}

func (t *touches) next(ctx context.Context) (k touched, at time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() == nil {
		for k, at := range t.pending {
			delete(t.pending, k)
			return k, at, true
		}
	}
	t.running = false
	return k, at, false
}
