// Package telemetry sets up what the process tells about itself: the log
// handler, the tracer provider and the Prometheus registry, and holds the metrics
// of the HTTP edge. Nothing here is global: lower packages receive a logger, a
// tracer and a registerer. Of ours it imports upstream/mcp only.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime/debug"
)

// Formats of NewLogger.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// NewLogger makes a logger that writes to w what is at or above level. format is
// FormatText or FormatJSON; level is "debug", "info", "warn" or "error". An empty
// format is text, an empty level is info.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{}
	if level != "" {
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("log level %q is not debug, info, warn or error", level)
		}
		opts.Level = l
	}
	switch format {
	case FormatText, "":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log format %q is not text or json", format)
}

// DefaultBuffered bounds the bytes of buffered messages where GOMEMLIMIT is not
// set.
const DefaultBuffered = 256 << 20

// BufferBudget gives how many bytes of messages the process should hold at the
// same time: a quarter of GOMEMLIMIT where that is set, else DefaultBuffered. The
// other three quarters are for what messages become, for the catalogue, the
// cache and the garbage between two collections.
func BufferBudget() int64 {
	limit := debug.SetMemoryLimit(-1) // reads it: negative values change nothing
	if limit == math.MaxInt64 {
		return DefaultBuffered
	}
	return max(limit/4, 1)
}
