package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"
)

// ErrTooLarge tells that an event is larger than the reader's bound.
var ErrTooLarge = errors.New("event is larger than its bound")

// Event is one event. Data is valid until the next one is read.
type Event struct {
	Name  string        // "" means "message"
	ID    string        // the last id that the stream gave, in this event or an earlier one
	Retry time.Duration // the last reconnection time that the stream gave; 0 before the first
	Data  []byte
}

const (
	firstBuffer = 4 << 10  // bytes; holds most events
	keepBuffer  = 64 << 10 // a buffer that is larger goes once its event was used
	maxNoBytes  = 100      // reads in a row that give neither bytes nor an error

	byteOrderMark = "\uFEFF"
	messageName   = "message" // the name that most events have, if any
)

// Reader reads events from a stream. It is not safe for concurrent use.
type Reader struct {
	src      io.Reader
	maxEvent int
	err      error // of src, told once all lines before it are used
	final    error // what Next failed with

	// The data of the event that is being read is buf[data:dataEnd], the bytes
	// that were not used yet are buf[next:], and there is no line end before
	// scanned among those.
	buf           []byte
	data, dataEnd int
	next, scanned int

	began   bool   // the first line was read, so no byte order mark can come
	skipLF  bool   // the last line ended with CR: an LF that follows belongs to it
	open    bool   // the event has a field
	hasData bool   // and one of them is data
	size    int    // bytes of the event's lines without comments
	name    string // of the event
	idSeen  string // of the event; counts once the event is complete
	id      string
	retry   time.Duration
}

// NewReader makes a reader; maxEvent bounds the bytes of one event's lines.
func NewReader(r io.Reader, maxEvent int) *Reader {
	return &Reader{src: r, maxEvent: min(maxEvent, math.MaxInt-2*firstBuffer)}
}

// Reset makes the reader read another stream from its start, with the same
// bound. It keeps a buffer of ordinary size.
func (r *Reader) Reset(src io.Reader) {
	buf := r.buf[:0]
	if cap(buf) > keepBuffer {
		buf = nil
	}
	*r = Reader{src: src, maxEvent: r.maxEvent, buf: buf}
}

// LastID gives the id of the last complete event, also of one without data,
// which Next does not give: the value of Last-Event-ID for a reconnection.
func (r *Reader) LastID() string { return r.id }

// Retry gives the last reconnection time that the stream gave; 0 before the
// first.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next gives the next event that has data; io.EOF at the end of the stream,
// io.ErrUnexpectedEOF when it ends inside an event, whose part is dropped. An
// event whose data is empty is not given either, since it carries no message:
// servers send those to tell an id or a reconnection time early. An error is
// final.
func (r *Reader) Next() (Event, error) {
	if r.final != nil {
		return Event{}, r.final
	}
	r.startEvent()
	for {
		start, end, err := r.line()
		if err != nil {
			r.final = err
			return Event{}, err
		}
		if start < end {
			r.field(start, end)
			continue
		}
		r.id = r.idSeen
		if r.data < r.dataEnd {
			return Event{Name: r.name, ID: r.id, Retry: r.retry, Data: r.buf[r.data:r.dataEnd:r.dataEnd]}, nil
		}
		r.startEvent()
	}
}

// Events iterates over the events; an error is yielded once and is the last.
// The end of the stream is none.
func (r *Reader) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := r.Next()
			if err == io.EOF {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// startEvent forgets the event before.
func (r *Reader) startEvent() {
	r.data, r.dataEnd, r.size, r.name = 0, 0, 0, ""
	r.open, r.hasData = false, false
	r.idSeen = r.id
	if cap(r.buf) > keepBuffer && len(r.buf)-r.next <= firstBuffer {
		r.buf = append(make([]byte, 0, firstBuffer), r.buf[r.next:]...)
		r.scanned -= r.next
		r.next = 0
	}
}

// line gives the place of the next line in buf, without its end. It holds until
// the next call.
func (r *Reader) line() (start, end int, _ error) {
	for {
		if r.skipLF && r.next < len(r.buf) {
			r.skipLF = false
			if r.buf[r.next] == '\n' {
				r.next++
				r.scanned = r.next
			}
		}
		if n := lineEnd(r.buf[r.scanned:]); n >= 0 {
			start, end = r.next, r.scanned+n
			// A line may end with LF, CR or both, and what follows a CR may not have
			// been sent yet; the event must not wait for it.
			r.skipLF = r.buf[end] == '\r'
			r.next = end + 1
			r.scanned = r.next
			return r.admit(start, end)
		}
		r.scanned = len(r.buf)
		if err := r.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// admit takes the byte order mark off the first line, and counts the line.
func (r *Reader) admit(start, end int) (int, int, error) {
	start = r.afterMark(start, end)
	r.began = true
	if r.over(start, end) {
		return 0, 0, ErrTooLarge
	}
	if start == end || r.buf[start] != ':' {
		r.size += end - start
	}
	return start, end, nil
}

// afterMark gives the offset where the line at buf[start:end] really starts.
func (r *Reader) afterMark(start, end int) int {
	if !r.began && bytes.HasPrefix(r.buf[start:end], []byte(byteOrderMark)) {
		return start + len(byteOrderMark)
	}
	return start
}

// over tells whether the line, or start of a line, at buf[start:end] exceeds the
// bound. A comment is bounded by itself: comments keep quiet streams alive for
// hours, without any end of event between them.
func (r *Reader) over(start, end int) bool {
	size := end - start
	if size == 0 || r.buf[start] != ':' {
		size += r.size
	}
	return size > r.maxEvent
}

// fill reads more bytes. When the stream is over it says whether it ended
// inside an event.
func (r *Reader) fill() error {
	// What is left is the start of one line.
	start := r.afterMark(r.next, len(r.buf))
	if r.over(start, len(r.buf)) {
		return ErrTooLarge
	}
	if r.err == nil {
		r.makeRoom()
		r.err = r.read()
		return nil
	}
	if r.err == io.EOF && (r.open || start < len(r.buf) && r.buf[start] != ':') {
		return io.ErrUnexpectedEOF
	}
	return r.err
}

// read reads once from the stream, or until that gives something.
func (r *Reader) read() error {
	for range maxNoBytes {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err != nil && err != io.EOF {
			return fmt.Errorf("read event stream: %w", err)
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes sure that something can be read into buf. It moves what is
// still of use to the front before it grows.
func (r *Reader) makeRoom() {
	if len(r.buf) < cap(r.buf) {
		return
	}
	data := r.dataEnd - r.data
	if r.data > 0 {
		copy(r.buf, r.buf[r.data:r.dataEnd])
	}
	rest := copy(r.buf[data:], r.buf[r.next:])
	r.scanned -= r.next - data
	r.data, r.dataEnd, r.next = 0, data, data
	r.buf = r.buf[:data+rest]
	// Moving alone would copy a large event over and over for little room. What
	// is left here is within the bound, so size has room for more.
	size := min(max(firstBuffer, 2*cap(r.buf)), r.maxEvent+firstBuffer)
	if cap(r.buf)-len(r.buf) <= cap(r.buf)/4 && size > cap(r.buf) {
		r.buf = append(make([]byte, 0, size), r.buf...)
	}
}

// field takes up the line at buf[start:end], which is not empty (HTML standard,
// 9.2.6).
func (r *Reader) field(start, end int) {
	line := r.buf[start:end]
	if line[0] == ':' {
		return
	}
	r.open = true
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		r.addData(end-len(value), end)
	case "event":
		if r.name = messageName; string(value) != messageName {
			r.name = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.idSeen = string(value)
		}
	case "retry":
		r.setRetry(value)
	}
}

// addData makes buf[start:end] part of the event's data. The first line stays
// where it is; more are moved to its end, which is always before their own
// place, since their field name is gone.
func (r *Reader) addData(start, end int) {
	if !r.hasData {
		r.hasData = true
		r.data, r.dataEnd = start, end
		return
	}
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], r.buf[start:end])
}

// setRetry takes a reconnection time in milliseconds. Anything but digits is
// ignored.
func (r *Reader) setRetry(value []byte) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
	}
	if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms <= math.MaxInt64/int64(time.Millisecond) {
		r.retry = time.Duration(ms) * time.Millisecond
	}
}
