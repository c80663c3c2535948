package federation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	maxAsking  = 8                // tasks of one upstream that are asked for at the same time
	maxAskings = 5                // of one task, before its streams end
	askTaskFor = 30 * time.Second // the longest that one is waited for
)

// taskAsks asks for the state of tasks where their notifications may have been
// missed, or were too large for other replicas: what a notification says is what
// tasks/get would have answered (ext-tasks, Task Status Notifications).
type taskAsks struct {
	telling sync.Mutex // held while a state is told, so that none is overtaken by an older one

	mu     sync.Mutex
	asked  map[string]*taskAsk // that are asked for or wait for it
	queue  []string
	askers int
}

// taskAsk is one task that is asked for.
type taskAsk struct {
	sure  bool // it is known to have changed
	stale bool // a notification came since: what is answered is no news
	again bool // it was to be asked for since
}

// tellTask tells the streams of this replica of a task as a notification says.
func (l *listener) tellTask(msg *mcp.Message) {
	a := &l.tasks
	a.telling.Lock()
	defer a.telling.Unlock()
	a.mu.Lock()
	if ask := a.asked[msg.TaskID.Value]; ask != nil {
		ask.stale = true
	}
	a.mu.Unlock()
	l.hub.taskChanged(l.member, msg)
}

// askAllTasks asks for all tasks that the streams of this replica watch.
func (l *listener) askAllTasks() {
	l.askTasks(slices.Sorted(maps.Keys(l.hub.interest(l.member).tasks)), false)
}

// askTasks asks for those of some tasks that the streams of this replica watch, and
// tells what they are like; sure tells that they have changed.
func (l *listener) askTasks(ids []string, sure bool) {
	watched := l.hub.interest(l.member).tasks
	a := &l.tasks
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		switch ask := a.asked[id]; {
		case !watched[id]:
		case ask != nil:
			ask.sure, ask.again = ask.sure || sure, true
		default:
			if a.asked == nil {
				a.asked = map[string]*taskAsk{}
			}
			a.asked[id] = &taskAsk{sure: sure}
			a.queue = append(a.queue, id)
		}
	}
	for range min(maxAsking-a.askers, len(a.queue)) {
		if l.hub.domain.run(l.answerTasks) {
			a.askers++
		}
	}
}

// answerTasks asks for one task after the other.
func (l *listener) answerTasks(ctx context.Context) {
	a := &l.tasks
	for {
		a.mu.Lock()
		if len(a.queue) == 0 || ctx.Err() != nil {
			a.askers--
			a.mu.Unlock()
			return
		}
		id := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
		l.answerTask(ctx, id)
	}
}

// answerTask asks for one task until it is answered. If it is not, or not with the
// state of one that has changed, the task's streams end, so that their clients know
// that they have to ask.
func (l *listener) answerTask(ctx context.Context, id string) {
	a := &l.tasks
	wait := reopenLeast
	for try := 1; ; try++ {
		a.mu.Lock()
		a.asked[id].stale, a.asked[id].again = false, false
		a.mu.Unlock()
		msg, err := l.taskNow(ctx, id)
		if done := l.answered(id, msg, err, try); done {
			return
		}
		if err == nil {
			try = 0 // it was to be asked for once more
			continue
		}
		select {
		case <-time.After(jitter(wait)):
			wait *= 2
		case <-ctx.Done():
			return
		}
	}
}

// errNoTask tells that the upstream does not give a task's state.
var errNoTask = errors.New("the upstream does not give the task")

// answered acts on an answer; false when it is to be asked for again.
func (l *listener) answered(id string, msg *mcp.Message, err error, try int) (done bool) {
	a := &l.tasks
	a.telling.Lock()
	defer a.telling.Unlock()
	a.mu.Lock()
	ask := *a.asked[id]
	done = ask.stale && !ask.again || err == nil && !ask.again || errors.Is(err, errNoTask) || try == maxAskings
	if done {
		delete(a.asked, id)
	}
	a.mu.Unlock()
	switch {
	case !done, ask.stale && !ask.again:
	case errors.Is(err, errNoTask) && !ask.sure:
		// One that the upstream does not know has not changed.
	case err == nil:
		l.hub.taskChanged(l.member, msg)
	default:
		l.hub.domain.log.Info("a task's streams end: its state cannot be had", "upstream", l.member.conf.Alias, "error", err)
		l.hub.dropTasks(l.member, func(other string) bool { return other == id })
	}
	return done
}

// taskNow makes the notification that tells what a task is like now.
func (l *listener) taskNow(ctx context.Context, id string) (*mcp.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, askTaskFor)
	defer cancel()
	msg, err := l.member.ask(ctx, mcp.MethodTasksGet, []mcp.Param{{Key: "taskId", Value: mcp.AppendQuote(nil, id)}})
	if err != nil {
		return nil, err
	}
	if msg.Kind != mcp.KindResult || msg.Raw[msg.Result.Start] != '{' {
		return nil, errNoTask
	}
	var e mcp.Edits
	raw := msg.Result.In(msg.Raw)
	whole := mcp.Span{Start: 0, End: len(raw)}
	e.RemoveMember(raw, whole, "resultType")
	out := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotificationTasks+`","params":`...)
	out = append(e.AppendTo(out, raw), '}')
	now, err := mcp.ParseMessage(out, l.hub.domain.fed.opts.Limits.MaxDepth)
	if err != nil {
		return nil, l.member.nonsense(upstream.ClassProtocol, "tasks/get: %w", err)
	}
	if now.TaskID.Value != id {
		return nil, errNoTask
	}
	return now, nil
}
