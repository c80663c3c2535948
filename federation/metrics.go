package federation

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of all tenants. Their labels come from closed sets.
type metrics struct {
	cacheRequests *prometheus.CounterVec
	catalogItems  *prometheus.GaugeVec
	notifications *prometheus.CounterVec
	quota         *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		cacheRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_cache_requests_total",
			Help: "Requests for cached lists and reads by outcome: hit, stale, miss or bypass.",
		}, []string{"method", "outcome"}),
		catalogItems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_catalog_items",
			Help: "Items in an upstream's lists as last fetched.",
		}, []string{"tenant", "upstream", "kind"}),
		notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_notifications_total",
			Help: "Notifications on listen streams by kind and outcome: received, sent or dropped.",
		}, []string{"kind", "outcome"}),
		quota: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_quota_rejections_total",
			Help: "Requests refused because a quota of the tenant was used up.",
		}, []string{"tenant", "quota"}),
	}
	reg.MustRegister(m.cacheRequests, m.catalogItems, m.notifications, m.quota)
	return m
}

func (m *metrics) cache(method, outcome string) {
	m.cacheRequests.WithLabelValues(method, outcome).Inc()
}

// items notes the size of a member's list.
func (m *metrics) items(mb *member, k kind, n int) {
	if k != kindDiscover {
		m.catalogItems.WithLabelValues(mb.domain.name, mb.conf.Alias, k.items()).Set(float64(n))
	}
}

// notified notes a notification of a kind: tools, prompts, resources, updated or
// tasks.
func (m *metrics) notified(kind, outcome string) {
	m.notifications.WithLabelValues(kind, outcome).Inc()
}

// rejected notes that a quota was used up.
func (m *metrics) rejected(tenant, quota string) {
	m.quota.WithLabelValues(tenant, quota).Inc()
}

// forgetTenant drops the series of a tenant that goes, but for its members'.
func (m *metrics) forgetTenant(name string) {
	m.quota.DeletePartialMatch(prometheus.Labels{"tenant": name})
}

// forget drops the series of a member that goes.
func (m *metrics) forget(mb *member) {
	for k := range kindDiscover {
		m.catalogItems.DeleteLabelValues(mb.domain.name, mb.conf.Alias, k.items())
	}
}
