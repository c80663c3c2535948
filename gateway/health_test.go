package gateway

import (
	"net/http/httptest"
	"testing"

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
