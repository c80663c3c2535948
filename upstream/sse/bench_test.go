package sse

import (
	"bytes"
	"io"
	"testing"
)

func benchmarkReader(b *testing.B, data []byte) {
	in := AppendEvent(nil, data)
	src := bytes.NewReader(in)
	r := NewReader(src, 64<<20)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(in)
		r.Reset(src)
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); err != io.EOF {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader500B(b *testing.B) { benchmarkReader(b, bytes.Repeat([]byte("x"), 500)) }
func BenchmarkReader10MB(b *testing.B) { benchmarkReader(b, bytes.Repeat([]byte("x"), 10<<20)) }

func BenchmarkAppendEvent(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 500)
	var buf []byte
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendEvent(buf[:0], data)
	}
}
