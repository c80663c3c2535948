package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
)

// requestsOf sums causeway_requests_total.
func requestsOf(t *testing.T, reg *prometheus.Registry) (n float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "causeway_requests_total" {
			for _, m := range f.Metric {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// A request that is passed on is one request: counted where it is answered, under one
// id, with one trace through both replicas.
func TestPassedOnIsOneRequest(t *testing.T) {
	shared, ring := cache.NewShared(), seal.NewRandom()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	front, host := clustered(shared, ring), clustered(shared, ring)
	front.Tracer, host.Tracer = tracer, tracer
	ids := make(chan string, 1)
	held := startPeer(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		ids <- c.Header.Get("X-Odd")
		return result(c, `{"resultType":"complete"}`), nil
	}}, host)
	g := startPeer(t, &fakeRouter{handle: func(context.Context, *federation.Call) (*federation.Reply, error) {
		return nil, &federation.Elsewhere{Holder: held.edge.peers.address, Alias: "a"}
	}}, front)
	res := do(t, request(t, "http://"+g.Addr().String()+"/mcp", message("tools/call", `"name":"x","requestState":"s"`), "X-Odd: 1", "X-Request-Id: r-9", "Origin: http://localhost"))
	if got := body(t, res); got != complete || res.StatusCode != 200 || res.Header.Get(headerRequestID) != "r-9" || res.Header.Get(headerPassed) != "" ||
		res.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("%s %v: %s", res.Status, res.Header, got)
	}
	if got := <-ids; got != "1" {
		t.Errorf("header %q", got)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := held.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	at, there := requestsOf(t, front.Registerer.(*prometheus.Registry)), requestsOf(t, host.Registerer.(*prometheus.Registry))
	if at != 0 || there != 1 {
		t.Errorf("%v requests are counted where it arrived, %v where it was answered", at, there)
	}
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() || ended[0].SpanContext().TraceID() != ended[1].SpanContext().TraceID() {
		t.Errorf("the spans are not one trace: %v", ended)
	}
}

// An answer that is one message goes into the stream that was begun before it was
// known who answers.
func TestPassedOnIntoAStream(t *testing.T) {
	shared, ring := cache.NewShared(), seal.NewRandom()
	held := startPeer(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return result(c, `{"resultType":"complete"}`), nil
	}}, clustered(shared, ring))
	proceed := make(chan struct{})
	front := clustered(shared, ring)
	front.Limits.KeepAlive = time.Millisecond
	g := startPeer(t, &fakeRouter{handle: func(context.Context, *federation.Call) (*federation.Reply, error) {
		<-proceed
		return nil, &federation.Elsewhere{Holder: held.edge.peers.address, Alias: "a"}
	}}, front)
	res := do(t, request(t, "http://"+g.Addr().String()+"/mcp", message("tools/call", `"name":"x","requestState":"s"`)))
	next := events(res.Body)
	if e, err := next(); e != ":" || err != nil {
		t.Fatalf("%q, %v", e, err)
	}
	close(proceed)
	for {
		e, err := next()
		if e == ":" {
			continue
		}
		if e != complete || err != nil {
			t.Errorf("%q, %v", e, err)
		}
		return
	}
}

// A replica that takes connections and says nothing is given up.
func TestHolderIsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections for it
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := startPeer(t, &fakeRouter{handle: func(context.Context, *federation.Call) (*federation.Reply, error) {
		return nil, &federation.Elsewhere{Holder: l.Addr().String(), Alias: "a"}
	}}, clustered(cache.NewShared(), seal.NewRandom()))
	res := do(t, request(t, "http://"+g.Addr().String()+"/mcp", message("tools/call", `"name":"x","requestState":"s"`)))
	if got := body(t, res); res.StatusCode != http.StatusOK || !strings.Contains(got, "the call is gone") {
		t.Errorf("%s: %s", res.Status, got)
	}
}
