package upstream

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// fixedLines is a source of lines that are always the same.
type fixedLines struct{ lines http.Header }

func (f *fixedLines) Credential(context.Context) (http.Header, error) { return f.lines, nil }
func (f *fixedLines) Refused(context.Context, http.Header, int, []string) (bool, error) {
	return false, nil
}

func TestCheckLines(t *testing.T) {
	tests := []struct {
		name, value string
		want        string // part of the error; empty for none
	}{
		{"Authorization", "Bearer x", ""},
		{"authorization", "Basic eDp5", ""},
		{"Cookie", "a=b", ""},
		{"X-API-Key", "größer\t1", ""},
		{"User-Agent", "special/1", ""},
		{"Idempotency-Key", "k", ""},
		{"X-Empty", "", ""},
		{"Host", "x", "own"},
		{"host", "x", "own"},
		{"Content-Length", "3", "own"},
		{"content-type", "text/plain", "own"},
		{"Content-Encoding", "gzip", "own"},
		{"Accept", "x", "own"},
		{"Accept-Encoding", "x", "own"},
		{"Mcp-Session-Id", "x", "own"},
		{"mcp-name", "x", "own"},
		{"Mcp-Param-Region", "x", "own"},
		{"MCP-Protocol-Version", "x", "own"},
		{"Last-Event-ID", "x", "own"},
		{"Connection", "close", "own"},
		{"Keep-Alive", "x", "own"},
		{"TE", "x", "own"},
		{"Trailer", "x", "own"},
		{"Transfer-Encoding", "chunked", "own"},
		{"Upgrade", "h2c", "own"},
		{"Proxy-Authorization", "x", "own"},
		{"proxy-connection", "x", "own"},
		{"Expect", "100-continue", "own"},
		{"Range", "bytes=0-", "own"},
		{"traceparent", "x", "own"},
		{"", "x", "malformed name"},
		{"X Key", "x", "malformed name"},
		{"X-Key:", "x", "malformed name"},
		{"X-K\u00e9y", "x", "malformed name"},
		{"X-Key", "hush\r\nHost: x", "malformed value"},
		{"X-Key", "hush\x00", "malformed value"},
		{"X-Key", "hush\x7f", "malformed value"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.want, func(t *testing.T) {
			err := checkLines(http.Header{tt.name: {tt.value}})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error shows the value: %v", err)
			}
		})
	}
}

// A source that wants to set what is not its own has its requests fail, and nothing is
// sent.
func TestBadLinesAreNotSent(t *testing.T) {
	for _, era := range eraServers() {
		t.Run(era.name, func(t *testing.T) {
			d, seen := employ(t, era.make(), era.path, func(c *Config, _ *Deps) { c.BreakerFailures = 1 })
			for range 2 {
				_, err := callAs(t.Context(), d, &fixedLines{http.Header{"Mcp-Session-Id": {"hush"}}})
				wantClass(t, err, ClassUnauthorized, false)
				if !strings.Contains(err.Error(), `"Mcp-Session-Id" is the gateway's own`) || strings.Contains(err.Error(), "hush") {
					t.Errorf("error = %v", err)
				}
			}
			if got := seen.kinds(); got != nil {
				t.Errorf("the server was sent %q", got)
			}
			if _, err := callAs(t.Context(), d, &fixedLines{http.Header{"user-agent": {"special/1"}, "Cookie": {"a=b"}}}); err != nil {
				t.Fatal(err)
			}
			for _, r := range seen.requests() {
				if got := r.header["User-Agent"]; len(got) != 1 || got[0] != "special/1" || r.header.Get("Cookie") != "a=b" {
					t.Errorf("%s came with %v", r.kind, r.header)
				}
			}
		})
	}
}

// logged is what was logged so far.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// What a source gives is in no log, no span and no error, whatever goes wrong.
func TestCredentialsAreNotTold(t *testing.T) {
	broken := map[string]func(h http.Handler, r *http.Request) bool{
		"nothing": func(http.Handler, *http.Request) bool { return false },
		"all":     func(http.Handler, *http.Request) bool { return true },
		"calls":   func(_ http.Handler, r *http.Request) bool { return seenMethod(r, mcp.MethodToolsCall) },
		"streams": func(_ http.Handler, r *http.Request) bool { return r.Method == http.MethodGet },
	}
	for _, era := range eraServers() {
		for what, breaks := range broken {
			for _, status := range []int{0, 401, 403, 500} {
				h := era.make()
				records, log := tracetest.NewSpanRecorder(), &logged{}
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(records))
				d, seen := employ(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case !breaks(h, r):
						h.ServeHTTP(w, r)
					case status == 0:
						panic(http.ErrAbortHandler)
					default:
						w.WriteHeader(status)
					}
				}), era.path, func(_ *Config, deps *Deps) {
					deps.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					deps.Tracer = provider.Tracer("test")
				})
				for _, caps := range []string{"{}", allCaps} {
					_, err := send(t.Context(), withSource{d, &wallet{name: "ann", fresh: 1}}, modern{method: mcp.MethodToolsCall, name: "x", caps: caps})
					if err != nil && strings.Contains(err.Error(), "secret") {
						t.Errorf("%s, %s breaks: error = %v", era.name, what, err)
					}
				}
				d.(closer).Close()
				if len(seen.requests()) == 0 {
					t.Errorf("%s: nothing was sent", era.name)
				}
				for _, span := range records.Ended() {
					for _, a := range span.Attributes() {
						if strings.Contains(a.Value.String(), "secret") {
							t.Errorf("%s, %s breaks: a span has %s", era.name, what, a.Value.String())
						}
					}
				}
				log.mu.Lock()
				if strings.Contains(log.buf.String(), "secret") {
					t.Errorf("%s, %s breaks: logged %s", era.name, what, log.buf.String())
				}
				log.mu.Unlock()
			}
		}
	}
}
