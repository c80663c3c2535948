package gateway

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// health answers those who watch the process.
type health struct {
	state    atomic.Int32
	degraded []func() string // each as Cluster.Degraded, and logged by whom it is about
}

// States of health.
const (
	stateStarting int32 = iota
	stateReady
	stateDraining
)

// newHealth makes the health of a gateway that is starting.
func newHealth(opts *Options) *health {
	h := &health{}
	if opts.Cluster != nil {
		h.degraded = append(h.degraded, opts.Cluster.Degraded)
	}
	if opts.StoreDegraded != nil {
		h.degraded = append(h.degraded, opts.StoreDegraded)
	}
	return h
}

// degradation says all that does not work at the moment; empty when all does.
func (h *health) degradation() string {
	var all []string
	for _, degraded := range h.degraded {
		if what := degraded(); what != "" {
			all = append(all, what)
		}
	}
	return strings.Join(all, "; ")
}

// live answers /livez: the process runs.
func (h *health) live(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

// ready answers /readyz: 503 before the gateway serves and from the moment it
// stops, so that nobody sends it new requests. What works less well than it should
// is said with 200: it would be the same for all replicas, and a gateway without
// any of them serves nobody.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	switch h.state.Load() {
	case stateReady:
		text := "ok"
		if what := h.degradation(); what != "" {
			text = "degraded: " + what
		}
		say(w, http.StatusOK, text)
	case stateDraining:
		say(w, http.StatusServiceUnavailable, "draining")
	default:
		say(w, http.StatusServiceUnavailable, "starting")
	}
}

func say(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that left is no error
}
