package sse

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzReader holds that the events do not depend on how the stream is cut into
// reads, and that they keep the bound.
func FuzzReader(f *testing.F) {
	f.Add([]byte("data: x\n\n"), 3)
	f.Add([]byte("\uFEFFid: 1\r\ndata: a\rdata: b\r\n\r\n:\n\nretry: 10\n\ndata"), 7)
	f.Add([]byte("event: e\ndata\ndata:\ndata: \n\n\r\rdata: y"), 12)
	f.Add(append(bytes.Repeat([]byte(": c\n"), 60), "data: z\r\r"...), 100)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		const bound = 200
		want, wantErr := collect(NewReader(bytes.NewReader(in), bound))
		if len(in) > 0 {
			cut = int(uint(cut) % uint(len(in)))
		} else {
			cut = 0
		}
		got, err := collect(NewReader(io.MultiReader(bytes.NewReader(in[:cut]), bytes.NewReader(in[cut:])), bound))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cut at %d (-whole +cut):\n%s", cut, diff)
		}
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Errorf("cut at %d: error = %v, whole %v", cut, err, wantErr)
		}
		for _, e := range got {
			if len(e.Data) == 0 || len(e.Data) > bound {
				t.Errorf("event with %d bytes of data", len(e.Data))
			}
		}
	})
}

// FuzzAppendEvent holds that data arrives as it was sent but for line breaks.
func FuzzAppendEvent(f *testing.F) {
	f.Add([]byte(`{"a":1}`))
	f.Add([]byte("a\r\nb\rc\n\nd\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want := bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		r := NewReader(bytes.NewReader(AppendEvent(nil, data)), 20+7*len(data)+100)
		e, err := r.Next()
		if len(data) == 0 {
			if err != io.EOF {
				t.Errorf("empty data: Next() = %q, %v, want EOF", e.Data, err)
			}
			return
		}
		if err != nil || !bytes.Equal(e.Data, want) {
			t.Errorf("Next() = %q, %v, want %q", e.Data, err, want)
		}
	})
}
