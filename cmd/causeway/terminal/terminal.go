// Package terminal shows and reads text where a person sits in front of it. It
// imports none of our packages.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Plain makes text of a server safe to show: control characters, and those that
// change the direction of writing, become visible escapes, since a terminal
// would obey them. Line breaks and tabs stay.
func Plain(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || !unicode.IsControl(r) && !directs(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// directs tells whether a character changes the direction of what is around it
// (Unicode Standard Annex 9), so that text reads as something else.
func directs(r rune) bool {
	return r == 0x061C || r == 0x200E || r == 0x200F || 0x202A <= r && r <= 0x202E || 0x2066 <= r && r <= 0x2069
}

// Line is Plain for what has to fit in one line: white space becomes single
// blanks.
func Line(s string) string { return Plain(strings.Join(strings.Fields(s), " ")) }

// Cut shortens text to a number of characters, with an ellipsis; 0 means no
// bound.
func Cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:width-1]), " ") + "…"
}

// Indent puts prefix before each line.
func Indent(s, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+prefix)
}

// IsTerminal tells whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width gives the columns of a terminal; 0 for what is none.
func Width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// maxLine bounds one line that is read, in bytes.
const maxLine = 1 << 20

// ErrLongLine tells that a line is longer than its bound.
var ErrLongLine = errors.New("the line is too long")

// Lines reads lines.
type Lines struct {
	in *bufio.Reader
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{bufio.NewReader(r)} }

type line struct {
	text string
	err  error
}

// Next gives the next line without its end; io.EOF when there is none, and the
// error of ctx when that ends first, after which Next must not be called again.
func (l *Lines) Next(ctx context.Context) (string, error) {
	read := make(chan line, 1)
	// A read from a terminal cannot be interrupted: when ctx ends first, the
	// goroutine stays until a line comes or the process ends, which it does next.
	go func() {
		text, err := l.read()
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-read:
		return got.text, got.err
	}
}

func (l *Lines) read() (string, error) {
	var b []byte
	for {
		part, err := l.in.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case len(b) > maxLine:
			return "", ErrLongLine
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(b) == 0 || !errors.Is(err, io.EOF)):
			return "", err
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
}
