package terminal

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlain(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"ordinary text", "Zürich, 東京 👩‍👩‍👧\n\tok", "Zürich, 東京 👩‍👩‍👧\n\tok"},
		{"an escape sequence", "\x1b[2Jgone", `\x1b[2Jgone`},
		{"a carriage return that hides a line", "evil\rgood", `evil\x0dgood`},
		{"line ends of Windows", "a\r\nb", "a\nb"},
		{"an 8-bit control", "\u009b2J", `\x9b2J`},
		{"a change of direction", "a\u202eb", `a\u202eb`},
		{"invalid UTF-8", "a\xffb\uFFFD", `a\xffb` + "\uFFFD"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Plain(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	tests := []struct {
		name, in string
		width    int
		want     string
	}{
		{"fits", "abc", 3, "abc"},
		{"too long", "abcd efg", 6, "abcd…"},
		{"characters, not bytes", "äöüß", 3, "äö…"},
		{"no bound", "abc", 0, "abc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Cut(test.in, test.width); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	l := NewLines(strings.NewReader("one\r\n\n" + strings.Repeat("x", 10_000) + "\nlast"))
	var got []string
	for {
		text, err := l.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"one", "", strings.Repeat("x", 10_000), "last"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLinesBounds(t *testing.T) {
	if _, err := NewLines(strings.NewReader(strings.Repeat("x", maxLine+1))).Next(t.Context()); !errors.Is(err, ErrLongLine) {
		t.Errorf("got %v, want ErrLongLine", err)
	}
}

func TestLinesEndWithTheContext(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewLines(r).Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
