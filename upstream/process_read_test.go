package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// readLines gives all that a stream holds: lines, and "lost ID" for those that
// were skipped.
func readLines(t *testing.T, src io.Reader, max int64, budget *mcp.Budget) (got []string) {
	t.Helper()
	r := newLineReader(src, max, budget)
	for {
		buf, err := r.next()
		var lost *lostLine
		switch {
		case err == nil:
			got = append(got, string(buf.B))
			buf.Release()
		case errors.As(err, &lost):
			got = append(got, "lost "+string(lost.id))
		case err == io.EOF:
			return got
		default:
			t.Fatal(err)
		}
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	tests := []struct {
		name, input string
		max         int64
		want        []string
	}{
		{"nothing", "", 10, nil},
		{"lines", "one\ntwo\n", 10, []string{"one", "two"}},
		{"space around", " one\r\n\n  \ntwo", 10, []string{"one", "two"}},
		{"just long enough", "0123456789\n0123456789", 10, []string{"0123456789", "0123456789"}},
		{"one too long", "a\n0123456789x\nb\n", 10, []string{"a", "lost ", "b"}},
		{"the last too long", "a\n0123456789x", 10, []string{"a", "lost "}},
		{"id first", `{"id":7,"result":"` + long + "\"}\nb\n", 1000, []string{"lost 7", "b"}},
		{"id last", `{"result":"` + long + "\",\"id\":\"s7\"}\nb\n", 1000, []string{`lost "s7"`, "b"}},
		{"long", `{"result":"` + long + "\"}\nb\n", 1 << 20, []string{`{"result":"` + long + `"}`, "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readLines(t, strings.NewReader(tt.input), tt.max, nil)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, readLines(t, iotest.OneByteReader(strings.NewReader(tt.input)), tt.max, nil)); diff != "" {
				t.Errorf("lines byte by byte (-want +got):\n%s", diff)
			}
		})
	}
}

// A line that finds no room in the process's budget is skipped like one that is
// too long, and the budget is whole again.
func TestLineReaderBudget(t *testing.T) {
	budget := mcp.NewBudget(100)
	got := readLines(t, strings.NewReader("a\n{\"id\":1,\"r\":\""+strings.Repeat("x", 200)+"\"}\nb\n"), 1000, budget)
	if diff := cmp.Diff([]string{"a", "lost 1", "b"}, got); diff != "" || budget.Used() != 0 {
		t.Errorf("lines (-want +got), %d bytes held:\n%s", budget.Used(), diff)
	}
}

func TestLostID(t *testing.T) {
	tests := []struct{ name, head, tail, want string }{
		{"first", `{"jsonrpc":"2.0","id":12,"result":{"a`, "", "12"},
		{"a string", `{"id":"a\"b","result":{"a`, "", `"a\"b"`},
		{"may go on", `{"jsonrpc":"2.0","id":12`, "", ""},
		{"of something else", `{"result":{"id":12,"text":"a`, `a"}}`, ""},
		{"last", `{"result":{"text":"a`, `a"},"jsonrpc":"2.0","id":12}`, "12"},
		{"last with space", `{"result":{`, `a"}, "id" : -12 } `, "-12"},
		{"last and a string", `{"result":{`, `a"},"id":"x"}`, `"x"`},
		{"of something else at the end", `{"result":{`, `a","id":12}}`, ""},
		{"within a string", `{"result":"`, `a,\"id\":12"}`, ""},
		{"within a string that looks so", `{"result":"`, `a,\"id\":\"12"}`, ""},
		{"no number", `{"result":"`, `a","id":null}`, ""},
		{"another key", `{"result":"`, `a","grid":12}`, ""},
		{"a longer key", `{"result":"`, `a","a\"id":12}`, ""},
		{"no object", `[1,2`, `3]`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(lostID([]byte(tt.head), []byte(tt.tail))); got != tt.want {
				t.Errorf("id = %s, want %s", got, tt.want)
			}
		})
	}
}

// Whatever comes in, lines are what is between newlines, and an id that is found
// is the message's own.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"result\":{}}\n{\"result\":{\"a\":\"b\"},\"id\":\"x\"}\n"), int64(8))
	f.Add([]byte("a\r\n\n\xff\n {}"), int64(100))
	f.Fuzz(func(t *testing.T, data []byte, max int64) {
		if max < 1 || max > 1<<16 {
			return
		}
		var want []string
		for line := range bytes.SplitSeq(data, []byte{'\n'}) {
			if int64(len(line)) > max {
				id := ""
				if m, err := mcp.ParseMessage(line, 0); err == nil {
					id = string(m.ID.In(m.Raw))
				}
				want = append(want, "lost "+id)
			} else if line = bytes.TrimSpace(line); len(line) > 0 {
				want = append(want, string(line))
			}
		}
		got := readLines(t, bytes.NewReader(data), max, nil)
		if len(got) != len(want) {
			t.Fatalf("%d lines, want %d: %q", len(got), len(want), got)
		}
		for i := range got {
			id, lost := strings.CutPrefix(want[i], "lost ")
			if got[i] != want[i] && (!lost || got[i] != "lost " && id != "") {
				t.Errorf("line %d = %q, want %q", i, got[i], want[i])
			}
		}
	})
}
