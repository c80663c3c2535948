package federation

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// metrics are the metrics of all tenants. Their labels come from closed sets;
// what is counted often is looked up once.
type metrics struct {
	lists        [kinds][cacheOutcomes]prometheus.Counter
	reads        [cacheOutcomes]prometheus.Counter
	notes        [noteKinds][noteOutcomes]prometheus.Counter
	catalogItems *prometheus.GaugeVec
	tokens       *prometheus.GaugeVec
	searches     prometheus.Counter
	tokensSaved  prometheus.Counter
	quota        *prometheus.CounterVec
	decisions    *prometheus.CounterVec
}

// cacheOutcome says where an answer came from.
type cacheOutcome uint8

const (
	cacheHit cacheOutcome = iota
	cacheStale
	cacheMiss
	cacheBypass
	cacheOutcomes
)

// noteKind is a kind of notification on listen streams.
type noteKind uint8

const (
	noteTools noteKind = iota
	notePrompts
	noteResources
	noteUpdated
	noteTasks
	noteKinds
)

// noteOutcome says what became of a notification.
type noteOutcome uint8

const (
	outcomeReceived noteOutcome = iota
	outcomeSent
	outcomeDropped
	noteOutcomes
)

func newMetrics(reg prometheus.Registerer) *metrics {
	cacheRequests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "causeway_cache_requests_total",
		Help: "Requests for cached lists and reads by outcome: hit, stale, miss or bypass.",
	}, []string{"method", "outcome"})
	notifications := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "causeway_notifications_total",
		Help: "Notifications on listen streams by kind and outcome: received, sent or dropped.",
	}, []string{"kind", "outcome"})
	m := &metrics{
		catalogItems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_catalog_items",
			Help: "Items in an upstream's lists as last fetched.",
		}, []string{"tenant", "upstream", "kind"}),
		tokens: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "causeway_catalog_tokens",
			Help: "Estimated tokens of the definitions of an upstream's tools.",
		}, []string{"tenant", "upstream"}),
		searches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "causeway_search_requests_total",
			Help: "Searches for tools.",
		}),
		tokensSaved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "causeway_tokens_saved_total",
			Help: "Estimated tokens of the definitions of tools that lists have left to be searched for.",
		}),
		quota: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_quota_rejections_total",
			Help: "Requests refused because a quota of the tenant was used up.",
		}, []string{"tenant", "quota"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "causeway_policy_decisions_total",
			Help: "Decisions of a tenant's policy about calls, by effect: allow or deny.",
		}, []string{"tenant", "effect"}),
	}
	for o, outcome := range [cacheOutcomes]string{"hit", "stale", "miss", "bypass"} {
		for k := range kinds {
			if cacheOutcome(o) != cacheBypass {
				m.lists[k][o] = cacheRequests.WithLabelValues(k.method(), outcome)
			}
		}
		if cacheOutcome(o) != cacheStale {
			m.reads[o] = cacheRequests.WithLabelValues(mcp.MethodResourcesRead, outcome)
		}
	}
	for k, kind := range [noteKinds]string{"tools", "prompts", "resources", "updated", "tasks"} {
		for o, outcome := range [noteOutcomes]string{"received", "sent", "dropped"} {
			m.notes[k][o] = notifications.WithLabelValues(kind, outcome)
		}
	}
	reg.MustRegister(cacheRequests, notifications, m.catalogItems, m.tokens, m.searches, m.tokensSaved, m.quota, m.decisions)
	return m
}

// read notes where the answer of resources/read came from.
func (m *metrics) read(outcome cacheOutcome) { m.reads[outcome].Inc() }

// items notes the size of a member's list.
func (m *metrics) items(mb *member, k kind, n int) {
	if k != kindDiscover {
		m.catalogItems.WithLabelValues(mb.domain.name, mb.conf.Alias, k.items()).Set(float64(n))
	}
}

// defined notes the size of the definitions of a member's tools.
func (m *metrics) defined(mb *member, tokens int) {
	m.tokens.WithLabelValues(mb.domain.name, mb.conf.Alias).Set(float64(tokens))
}

// saved notes how much shorter a list was.
func (m *metrics) saved(tokens int) { m.tokensSaved.Add(float64(max(tokens, 0))) }

// notified notes a notification.
func (m *metrics) notified(kind noteKind, outcome noteOutcome) { m.notes[kind][outcome].Inc() }

// decisions are the counters of what a tenant's policy says of calls.
type decisions struct{ allowed, denied prometheus.Counter }

// decidedBy gives those of a tenant.
func (m *metrics) decidedBy(name string) *decisions {
	return &decisions{
		allowed: m.decisions.WithLabelValues(name, string(tenant.EffectAllow)),
		denied:  m.decisions.WithLabelValues(name, string(tenant.EffectDeny)),
	}
}

// rejected notes that a quota was used up.
func (m *metrics) rejected(tenant, quota string) {
	m.quota.WithLabelValues(tenant, quota).Inc()
}

// forgetTenant drops the series of a tenant that goes, but for its members'.
func (m *metrics) forgetTenant(name string) {
	m.quota.DeletePartialMatch(prometheus.Labels{"tenant": name})
	m.decisions.DeletePartialMatch(prometheus.Labels{"tenant": name})
}

// forget drops the series of a member that goes.
func (m *metrics) forget(mb *member) {
	m.tokens.DeleteLabelValues(mb.domain.name, mb.conf.Alias)
	for k := range kindDiscover {
		m.catalogItems.DeleteLabelValues(mb.domain.name, mb.conf.Alias, k.items())
	}
}
