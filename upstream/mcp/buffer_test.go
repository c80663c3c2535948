package mcp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadAll(t *testing.T) {
	text := func(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
	for _, size := range []int{0, 1, 4095, 4096, 4097, 65536, 65537, 1 << 20, 1<<20 + 1, 5<<20 + 3} {
		for _, hint := range []int64{-1, int64(size), 0, 1, 10 << 20} {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"plain": func(r io.Reader) io.Reader { return r },
				"half":  iotest.HalfReader,
				"late":  iotest.DataErrReader,
			} {
				want := text(size)
				budget := NewBudget(0)
				b, err := ReadAll(wrap(strings.NewReader(want)), 10<<20, hint, budget)
				if err != nil {
					t.Fatalf("%d bytes, hint %d, %s: %v", size, hint, name, err)
				}
				if string(b.B) != want {
					t.Errorf("%d bytes, hint %d, %s: got %d bytes that differ", size, hint, name, len(b.B))
				}
				if budget.Used() != int64(size) {
					t.Errorf("%d bytes: budget used = %d", size, budget.Used())
				}
				b.Release()
				b.Release()
				if budget.Used() != 0 {
					t.Errorf("%d bytes: %d are still used after Release", size, budget.Used())
				}
			}
		}
	}
}

func TestReadAllErrors(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name      string
		src       io.Reader
		max, hint int64
		budget    int64
		want      error // nil for none
	}{
		{name: "just fits", src: strings.NewReader("12345"), max: 5, hint: 5},
		{name: "one over", src: strings.NewReader("123456"), max: 5, hint: -1, want: ErrTooLarge},
		{name: "hint is over", src: iotest.ErrReader(broken), max: 5, hint: 6, want: ErrTooLarge},
		{name: "hint lies", src: strings.NewReader("123456"), max: 5, hint: 1, want: ErrTooLarge},
		{name: "endless", src: endless{}, max: 3 << 20, hint: -1, want: ErrTooLarge},
		{name: "no bound", src: strings.NewReader("123456"), max: math.MaxInt64, hint: -1},
		{name: "budget", src: strings.NewReader("123456"), max: 10, hint: -1, budget: 5, want: ErrOverBudget},
		{name: "budget just suffices", src: strings.NewReader("123456"), max: 10, hint: -1, budget: 6},
		{name: "stream breaks", src: io.MultiReader(strings.NewReader("123"), iotest.ErrReader(broken)), max: 10, hint: -1, budget: 100, want: broken},
		{name: "stream is cut", src: io.MultiReader(strings.NewReader("123"), iotest.ErrReader(io.ErrUnexpectedEOF)), max: 10, hint: 5, want: io.ErrUnexpectedEOF},
		{name: "stream gives nothing", src: nothing{}, max: 10, hint: -1, want: io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			budget := NewBudget(tt.budget)
			b, err := ReadAll(tt.src, tt.max, tt.hint, budget)
			if !errors.Is(err, tt.want) || (b == nil) != (tt.want != nil) {
				t.Errorf("ReadAll() = %v, %v, want error %v", b, err, tt.want)
			}
			b.Release()
			if budget.Used() != 0 {
				t.Errorf("%d bytes are still used", budget.Used())
			}
		})
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestReadAllHint holds that a promise alone gets no memory.
func TestReadAllHint(t *testing.T) {
	src := &widest{r: strings.NewReader("x")}
	b, err := ReadAll(src, 1<<30, 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if src.n > smallBuffer {
		t.Errorf("%d bytes of memory for one byte that arrived", src.n)
	}
}

// widest remembers the largest room that was offered to it.
type widest struct {
	r io.Reader
	n int
}

func (w *widest) Read(p []byte) (int, error) {
	w.n = max(w.n, len(p))
	return w.r.Read(p)
}

func TestBudgetIsShared(t *testing.T) {
	budget := NewBudget(10)
	first, err := ReadAll(strings.NewReader("123456"), 100, -1, budget)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAll(strings.NewReader("12345"), 100, -1, budget); !errors.Is(err, ErrOverBudget) {
		t.Errorf("second message: error = %v, want ErrOverBudget", err)
	}
	first.Release()
	second, err := ReadAll(strings.NewReader("12345"), 100, -1, budget)
	if err != nil {
		t.Errorf("after Release: %v", err)
	}
	second.Release()
}

func TestGetBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 5000, 1 << 20, 3 << 20} {
		b := GetBuffer(size)
		if len(b.B) != 0 || cap(b.B) < size {
			t.Errorf("GetBuffer(%d) has len %d and cap %d", size, len(b.B), cap(b.B))
		}
		b.B = append(b.B, bytes.Repeat([]byte("x"), 2*size)...)
		b.Release()
		if b.B != nil {
			t.Errorf("GetBuffer(%d): bytes are still there after Release", size)
		}
		b.Release()
	}
	var none *Buffer
	none.Release()
	if got := (*Budget)(nil).Used(); got != 0 {
		t.Errorf("Used of no budget = %d", got)
	}
}

// TestBuffersAreApart holds that no two users share memory, whatever became of
// the buffer in between.
func TestBuffersAreApart(t *testing.T) {
	a := GetBuffer(10)
	a.B = append(a.B, make([]byte, 5000)...) // no longer the pool's memory
	a.Release()
	a.Release()
	b, c := GetBuffer(10), GetBuffer(10)
	defer b.Release()
	defer c.Release()
	b.B = append(b.B, "bbbb"...)
	c.B = append(c.B, "cccc"...)
	if string(b.B) != "bbbb" {
		t.Errorf("buffer holds %s", b.B)
	}
}
