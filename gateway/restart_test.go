package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const (
	restarts     = 10
	restartCalls = 30                    // between two restarts
	callPause    = 20 * time.Millisecond // 50 calls a second
	callTime     = 30 * time.Millisecond // that one call takes at the server
)

// fragile is a handshake server that is restarted: it forgets its sessions and
// breaks its connections.
type fragile struct {
	t    *testing.T
	addr string
	stop func()

	mu       sync.Mutex
	executed map[int]int // how often each call was carried out
}

// start starts the server, at the address that it had.
func (f *fragile) start() {
	f.t.Helper()
	var ln net.Listener
	var err error
	// The port of the one before may take a moment to be free.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if ln, err = net.Listen("tcp", f.addr); err == nil {
			break
		}
		if time.Now().After(deadline) {
			f.t.Fatal(err)
		}
	}
	f.addr = ln.Addr().String()
	impl := mcp.NewServer(&mcp.Implementation{Name: "fragile", Version: "1"}, nil)
	type args struct {
		N int `json:"n"`
	}
	mcp.AddTool(impl, &mcp.Tool{Name: "count"}, func(ctx context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		f.mu.Lock()
		f.executed[in.N]++
		f.mu.Unlock()
		select {
		case <-time.After(callTime):
		case <-ctx.Done():
		}
		return toolText("number %d", in.N), nil, nil
	})
	srv := &http.Server{
		Handler:           mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return impl }, nil),
		ReadHeaderTimeout: time.Minute,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // it is closed
	}()
	f.stop = func() {
		srv.Close()
		<-done
		for s := range impl.Sessions() {
			s.Close()
		}
	}
}

// span is when something began and ended.
type span struct{ from, to time.Time }

func (s span) overlaps(o span) bool { return !s.to.Before(o.from) && !o.to.Before(s.from) }

// TestUpstreamRestarts restarts a handshake server again and again under load.
// Only calls that are under way may be lost, with an error; what succeeds was
// carried out once, and nothing was carried out twice.
func TestUpstreamRestarts(t *testing.T) {
	f := &fragile{t: t, addr: "127.0.0.1:0", executed: map[int]int{}}
	f.start()
	t.Cleanup(func() { f.stop() })
	gw := gatewaytest.Start(t, gatewaytest.Config(gatewaytest.Upstream{Alias: "fragile", URL: "http://" + f.addr}))
	client, err := matrixConnect(t, gw.URL+"/mcp", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.list(t.Context(), []string{"fragile_count"}); err != nil {
		t.Fatal(err)
	}

	const calls = restartCalls * (restarts + 1)
	ends := make([]span, calls)
	errs := make([]error, calls)
	var down []span
	var wg sync.WaitGroup
	tick := time.NewTicker(callPause)
	defer tick.Stop()
	for n := range calls {
		if n > 0 && n%restartCalls == 0 {
			outage := span{from: time.Now()}
			f.stop()
			f.start()
			outage.to = time.Now()
			down = append(down, outage)
		}
		wg.Go(func() {
			ends[n].from = time.Now()
			errs[n] = client.call(t.Context(), &use{"fragile_count", map[string]any{"n": n}, fmt.Sprintf("number %d", n)})
			ends[n].to = time.Now()
		})
		<-tick.C
	}
	wg.Wait()

	failed := 0
	for n, err := range errs {
		switch count := f.executed[n]; {
		case count > 1:
			t.Errorf("call %d was carried out %d times", n, count)
		case err == nil && count != 1:
			t.Errorf("call %d succeeded and was not carried out", n)
		}
		if err == nil {
			continue
		}
		failed++
		overlaps := false
		for _, outage := range down {
			overlaps = overlaps || ends[n].overlaps(outage)
		}
		if !overlaps {
			t.Errorf("call %d was not under way at a restart and failed: %v", n, err)
		}
	}
	t.Logf("%d of %d calls were lost in %d restarts", failed, calls, restarts)
	select {
	case <-client.changed:
		t.Error("the client was told of a changed list")
	default:
	}
}
