package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// A server that is restarted again and again during a load loses calls in flight
// only: each of those fails with an error, and none succeeds falsely. A list is
// never lost while the server is there.
func TestRestartsUnderLoad(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	address := "127.0.0.1:0"
	var carriedOut atomic.Int64
	boot := func() *http.Server {
		h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
			if m.Method == mcp.MethodToolsCall {
				carriedOut.Add(1)
			}
			done(w, m)
		})
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = ln.Addr().String()
		s := &http.Server{Handler: h}
		go func() { _ = s.Serve(ln) }() // ends with Close
		return s
	}
	server := boot()
	l := NewLegacyHTTP(Config{Tenant: "acme", Alias: "ledger", URL: "http://" + address, BreakerFailures: 1000},
		egress.New(egress.Options{}), Deps{Metrics: NewMetrics(prometheus.NewRegistry())})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var ids, succeeded, failed atomic.Int64
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := send(context.Background(), l, modern{method: mcp.MethodToolsCall, name: "x", id: int(100 + ids.Add(1))})
				var e *Error
				switch {
				case err == nil && r.Result.ResultType == "complete" && r.text() != "":
					succeeded.Add(1)
				case errors.As(err, &e) && (e.Class == ClassConnect || e.Class == ClassInterrupted || e.Class == ClassStatus):
					// ClassStatus: the server was restarted again before the call was
					// sent in the session that took the place of the first, as in
					// TestSessionIsLostTwice.
					failed.Add(1)
				default:
					t.Errorf("got %v: %v", r, err)
				}
			}
		})
	}
	for range 10 {
		n := succeeded.Load()
		waitFor(t, "calls to succeed again", func() bool { return succeeded.Load() > n+20 })
		server.Close()
		server = boot()
	}
	n := succeeded.Load()
	waitFor(t, "calls to succeed at the end", func() bool { return succeeded.Load() > n+20 })
	stop()
	wg.Wait()
	if succeeded.Load() > carriedOut.Load() {
		t.Errorf("%d calls succeeded, but %d were carried out", succeeded.Load(), carriedOut.Load())
	}
	t.Logf("%d succeeded, %d failed", succeeded.Load(), failed.Load())
	if _, err := send(t.Context(), l, modern{method: mcp.MethodToolsList}); err != nil {
		t.Error(err)
	}
	l.Close()
	server.Close()
	waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
}
