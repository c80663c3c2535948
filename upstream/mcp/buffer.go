package mcp

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Errors of ReadAll.
var (
	ErrTooLarge   = errors.New("message is larger than its bound")
	ErrOverBudget = errors.New("too many bytes are buffered in this process")
)

// Budget bounds the bytes that all messages together may hold in memory. It
// never blocks: what does not fit is refused, so that readers cannot wait for
// one another. A nil Budget has no bound.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget makes a budget of max bytes; 0 or less means no bound.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Used gives the bytes that are held now.
func (b *Budget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// take adds n bytes when they fit.
func (b *Budget) take(n int64) bool {
	if b == nil {
		return true
	}
	if used := b.used.Add(n); b.max > 0 && used > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) {
	if b != nil {
		b.used.Add(-n)
	}
}

// Buffer holds one message in pooled memory. B may be appended to.
type Buffer struct {
	B      []byte
	mem    []byte // what goes back to the pool, whatever became of B
	budget *Budget
	held   int64
}

// Release gives the memory back; the bytes must not be used afterwards. A nil
// Buffer is fine, and so is a second call.
func (b *Buffer) Release() {
	if b == nil || b.mem == nil {
		return
	}
	b.budget.give(b.held)
	putMemory(b.mem)
	// The Buffer itself is not pooled: a second Release would otherwise hit
	// whoever has it by then.
	*b = Buffer{}
}

// GetBuffer gives an empty pooled buffer with room for size bytes, which are
// not counted against any budget.
func GetBuffer(size int) *Buffer {
	mem := getMemory(size)
	return &Buffer{B: mem, mem: mem}
}

// maxEmptyReads bounds the reads in a row that give neither bytes nor an error.
const maxEmptyReads = 100

// ReadAll reads r to its end into a pooled buffer. More than max bytes is
// ErrTooLarge; the budget is taken as bytes arrive (ErrOverBudget). sizeHint is
// the Content-Length, or -1. The memory that is held is bounded by what arrived,
// not by what the hint promises: 4 KiB, then at most 16 times as much.
func ReadAll(r io.Reader, max, sizeHint int64, budget *Budget) (*Buffer, error) {
	if sizeHint > max {
		return nil, ErrTooLarge
	}
	b := GetBuffer(smallBuffer)
	b.budget = budget
	for empty := 0; ; {
		if len(b.B) == cap(b.B) {
			b.grow(sizeHint)
		}
		room := b.B[len(b.B):cap(b.B)]
		// One byte over max tells too long from just long enough.
		if left := max - int64(len(b.B)); left < int64(len(room)) {
			room = room[:left+1]
		}
		n, err := r.Read(room)
		if n > 0 {
			empty = 0
			if !budget.take(int64(n)) {
				b.Release()
				return nil, ErrOverBudget
			}
			b.held += int64(n)
			b.B = b.B[:len(b.B)+n]
		} else if empty++; empty > maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
		if int64(len(b.B)) > max {
			b.Release()
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, fmt.Errorf("read message: %w", err)
		}
	}
}

// grow moves the bytes to larger memory.
func (b *Buffer) grow(sizeHint int64) {
	size := 2 * len(b.B)
	if whole := sizeHint + 1; whole > int64(len(b.B)) {
		// One byte more than promised, so that the end is seen without growing.
		size = int(min(whole, 16*int64(len(b.B))))
	}
	mem := getMemory(size)
	b.B = append(mem, b.B...)
	putMemory(b.mem)
	b.mem = mem
}
