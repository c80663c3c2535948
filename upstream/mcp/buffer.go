package mcp

import (
	"errors"
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

// Buffer holds one message in pooled memory.
type Buffer struct {
	B      []byte
	budget *Budget
	held   int64
}

// Release gives the memory back; the bytes must not be used afterwards. A nil
// Buffer is fine, and so is a second call.
func (b *Buffer) Release() { panic("stub") }

// GetBuffer gives an empty pooled buffer with room for size bytes, which are
// not counted against any budget.
func GetBuffer(size int) *Buffer { panic("stub") }

// ReadAll reads r to its end into a pooled buffer. More than max bytes is
// ErrTooLarge; the budget is taken as bytes arrive (ErrOverBudget). sizeHint is
// the Content-Length, or -1.
func ReadAll(r io.Reader, max, sizeHint int64, budget *Budget) (*Buffer, error) { panic("stub") }
