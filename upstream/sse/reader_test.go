package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// collect reads all events, with their data copied, and the error that ended
// them (nil for the end of the stream).
func collect(r *Reader) (events []Event, _ error) {
	for e, err := range r.Events() {
		if err != nil {
			return events, err
		}
		e.Data = bytes.Clone(e.Data)
		events = append(events, e)
	}
	return events, nil
}

func ev(data string) Event { return Event{Data: []byte(data)} }

func TestReader(t *testing.T) {
	tests := []struct {
		name    string
		in      string
		want    []Event
		wantErr error
	}{
		{name: "empty stream"},
		{name: "one event", in: "data: x\n\n", want: []Event{ev("x")}},
		{name: "LF, CR and CRLF", in: "data: 1\n\ndata: 2\r\rdata: 3\r\n\r\ndata: 4\r\n\rdata: 5\n\r\n", want: []Event{ev("1"), ev("2"), ev("3"), ev("4"), ev("5")}},
		{name: "byte order mark", in: "\uFEFFdata: x\n\n", want: []Event{ev("x")}},
		{name: "byte order mark later is no mark", in: "data: x\n\n\uFEFFdata: y\n\n", want: []Event{ev("x")}},
		{name: "only one space goes", in: "data:  x \ndata:y\n\n", want: []Event{ev(" x \ny")}},
		{name: "several data lines", in: "data: {\ndata:\ndata: }\n\n", want: []Event{ev("{\n\n}")}},
		{name: "data without colon", in: "data\ndata: x\n\n", want: []Event{ev("\nx")}},
		{name: "name", in: "event: ping\ndata: x\n\ndata: y\n\n", want: []Event{{Name: "ping", Data: []byte("x")}, ev("y")}},
		{name: "name after data", in: "data: x\nevent: ping\n\n", want: []Event{{Name: "ping", Data: []byte("x")}}},
		{name: "comments", in: ": hi\ndata: x\n:\ndata: y\n\n:\n\n", want: []Event{ev("x\ny")}},
		{name: "unknown fields", in: "Data: no\nfoo: bar\n data: no\ndata: x\n\n", want: []Event{ev("x")}},
		{name: "id stays", in: "id: 1\ndata: x\n\ndata: y\n\nid\ndata: z\n\n", want: []Event{{ID: "1", Data: []byte("x")}, {ID: "1", Data: []byte("y")}, ev("z")}},
		{name: "id with NUL is ignored", in: "id: 1\ndata: x\n\nid: 2\x003\ndata: y\n\n", want: []Event{{ID: "1", Data: []byte("x")}, {ID: "1", Data: []byte("y")}}},
		{name: "id and retry of an event without data", in: "id: 7\nretry: 1500\n\nid: 8\ndata:\n\ndata: x\n\n", want: []Event{{ID: "8", Retry: 1500 * time.Millisecond, Data: []byte("x")}}},
		{name: "retry that is no number", in: "retry: 1s\nretry: -1\nretry: 99999999999999999999\nretry:\ndata: x\n\n", want: []Event{ev("x")}},
		{name: "colon in the value", in: "data: a: b\n\n", want: []Event{ev("a: b")}},
		{name: "name without data", in: "event: ping\n\ndata: x\n\n", want: []Event{ev("x")}},
		{name: "blank lines", in: "\n\n\r\n\ndata: x\n\n\n", want: []Event{ev("x")}},
		{name: "ends inside an event", in: "data: x\n\ndata: y\n", want: []Event{ev("x")}, wantErr: io.ErrUnexpectedEOF},
		{name: "ends inside a line", in: "data: x\n\nda", want: []Event{ev("x")}, wantErr: io.ErrUnexpectedEOF},
		{name: "ends inside a comment", in: "data: x\n\n: bye", want: []Event{ev("x")}},
		{name: "ends after a CR", in: "data: x\r\r", want: []Event{ev("x")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole": strings.NewReader(tt.in),
				"bytes": iotest.OneByteReader(strings.NewReader(tt.in)),
				"late":  iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := collect(NewReader(src, 1000))
				if !errors.Is(err, tt.wantErr) || (err == nil) != (tt.wantErr == nil) {
					t.Errorf("%s: error = %v, want %v", name, err, tt.wantErr)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: events differ (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestReaderBounds(t *testing.T) {
	long := strings.Repeat("x", 100)
	tests := []struct {
		name string
		in   string
		want int // events before the error
		ok   bool
	}{
		{name: "just fits", in: "data: " + long[:94] + "\n\n", want: 1, ok: true},
		{name: "one byte over", in: "data: x\n\ndata: " + long[:95] + "\n\n", want: 1},
		{name: "endless line", in: "data: x\n\ndata: " + strings.Repeat(long, 1000), want: 1},
		{name: "endless comment", in: "data: x\n\n:" + strings.Repeat(long, 1000), want: 1},
		{name: "many lines", in: strings.Repeat("data: x\n", 30) + "\n"},
		{name: "many ids", in: strings.Repeat("id: x\n", 30) + "\n"},
		{name: "many comments", in: strings.Repeat(": still here\n", 1000) + "data: x\n\n", want: 1, ok: true},
		{name: "comments inside an event", in: "data: x\n" + strings.Repeat(": still here\n", 1000) + "data: y\n\n", want: 1, ok: true},
		{name: "many events", in: strings.Repeat("data: "+long[:90]+"\n\n", 500), want: 500, ok: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(tt.in), 100)
			got, err := collect(r)
			if len(got) != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %d events and error %v, want %d and ok=%v", len(got), err, tt.want, tt.ok)
			}
			if !tt.ok && !errors.Is(err, ErrTooLarge) {
				t.Errorf("error = %v, want ErrTooLarge", err)
			}
			if _, again := r.Next(); !tt.ok && again != err {
				t.Errorf("Next after the error = %v, want the same error", again)
			}
			if cap(r.buf) > 2*firstBuffer {
				t.Errorf("buffer of %d bytes for events of at most 100", cap(r.buf))
			}
		})
	}
}

// TestReaderLargeEvents holds that large events of one and of many lines come
// whole, and that their memory is given up afterwards.
func TestReaderLargeEvents(t *testing.T) {
	one := strings.Repeat("0123456789", 300_000)
	many := strings.Repeat("0123456789\n", 100_000)
	in := AppendEvent(nil, []byte(one))
	in = AppendEvent(in, []byte(many))
	in = AppendEvent(in, []byte("small"))
	in = AppendEvent(in, []byte("small"))
	r := NewReader(iotest.HalfReader(bytes.NewReader(in)), 4<<20)
	got, err := collect(r)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{one, many, "small", "small"}
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i, w := range want {
		if string(got[i].Data) != w || got[i].Name != "message" {
			t.Errorf("event %d: %d bytes named %q differ from the %d sent", i, len(got[i].Data), got[i].Name, len(w))
		}
	}
	if cap(r.buf) > keepBuffer {
		t.Errorf("reader still holds %d bytes", cap(r.buf))
	}
}

// TestReaderDoesNotWait holds that an event is given as soon as its blank line
// began, also when that ends with a CR whose LF has not come yet.
func TestReaderDoesNotWait(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(pw, "data: x\r\n\r")
		written <- err
	}()
	r := NewReader(pr, 100)
	e, err := r.Next()
	if err != nil || string(e.Data) != "x" {
		t.Fatalf("Next() = %q, %v, want x", e.Data, err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

func TestReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		src  io.Reader
		want error
	}{
		{name: "stream breaks", src: io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(broken)), want: broken},
		{name: "stream gives nothing", src: io.MultiReader(strings.NewReader("data: x\n\n"), nothing{}), want: io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := collect(NewReader(tt.src, 100))
			if !errors.Is(err, tt.want) || len(got) != 1 {
				t.Errorf("got %d events and error %v, want 1 and %v", len(got), err, tt.want)
			}
		})
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestReaderReset(t *testing.T) {
	r := NewReader(strings.NewReader("id: 1\nretry: 5\ndata: x\n\ndata: cut"), 100)
	if _, err := collect(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error = %v", err)
	}
	if r.LastID() != "1" || r.Retry() != 5*time.Millisecond {
		t.Errorf("LastID, Retry = %q, %v, want 1, 5ms", r.LastID(), r.Retry())
	}
	r.Reset(strings.NewReader("data: y\n\n"))
	got, err := collect(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Event{ev("y")}, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

func TestAppendEvent(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{name: "one line", in: `{"a":1}`, want: "event: message\ndata: {\"a\":1}\n\n"},
		{name: "all line breaks", in: "a\nb\r\nc\rd", want: "event: message\ndata: a\ndata: b\ndata: c\ndata: d\n\n"},
		{name: "break at the end", in: "a\r\n", want: "event: message\ndata: a\ndata: \n\n"},
		{name: "leading space", in: " a", want: "event: message\ndata:  a\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(AppendEvent([]byte("."), []byte(tt.in))); got != "."+tt.want {
				t.Errorf("AppendEvent() = %q, want %q", got, "."+tt.want)
			}
		})
	}
}

func TestAppendComment(t *testing.T) {
	in := AppendEvent(AppendComment(AppendEvent(nil, []byte("x"))), []byte("y"))
	got, err := collect(NewReader(bytes.NewReader(in), 100))
	if err != nil || len(got) != 2 {
		t.Errorf("got %d events and error %v, want 2", len(got), err)
	}
}
