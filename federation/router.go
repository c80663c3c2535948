package federation

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Federation serves all tenants of this process.
type Federation struct {
	opts   Options
	log    *slog.Logger
	ring   *seal.Ring
	budget *mcp.Budget
}

// New makes a Federation. Close ends it.
func New(opts Options, ring *seal.Ring, budget *mcp.Budget, tracer trace.Tracer, reg prometheus.Registerer) (*Federation, error) {
	panic("stub")
}

// Handle answers one request (not subscriptions/listen). The error is an
// *mcp.Error, an *upstream.Error, ErrNoEndpoint or that of a cancelled ctx.
func (f *Federation) Handle(ctx context.Context, c *Call) (*Reply, error) { panic("stub") }

// Listen opens a listen stream. Errors are those of Handle.
func (f *Federation) Listen(ctx context.Context, c *Call) (*Subscription, error) { panic("stub") }

// Check gives an error, which is ErrNoEndpoint, when nothing is registered for
// the endpoint.
func (f *Federation) Check(ctx context.Context, e Endpoint) error { panic("stub") }

// Close ends all listen streams gracefully, then all upstream clients.
func (f *Federation) Close(ctx context.Context) error { panic("stub") }
