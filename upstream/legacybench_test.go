package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// BenchmarkLegacy calls a handshake server in a session that is there; compare it
// with BenchmarkDo.
func BenchmarkLegacy(b *testing.B) {
	handshakes := scripted(done)
	for name, write := range map[string]func(http.ResponseWriter, string){
		"JSON": func(w http.ResponseWriter, body string) { answerJSON(w, 200, body) },
		"SSE":  func(w http.ResponseWriter, body string) { events(w)(body) },
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// As cheap as the server of BenchmarkDo.
			body, _ := io.ReadAll(r.Body)
			id, isCall := bytes.CutPrefix(body, []byte(`{"jsonrpc":"2.0","id":`))
			if n := bytes.IndexByte(id, ','); isCall && bytes.HasPrefix(id[n:], []byte(`,"method":"tools/call"`)) {
				write(w, `{"jsonrpc":"2.0","id":`+string(id[:n])+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			handshakes.ServeHTTP(w, r)
		})
		b.Run(name, func(b *testing.B) {
			s := httptest.NewServer(h)
			defer s.Close()
			l := NewLegacyHTTP(Config{Tenant: "acme", Alias: "ledger", URL: s.URL}, egress.New(egress.Options{}), Deps{})
			defer l.Close()
			var ids atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req := toolCall()
					id := ids.Add(1)
					req.ID = fmt.Append(nil, id)
					req.Body.B = fmt.Appendf(req.Body.B[:0], `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":%d}}}`, id, id)
					a, err := l.Do(context.Background(), req)
					if err != nil {
						b.Error(err)
						return
					}
					for err == nil {
						var m *mcp.Message
						if m, err = a.Next(); err == nil && m.Kind == mcp.KindError {
							b.Errorf("got %s", m.Raw)
						}
					}
					a.Close()
					if err != io.EOF {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
