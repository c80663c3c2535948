package upstream

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Metrics are the metrics of all upstreams. Every series but that of the parked
// calls has the labels tenant and upstream, and goes with the last client of that
// upstream.
type Metrics struct {
	duration    *prometheus.HistogramVec
	up, breaker *prometheus.GaugeVec
	parked      prometheus.Gauge

	mu     sync.Mutex
	series map[seriesKey]*series
}

type seriesKey struct{ tenant, alias string }

// NewMetrics registers the metrics. It panics when they are registered already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	labels := []string{"tenant", "upstream"}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            "mcp_client_operation_duration_seconds",
			Help:                            "Time from sending a request to an upstream to its final message or failure, without listen streams.",
			Buckets:                         []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: 3600e9,
		}, labels),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_upstream_up",
			Help: "Whether the upstream's latest answer was usable; absent before the first.",
		}, labels),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_upstream_breaker_state",
			Help: "State of the upstream's circuit breaker: 0 closed, 1 half-open, 2 open.",
		}, labels),
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "causeway_parked_calls",
			Help: "Calls that wait at handshake servers for a user's answer.",
		}),
		series: map[seriesKey]*series{},
	}
	reg.MustRegister(m.duration, m.up, m.breaker, m.parked)
	return m
}

// addParked counts parked calls. A nil Metrics counts nothing.
func (m *Metrics) addParked(n float64) {
	if m != nil {
		m.parked.Add(n)
	}
}

// series are one upstream's metrics, resolved once. Clients of the same upstream
// share them: while a registration changes there are two. A nil series counts
// nothing.
type series struct {
	metrics  *Metrics
	key      seriesKey
	duration prometheus.Observer
	breaker  prometheus.Gauge
	up       atomic.Int32 // upUnknown, upNo or upYes
	clients  int          // guarded by metrics.mu
}

const (
	upUnknown = iota
	upNo
	upYes
)

// acquire gives the series for one more client.
func (m *Metrics) acquire(tenant, alias string) *series {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := seriesKey{tenant, alias}
	s := m.series[key]
	if s == nil {
		s = &series{
			metrics: m, key: key,
			duration: m.duration.WithLabelValues(tenant, alias),
			breaker:  m.breaker.WithLabelValues(tenant, alias),
		}
		m.series[key] = s
	}
	s.clients++
	return s
}

// release gives the series back; the last client's release deletes them.
func (s *series) release() {
	if s == nil {
		return
	}
	m := s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.clients--; s.clients > 0 {
		return
	}
	delete(m.series, s.key)
	m.duration.DeleteLabelValues(s.key.tenant, s.key.alias)
	m.up.DeleteLabelValues(s.key.tenant, s.key.alias)
	m.breaker.DeleteLabelValues(s.key.tenant, s.key.alias)
}

func (s *series) observe(seconds float64) {
	if s != nil {
		s.duration.Observe(seconds)
	}
}

func (s *series) setBreaker(state gobreaker.State) {
	if s == nil {
		return
	}
	switch state {
	case gobreaker.StateClosed:
		s.breaker.Set(0)
	case gobreaker.StateHalfOpen:
		s.breaker.Set(1)
	case gobreaker.StateOpen:
		s.breaker.Set(2)
	}
}

// setUp notes whether the upstream can be used. The usual case, no change, is
// one atomic read.
func (s *series) setUp(up bool) {
	v := int32(upNo)
	if up {
		v = upYes
	}
	if s == nil || s.up.Load() == v {
		return
	}
	m := s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.clients == 0 {
		return // a straggler must not bring the deleted series back
	}
	s.up.Store(v)
	m.up.WithLabelValues(s.key.tenant, s.key.alias).Set(float64(v - upNo))
}
