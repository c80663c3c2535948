package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

// several are replicas of a gateway in this process.
type several struct {
	tb     testing.TB
	shared *cache.MemoryShared
	lists  *cache.Memory
	ring   *seal.Ring
	change func(*gateway.Options)
	store  *tenant.Memory
}

// replica is one of them.
type replica struct {
	gw   *gateway.Gateway
	url  string // of its root
	once sync.Once
	log  *lines
}

// newSeveral makes replicas, with start, in front of upstreams. change may be nil.
func newSeveral(tb testing.TB, change func(*gateway.Options), upstreams ...tenant.Upstream) *several {
	tb.Helper()
	return &several{
		tb: tb, shared: cache.NewShared(), lists: cache.NewMemory(1 << 20), ring: seal.NewRandom(), change: change,
		store: tenant.NewMemory([]*tenant.Tenant{{Name: "default", Revision: 1, Separator: "_", Upstreams: upstreams}}),
	}
}

// upstreamAt is the registration of an upstream.
func upstreamAt(alias, url string) tenant.Upstream {
	return tenant.Upstream{Alias: alias, URL: url, Version: "1", ManagedBy: tenant.ManagedByFile}
}

// start starts one more replica. It ends with the test.
func (s *several) start() *replica {
	s.tb.Helper()
	r := &replica{log: &lines{tb: s.tb}}
	gw, err := gateway.New(s.options(r))
	if err != nil {
		s.tb.Fatal(err)
	}
	r.gw = gw
	s.tb.Cleanup(func() { r.stop(s.tb) })
	if err := gw.Start(s.tb.Context()); err != nil {
		s.tb.Fatal(err)
	}
	r.url = "http://" + gw.Addr().String()
	return r
}

// options are those of a replica.
func (s *several) options(r *replica) gateway.Options {
	reg := prometheus.NewRegistry()
	o := gateway.DefaultOptions()
	o.Listen, o.AdminListen = "127.0.0.1:0", ""
	o.Registerer, o.Gatherer, o.Ring, o.Store, o.Cache = reg, reg, s.ring, s.store, cache.NewMemory(1<<20)
	o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	o.Cluster = &gateway.Cluster{
		Cluster: federation.Cluster{
			Replica: fmt.Sprintf("replica %p", r), Lists: s.lists, Leases: s.shared, Boards: s.shared, Bus: s.shared,
		},
		Values: s.shared, PeerListen: "127.0.0.1:0", Degraded: func() string { return "" },
	}
	if s.change != nil {
		s.change(&o)
	}
	return o
}

// stop ends the replica in good order.
func (r *replica) stop(tb testing.TB) {
	tb.Helper()
	r.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := r.gw.Stop(ctx); err != nil {
			tb.Errorf("stop a replica: %v", err)
		}
	})
}

// lines is a log.
type lines struct {
	tb testing.TB
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count tells how often a text is in the log.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

var _ io.Writer = (*lines)(nil)

// asker is a handshake server of the Go SDK whose tools ask the user something, in
// the middle of a call.
type asker struct {
	*httptest.Server
	asked, cancelled chan string // names of tools
	proceed          chan struct{}
}

func newAsker(tb testing.TB) *asker {
	tb.Helper()
	a := &asker{asked: make(chan string, 16), cancelled: make(chan string, 16), proceed: make(chan struct{})}
	server := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	// greet tells progress after the answer, one before and one after proceed.
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		answer, err := a.ask(ctx, req, "greet")
		if err != nil {
			return nil, nil, err
		}
		for i := range 2 {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1)})
			if i == 0 {
				select {
				case <-a.proceed:
				case <-ctx.Done():
					a.cancelled <- "greet"
					return nil, nil, ctx.Err()
				}
			}
		}
		return toolText("Hello %v", answer.Content["name"]), nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{PropagateRequestCancellation: true})
	a.Server = httptest.NewServer(handler)
	tb.Cleanup(func() {
		for s := range server.Sessions() {
			s.Close()
		}
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

func (a *asker) ask(ctx context.Context, req *mcp.CallToolRequest, tool string) (*mcp.ElicitResult, error) {
	a.asked <- tool
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
	}})
	if err != nil && ctx.Err() != nil {
		a.cancelled <- tool
	}
	return answer, err
}

// askedMeta is the `_meta` of a client that can be asked, and takes progress.
const askedMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"progressToken":"p"}`

// greeting is the call of the tool greet, with more members of its params.
func greeting(more string) string {
	return `{"jsonrpc":"2.0","id":"q-1","method":"tools/call","params":{"name":"a_greet","arguments":{},` + more + askedMeta + `}}`
}

// retryOf makes the retry of a call that asked something: its members of params.
func retryOf(tb testing.TB, message, answer string) string {
	tb.Helper()
	var responses []string
	for key := range membersOf(tb, memberOf(tb, message, "result", "inputRequests")) {
		responses = append(responses, fmt.Sprintf("%q:%s", key, answer))
	}
	state := memberOf(tb, message, "result", "requestState")
	if len(responses) != 1 || len(state) == 0 {
		tb.Fatalf("%s asks nothing", message)
	}
	return `"inputResponses":{` + responses[0] + `},"requestState":` + string(state) + `,`
}
