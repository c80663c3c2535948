package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadiness(t *testing.T) {
	type answer struct {
		Status int
		Text   string
	}
	tests := []struct {
		name            string
		state           int32
		redis, registry string
		want            answer
	}{
		{"starting", stateStarting, "", "", answer{503, "starting\n"}},
		{"ready", stateReady, "", "", answer{200, "ok\n"}},
		{"draining", stateDraining, "", "", answer{503, "draining\n"}},
		{"degraded", stateReady, "no Redis", "", answer{200, "degraded: no Redis\n"}},
		{"degraded twice", stateReady, "no Redis", "no registry", answer{200, "degraded: no Redis; no registry\n"}},
		{"draining and degraded", stateDraining, "no Redis", "", answer{503, "draining\n"}},
		{"starting and degraded", stateStarting, "no Redis", "", answer{503, "starting\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHealth(&Options{
				Cluster:       &Cluster{Degraded: func() string { return tt.redis }},
				StoreDegraded: func() string { return tt.registry },
			})
			h.state.Store(tt.state)
			w := httptest.NewRecorder()
			h.ready(w, httptest.NewRequest("GET", "/readyz", nil))
			if diff := cmp.Diff(tt.want, answer{w.Code, w.Body.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDegradationIsLogged holds that the log tells of each change once.
func TestDegradationIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		what := ""
		become := func(s string) {
			mu.Lock()
			what = s
			mu.Unlock()
			time.Sleep(5 * degradedInterval)
		}
		h := newHealth(&Options{StoreDegraded: func() string {
			mu.Lock()
			defer mu.Unlock()
			return what
		}})
		var text bytes.Buffer
		drop := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: drop}))
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { h.watch(ctx, log) })
		become("")
		become("gone")
		become("full")
		become("")
		cancel()
		watching.Wait()
		const warning = `level=WARN msg="degraded: requests are served, with less than all that replicas share" reason=`
		want := []string{warning + "gone", warning + "full", `level=INFO msg="no longer degraded" reason=full`}
		if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(text.String()), "\n")); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
