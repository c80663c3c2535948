package upstream

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of all upstreams.
type Metrics struct{ _ int }

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics { panic("stub") }
