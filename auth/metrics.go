package auth

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what was refused.
type metrics struct{ failures *prometheus.CounterVec }

// newMetrics registers the metrics, with all reasons at zero. It panics when they are
// registered already.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "causeway_auth_failures_total",
		Help: "Requests that were refused for who sent them; reason missing is a client that asks what it needs.",
	}, []string{"reason"})}
	for _, r := range reasons() {
		m.failures.WithLabelValues(string(r))
	}
	reg.MustRegister(m.failures)
	return m
}

func (m *metrics) count(r reason) { m.failures.WithLabelValues(string(r)).Inc() }
