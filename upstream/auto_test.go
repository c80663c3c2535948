package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// eraScript is a server whose answers to the two questions of a probe are given;
// where it was asked well it can be called.
type eraScript struct {
	discover   func(w http.ResponseWriter, id string)
	initialize func(w http.ResponseWriter, id string)
	mu         sync.Mutex
	methods    []string
}

// ServeHTTP implements http.Handler.
func (s *eraScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.methods = append(s.methods, strings.TrimPrefix(m.Method, "notifications/"))
	s.mu.Unlock()
	switch m.Method {
	case mcp.MethodDiscover:
		s.discover(w, string(m.ID))
	case methodInitialize:
		s.initialize(w, string(m.ID))
	case mcp.MethodToolsCall:
		answerJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// saw gives the methods that were asked so far.
func (s *eraScript) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.methods, " ")
}

// fails answers with a JSON-RPC error; data may be empty.
func fails(status, code int, data string) func(http.ResponseWriter, string) {
	if data != "" {
		data = `,"data":` + data
	}
	return func(w http.ResponseWriter, id string) {
		answerJSON(w, status, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"%s}}`, id, code, data))
	}
}

// says answers with a body as it is.
func says(status int, kind, text string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

func discovers(versions string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, id string) {
		answerJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":%s,"capabilities":{}}}`, id, versions))
	}
}

func shakesHands(w http.ResponseWriter, id string) {
	answerJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, id))
}

// reach connects to a URL, and checks in the end that nothing is left.
func reach(t *testing.T, url string, change ...func(*Config)) Doer {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	conf := Config{Tenant: "acme", Alias: "ledger", URL: url}
	for _, c := range change {
		c(&conf)
	}
	d := Connect(conf, egress.New(egress.Options{}), Deps{Metrics: NewMetrics(prometheus.NewRegistry())})
	if a, ok := d.(*auto); ok {
		a.pause = 0
	}
	t.Cleanup(func() {
		d.(closer).Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return d
}

// readAll is read for any Doer.
func readAll(d Doer, req *Request) (messages []string, err error) {
	answer, err := d.Do(context.Background(), req)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	for {
		m, err := answer.Next()
		if err == io.EOF {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(m.Raw))
	}
}

// Each row is how a server answers the probe, and what it sees of two calls.
func TestProbe(t *testing.T) {
	const (
		modern    = "server/discover tools/call tools/call"
		handshake = "server/discover initialize initialized tools/call tools/call"
		forNow    = "server/discover tools/call server/discover tools/call"
		asksOnly  = "server/discover server/discover"                       // once for each call
		asksTwice = "server/discover server/discover " + asksOnly           // the client tries 5xx again
		refusedBy = "server/discover initialize server/discover initialize" // neither
	)
	old := `{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}`
	tests := []struct {
		name       string
		discover   func(http.ResponseWriter, string)
		initialize func(http.ResponseWriter, string)
		class      Class // of the calls' failure; empty when they succeed
		want       string
	}{
		{"modern", discovers(`["2026-07-28"]`), nil, "", modern},
		{"of both eras", discovers(`["2026-07-28","2025-11-25"]`), shakesHands, "", modern},
		{"older versions only", discovers(`["2025-11-25"]`), shakesHands, "", handshake},
		{"no versions", says(200, "application/json", `{"jsonrpc":"2.0","id":"probe-1","result":{}}`), shakesHands, "", handshake},
		{"refuses the version", fails(400, mcp.CodeUnsupportedProtocol, old), shakesHands, "", handshake},
		{"refuses the version without saying more", fails(400, mcp.CodeUnsupportedProtocol, ""), shakesHands, "", handshake},
		{"refuses parameters", fails(200, mcp.CodeInvalidParams, ""), shakesHands, "", handshake},
		{"refuses parameters with 400", fails(400, mcp.CodeInvalidParams, ""), shakesHands, "", handshake},
		{"no such method", fails(200, mcp.CodeMethodNotFound, ""), shakesHands, "", handshake},
		{"no such method with 404", fails(404, mcp.CodeMethodNotFound, ""), shakesHands, "", handshake},
		{"wants a session", fails(400, -32000, ""), shakesHands, "", handshake},
		{"error with an id of its own", says(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}`), shakesHands, "", handshake},
		{"400", says(400, "text/plain", "no"), shakesHands, "", handshake},
		{"404", says(404, "text/html", "no"), shakesHands, "", handshake},
		{"405", says(405, "text/plain", ""), shakesHands, "", handshake},
		{"406", says(406, "text/plain", ""), shakesHands, "", handshake},
		{"accepted without an answer", says(202, "", ""), shakesHands, "", handshake},
		{"a page", says(200, "text/html", "<html>"), shakesHands, "", handshake},
		{"header mismatch", fails(400, mcp.CodeHeaderMismatch, ""), nil, "", forNow},
		{"missing capability", fails(400, mcp.CodeMissingClientCapability, `{"requiredCapabilities":{}}`), nil, "", forNow},
		{"401", says(401, "text/plain", ""), nil, ClassUnauthorized, asksOnly},
		{"403 with an error", fails(403, -32600, ""), nil, ClassUnauthorized, asksOnly},
		{"429", says(429, "text/plain", ""), nil, ClassStatus, asksOnly},
		{"408", says(408, "text/plain", ""), nil, ClassStatus, asksOnly},
		{"503", says(503, "text/plain", ""), nil, ClassStatus, asksTwice},
		{"500 with an error", fails(500, mcp.CodeInternal, ""), nil, ClassStatus, asksOnly},
		{"initialize fails for now", fails(200, mcp.CodeMethodNotFound, ""), says(503, "text/plain", ""), ClassStatus, "server/discover initialize initialize server/discover initialize initialize"},
		{"initialize is refused", fails(200, mcp.CodeMethodNotFound, ""), fails(200, mcp.CodeMethodNotFound, ""), ClassRejected, refusedBy},
		{"initialize wants a sign-in", fails(400, -32000, ""), says(401, "text/plain", ""), ClassUnauthorized, refusedBy},
		{"neither era, with the status of HTTP+SSE", says(404, "text/plain", ""), says(404, "text/plain", ""), ClassStatus, refusedBy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := &eraScript{discover: tt.discover, initialize: tt.initialize}
			d := reach(t, serve(t, script).URL)
			for range 2 {
				_, err := readAll(d, toolCall())
				if failureClass(err) != tt.class {
					t.Errorf("the call ended with %v, want class %q", err, tt.class)
				}
			}
			if diff := cmp.Diff(tt.want, script.saw()); diff != "" {
				t.Errorf("the server saw (-want +got):\n%s", diff)
			}
		})
	}
}

// A server that cannot be reached is asked again.
func TestProbeWithoutConnection(t *testing.T) {
	gone := serve(t, http.NotFoundHandler())
	gone.Close()
	d := reach(t, gone.URL)
	for range 2 {
		_, err := readAll(d, toolCall())
		wantClass(t, err, ClassConnect, true)
	}
	if d.(*auto).current.Load() != nil {
		t.Error("an era is remembered")
	}
}

// A pinned era is not asked for.
func TestPinnedEra(t *testing.T) {
	tests := []struct {
		era  Era
		want string
	}{
		{EraModern, "tools/call tools/call"},
		{EraHandshake, "initialize initialized tools/call tools/call"},
	}
	for _, tt := range tests {
		t.Run(string(tt.era), func(t *testing.T) {
			script := &eraScript{initialize: shakesHands}
			d := reach(t, serve(t, script).URL, func(c *Config) { c.Era = tt.era })
			for range 2 {
				if _, err := readAll(d, toolCall()); err != nil {
					t.Fatal(err)
				}
			}
			if got := script.saw(); got != tt.want {
				t.Errorf("the server saw %q, want %q", got, tt.want)
			}
		})
	}
}

// Requests that come at the same time ask once.
func TestProbeIsFolded(t *testing.T) {
	const callers = 20
	started, goOn := make(chan struct{}), make(chan struct{})
	script := &eraScript{initialize: shakesHands}
	script.discover = func(w http.ResponseWriter, id string) {
		close(started) // a second time would be one too many
		<-goOn
		fails(400, -32000, "")(w, id)
	}
	d := reach(t, serve(t, script).URL)
	var wg sync.WaitGroup
	var failed atomic.Int32
	call := func(id int) {
		req := toolCall()
		req.ID = strconv.AppendInt(nil, int64(id), 10)
		req.Body.B = bytes.Replace(req.Body.B, []byte(`"id":7`), fmt.Appendf(nil, `"id":%d`, id), 1)
		if _, err := readAll(d, req); err != nil {
			failed.Add(1)
		}
	}
	for id := range callers {
		wg.Go(func() { call(id) })
	}
	<-started
	// Another caller does not wait longer than it wants to.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := d.Do(ctx, toolCall())
	wantClass(t, err, ClassCanceled, false)
	close(goOn)
	wg.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d calls failed", failed.Load())
	}
	seen := strings.Fields(script.saw())
	slices.Sort(seen)
	want := append(slices.Repeat([]string{"tools/call"}, callers), "initialize", "initialized", "server/discover")
	slices.Sort(want)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("the server saw (-want +got):\n%s", diff)
	}
}

// sdkServer makes a server of the official SDK, with one tool.
func sdkServer() *sdk.Server {
	impl := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, nil)
	sdk.AddTool(impl, &sdk.Tool{Name: "transfer"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	return impl
}

// streamable is its handler of one era.
func streamable(impl *sdk.Server, stateless bool) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl }, &sdk.StreamableHTTPOptions{Stateless: stateless})
}

// wantDone calls the tool.
func wantDone(t *testing.T, d Doer) {
	t.Helper()
	req := &Request{Method: mcp.MethodToolsCall, Name: "transfer", HasName: true, ToolName: "transfer", ID: []byte("7"), Body: mcp.GetBuffer(256)}
	req.Body.B = append(req.Body.B, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"transfer","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`...)
	messages, err := readAll(d, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) != 1 || !strings.Contains(messages[0], `"done"`) {
		t.Errorf("the call gave %q", messages)
	}
}

// The official SDK's servers of both eras, and of HTTP+SSE, are told apart.
func TestProbeSDKServers(t *testing.T) {
	impl := sdkServer()
	tests := []struct {
		name    string
		handler http.Handler
		want    way
	}{
		{"stateless", streamable(impl, true), wayModern},
		{"stateful", streamable(impl, false), wayHandshake},
		{"HTTP+SSE", sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return impl }, nil), waySSE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := reach(t, serve(t, tt.handler).URL)
			wantDone(t, d)
			if c := d.(*auto).current.Load(); c == nil || c.way != tt.want {
				t.Errorf("remembered %+v, want %s", c, tt.want)
			}
		})
	}
}

// A server that changes its era is found out, and no call is lost over it.
func TestEraHeals(t *testing.T) {
	impl := sdkServer()
	modern := streamable(impl, true)
	// go-sdk answers older clients without a session too; this server does not.
	modernOnly := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderProtocolVersion) != mcp.VersionModern {
			answerJSON(w, 400, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)
			return
		}
		modern.ServeHTTP(w, r)
	})
	var now atomic.Pointer[http.Handler]
	d := reach(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) })).URL)
	t.Cleanup(func() { // before the check that nothing is left
		for s := range impl.Sessions() {
			s.Close()
		}
	})
	legacySSE := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return impl }, nil)
	steps := []struct {
		handler http.Handler
		want    way
	}{
		{modern, wayModern},
		{streamable(impl, false), wayHandshake},
		{modernOnly, wayModern},
		{streamable(impl, false), wayHandshake},
		{streamable(impl, false), wayHandshake}, // restarted: the session is lost
		{modernOnly, wayModern},
		{legacySSE, waySSE},
	}
	for i, step := range steps {
		now.Store(&step.handler)
		for range 2 {
			wantDone(t, d)
			if c := d.(*auto).current.Load(); c.way != step.want {
				t.Errorf("step %d: remembered %s, want %s", i, c.way, step.want)
			}
		}
	}
}

// A server that refuses requests for reasons of its own is not asked again and
// again.
func TestDoubtIsRare(t *testing.T) {
	script := &eraScript{initialize: shakesHands}
	script.discover = fails(400, -32000, "")
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"tools/call"`)) {
			fails(200, mcp.CodeInvalidParams, "")(w, "7")
			return
		}
		script.ServeHTTP(w, r)
	})
	d := reach(t, serve(t, refuse).URL)
	d.(*auto).pause = doubtPause
	for range 5 {
		messages, err := readAll(d, toolCall())
		if err != nil || len(messages) != 1 || !strings.Contains(messages[0], "-32602") {
			t.Errorf("the call gave %q, %v, want the server's error", messages, err)
		}
	}
	if got, want := script.saw(), "server/discover initialize initialized server/discover"; got != want {
		t.Errorf("the server saw %q, want %q", got, want)
	}
}
