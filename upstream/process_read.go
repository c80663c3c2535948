package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	readBuffer = 16 << 10
	// Of a line that cannot be held this much is kept from its beginning and from
	// its end, to find the id in.
	keptOfLost = 256
)

// lineReader reads messages that are a line each.
type lineReader struct {
	src    *bufio.Reader
	max    int64 // bytes of one line
	budget *mcp.Budget

	ended      bool // the present line is read
	head, tail []byte
}

// lostLine tells that one line was skipped. id is the raw JSON of its id; nil
// when it has none or it could not be found.
type lostLine struct {
	id  []byte
	err error // mcp.ErrTooLarge or mcp.ErrOverBudget
}

func (e *lostLine) Error() string { return e.err.Error() }
func (e *lostLine) Unwrap() error { return e.err }

func newLineReader(src io.Reader, max int64, budget *mcp.Budget) *lineReader {
	return &lineReader{src: bufio.NewReaderSize(src, readBuffer), max: max, budget: budget}
}

// next gives the next line that is not empty, without its newline. After a
// *lostLine one can go on; other errors are those of the stream.
func (r *lineReader) next() (*mcp.Buffer, error) {
	for {
		if _, err := r.src.Peek(1); err != nil {
			return nil, err
		}
		r.ended, r.head, r.tail = false, r.head[:0], r.tail[:0]
		buf, err := mcp.ReadAll(r, r.max, -1, r.budget)
		if err != nil {
			return nil, r.skip(err)
		}
		if buf.B = bytes.TrimSpace(buf.B); len(buf.B) > 0 {
			return buf, nil
		}
		buf.Release()
	}
}

// skip reads the rest of a line that could not be held.
func (r *lineReader) skip(cause error) error {
	if !errors.Is(cause, mcp.ErrTooLarge) && !errors.Is(cause, mcp.ErrOverBudget) {
		return cause
	}
	rest := make([]byte, readBuffer)
	for !r.ended {
		if _, err := r.Read(rest); err != nil && err != io.EOF {
			return err
		}
	}
	return &lostLine{id: lostID(r.head, r.tail), err: cause}
}

// Read reads the present line, and io.EOF at its end. A stream that ends without
// a newline ends the line, too.
func (r *lineReader) Read(b []byte) (int, error) {
	if r.ended {
		return 0, io.EOF
	}
	if _, err := r.src.Peek(1); err != nil {
		r.ended = err == io.EOF
		return 0, err
	}
	chunk, _ := r.src.Peek(min(r.src.Buffered(), len(b)))
	n := len(chunk)
	if at := bytes.IndexByte(chunk, '\n'); at >= 0 {
		r.ended = true
		chunk, n = chunk[:at], at+1
	}
	copy(b, chunk)
	r.keep(chunk)
	length := len(chunk)
	_, _ = r.src.Discard(n) // what is buffered can be discarded
	if r.ended {
		return length, io.EOF
	}
	return length, nil
}

// keep remembers the beginning and the end of the line.
func (r *lineReader) keep(chunk []byte) {
	if room := keptOfLost - len(r.head); room > 0 {
		r.head = append(r.head, chunk[:min(room, len(chunk))]...)
	}
	if len(chunk) >= keptOfLost {
		r.tail = append(r.tail[:0], chunk[len(chunk)-keptOfLost:]...)
		return
	}
	r.tail = append(r.tail, chunk...)
	if over := len(r.tail) - keptOfLost; over > 0 {
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
}

// lostID finds the id of a message of which only the beginning and the end are
// known, so that the request that it answers need not wait for its deadline.
func lostID(head, tail []byte) []byte {
	if id := idInHead(head); id != nil {
		return id
	}
	return idInTail(tail)
}

// idInHead looks for the id among the members that the beginning holds as a
// whole.
func idInHead(head []byte) []byte {
	dec := jsontext.NewDecoder(bytes.NewReader(head), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for {
		key, err := dec.ReadToken()
		if err != nil || key.Kind() != '"' {
			return nil
		}
		found := key.String() == "id"
		value, err := dec.ReadValue()
		if err != nil || dec.InputOffset() >= int64(len(head)) { // a number may go on
			return nil
		}
		if found {
			return bytes.Clone(value)
		}
	}
}

// idInTail looks whether the id is the last member. In valid JSON an unescaped
// quote followed by a bare `id`, a quote and a colon is a key, and what is before
// the last brace is a member of the message itself.
func idInTail(tail []byte) []byte {
	rest, ok := bytes.CutSuffix(bytes.TrimSpace(tail), []byte{'}'})
	if !ok {
		return nil
	}
	rest = bytes.TrimSpace(rest)
	at := len(rest)
	if text, ok := bytes.CutSuffix(rest, []byte{'"'}); ok {
		at = bytes.LastIndexByte(text, '"')
	} else {
		for at > 0 && (rest[at-1] >= '0' && rest[at-1] <= '9' || rest[at-1] == '-') {
			at--
		}
	}
	if at < 0 || at == len(rest) {
		return nil
	}
	id := rest[at:]
	rest, ok = bytes.CutSuffix(bytes.TrimSpace(rest[:at]), []byte{':'})
	if !ok {
		return nil
	}
	rest, ok = bytes.CutSuffix(bytes.TrimSpace(rest), []byte(`"id"`))
	rest = bytes.TrimSpace(rest)
	if !ok || !bytes.HasSuffix(rest, []byte{','}) && !bytes.HasSuffix(rest, []byte{'{'}) || bytes.IndexByte(id, '\\') >= 0 {
		return nil
	}
	return bytes.Clone(id)
}
