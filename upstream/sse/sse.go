// Package sse reads and writes Server-Sent Events (HTML standard, 9.2) with
// bounds on lines and events. It is a leaf: it imports none of our packages.
package sse

import (
	"errors"
	"io"
	"iter"
	"time"
)

// ErrTooLarge tells that an event is larger than the reader's bound.
var ErrTooLarge = errors.New("event is larger than its bound")

// Event is one event. Data is valid until the next one is read.
type Event struct {
	Name  string // "" means "message"
	ID    string
	Retry time.Duration
	Data  []byte
}

// Reader reads events from a stream.
type Reader struct{ _ int }

// NewReader makes a reader; maxEvent bounds the bytes of one event's lines.
func NewReader(r io.Reader, maxEvent int) *Reader { panic("stub") }

// Next gives the next event that has data; io.EOF at the end of the stream,
// io.ErrUnexpectedEOF when it ends inside an event.
func (r *Reader) Next() (Event, error) { panic("stub") }

// Events iterates over the events; an error is yielded once and is the last.
func (r *Reader) Events() iter.Seq2[Event, error] { panic("stub") }

// AppendEvent appends one message event with that data to dst. Line breaks in
// data become several data lines.
func AppendEvent(dst, data []byte) []byte { panic("stub") }

// AppendComment appends a comment line, which readers ignore.
func AppendComment(dst []byte) []byte { return append(dst, ":\n\n"...) }
