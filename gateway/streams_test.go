package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
	"github.com/causeway-mcp/causeway/upstream/sse"
)

// hub is a fake federation's listen streams.
type hub struct {
	mu     sync.Mutex
	open   map[*federation.Queue]context.Context
	opened chan struct{}
	closed chan struct{}
}

func newHub() *hub {
	return &hub{open: map[*federation.Queue]context.Context{}, opened: make(chan struct{}, 1000), closed: make(chan struct{}, 1000)}
}

func (h *hub) listen(ctx context.Context, c *federation.Call) (*federation.Subscription, error) {
	if c.Endpoint.Tenant == "acme" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no")
	}
	queue := federation.NewQueue(8)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[queue] = ctx //nolint:fatcontext // one context for each stream, none around another
	h.opened <- struct{}{}
	return federation.NewSubscription([]byte(`{"ack":1}`), queue, []byte(`{"end":1}`), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.open[queue]; ok {
			delete(h.open, queue)
			h.closed <- struct{}{}
		}
	}), nil
}

// publish sends a message to all streams.
func (h *hub) publish(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for queue := range h.open {
		queue.Push([]byte(text))
	}
}

// goroutines waits until no more than n goroutines run, and tells whether that
// came about.
func goroutines(n int) bool {
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > n {
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// TestStreamsDoNotLeak opens many streams, ends them in each way there is, and
// looks for what is left.
func TestStreamsDoNotLeak(t *testing.T) {
	const n = 200
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, end := range []string{"client", "shutdown"} {
			t.Run(proto+", ended by "+end, func(t *testing.T) {
				client := &http.Client{Transport: &http.Transport{}}
				if proto == "HTTP/2.0" {
					client = http2Client(t)
				}
				h := newHub()
				reg := prometheus.NewRegistry()
				g, url := start(t, &fakeRouter{listen: h.listen}, func(o *Options) { o.Registerer = reg })
				before := runtime.NumGoroutine()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var told, ended sync.WaitGroup
				told.Add(n)
				for range n {
					res, err := client.Do(request(t, url+"/mcp", listenMessage()).WithContext(ctx))
					if err != nil {
						t.Fatal(err)
					}
					if res.Proto != proto || res.Header.Get("Content-Type") != typeSSE {
						t.Fatalf("%s %s: %v", res.Proto, res.Status, res.Header)
					}
					next := events(res.Body)
					if e, err := next(); e != `{"ack":1}` {
						t.Fatalf("first event %q, %v", e, err)
					}
					ended.Go(func() {
						defer res.Body.Close()
						if e, err := next(); e != `{"m":1}` {
							t.Errorf("message %q, %v", e, err)
						}
						told.Done()
						e, err := next()
						if end == "shutdown" && (e != `{"end":1}` || err != nil) {
							t.Errorf("end %q, %v", e, err)
						}
						if _, err := next(); end == "shutdown" && err != io.EOF {
							t.Errorf("after the end: %v", err)
						}
					})
				}
				h.publish(`{"m":1}`)
				told.Wait()
				if got := openStreams(t, reg); got != n {
					t.Errorf("causeway_listen_streams is %v, want %d", got, n)
				}
				if end == "client" {
					cancel()
				} else if err := g.edge.streams.drain(t.Context()); err != nil {
					t.Error(err)
				}
				for range n {
					<-h.closed
				}
				ended.Wait()
				client.CloseIdleConnections()
				if !goroutines(before) {
					buf := make([]byte, 1<<16)
					t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				}
				if got := openStreams(t, reg); got != 0 {
					t.Errorf("causeway_listen_streams is %v, want 0", got)
				}
			})
		}
	}
}

// openStreams reads causeway_listen_streams.
func openStreams(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "causeway_listen_streams" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

func TestStreamBounds(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Limits)
	}{
		{"of the process", func(l *Limits) { l.Streams = 2 }},
		{"of a principal", func(l *Limits) { l.StreamsPerPrincipal = 2 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHub()
			_, url := start(t, &fakeRouter{listen: h.listen}, func(o *Options) { tt.change(&o.Limits) })
			// One that the federation refuses takes no place.
			for range 3 {
				if e := decodeError(t, body(t, do(t, request(t, url+"/t/acme/mcp", listenMessage())))); e.Error.Code != -32602 {
					t.Errorf("code %d", e.Error.Code)
				}
			}
			first := do(t, request(t, url+"/mcp", listenMessage()))
			do(t, request(t, url+"/mcp", listenMessage()))
			res := do(t, request(t, url+"/mcp", listenMessage()))
			e := decodeError(t, body(t, res))
			if res.StatusCode != 200 || e.Error.Code != federation.CodeOverQuota || res.Header.Get("Retry-After") != "1" || string(e.Error.Data) != `{"retryAfterMs":1000}` {
				t.Errorf("status %d, %+v", res.StatusCode, e)
			}
			// A place that is given back can be taken again.
			_ = first.Body.Close()
			<-h.closed
			for {
				res := do(t, request(t, url+"/mcp", listenMessage()))
				if res.Header.Get("Content-Type") == typeSSE {
					break // the place is given back a moment after the subscription
				}
			}
		})
	}
}

func TestListenWhileDraining(t *testing.T) {
	h := newHub()
	g, url := start(t, &fakeRouter{listen: h.listen}, nil)
	if err := g.edge.streams.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := do(t, request(t, url+"/mcp", listenMessage()))
	if e := decodeError(t, body(t, res)); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || e.Error.Code != -32603 {
		t.Errorf("status %d, code %d", res.StatusCode, e.Error.Code)
	}
}

// TestListenOutlivesItsRequest holds that the context which the federation gets
// ends with the stream and not with the handler.
func TestListenOutlivesItsRequest(t *testing.T) {
	h := newHub()
	_, url := start(t, &fakeRouter{listen: h.listen}, nil)
	res := do(t, request(t, url+"/mcp", listenMessage()))
	next := events(res.Body)
	if _, err := next(); err != nil {
		t.Fatal(err)
	}
	h.publish(`{"m":1}`)
	if e, err := next(); e != `{"m":1}` {
		t.Fatalf("%q, %v", e, err)
	}
	h.mu.Lock()
	var ctx context.Context
	for _, ctx = range h.open {
	}
	h.mu.Unlock()
	if ctx.Err() != nil {
		t.Error("the stream's context has ended")
	}
	_ = res.Body.Close()
	<-ctx.Done()
}

// TestListenWireFormat holds the head and the framing that we write ourselves.
func TestListenWireFormat(t *testing.T) {
	h := newHub()
	g, url := start(t, &fakeRouter{listen: h.listen}, nil)
	conn, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var text strings.Builder
	if err := request(t, url+"/mcp", listenMessage(), "X-Request-Id: r1").Write(&text); err != nil {
		t.Fatal(err)
	}
	// What a client sends after its request is not answered.
	if _, err := io.WriteString(conn, text.String()+"\r\nGET /livez HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-h.opened
	if err := g.edge.streams.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "\r\n\r\n")
	var lines []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") {
			lines = append(lines, line)
		}
	}
	want := []string{
		"HTTP/1.1 200 OK", "Cache-Control: no-cache", "Connection: close", "Content-Type: text/event-stream",
		"Transfer-Encoding: chunked", "X-Accel-Buffering: no", "X-Content-Type-Options: nosniff", "X-Request-Id: r1",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	event := func(data string) string {
		framed := sse.AppendEvent(nil, []byte(data))
		return fmt.Sprintf("%x\r\n%s\r\n", len(framed), framed)
	}
	if diff := cmp.Diff(event(`{"ack":1}`)+event(`{"end":1}`)+"0\r\n\r\n", rest); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestListenPanicGivesThePlaceBack(t *testing.T) {
	reg := prometheus.NewRegistry()
	g, url := start(t, &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
		panic("bug")
	}}, func(o *Options) { o.Registerer = reg })
	if res := do(t, request(t, url+"/mcp", listenMessage())); res.StatusCode != 500 {
		t.Errorf("status %d", res.StatusCode)
	}
	if n := len(g.edge.streams.live); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

func TestListenIsCountedOnce(t *testing.T) {
	h := newHub()
	reg := prometheus.NewRegistry()
	g, url := start(t, &fakeRouter{listen: h.listen}, func(o *Options) { o.Registerer = reg })
	res := do(t, request(t, url+"/mcp", listenMessage()))
	if _, err := events(res.Body)(); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP causeway_requests_total Requests by what answered them and how: error_type is empty for success, a JSON-RPC code, tool_error or a transport class.
# TYPE causeway_requests_total counter
causeway_requests_total{error_type="",mcp_method_name="subscriptions/listen",tenant="default",upstream=""} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "causeway_requests_total"); err != nil {
		t.Error(err)
	}
}

// BenchmarkListenStream tells what one open stream costs in memory, of both
// sides' the gateway's alone.
func BenchmarkListenStream(b *testing.B) {
	s := newStreams(DefaultOptions().Limits, newTestMetrics(b), testOptions().Logger)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	e := newEdge()
	e.router = &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
		return federation.NewSubscription([]byte(`{"ack":1}`), federation.NewQueue(64), []byte(`{"end":1}`), func() {}), nil
	}}
	opts := testOptions()
	opts.Limits.Streams, opts.Limits.StreamsPerPrincipal = 1<<20, 1<<20
	s.limits = opts.Limits
	e.limits, e.metrics, e.log, e.guard, e.streams = opts.Limits, s.metrics, opts.Logger, newGuard(true, "", nil), s
	e.open = true
	server := &http.Server{Handler: publicRoutes(e, nil)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	var text strings.Builder
	req, err := http.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(listenMessage()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", typeJSON)
	req.Header.Set("Mcp-Protocol-Version", mcp.VersionModern)
	req.Header.Set("Mcp-Method", mcp.MethodListen)
	if err := req.Write(&text); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var conns []net.Conn
	buf := make([]byte, 4096)
	for b.Loop() {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := io.WriteString(conn, text.String()); err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perStream := func(a, b uint64) float64 { return float64(int64(b)-int64(a)) / float64(len(conns)) }
	b.ReportMetric(perStream(before.HeapAlloc, after.HeapAlloc), "heap-B/stream")
	b.ReportMetric(perStream(before.StackInuse, after.StackInuse), "stack-B/stream")
	for _, conn := range conns {
		_ = conn.Close()
	}
	if err := s.drain(context.Background()); err != nil {
		b.Error(err)
	}
	_ = server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		b.Error(err)
	}
}
