package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const refusesPlain = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"needs a task"}}`

// taskServer carries its tool out as a task only, and asks during it.
func taskServer(result func(http.ResponseWriter, scriptedMessage)) *scriptedServer {
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
		switch {
		case m.Method == "tasks/result" && strings.Contains(string(m.Params), `"taskId":"t-1"`):
			result(w, m)
		case m.Method == "tools/call" && strings.Contains(string(m.Params), `"task":{"ttl":600000}`):
			answerJSON(w, 200, m.result(`{"task":{"taskId":"t-1","status":"working"}}`))
		default:
			answerJSON(w, 200, fmt.Sprintf(refusesPlain, m.ID))
		}
	})
	h.capabilities = `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}}`
	return h
}

// A tool that needs a task is called as one, for clients that know nothing of it.
func TestTasksAreDriven(t *testing.T) {
	l, seen := shake(t, taskServer(func(w http.ResponseWriter, m scriptedMessage) {
		send := events(w)
		send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`)
		send(m.result(`{"content":[{"type":"text","text":"built"}]}`))
	}))
	q := modern{method: mcp.MethodToolsCall, name: "build", params: `"arguments":{},`, token: true}
	for _, want := range [][]string{
		{"POST initialize", "POST notifications/initialized", "POST tools/call", "POST tools/call", "POST tasks/result"},
		{"POST tools/call", "POST tasks/result"},
	} {
		r := mustSend(t, l, q)
		if r.text() != "built" || string(r.ID) != "7" || r.Result.ResultType != "complete" || len(r.notes) != 1 {
			t.Errorf("got %s after %q", r.raw, r.notes)
		}
		if got := seen.lines(); !slices.Equal(got, want) {
			t.Errorf("it took %q, want %q", got, want)
		}
	}
}

// What the server asks during a task becomes a question like any other.
func TestTasksAsk(t *testing.T) {
	answered := make(chan string, 1)
	h := taskServer(func(w http.ResponseWriter, m scriptedMessage) {
		send := events(w)
		send(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"m","requestedSchema":{},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t-1"}}}}`)
		send(m.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, <-answered)))
	})
	h.note = func(m scriptedMessage) {
		if m.Method == "" {
			answered <- string(m.Result)
		}
	}
	l, _ := shake(t, h)
	q := modern{method: mcp.MethodToolsCall, name: "build", params: `"arguments":{},`, caps: allCaps}
	r := mustSend(t, l, q.retry(mustSend(t, l, q), `{"action":"decline"}`))
	if r.text() != `{"action":"decline"}` || string(r.ID) != "8" {
		t.Errorf("got %s", r.raw)
	}
}

// A task whose caller gives up is cancelled as a task.
func TestTasksAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled string
		h := taskServer(func(_ http.ResponseWriter, m scriptedMessage) { <-m.request.Context().Done() })
		h.note = func(m scriptedMessage) {
			if m.Method == "tasks/cancel" {
				cancelled = string(m.Params)
			}
		}
		l := inBubbleShake(h)
		r := modern{method: mcp.MethodToolsCall, name: "build"}.request()
		r.Timeout = time.Minute
		_, err := l.Do(t.Context(), r)
		wantClass(t, err, ClassTimeout, false)
		l.Close()
		if cancelled != `{"taskId":"t-1"}` {
			t.Errorf("cancelled %q", cancelled)
		}
	})
}

// A server without that capability just does not know the method.
func TestTasksAreNotGuessed(t *testing.T) {
	h := scripted(func(w http.ResponseWriter, m scriptedMessage) { answerJSON(w, 200, fmt.Sprintf(refusesPlain, m.ID)) })
	l, seen := shake(t, h)
	if r := mustSend(t, l, modern{method: mcp.MethodToolsCall, name: "build"}); r.Error.Code != mcp.CodeMethodNotFound {
		t.Errorf("got %s", r.raw)
	}
	if n := seen.times("POST tools/call"); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A session that is lost while a task runs does not make the call twice.
func TestTasksAreNotRepeated(t *testing.T) {
	l, seen := shake(t, taskServer(func(w http.ResponseWriter, _ scriptedMessage) { w.WriteHeader(http.StatusNotFound) }))
	_, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "build"})
	wantClass(t, err, ClassStatus, false)
	if got, want := seen.times("POST tools/call"), 2; got != want { // one is refused, one begins the task
		t.Errorf("%d calls, want %d", got, want)
	}
}
