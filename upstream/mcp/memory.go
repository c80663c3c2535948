package mcp

import "sync"

// Sizes of pooled memory, in bytes. Larger pieces are left to the garbage
// collector: they are rare, and keeping them would tie up much memory.
const (
	smallBuffer  = 4 << 10
	mediumBuffer = 64 << 10
	largeBuffer  = 1 << 20
)

// These pools are package variables since memory is shared by all readers and
// writers of messages in the process. They hold pointers to arrays, which go
// into a pool without an allocation.
var (
	smallPool  = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	mediumPool = sync.Pool{New: func() any { return new([mediumBuffer]byte) }}
	largePool  = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

// getMemory gives an empty slice with room for size bytes.
func getMemory(size int) []byte {
	switch {
	case size <= smallBuffer:
		return smallPool.Get().(*[smallBuffer]byte)[:0]
	case size <= mediumBuffer:
		return mediumPool.Get().(*[mediumBuffer]byte)[:0]
	case size <= largeBuffer:
		return largePool.Get().(*[largeBuffer]byte)[:0]
	}
	return make([]byte, 0, size)
}

// putMemory takes back what getMemory gave.
func putMemory(b []byte) {
	switch cap(b) {
	case smallBuffer:
		smallPool.Put((*[smallBuffer]byte)(b[:smallBuffer]))
	case mediumBuffer:
		mediumPool.Put((*[mediumBuffer]byte)(b[:mediumBuffer]))
	case largeBuffer:
		largePool.Put((*[largeBuffer]byte)(b[:largeBuffer]))
	}
}
