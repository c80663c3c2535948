package upstream

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// inbox is an incoming that keeps everything.
type inbox struct {
	messages chan string
	end      chan error
}

func newInbox() *inbox { return &inbox{make(chan string, 100), make(chan error, 1)} }

func (b *inbox) message(raw []byte) { b.messages <- string(raw) }
func (b *inbox) gone(err error)     { b.end <- err }

// shakeStdio makes a Legacy of a peer. When the test ends nothing may be left.
func shakeStdio(t *testing.T, how string, change ...func(*Config)) (*Legacy, *lives) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	watch := watchLives(t)
	conf := Config{Tenant: "acme", Alias: "ledger", Process: peerProcess(how, watch.env()), CallTimeout: 20 * time.Second, ConnectTimeout: 10 * time.Second}
	for _, c := range change {
		c(&conf)
	}
	budget := mcp.NewBudget(8 << 20)
	l := newLegacyStdio(conf, Deps{Metrics: NewMetrics(prometheus.NewRegistry()), Budget: budget})
	t.Cleanup(func() {
		l.Close()
		waitFor(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
		if n := budget.Used(); n != 0 {
			t.Errorf("%d bytes of the budget are still held", n)
		}
	})
	return l, watch
}

func TestStdioLink(t *testing.T) {
	conf := Config{Tenant: "acme", Alias: "ledger", Process: peerProcess("banner")}
	p := &stdioProgram{launcher: newLauncher(conf, Deps{}), ending: map[*process]bool{}}
	in := newInbox()
	l, err := p.open(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	opened := false
	if err := l.listen(t.Context(), func() { opened = true }); err != nil || !opened {
		t.Errorf("listen gives %v, opened %v", err, opened)
	}
	// What is an object is for the session to judge.
	if got := <-in.messages; got != `{"neither": "a message"}` {
		t.Errorf("got %s", got)
	}
	if err := l.post(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`), linkMeta{}); err != nil {
		t.Error(err)
	}
	call := "{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"cancelled\"}}"
	if err := l.request(t.Context(), []byte(call), linkMeta{}, nil); err != nil {
		t.Error(err)
	}
	if got := textOf(t, <-in.messages); got != "5" {
		t.Errorf("the peer knows of cancelled requests %q", got)
	}
	l.close(t.Context())
	l.close(t.Context())
	p.close()
	if err := l.post(t.Context(), []byte(`{}`), linkMeta{}); err == nil {
		t.Error("a message was taken after the end")
	}
	select {
	case err := <-in.end:
		t.Errorf("gone was called with %v for a link that was closed", err)
	default:
	}
}

// A session whose process ends by itself learns that.
func TestStdioLinkGone(t *testing.T) {
	p := &stdioProgram{launcher: newLauncher(Config{Process: peerProcess("die")}, Deps{}), ending: map[*process]bool{}}
	in := newInbox()
	l, err := p.open(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-in.end; !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("gone says %v", err)
	}
	l.close(t.Context())
	p.close()
	if p.launcher.failures != 1 {
		t.Errorf("%d failures are known, want 1", p.launcher.failures)
	}
}

// A handshake server over stdio is listed, called and cancelled like any other,
// with one process for each user.
func TestLegacyStdio(t *testing.T) {
	l, _ := shakeStdio(t, "banner")
	pid := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid", principal: "ann"}).text()
	if again := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid", principal: "ann"}).text(); again != pid {
		t.Errorf("a second call of the same user went to process %s, not %s", again, pid)
	}
	if other := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid", principal: "ben"}).text(); other == pid {
		t.Error("two users share a process")
	}
	if got := mustSend(t, l, modern{method: mcp.MethodToolsList, principal: "ann"}); !strings.Contains(got.raw, `"echo"`) {
		t.Errorf("tools/list gives %s", got.raw)
	}
	progress := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "progress", principal: "ann", token: true})
	if len(progress.notes) != 3 || progress.text() != "done" {
		t.Errorf("progress gives %q and %s", progress.notes, progress.raw)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errDone)
	defer cancel()
	if got, err := send(ctx, l, modern{method: mcp.MethodToolsCall, name: "hang", principal: "ann", id: 9}); err == nil {
		t.Errorf("a call that hangs was answered with %s", got.raw)
	}
	waitFor(t, "the peer to know of the cancelled call", func() bool {
		return mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "cancelled", principal: "ann"}).text() == "9"
	})
}

// When the process of a session ends its calls fail, and the next call has another
// process.
func TestLegacyStdioRestart(t *testing.T) {
	l, watch := shakeStdio(t, "")
	pid := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid"}).text()
	end := watch.begin()
	_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "vanish"})
	wantClass(t, err, ClassInterrupted, false)
	end()
	if again := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid"}).text(); again == pid {
		t.Error("the process did not end")
	}
}

func TestLegacyStdioDoesNotStart(t *testing.T) {
	l, _ := shakeStdio(t, "", func(c *Config) { c.Process = &Process{Command: []string{"/no/such/program"}} })
	_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "echo"})
	wantClass(t, err, ClassConnect, true)
}

func TestLegacyStdioTooLarge(t *testing.T) {
	l, _ := shakeStdio(t, "", func(c *Config) { c.MaxMessage = 10_000 })
	for _, tool := range []string{"huge", "hugeLast"} {
		_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: tool})
		wantClass(t, err, ClassTooLarge, false)
	}
	if got := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"a":1},`}).text(); got != `{"a":1}` {
		t.Errorf("the next call gives %q", got)
	}
}

// Closing the client ends all processes, also those that do not want to.
func TestLegacyStdioClose(t *testing.T) {
	l, watch := shakeStdio(t, "stubborn")
	var ends []func()
	for n := range 3 {
		mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "pid", principal: fmt.Sprint(n)})
		ends = append(ends, watch.begin())
	}
	l.Close()
	for _, end := range ends {
		end()
	}
}
