package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadResponse(t *testing.T) {
	type want struct {
		Status int
		Type   string
		Body   string
		Closes bool
	}
	tests := []struct {
		name, in string
		want     want
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", want{200, "application/json", "{}", false}},
		{"empty", "HTTP/1.1 202 Accepted\r\ncontent-length:0\r\n\r\n", want{202, "", "", false}},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n", want{200, "", "abc0123456789", false}},
		{"trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", want{200, "", "a", false}},
		{"close", "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", want{404, "", "x", true}},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", want{200, "", "x", false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const next = "HTTP/1.1 "
			r := bufio.NewReader(strings.NewReader(tt.in + next))
			got, err := readResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, want{got.status, got.contentType, string(got.body), got.closes}); diff != "" {
				t.Error(diff)
			}
			if rest, _ := io.ReadAll(r); string(rest) != next {
				t.Errorf("%q is left, want what follows the response", rest)
			}
		})
	}
}

func TestReadResponseRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		cut      bool // the error says that the connection ended too early
	}{
		{"nothing", "", true},
		{"not HTTP", "hello\r\n\r\n", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false},
		{"interim", "HTTP/1.1 100 Continue\r\n\r\n", false},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nbody", false},
		{"bad length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n", false},
		{"header without colon", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", false},
		{"endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1000), false},
		{"long line", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 10_000), false},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", true},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", true},
		{"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true},
		{"bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", false},
		{"chunk without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readResponse(bufio.NewReader(strings.NewReader(tt.in)), nil)
			if err == nil {
				t.Fatalf("read %+v, want an error", got)
			}
			if cut := errors.Is(err, io.ErrUnexpectedEOF); cut != tt.cut {
				t.Errorf("error %v: cut = %v, want %v", err, cut, tt.cut)
			}
		})
	}
}

func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := readResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err == nil && (got.status < 200 || len(got.body) > len(in)) {
			t.Errorf("status %d and %d bytes out of %d", got.status, len(got.body), len(in))
		}
	})
}
