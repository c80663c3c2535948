package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Every test that uses connect is also a leak check: when it ends, no connection
// to its server and no goroutine that it started may be left.

const callResult = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}`

// server is a fake upstream that knows its open connections.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
}

func serve(t *testing.T, h http.Handler, change ...func(*httptest.Server)) *server {
	t.Helper()
	s := &server{conns: map[net.Conn]http.ConnState{}}
	s.Server = httptest.NewUnstartedServer(h)
	for _, c := range change {
		c(s.Server)
	}
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns[c] = state
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// opened is how many connections there have been.
func (s *server) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// open is how many connections there are.
func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, state := range s.conns {
		if state != http.StateClosed && state != http.StateHijacked {
			n++
		}
	}
	return n
}

// connect makes a client of a fake upstream.
func connect(t *testing.T, h http.HandlerFunc, change ...func(*Config)) (*Client, *server) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	s := serve(t, h)
	c := dial(t, s.URL, change...)
	t.Cleanup(func() {
		c.Close()
		waitFor(t, "all connections to be closed", func() bool { return s.open() == 0 })
		s.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	})
	return c, s
}

// dial makes a client of a URL, with metrics on.
func dial(t testing.TB, url string, change ...func(*Config)) *Client {
	t.Helper()
	conf := Config{Tenant: "acme", Alias: "ledger", URL: url}
	for _, c := range change {
		c(&conf)
	}
	c := New(conf, egress.New(egress.Options{}), Deps{Metrics: NewMetrics(prometheus.NewRegistry())})
	t.Cleanup(c.Close)
	return c
}

// waitFor waits until a condition holds, and fails the test when it takes too long.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			buf := make([]byte, 1<<20)
			t.Errorf("waited in vain for %s\n%s", what, buf[:runtime.Stack(buf, true)])
			return
		}
	}
}

// request makes a request with id 7 and progress token "p".
func request(method string) *Request {
	buf := mcp.GetBuffer(256)
	buf.B = fmt.Appendf(buf.B, `{"jsonrpc":"2.0","id":7,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`, method)
	return &Request{Method: method, ID: []byte("7"), ProgressToken: []byte(`"p"`), Body: buf}
}

func toolCall() *Request {
	r := request(mcp.MethodToolsCall)
	r.Name, r.HasName, r.ToolName = "transfer", true, "transfer"
	return r
}

// read gives all messages of a request and the error that ended it; nil for the
// regular end.
func read(ctx context.Context, c *Client, req *Request) (messages []string, err error) {
	resp, err := c.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	for {
		m, err := resp.Next()
		if err == io.EOF {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(m.Raw))
	}
}

// wantClass checks the class of a failure and whether it is retryable.
func wantClass(t *testing.T, err error, class Class, retryable bool) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want an *Error of class %s", err, class)
	}
	if e.Class != class || e.Retryable != retryable || e.Alias != "ledger" {
		t.Errorf("error = %v (retryable %v), want class %s, retryable %v", e, e.Retryable, class, retryable)
	}
}

func answerJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// events starts a stream; the returned function sends one event at once.
func events(w http.ResponseWriter) func(data string) {
	w.Header().Set("Content-Type", "text/event-stream")
	return func(data string) {
		io.WriteString(w, "event: message\ndata: "+strings.ReplaceAll(data, "\n", "\ndata: ")+"\n\n")
		http.NewResponseController(w).Flush()
	}
}

func progress(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}`, n)
}
