package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// sseLinks makes the links to a server over HTTP+SSE, with a leak check.
func sseLinks(t *testing.T, h http.Handler) (*sseServer, *server) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	s := serve(t, h)
	conf := Config{Tenant: "acme", Alias: "ledger", URL: s.URL + "/sse"}
	conf.fill()
	transports, times := egress.New(egress.Options{}), egress.Settings{ConnectTimeout: conf.ConnectTimeout, IdleTimeout: conf.IdleTimeout}
	links := newSSEServer(&conf, transports.Calls(times), transports.Listens(times), Deps{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		links.close()
		waitFor(t, "all connections to be closed", func() bool { return s.open() == 0 })
		s.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return links, s
}

// sseScript is a server over HTTP+SSE that names an endpoint and then does as it is
// told.
func sseScript(endpoint string, posts http.HandlerFunc, told <-chan string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
		http.NewResponseController(w).Flush()
		for {
			select {
			case data, ok := <-told:
				if !ok {
					return
				}
				fmt.Fprintf(w, "event: message\ndata: %s\n\n", data)
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /messages", posts)
	return mux
}

func accept(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

// Messages come and go as they are, apart from white space.
func TestSSELinkKeepsMessages(t *testing.T) {
	told := make(chan string)
	headers := make(chan http.Header, 10)
	links, _ := sseLinks(t, sseScript("/messages?session=1", func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		accept(w, r)
	}, told))
	in := newInbox()
	l, err := links.open(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(context.Background())
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"z":12345678901234567890,"a":"<größer> \u00e9 \ud83d","_meta":{"x/y":1.0}}}`,
		`{"jsonrpc":"2.0","id":"s1","error":{"code":-32602,"message":"no","data":{"big":12345678901234567890}}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[1e400]}}`,
		`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"message":"?"}}`,
	} {
		told <- "no message"
		told <- message
		if got := <-in.messages; got != message {
			t.Errorf("got  %s\nwant %s", got, message)
		}
	}
	header := http.Header{"X-Team": {"blue"}, "Authorization": {"secret"}, "Mcp-Name": {"x"}}
	if err := l.request(t.Context(), []byte(`{"jsonrpc":"2.0","id":8,"method":"ping"}`), linkMeta{header: header}, nil); err != nil {
		t.Fatal(err)
	}
	got := <-headers
	if got.Get("X-Team") != "blue" || got.Get("Authorization") != "" || got.Get("Mcp-Name") != "" || got.Get("User-Agent") != "causeway" || got.Get("Content-Type") != "application/json" {
		t.Errorf("the message was sent with %v", got)
	}
	close(told)
	var link *linkError
	if err := <-in.end; !errors.As(err, &link) || link.fault.Class != ClassInterrupted {
		t.Errorf("gone says %v", err)
	}
	err = l.post(t.Context(), []byte(`{"jsonrpc":"2.0","method":"ping"}`), linkMeta{})
	if !errors.As(err, &link) || !link.fault.unsent {
		t.Errorf("error = %v after the stream's end, want one that says that nothing was sent", err)
	}
}

func TestSSELinkFailures(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	wantFault := func(t *testing.T, err error, class Class, unsent bool) {
		t.Helper()
		var link *linkError
		if !errors.As(err, &link) || link.fault.Class != class || link.fault.unsent != unsent {
			t.Errorf("error = %v, want class %s, unsent %v", err, class, unsent)
		}
	}
	opening := []struct {
		name  string
		h     http.Handler
		class Class
	}{
		{"unauthorized", status(401), ClassUnauthorized},
		{"no such path", status(404), ClassStatus},
		{"unavailable", status(503), ClassStatus},
		{"no stream", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, "{}") }), ClassProtocol},
		{"no endpoint", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { events(w)("{}") }), ClassProtocol},
	}
	for _, tt := range opening {
		t.Run(tt.name, func(t *testing.T) {
			links, _ := sseLinks(t, tt.h)
			_, err := links.open(t.Context(), newInbox(), nil)
			wantFault(t, err, tt.class, false)
		})
	}
	sending := []struct {
		name, endpoint string
		posts          http.HandlerFunc
		class          Class
		unsent         bool
	}{
		{"unauthorized", "/messages", status(403), ClassUnauthorized, false},
		{"no session", "/messages", status(404), ClassStatus, true},
		{"broken", "/messages", status(500), ClassStatus, false},
		{"another server", "http://127.0.0.1:1/messages", accept, ClassProtocol, true},
	}
	for _, tt := range sending {
		t.Run("message: "+tt.name, func(t *testing.T) {
			links, _ := sseLinks(t, sseScript(tt.endpoint, tt.posts, nil))
			l, err := links.open(t.Context(), newInbox(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close(context.Background())
			err = l.post(t.Context(), []byte(`{"jsonrpc":"2.0","method":"ping"}`), linkMeta{})
			wantFault(t, err, tt.class, tt.unsent)
			if got := errors.Is(err, errNoSession); got != (tt.name == "no session") {
				t.Errorf("%v: the session is unknown: %v", err, got)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		links, s := sseLinks(t, status(200))
		s.Close()
		_, err := links.open(t.Context(), newInbox(), nil)
		wantFault(t, err, ClassConnect, true)
	})
}

// A server that says nothing is waited for as long as the context says, also
// before it names its endpoint.
func TestSSELinkGivesUp(t *testing.T) {
	began := make(chan struct{})
	links, _ := sseLinks(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		close(began)
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-began
		cancel(errDeadline)
	}()
	if _, err := links.open(ctx, newInbox(), nil); !errors.Is(err, errDeadline) {
		t.Errorf("error = %v, want the cause of the context", err)
	}
}

// The official SDK's server over the deprecated transport is listed and called.
func TestLegacySSE(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	impl := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	sdk.AddTool(impl, &sdk.Tool{Name: "echo"}, func(ctx context.Context, req *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
	})
	s := httptest.NewServer(sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return impl }, nil))
	l := newLegacySSE(Config{Tenant: "acme", Alias: "ledger", URL: s.URL}, egress.New(egress.Options{}), Deps{Metrics: NewMetrics(prometheus.NewRegistry())})
	defer func() {
		l.Close()
		s.CloseClientConnections()
		s.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	}()
	if got := mustSend(t, l, modern{method: mcp.MethodToolsList}); !strings.Contains(got.raw, `"echo"`) {
		t.Errorf("tools/list gives %s", got.raw)
	}
	got := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"text":"größer"},`, token: true})
	if got.text() != "größer" || len(got.notes) != 1 {
		t.Errorf("the call gives %s after %q", got.raw, got.notes)
	}
}
