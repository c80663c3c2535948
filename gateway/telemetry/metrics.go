package telemetry

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// NewRegistry makes a registry with what Go and the operating system tell about
// the process, and what it was built from.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// Buckets gives the classic buckets of our duration histograms, in seconds. The
// caller owns the slice.
func Buckets() []float64 {
	return []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60}
}

// Metrics are the metrics of the HTTP edge. Their labels come from closed sets;
// the callers see to it.
type Metrics struct {
	// InFlight counts the requests under way; listen streams are not among them.
	InFlight prometheus.Gauge

	operation *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	overhead  *prometheus.HistogramVec
	streams   *prometheus.GaugeVec

	mu       sync.RWMutex
	children map[labels]*children
	open     map[string]*openStreams // by tenant
}

// openStreams are the listen streams of one tenant.
type openStreams struct {
	n         int
	gauge     prometheus.Gauge
	forgotten bool // the series goes with the last stream
}

// labels of one kind of request.
type labels struct{ method, tenant, upstream, errorType string }

// children are the metrics of one kind of request, found once: a lookup in a
// vector hashes every label and takes a lock for each metric.
type children struct {
	requests            prometheus.Counter
	operation, overhead prometheus.Observer
}

// NewMetrics registers the metrics. budget may be nil.
func NewMetrics(reg prometheus.Registerer, budget *mcp.Budget) (*Metrics, error) {
	m := &Metrics{
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "causeway_inflight_requests",
			Help: "Requests under way, without listen streams.",
		}),
		operation: prometheus.NewHistogramVec(durations(
			"mcp_server_operation_duration_seconds",
			"Time from the receipt of a request to the end of its response; of a listen stream, to its acknowledgement.",
		), []string{"mcp_method_name", "tenant"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_requests_total",
			Help: "Requests by what answered them and how: error_type is empty for success, a JSON-RPC code, tool_error or a transport class.",
		}, []string{"mcp_method_name", "tenant", "upstream", "error_type"}),
		overhead: prometheus.NewHistogramVec(durations(
			"causeway_gateway_overhead_seconds",
			"Time of a request that was not spent waiting for an upstream.",
		), []string{"mcp_method_name"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_listen_streams",
			Help: "Open listen streams of clients.",
		}, []string{"tenant"}),
		children: map[labels]*children{},
		open:     map[string]*openStreams{},
	}
	buffered := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "causeway_buffered_bytes",
		Help: "Bytes of messages that are held in memory.",
	}, func() float64 { return float64(budget.Used()) })
	var faults []error
	for _, c := range []prometheus.Collector{m.InFlight, m.operation, m.requests, m.overhead, m.streams, buffered} {
		faults = append(faults, reg.Register(c))
	}
	return m, errors.Join(faults...)
}

// durations are the options of a duration histogram: native, with classic
// buckets beside it for servers that do not read those.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name:                            name,
		Help:                            help,
		Buckets:                         Buckets(),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// Observation is one finished request.
type Observation struct {
	Method    string // one of the methods that the gateway knows, or "other"
	Tenant    string // one that is registered, or ""
	Upstream  string // the alias that answered, or "" for the gateway itself
	ErrorType string // "" for success
	Total     time.Duration
	Waited    time.Duration // for upstreams
}

// Observe counts a finished request.
func (m *Metrics) Observe(o Observation) {
	key := labels{o.Method, o.Tenant, o.Upstream, o.ErrorType}
	m.mu.RLock()
	c := m.children[key]
	m.mu.RUnlock()
	if c == nil {
		c = m.find(key)
	}
	c.requests.Inc()
	c.operation.Observe(o.Total.Seconds())
	c.overhead.Observe(max(o.Total-o.Waited, 0).Seconds())
}

func (m *Metrics) find(key labels) *children {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.children[key]; c != nil {
		return c
	}
	c := &children{
		requests:  m.requests.WithLabelValues(key.method, key.tenant, key.upstream, key.errorType),
		operation: m.operation.WithLabelValues(key.method, key.tenant),
		overhead:  m.overhead.WithLabelValues(key.method),
	}
	m.children[key] = c
	return c
}

// StreamOpened counts a listen stream of a tenant.
func (m *Metrics) StreamOpened(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.open[tenant]
	if s == nil {
		s = &openStreams{gauge: m.streams.WithLabelValues(tenant)}
		m.open[tenant] = s
	}
	s.n++
	s.forgotten = false
	s.gauge.Set(float64(s.n))
}

// StreamClosed takes back one StreamOpened.
func (m *Metrics) StreamClosed(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.open[tenant]
	s.n--
	s.gauge.Set(float64(s.n))
	if s.n == 0 && s.forgotten {
		m.dropStreams(tenant)
	}
}

// Forget drops a tenant's series: those of a tenant that was unloaded. That of
// its listen streams goes when the last of them is closed.
func (m *Metrics) Forget(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.children {
		if key.tenant == tenant {
			delete(m.children, key)
		}
	}
	of := prometheus.Labels{"tenant": tenant}
	m.operation.DeletePartialMatch(of)
	m.requests.DeletePartialMatch(of)
	if s := m.open[tenant]; s != nil && s.n > 0 {
		s.forgotten = true
	} else {
		m.dropStreams(tenant)
	}
}

func (m *Metrics) dropStreams(tenant string) {
	delete(m.open, tenant)
	m.streams.DeleteLabelValues(tenant)
}
