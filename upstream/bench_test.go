package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkDo calls a fake upstream in the same process, so that its allocations
// include the server's; BenchmarkTransport, which sends the same bytes with bare
// net/http, tells how many of them are not ours.
func BenchmarkDo(b *testing.B) {
	for name, h := range benchHandlers() {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewServer(h)
			defer s.Close()
			c := dial(b, s.URL)
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					resp, err := c.Do(context.Background(), toolCall())
					if err != nil {
						b.Error(err)
						return
					}
					for err == nil {
						_, err = resp.Next()
					}
					resp.Close()
					if err != io.EOF {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkTransport(b *testing.B) {
	for name, h := range benchHandlers() {
		b.Run(name, func(b *testing.B) {
			s := httptest.NewServer(h)
			defer s.Close()
			transport := &http.Transport{MaxIdleConnsPerHost: 256}
			defer transport.CloseIdleConnections()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call := toolCall()
					req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.URL, bytes.NewReader(call.Body.B))
					if err != nil {
						b.Error(err)
						return
					}
					resp, err := transport.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		})
	}
}

func benchHandlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"JSON": func(w http.ResponseWriter, r *http.Request) { answerJSON(w, 200, callResult) },
		"SSE":  func(w http.ResponseWriter, r *http.Request) { events(w)(callResult) },
	}
}
