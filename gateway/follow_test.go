package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A stream goes on at once whenever there is something to send, also when that comes
// while it is about to wait: its next comment would be late by seconds.
func TestStreamIsWokenForEachMessage(t *testing.T) {
	h := newHub()
	_, url := start(t, &fakeRouter{listen: h.listen}, nil)
	res, err := http.DefaultClient.Do(request(t, url+"/mcp", listenMessage()))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	next := events(res.Body)
	if e, err := next(); e != `{"ack":1}` {
		t.Fatalf("first event %q, %v", e, err)
	}
	late := time.AfterFunc(10*time.Second, func() { res.Body.Close() })
	defer late.Stop()
	for i := range 2000 {
		want := fmt.Sprintf(`{"m":%d}`, i)
		h.publish(want)
		if e, err := next(); e != want {
			t.Fatalf("event %q, %v, want %s", e, err, want)
		}
	}
}

// What a client says after its request is dropped, and what it is told goes on.
func TestStreamOfATalkativeClient(t *testing.T) {
	h := newHub()
	_, url := start(t, &fakeRouter{listen: h.listen}, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := request(t, url+"/mcp", listenMessage()).Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	next := events(res.Body)
	if e, err := next(); e != `{"ack":1}` {
		t.Fatalf("first event %q, %v", e, err)
	}
	for i := range 100 {
		if _, err := io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\n\r\n", 10)); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"m":%d}`, i)
		h.publish(want)
		if e, err := next(); e != want {
			t.Fatalf("event %q, %v, want %s", e, err, want)
		}
	}
	conn.Close()
	select {
	case <-h.closed:
	case <-time.After(10 * time.Second):
		t.Error("the stream is still open after its client left")
	}
}
