package telemetry

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// ServiceName names the process in traces where OTEL_SERVICE_NAME does not.
const ServiceName = "causeway"

// Tracing is where spans go.
type Tracing struct {
	// Provider makes tracers; it is one that does nothing unless an exporter is
	// configured.
	Provider trace.TracerProvider
	// Enabled tells whether spans go anywhere.
	Enabled bool

	shutdown func(context.Context) error
}

// NewTracing makes a provider that exports by OTLP over HTTP when the standard
// variables OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT are
// set, and none else; OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none turn
// it off. Headers, sampling, batching and resource attributes come from the
// standard OTEL_* variables too. version is the gateway's own.
//
// It does not connect: an exporter that cannot be reached loses spans and nothing
// else.
func NewTracing(ctx context.Context, version string) (*Tracing, error) {
	if !exporting() {
		return &Tracing{Provider: noop.NewTracerProvider()}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the OTLP exporter: %w", err)
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", ServiceName),
			attribute.String("service.version", version),
		),
		resource.WithFromEnv(), // last: what is set there wins
	)
	if err != nil {
		return nil, fmt.Errorf("describe the process for traces: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	return &Tracing{Provider: p, Enabled: true, shutdown: p.Shutdown}, nil
}

// exporting tells whether the environment asks for an OTLP exporter.
func exporting() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Shutdown sends the spans that wait, within ctx.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.shutdown == nil {
		return nil
	}
	return t.shutdown(ctx)
}
