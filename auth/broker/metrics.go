package broker

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what token endpoints are asked.
type metrics struct{ tokens *prometheus.CounterVec }

// Outcomes of a question to a token endpoint.
const (
	outcomeOK      = "ok"
	outcomeRefused = "refused" // the server said why
	outcomeFailed  = "failed"  // no answer, or one that is of no use
)

// grantLabel gives the label of a grant.
func grantLabel(grant string) string {
	switch grant {
	case grantCode, grantRefresh, grantClient:
		return grant
	case grantExchange:
		return "token_exchange"
	}
	return "other"
}

// newMetrics registers the metrics, with all series at zero. It panics when they are
// registered already.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "causeway_credential_tokens_total",
		Help: "Questions to the token endpoints of upstreams' authorization servers, by grant and outcome.",
	}, []string{"grant", "outcome"})}
	for _, grant := range []string{grantCode, grantRefresh, grantClient, grantExchange} {
		for _, outcome := range []string{outcomeOK, outcomeRefused, outcomeFailed} {
			m.tokens.WithLabelValues(grantLabel(grant), outcome)
		}
	}
	reg.MustRegister(m.tokens)
	return m
}

func (m *metrics) count(grant string, err error) {
	outcome := outcomeFailed
	var refused *oauthError
	switch {
	case err == nil:
		outcome = outcomeOK
	case errors.As(err, &refused):
		outcome = outcomeRefused
	}
	m.tokens.WithLabelValues(grantLabel(grant), outcome).Inc()
}
