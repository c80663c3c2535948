package upstream

import (
	"slices"
	"strconv"
	"sync"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// taskStage tells how far a call is that the server carries out as a task of
// 2025-11-25 (basic/utilities/tasks). Clients know nothing of those: the gateway
// begins the task and waits for its result in their place.
type taskStage uint8

const (
	noTask taskStage = iota
	taskBegins
	taskRuns
)

// maxTaskTools bounds the tools that are remembered to need a task.
const maxTaskTools = 1000

// taskTools remembers the tools that a server refuses to carry out but as tasks.
type taskTools struct {
	mu    sync.Mutex
	names map[string]bool
}

func (t *taskTools) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[name]
}

func (t *taskTools) set(name string, needs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !needs:
		delete(t.names, name)
	case t.names == nil || len(t.names) >= maxTaskTools:
		t.names = map[string]bool{name: true}
	default:
		t.names[name] = true
	}
}

// taskStep looks whether a response only leads to the next step of a task, and
// takes that. A tool that needs a task is known by its refusal of a plain call:
// -32601, where the server has the capability (basic/utilities/tasks, Tool-Level
// Negotiation, 2.3). Nothing was carried out then.
func (a *legacyAnswer) taskStep(m *mcp.Message) (more bool) {
	l, s := a.legacy, a.flight.session
	refused := m.Kind == mcp.KindError && m.Code == mcp.CodeMethodNotFound
	switch {
	case a.req.Method != mcp.MethodToolsCall || a.body == nil || !s.offers.tasks:
	case a.task == noTask && refused:
		l.taskTools.set(a.req.Name, true)
		l.hold(s)
		a.beginTask(s)
		return true
	case a.task == taskBegins && refused:
		l.taskTools.set(a.req.Name, false)
	case a.task == taskBegins:
		id := mcp.Find(m.Raw, mcp.Find(m.Raw, m.Result, "task"), "taskId")
		if _, ok := mcp.String(m.Raw, id); !ok {
			break // it is the result of the call itself, or an error
		}
		a.task = taskRuns
		l.hold(s)
		a.awaitTask(s, slices.Clone(id.In(m.Raw)))
		return true
	}
	return false
}

// beginTask sends the call once more as a task, on a session that is held.
func (a *legacyAnswer) beginTask(s *session) {
	a.task = taskBegins
	f := a.taskFlight()
	whole := mcp.Span{Start: 0, End: len(a.body)}
	params := mcp.Find(a.body, whole, "params")
	ttl := strconv.AppendInt([]byte(`{"ttl":`), a.legacy.conf.CallMax.Milliseconds(), 10)
	var edits mcp.Edits
	edits.SetMember(a.body, whole, "id", f.id)
	edits.SetMember(a.body, params, "task", append(ttl, '}'))
	a.flight = f
	s.start(a.ctx, f, edits.AppendTo(nil, a.body), a.req.Header)
}

// awaitTask asks for the result of the task, which comes when the task has ended,
// and what belongs to the task before it.
func (a *legacyAnswer) awaitTask(s *session, task []byte) {
	f := a.taskFlight()
	f.task = task
	body := append([]byte(`{"jsonrpc":"2.0","id":`), f.id...)
	body = append(append(body, `,"method":"tasks/result","params":{"taskId":`...), task...)
	a.flight = f
	s.start(a.ctx, f, append(body, "}}"...), a.req.Header)
}

// taskFlight makes a flight for a further step of the call: what the server sends
// during it belongs to the call.
func (a *legacyAnswer) taskFlight() *flight {
	if a.flight != nil {
		a.flight.drop() // it has had its response
	}
	f := &flight{method: a.req.Method, id: a.legacy.ownID()}
	f.token = append(f.tokens[:0], a.req.ProgressToken...)
	return f
}

// cancelTask gives the request that ends a task: a task is not ended by
// notifications/cancelled (basic/utilities/cancellation, Behavior Requirements, 3).
func (l *Legacy) cancelTask(task []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), l.ownID()...)
	b = append(append(b, `,"method":"tasks/cancel","params":{"taskId":`...), task...)
	return append(b, "}}"...)
}

// ownID makes the id of a request of the gateway's own: a string, since the ids of
// others are numbers.
func (l *Legacy) ownID() []byte {
	return strconv.AppendQuote(nil, "s"+strconv.FormatInt(l.ids.Add(1), 10))
}
