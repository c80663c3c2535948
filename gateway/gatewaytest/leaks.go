package gatewaytest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// leakTimeout bounds how long what has ended may take to be gone.
const leakTimeout = 30 * time.Second

// Running is what runs in this process, for a test that looks for what is left:
// its goroutines, by the function that each was started with, and its open files.
type Running struct {
	goroutines map[string]int
	stacks     map[string]string // one stack of each
	files      int               // 0 where they cannot be counted
}

// CountRunning counts what runs now.
func CountRunning() Running {
	r := Running{goroutines: map[string]int{}, stacks: map[string]string{}}
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+64)
	for {
		n, ok := runtime.GoroutineProfile(records)
		if ok {
			records = records[:n]
			break
		}
		records = make([]runtime.StackRecord, n+64)
	}
	for i := range records {
		names := functions(records[i].Stack())
		root := names[len(names)-1]
		r.goroutines[root]++
		r.stacks[root] = strings.Join(names, "\n\t\t")
	}
	if files, err := os.ReadDir("/dev/fd"); err == nil {
		r.files = len(files)
	}
	return r
}

// functions names the functions of a stack, the innermost first.
func functions(stack []uintptr) []string {
	var names []string
	frames := runtime.CallersFrames(stack)
	for more := len(stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function != "runtime.goexit" {
			names = append(names, f.Function)
		}
	}
	if len(names) == 0 {
		names = []string{"unknown"}
	}
	return names
}

// since tells what there is more of than before.
func (r Running) since(before Running) (more []string) {
	for _, root := range slices.Sorted(maps.Keys(r.goroutines)) {
		if n := r.goroutines[root] - before.goroutines[root]; n > 0 {
			more = append(more, fmt.Sprintf("%d more of %s:\n\t\t%s", n, root, r.stacks[root]))
		}
	}
	if n := r.files - before.files; n > 0 {
		more = append(more, fmt.Sprintf("%d more open files or connections", n))
	}
	return more
}

// AwaitNoMore waits until no more runs than before, and fails the test when that
// does not come about.
func AwaitNoMore(tb testing.TB, before Running) {
	tb.Helper()
	deadline := time.NewTimer(leakTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		more := CountRunning().since(before)
		if len(more) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Errorf("left behind:\n\t%s", strings.Join(more, "\n\t"))
			return
		}
	}
}
