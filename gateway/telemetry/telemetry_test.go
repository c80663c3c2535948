package telemetry

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

func TestNewLogger(t *testing.T) {
	tests := []struct {
		name, format, level string
		want                string // what an info and a debug record become
		wantErr             string
	}{
		{name: "defaults", want: `level=INFO msg=hello`},
		{name: "text", format: "text", level: "debug", want: `level=DEBUG msg=detail`},
		{name: "json", format: "json", level: "info", want: `"level":"INFO","msg":"hello"`},
		{name: "upper case", format: "json", level: "WARN", want: ""},
		{name: "bad format", format: "xml", wantErr: `log format "xml" is not text or json`},
		{name: "bad level", level: "loud", wantErr: `log level "loud" is not debug, info, warn or error`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			log, err := NewLogger(&out, tt.format, tt.level)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			log.Info("hello")
			log.Debug("detail")
			if !strings.Contains(out.String(), tt.want) || tt.want == "" && out.Len() > 0 {
				t.Errorf("got %q, want %q in it", out.String(), tt.want)
			}
		})
	}
}

func TestBufferBudget(t *testing.T) {
	old := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(old)
	tests := []struct {
		name  string
		limit int64
		want  int64
	}{
		{"not set", math.MaxInt64, DefaultBuffered},
		{"a quarter", 2 << 30, 512 << 20},
		{"never none", 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			debug.SetMemoryLimit(tt.limit)
			got := BufferBudget()
			debug.SetMemoryLimit(old)
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTracingIsOffByDefault(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
	}{
		{"nothing set", nil},
		{"SDK disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "True"}},
		{"no exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"} {
				t.Setenv(name, tt.env[name])
			}
			tr, err := NewTracing(t.Context(), "1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			_, span := tr.Provider.Tracer("test").Start(t.Context(), "x")
			if tr.Enabled || span.IsRecording() {
				t.Error("spans are recorded")
			}
			if err := tr.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTracingExports(t *testing.T) {
	got := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/v1/traces" {
			got <- body
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	tr, err := NewTracing(t.Context(), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !tr.Enabled {
		t.Fatal("not enabled")
	}
	_, span := tr.Provider.Tracer("test").Start(context.Background(), "tools/call weather_now", trace.WithSpanKind(trace.SpanKindServer))
	span.End()
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := string(<-got)
	for _, want := range []string{"tools/call weather_now", "causeway", "1.2.3"} {
		if !strings.Contains(body, want) {
			t.Errorf("the exported spans do not hold %q", want)
		}
	}
}
