package upstream

import (
	"errors"
	"io"
	"slices"
	"sync"
)

var errEnded = errors.New("the process has ended")

// lineWriter writes lines to a process, one after the other. Its queue lets a
// line that has begun be finished whatever becomes of who wants it: half a line
// would spoil the next one, and a process that is busy reads late.
type lineWriter struct {
	file io.WriteCloser

	mu     sync.Mutex
	queue  []*outLine
	closed bool
	wake   chan struct{} // has room for one
}

// outLine is one line on its way. err is set when written is closed; an error
// means that its end did not go out.
type outLine struct {
	data    []byte
	written chan struct{}
	err     error
}

func newLineWriter(file io.WriteCloser) *lineWriter {
	return &lineWriter{file: file, wake: make(chan struct{}, 1)}
}

// asLine copies a message as one line. A line break between two tokens becomes a
// space (2026-07-28, basic/transports/stdio: no embedded newlines); within a JSON
// string there is none.
func asLine(message []byte) []byte {
	line := make([]byte, len(message), len(message)+1)
	copy(line, message)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	return append(line, '\n')
}

// put queues a line, which must end with its newline.
func (w *lineWriter) put(line []byte) *outLine {
	out := &outLine{data: line, written: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		out.settle(errEnded)
		return out
	}
	w.queue = append(w.queue, out)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return out
}

// withdraw takes a line back. False means that it has gone out, or begun to.
func (w *lineWriter) withdraw(out *outLine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, out)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	out.settle(errEnded)
	return true
}

// run writes until close is called or the process reads no more.
func (w *lineWriter) run() {
	for range w.wake {
		for out := w.next(); out != nil; out = w.next() {
			_, err := w.file.Write(out.data)
			out.settle(err)
			if err != nil {
				w.close()
				return
			}
		}
	}
}

func (w *lineWriter) next() *outLine {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	out := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	return out
}

// ended tells that no more lines are taken.
func (w *lineWriter) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// close ends the process's input. What was not written yet never is. It may be
// called twice.
func (w *lineWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	for _, out := range w.queue {
		out.settle(errEnded)
	}
	w.queue = nil
	close(w.wake)
	w.file.Close()
}

func (o *outLine) settle(err error) {
	o.data, o.err = nil, err
	close(o.written)
}
