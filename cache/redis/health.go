package redis

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
)

// What may be the matter with a Redis, as Degraded tells it.
const (
	troubleNew     = "redis has not been reached yet"
	troubleSilent  = "redis cannot be reached"
	troubleRefuses = "redis takes no writes"
	troubleErrors  = "redis answers with errors"
)

// health is what is known about a Redis, and who is told of it.
type health struct {
	log  *slog.Logger
	up   prometheus.Gauge
	wake chan struct{} // has something in it when there is news for the probe

	calling sync.Mutex // held while hooks are called, so that calls come one after the other

	mu      sync.Mutex
	trouble string
	last    error // the latest that an operation failed with
	hooks   []*hook
}

type hook struct{ recovered func() }

func newHealth(log *slog.Logger, up prometheus.Gauge) *health {
	return &health{log: log, up: up, wake: make(chan struct{}, 1), trouble: troubleNew}
}

// get tells what is the matter; empty when all is well.
func (h *health) get() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// failed notes what an operation failed with, to be told when it makes a
// difference. Errors of Redis and of connections hold no secrets.
func (h *health) failed(err error) {
	if err == nil || errors.Is(err, goredis.Nil) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = err
}

// silent notes that Redis does not answer.
func (h *health) silent() { h.worse(troubleSilent) }

// worse notes what is the matter.
func (h *health) worse(trouble string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble == trouble {
		return
	}
	h.trouble = trouble
	h.log.Warn("Redis is degraded", "reason", trouble, "error", h.last)
	h.up.Set(0)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// well notes that Redis works, and tells those who want to know when it did not
// before.
func (h *health) well() {
	h.calling.Lock()
	defer h.calling.Unlock()
	for _, k := range h.recover() {
		k.recovered()
	}
}

// recover gives the hooks to call.
func (h *health) recover() []*hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trouble == "" {
		return nil
	}
	h.log.Info("Redis works", "after", h.trouble)
	h.trouble = ""
	h.up.Set(1)
	return h.hooks
}

// add adds a hook. The returned function takes it out and waits for its running
// call.
func (h *health) add(f func()) (stop func()) {
	k := &hook{f}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hooks = append(slices.Clone(h.hooks), k)
	return func() {
		h.calling.Lock()
		defer h.calling.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hooks = slices.DeleteFunc(slices.Clone(h.hooks), func(o *hook) bool { return o == k })
	}
}
