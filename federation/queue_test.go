package federation

import (
	"strings"
	"testing"
)

func TestQueueGivesWhatCameInOrder(t *testing.T) {
	q := NewQueue(2)
	told := 0
	q.onChange(func() { told++ })
	if msg, open := q.next(); msg != nil || !open || told != 0 {
		t.Errorf("an empty queue gives %q, open %v, and has told %d times", msg, open, told)
	}
	for _, step := range []struct {
		name string
		push string
		want bool
	}{{"one", "1", true}, {"another", "2", true}, {"too many", "3", false}} {
		if got := q.Push([]byte(step.push)); got != step.want {
			t.Errorf("%s: taken %v, want %v", step.name, got, step.want)
		}
	}
	q.End()
	q.End()
	if q.Push([]byte("4")) {
		t.Error("an ended queue takes a message")
	}
	var got []string
	for msg, open := q.next(); open; msg, open = q.next() {
		got = append(got, string(msg))
	}
	if all := strings.Join(got, " "); all != "1 2" {
		t.Errorf("took %s, want 1 2", all)
	}
	if told < 3 {
		t.Errorf("told %d times of two messages and the end", told)
	}
}

func TestQueueBoundsBytes(t *testing.T) {
	q := NewQueue(10)
	large := make([]byte, maxQueued+1)
	if !q.Push(large) {
		t.Error("one message that is too large for others to wait with is refused")
	}
	if q.Push([]byte("x")) {
		t.Error("more bytes wait than may")
	}
	if msg, _ := q.next(); len(msg) != len(large) {
		t.Errorf("took %d bytes", len(msg))
	}
	if !q.Push([]byte("x")) {
		t.Error("there is room again, but nothing is taken")
	}
}

// Who begins to take learns of what came before.
func TestQueueTellsOfWhatCameBefore(t *testing.T) {
	for _, tt := range []struct {
		name string
		fill func(q *Queue)
		want int
	}{
		{"nothing", func(*Queue) {}, 0},
		{"a message", func(q *Queue) { q.Push([]byte("x")) }, 1},
		{"the end", func(q *Queue) { q.End() }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := NewQueue(1)
			tt.fill(q)
			told := 0
			q.onChange(func() { told++ })
			if told != tt.want {
				t.Errorf("told %d times, want %d", told, tt.want)
			}
		})
	}
}
