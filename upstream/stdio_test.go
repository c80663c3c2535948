package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// stdio makes a client of a peer. When the test ends the peer, every goroutine
// and all memory must be gone.
func stdio(t *testing.T, how string, change ...func(*Config)) (*Client, *syncBuffer) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	watch := watchLives(t)
	conf := Config{Tenant: "acme", Alias: "ledger", Process: peerProcess(how, watch.env()), CallTimeout: 20 * time.Second, ConnectTimeout: 10 * time.Second}
	for _, c := range change {
		c(&conf)
	}
	log, budget := new(syncBuffer), mcp.NewBudget(8<<20)
	c := NewStdio(conf, Deps{
		Logger:  slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: NewMetrics(prometheus.NewRegistry()),
		Budget:  budget,
	})
	t.Cleanup(func() {
		c.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
		if n := budget.Used(); n != 0 {
			t.Errorf("%d bytes of the budget are still held", n)
		}
	})
	return c, log
}

// numbered makes a request whose id and progress token are n.
func numbered(n int, method, params string) *Request {
	id := fmt.Appendf(nil, "%d", n)
	buf := mcp.GetBuffer(256)
	buf.B = fmt.Appendf(buf.B, "{\"jsonrpc\":\"2.0\",\n\"id\":%s,\"method\":%q,\"params\":{%s\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/logLevel\":\"info\",\"progressToken\":%s}}}", id, method, params, id)
	return &Request{Method: method, ID: id, ProgressToken: id, Body: buf, Listen: method == mcp.MethodListen}
}

func callOf(n int, tool string) *Request {
	return numbered(n, mcp.MethodToolsCall, fmt.Sprintf(`"name":%q,"arguments":{"n":%d},`, tool, n))
}

// call gives the text of a tool's result.
func call(t *testing.T, c *Client, n int, tool string) string {
	t.Helper()
	messages, err := read(t.Context(), c, callOf(n, tool))
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return textOf(t, messages[len(messages)-1])
}

func TestStdioAnswers(t *testing.T) {
	c, log := stdio(t, "banner")
	progressOf := func(token, n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, token, n)
	}
	result := func(id int, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[{"type":"text","text":%q}]}}`, id, text)
	}
	tests := []struct {
		name string
		req  *Request
		want []string
	}{
		{"result", callOf(1, "echo"), []string{result(1, `{"n":1}`)}},
		{"progress", callOf(2, "progress"), []string{progressOf(2, 1), progressOf(2, 2), progressOf(2, 3), result(2, "done")}},
		{"log messages", callOf(3, "log"), []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`, result(3, "done")}},
		{"among garbage", callOf(4, "garbage"), []string{result(4, "done")}},
		{"error", numbered(5, "no/such", ""), []string{`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no such method"}}`}},
		{"error without id", callOf(6, "refuse"), []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(t.Context(), c, tt.req)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("error %v, messages (-want +got):\n%s", err, diff)
			}
		})
	}
	if text := log.String(); strings.Contains(text, "Welcome") || !strings.Contains(text, "not a message") {
		t.Error("what is no message was not logged, or with its content")
	}
	c.Close()
	_, err := read(t.Context(), c, callOf(7, "echo"))
	wantClass(t, err, ClassConnect, true)
}

// The status is what it would be over HTTP.
func TestStdioStatus(t *testing.T) {
	c, _ := stdio(t, "")
	for method, want := range map[string]int{"no/such": 404, mcp.MethodToolsList: 200} {
		a, err := c.Do(t.Context(), numbered(1, method, ""))
		if err != nil {
			t.Fatal(err)
		}
		if a.Status() != want {
			t.Errorf("%s has status %d, want %d", method, a.Status(), want)
		}
		a.Close()
	}
}

// Many requests share one process, and each gets its own answer. Log messages
// that cannot be told apart reach nobody.
func TestStdioShares(t *testing.T) {
	c, _ := stdio(t, "")
	pid := call(t, c, 1, "pid")
	var work sync.WaitGroup
	for n := 2; n < 102; n++ {
		work.Go(func() {
			messages, err := read(context.Background(), c, callOf(n, []string{"echo", "progress"}[n%2]))
			if err != nil {
				t.Error(err)
				return
			}
			for _, m := range messages[:len(messages)-1] {
				if !strings.Contains(m, fmt.Sprintf(`"progressToken":%d,`, n)) {
					t.Errorf("request %d got %s", n, m)
				}
			}
			if last := messages[len(messages)-1]; !strings.Contains(last, fmt.Sprintf(`"id":%d,`, n)) {
				t.Errorf("request %d got %s", n, last)
			}
		})
	}
	work.Wait()
	if again := call(t, c, 102, "pid"); again != pid {
		t.Errorf("process %s followed %s", again, pid)
	}
}

// hang starts a call that is not answered. It returns when the peer knows of it.
func hang(t *testing.T, ctx context.Context, c *Client, n int) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := read(ctx, c, callOf(n, "hang"))
		done <- err
	}()
	waitFor(t, "the request to be written", func() bool {
		p := c.calls.(*stdioPool)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.conn == nil {
			return false
		}
		p.conn.mu.Lock()
		defer p.conn.mu.Unlock()
		x := p.conn.calls[fmt.Sprint(n)]
		if x == nil || x.line == nil {
			return false
		}
		select {
		case <-x.line.written:
			return true
		default:
			return false
		}
	})
	return done
}

// Cancelling a request tells the server, and the others go on.
func TestStdioCancel(t *testing.T) {
	c, _ := stdio(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	first := hang(t, ctx, c, 1)
	other, stop := context.WithCancel(t.Context())
	second := hang(t, other, c, 2)
	cancel()
	wantClass(t, <-first, ClassCanceled, false)
	if got := call(t, c, 3, "cancelled"); got != "1" {
		t.Errorf("cancelled requests are %q, want 1", got)
	}
	stop()
	wantClass(t, <-second, ClassCanceled, false)
	if got := call(t, c, 4, "cancelled"); got != "1 2" {
		t.Errorf("cancelled requests are %q, want 1 2", got)
	}
}

// A deadline cancels, too. What may still come of the call reaches nobody else.
func TestStdioTimeout(t *testing.T) {
	c, _ := stdio(t, "")
	call(t, c, 4, "echo") // the process runs
	req := callOf(1, "hang")
	req.Timeout = time.Second
	_, err := read(t.Context(), c, req)
	wantClass(t, err, ClassTimeout, false)
	messages, err := read(t.Context(), c, callOf(2, "log"))
	if err != nil || len(messages) != 1 {
		t.Errorf("%q (%v): a log message that may be of another call was given", messages, err)
	}
	if got := call(t, c, 3, "cancelled"); got != "1" {
		t.Errorf("cancelled requests are %q, want 1", got)
	}
}

// When the process ends all requests fail, and the next one starts it again.
func TestStdioRestart(t *testing.T) {
	c, log := stdio(t, "")
	pid := call(t, c, 1, "pid")
	second := hang(t, t.Context(), c, 2)
	messages, err := read(t.Context(), c, callOf(3, "exit"))
	wantClass(t, err, ClassInterrupted, false)
	if len(messages) != 1 {
		t.Errorf("got %q, want what came before the end", messages)
	}
	wantClass(t, <-second, ClassInterrupted, false)
	if again := call(t, c, 4, "pid"); again == pid {
		t.Error("the process did not end")
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "exit status 3") {
		t.Errorf("the log does not say how it ended:\n%s", text)
	}
}

// A request that only reads is sent to the next process by the gateway itself.
func TestStdioRepeats(t *testing.T) {
	c, _ := stdio(t, "")
	call(t, c, 1, "echo")
	p := c.calls.(*stdioPool)
	p.mu.Lock()
	old := p.conn.process
	p.mu.Unlock()
	killGroup(old.cmd.Process)
	if _, err := read(t.Context(), c, numbered(2, mcp.MethodToolsList, "")); err != nil {
		t.Error(err)
	}
	<-old.done
}

// A program that cannot be started, or that ends at once, is no connection.
func TestStdioDoesNotStart(t *testing.T) {
	c, _ := stdio(t, "", func(conf *Config) { conf.Process = &Process{Command: []string{"/no/such/program"}} })
	_, err := read(t.Context(), c, callOf(1, "echo"))
	wantClass(t, err, ClassConnect, true)
}

func TestStdioTooLarge(t *testing.T) {
	c, _ := stdio(t, "", func(conf *Config) { conf.MaxMessage = 10_000 })
	for i, tool := range []string{"huge", "hugeLast"} {
		_, err := read(t.Context(), c, callOf(1+i, tool))
		wantClass(t, err, ClassTooLarge, false)
	}
	if got := call(t, c, 3, "echo"); got != `{"n":3}` {
		t.Errorf("the next call gives %q", got)
	}
}

func TestStdioListen(t *testing.T) {
	c, _ := stdio(t, "")
	next := func(a Answer) string {
		t.Helper()
		m, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == mcp.KindResult {
			return "result"
		}
		return m.Method
	}
	listen := func(n int) Answer {
		t.Helper()
		a, err := c.Do(t.Context(), numbered(n, mcp.MethodListen, `"notifications":{"toolsListChanged":true},`))
		if err != nil {
			t.Fatal(err)
		}
		if got := next(a); got != mcp.NotificationAcknowledged {
			t.Errorf("the stream begins with %s", got)
		}
		return a
	}
	first, second := listen(1), listen(2)
	call(t, c, 3, "change")
	for _, a := range []Answer{first, second} {
		if got := next(a); got != mcp.NotificationToolsChanged {
			t.Errorf("got %s, want a change", got)
		}
	}
	second.Close()
	if got := call(t, c, 4, "cancelled"); got != "2" {
		t.Errorf("cancelled requests are %q, want 2", got)
	}
	call(t, c, 5, "close")
	if got := next(first); got != "result" {
		t.Errorf("got %s, want the result", got)
	}
	if _, err := first.Next(); err != io.EOF {
		t.Errorf("error = %v after the result", err)
	}
	first.Close()
	third := listen(6)
	call(t, c, 7, "teardown")
	if got := next(third); got != mcp.NotificationCancelled {
		t.Errorf("got %s, want that the stream is cancelled", got)
	}
	_, err := third.Next()
	wantClass(t, err, ClassInterrupted, false)
	third.Close()
	fourth := listen(8)
	read(t.Context(), c, callOf(9, "vanish"))
	_, err = fourth.Next()
	wantClass(t, err, ClassInterrupted, false)
	fourth.Close()
}

// Closing the client waits for the process, and with a request under way that one
// is still answered.
func TestStdioClose(t *testing.T) {
	c, _ := stdio(t, "")
	a, err := c.Do(t.Context(), callOf(1, "progress"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	last := ""
	for {
		m, err := a.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = string(m.Raw)
	}
	if textOf(t, last) != "done" {
		t.Errorf("the last message is %s", last)
	}
	p := c.calls.(*stdioPool)
	a.Close()
	<-p.conn.process.done
}

// One who does not read does not keep the others from their answers.
func TestStdioSlowReader(t *testing.T) {
	c, _ := stdio(t, "")
	slow, err := c.Do(t.Context(), numbered(1, mcp.MethodListen, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	for n := range maxQueued + 2 {
		call(t, c, n+2, "change")
	}
	for {
		if _, err := slow.Next(); err != nil {
			wantClass(t, err, ClassInterrupted, false)
			return
		}
	}
}

// Progress that nobody reads in time is left out, the result is not.
func TestStdioBurst(t *testing.T) {
	c, log := stdio(t, "")
	a, err := c.Do(t.Context(), callOf(1, "burst"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	call(t, c, 2, "echo") // all of the other answer has come by then
	n, last := 0, ""
	for {
		m, err := a.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n, last = n+1, string(m.Raw)
	}
	if n <= maxQueued || n > maxQueued+10 || textOf(t, last) != "done" {
		t.Errorf("%d messages, the last one %s", n, last)
	}
	if !strings.Contains(log.String(), "dropped=") {
		t.Error("the log does not say that notifications were dropped")
	}
}

// A log message that may belong to one of several calls reaches none of them.
func TestStdioLogsOfSeveral(t *testing.T) {
	c, _ := stdio(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	other := hang(t, ctx, c, 1)
	if messages, err := read(t.Context(), c, callOf(2, "log")); err != nil || len(messages) != 1 {
		t.Errorf("got %q (%v), want the result only", messages, err)
	}
	_, err := read(t.Context(), c, callOf(1, "echo"))
	wantClass(t, err, ClassConnect, false) // the id is in use
	cancel()
	wantClass(t, <-other, ClassCanceled, false)
}
