package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// names that dashboards and scripts rely on, with their labels.
func names() map[string]string {
	return map[string]string{
		"mcp_server_operation_duration_seconds": "mcp_method_name,tenant",
		"causeway_requests_total":               "error_type,mcp_method_name,tenant,upstream",
		"causeway_gateway_overhead_seconds":     "mcp_method_name",
		"causeway_inflight_requests":            "",
		"causeway_buffered_bytes":               "",
		"causeway_listen_streams":               "tenant",
	}
}

func newMetrics(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, mcp.NewBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

func TestMetricNames(t *testing.T) {
	m, reg := newMetrics(t)
	m.Observe(Observation{Method: "tools/call", Tenant: "default", Upstream: "weather", Total: time.Millisecond})
	m.StreamOpened("default")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got[f.GetName()] = strings.Join(labels, ",")
	}
	if diff := cmp.Diff(names(), got); diff != "" {
		t.Errorf("names and labels (-want +got):\n%s", diff)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestHistogramsAreNativeWithClassicBuckets(t *testing.T) {
	m, reg := newMetrics(t)
	m.Observe(Observation{Method: "tools/list", Tenant: "acme", Total: 3 * time.Second, Waited: 2 * time.Second})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"mcp_server_operation_duration_seconds": 3,
		"causeway_gateway_overhead_seconds":     1,
	}
	for _, f := range families {
		sum, ok := want[f.GetName()]
		if !ok {
			continue
		}
		delete(want, f.GetName())
		h := f.GetMetric()[0].GetHistogram()
		if h.Schema == nil || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s is not a native histogram", f.GetName())
		}
		if n := len(h.GetBucket()); n != len(Buckets()) {
			t.Errorf("%s has %d classic buckets, want %d", f.GetName(), n, len(Buckets()))
		}
		if h.GetSampleSum() != sum {
			t.Errorf("%s observed %v s, want %v", f.GetName(), h.GetSampleSum(), sum)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestForgetDropsOneTenant(t *testing.T) {
	m, reg := newMetrics(t)
	for _, tenant := range []string{"acme", "other"} {
		m.Observe(Observation{Method: "tools/call", Tenant: tenant, Upstream: "weather"})
		m.StreamOpened(tenant)
	}
	m.Forget("acme") // its stream is still open
	if got := testutil.ToFloat64(m.streams.WithLabelValues("acme")); got != 1 {
		t.Errorf("%v open streams after Forget, want 1", got)
	}
	m.StreamClosed("acme")
	m.Observe(Observation{Method: "tools/call", Tenant: "other", Upstream: "weather"})
	want := `
# HELP causeway_listen_streams Open listen streams of clients.
# TYPE causeway_listen_streams gauge
causeway_listen_streams{tenant="other"} 1
# HELP causeway_requests_total Requests by what answered them and how: error_type is empty for success, a JSON-RPC code, tool_error or a transport class.
# TYPE causeway_requests_total counter
causeway_requests_total{error_type="",mcp_method_name="tools/call",tenant="other",upstream="weather"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "causeway_requests_total", "causeway_listen_streams"); err != nil {
		t.Error(err)
	}
	// A tenant that comes back starts anew instead of counting where nobody looks.
	m.Observe(Observation{Method: "tools/call", Tenant: "acme", Upstream: "weather"})
	if n := testutil.CollectAndCount(m.requests); n != 2 {
		t.Errorf("%d series of requests, want 2", n)
	}
}

func TestRegistryTellsAboutTheProcess(t *testing.T) {
	families, err := NewRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range families {
		have[f.GetName()] = true
	}
	for _, name := range []string{"go_goroutines", "process_open_fds", "go_build_info"} {
		if !have[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	m, err := NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		b.Fatal(err)
	}
	o := Observation{Method: "tools/call", Tenant: "default", Upstream: "weather", Total: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(o)
	}
}
