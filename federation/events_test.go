package federation

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
)

func sampleEvents() map[string]event {
	from := func(ev event) event {
		ev.origin, ev.alias, ev.version = "r1", "weather", "v7"
		return ev
	}
	return map[string]event{
		"list":     from(event{kind: eventList, list: kindPrompts, lease: cache.Fence{Epoch: 1 << 63, N: 7}, gen: 1 << 50}),
		"read":     from(event{kind: eventRead, list: kindTemplates, floor: cache.Fence{Epoch: 3, N: 9}}),
		"updated":  from(event{kind: eventUpdated, raw: []byte(`{"x":1}`)}),
		"names":    from(event{kind: eventUpdated, names: []string{"doc://1", "", "\xff"}}),
		"task":     from(event{kind: eventTask, names: []string{"t"}, raw: []byte("x")}),
		"again":    from(event{kind: eventAgain, all: true, floor: cache.Fence{Epoch: 3, N: 9}}),
		"refused":  from(event{kind: eventRefused, all: true}),
		"interest": {kind: eventInterest},
		"released": from(event{kind: eventReleased}),
	}
}

func TestEventsAreReadAsTheyWereWritten(t *testing.T) {
	for name, want := range sampleEvents() {
		t.Run(name, func(t *testing.T) {
			got, err := readEvent(want.appendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadEventRefuses(t *testing.T) {
	good := event{kind: eventRefused, origin: "r1", names: []string{"t"}}
	raw := good.appendTo(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(raw)
		b[at] = to
		return b
	}
	large := event{kind: eventTask, raw: make([]byte, maxEvent)}
	many := event{kind: eventRefused, names: make([]string, maxNames+1)}
	tests := []struct {
		name string
		raw  []byte
	}{
		{"nothing", nil},
		{"another version", change(0, eventVersion+1)},
		{"no kind", change(1, 0)},
		{"an unknown kind", change(1, byte(eventKinds))},
		{"an unknown list", change(2, byte(kindDiscover))},
		{"a number for true", change(3, 2)},
		{"cut off", raw[:len(raw)-1]},
		{"a length beyond the end", change(4, 200)},
		{"too large", large.appendTo(nil)},
		{"too many names", many.appendTo(nil)},
		{"a number in a longer form", append([]byte{eventVersion, byte(eventInterest), 0, 0, 0x80, 0x00}, make([]byte, 8)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if ev, err := readEvent(tt.raw); err == nil {
				t.Errorf("read %+v", ev)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	many := make([]string, 2*maxNames+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	long := strings.Repeat("x", maxRaw/2)
	tests := []struct {
		name  string
		names []string
		want  []int // the parts' lengths
		bad   bool
	}{
		{"none", nil, nil, false},
		{"one", []string{"a"}, []int{1}, false},
		{"many", many, []int{maxNames, maxNames, 1}, false},
		{"long ones", []string{long, long, "a", long}, []int{2, 2}, false},
		{"one that is too long", []string{"a", strings.Repeat("x", maxRaw+1)}, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parts, ok := split(tt.names)
			if ok == tt.bad {
				t.Fatalf("ok = %v", ok)
			}
			var got []int
			var all []string
			for _, p := range parts {
				got = append(got, len(p))
				all = append(all, p...)
				ev := event{kind: eventUpdated, names: p}
				if _, err := readEvent(ev.appendTo(nil)); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if ok && !cmp.Equal(all, tt.names) {
				t.Error("the parts are not the whole")
			}
		})
	}
}

func FuzzReadEvent(f *testing.F) {
	for _, ev := range sampleEvents() {
		f.Add(ev.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, err := readEvent(b)
		if err != nil {
			return
		}
		if !bytes.Equal(ev.appendTo(nil), b) {
			t.Errorf("%q is written as %q", b, ev.appendTo(nil))
		}
	})
}
