package gateway

import (
	"net/http"
	"sync/atomic"
)

// health answers those who watch the process.
type health struct{ state atomic.Int32 }

// States of health.
const (
	stateStarting int32 = iota
	stateReady
	stateDraining
)

// live answers /livez: the process runs.
func (h *health) live(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

// ready answers /readyz: 503 before the gateway serves and from the moment it
// stops, so that nobody sends it new requests.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	switch h.state.Load() {
	case stateReady:
		say(w, http.StatusOK, "ok")
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
