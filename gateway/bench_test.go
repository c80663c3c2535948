package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/federation"
)

// discard is a response writer that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header              { return d.h }
func (d *discard) WriteHeader(int)                  {}
func (d *discard) Write(p []byte) (int, error)      { return len(p), nil }
func (d *discard) Flush()                           {}
func (d *discard) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkServe tells what the edge adds to net/http for one call.
func BenchmarkServe(b *testing.B) {
	for _, bc := range []struct {
		name   string
		notify int
	}{{"JSON", 0}, {"SSE", 1}} {
		b.Run(bc.name, func(b *testing.B) {
			opts := testOptions()
			g := newGateway(opts, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
				for range bc.notify {
					if err := c.Notify([]byte(progress1)); err != nil {
						return nil, err
					}
				}
				return result(c, `{"resultType":"complete","content":[{"type":"text","text":"12 °C"}]}`), nil
			}}, nil, newTestMetrics(b))
			text := message("tools/call", `"name":"weather_now","arguments":{"city":"Oslo"}`)
			body := strings.NewReader(text)
			r, err := http.NewRequest(http.MethodPost, "http://localhost/mcp", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"weather_now"},
			}
			r.ContentLength = int64(len(text))
			w := &discard{h: http.Header{}}
			mux := publicRoutes(g.edge, nil)
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(text)
				r.Body = reader{body}
				clear(w.h)
				mux.ServeHTTP(w, r)
			}
		})
	}
}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }
