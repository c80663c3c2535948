package upstream

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// gather gives each series as name, labels and value or count.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			key := f.GetName()
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			if h := m.Histogram; h != nil {
				if h.Schema == nil || len(h.Bucket) != 15 || h.Bucket[0].GetUpperBound() != 0.001 || h.Bucket[14].GetUpperBound() != 60 {
					t.Errorf("%s is not a native histogram with classic buckets from 0.001 to 60", key)
				}
				got[key] = float64(h.GetSampleCount())
			} else {
				got[key] = m.Gauge.GetValue()
			}
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	healthy := make(chan bool, 10)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderMethod) == mcp.MethodListen {
			events(w)(callResult)
			return
		}
		if <-healthy {
			answerJSON(w, 200, callResult)
		} else {
			w.WriteHeader(500)
		}
	}))
	reg := prometheus.NewRegistry()
	deps := Deps{Metrics: NewMetrics(reg)}
	transports := egress.New(egress.Options{})
	conf := Config{Tenant: "acme", Alias: "ledger", URL: s.URL, BreakerFailures: 1}
	const (
		duration = "mcp_client_operation_duration_seconds tenant=acme upstream=ledger"
		up       = "causeway_upstream_up tenant=acme upstream=ledger"
		breaker  = "causeway_upstream_breaker_state tenant=acme upstream=ledger"
	)
	check := func(when string, want map[string]float64) {
		t.Helper()
		want["causeway_parked_calls"] = 0 // of all upstreams together
		if diff := cmp.Diff(want, gather(t, reg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("before the first client", map[string]float64{})
	c := New(conf, transports, deps)
	check("before the first call", map[string]float64{duration: 0, breaker: 0})

	listen := request(mcp.MethodListen)
	listen.Listen = true
	if _, err := read(context.Background(), c, listen); err != nil {
		t.Fatal(err)
	}
	healthy <- true
	if _, err := read(context.Background(), c, toolCall()); err != nil {
		t.Fatal(err)
	}
	check("after a call and a listen stream", map[string]float64{duration: 1, breaker: 0, up: 1})
	healthy <- false
	read(context.Background(), c, toolCall())
	read(context.Background(), c, toolCall()) // not sent, so not measured
	check("after a failure", map[string]float64{duration: 2, breaker: 2, up: 0})

	// A changed registration has a second client for a moment.
	next := New(conf, transports, deps)
	c.Close()
	healthy <- true
	if _, err := read(context.Background(), next, toolCall()); err != nil {
		t.Fatal(err)
	}
	check("after the first client is closed", map[string]float64{duration: 3, breaker: 0, up: 1})

	healthy <- false
	straggler, err := next.Do(context.Background(), request(mcp.MethodListen))
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	check("after the last client is closed", map[string]float64{})
	straggler.Next()
	straggler.Close()
	next.series.setUp(false)
	check("after a straggler", map[string]float64{})
}
