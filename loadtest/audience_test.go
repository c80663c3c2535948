package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func startAnnouncer(t *testing.T) endpoint {
	t.Helper()
	u, err := newAnnouncingUpstream(madeUpCatalogue().first(3))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(u)
	t.Cleanup(srv.Close)
	return endpoint{addr: srv.Listener.Addr().String(), path: "/mcp"}
}

// count asks an announcing upstream.
func count(t *testing.T, at endpoint, path string) int64 {
	t.Helper()
	n, err := askCount(t.Context(), at.addr, path)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Everyone who listens is told of each change, and the list is another one.
func TestAudience(t *testing.T) {
	at := startAnnouncer(t)
	a := newAudience()
	defer a.close()
	const clients = 20
	if err := a.open(t.Context(), at, clients); err != nil {
		t.Fatal(err)
	}
	if n := count(t, at, hearersPath); n != clients {
		t.Errorf("the upstream has %d streams, want %d", n, clients)
	}
	before := time.Now()
	var changes []time.Time
	for range 3 {
		reached := a.expect()
		changes = append(changes, time.Unix(0, count(t, at, announcePath)))
		if err := a.await(t.Context(), reached); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(before)
	got, err := a.latencies(changes, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2*clients || got[0] < 0 || got[len(got)-1] > took {
		t.Errorf("%d latencies, from %v to %v, within %v", len(got), got[0], got[len(got)-1], took)
	}
	if _, err := a.latencies(changes[:2], 0); err == nil {
		t.Error("one notification too many is fine")
	}
	r := newRequest(at, methodList, madeUpCatalogue().first(3))
	if _, err := once(t.Context(), at.addr, r); err == nil || !strings.Contains(err.Error(), "2 tools, want 3") {
		t.Errorf("the list after an odd number of changes: %v", err)
	}
	a.close()
	if n := count(t, at, mostPath); n != clients {
		t.Errorf("%d streams at once, want %d", n, clients)
	}
}

// answerWith starts a server that answers one request with what it is given, and ends
// the connection. It gives its address.
func answerWith(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, answer)
		}
	}()
	return ln.Addr().String()
}

func TestAudienceFails(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   string
	}{
		{"refused", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nbusy\n", "status 503: busy"},
		{"something else first", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n", "no acknowledgement: {}"},
		{"nothing", "", "EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAudience()
			defer a.close()
			err := a.open(t.Context(), endpoint{addr: answerWith(t, tt.answer), path: "/mcp"}, 1)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// A stream that ends, or brings something else, ends the wait.
func TestAudienceAwaitFails(t *testing.T) {
	const ack = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" +
		`data: {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"x":"listener 0"},"notifications":{"toolsListChanged":true}}}` + "\n\n"
	tests := []struct{ name, more, want string }{
		{"ends", "", "a listen stream ended"},
		{"another notification", "data: {\"method\":\"notifications/prompts/list_changed\"}\n\n", "a listen stream brought"},
		{"that of another client", "data: {\"method\":\"notifications/tools/list_changed\",\"params\":{\"_meta\":{\"x\":\"listener 1\"}}}\n\n", "a listen stream brought"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAudience()
			defer a.close()
			if err := a.open(t.Context(), endpoint{addr: answerWith(t, ack+tt.more), path: "/mcp"}, 1); err != nil {
				t.Fatal(err)
			}
			err := a.await(t.Context(), a.expect())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// An independent client sees the changes.
func TestAnnouncingUpstreamWithGoSDK(t *testing.T) {
	at := startAnnouncer(t)
	var got []int
	for range 2 { // a client keeps a list that may be kept
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + at.addr + at.path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(list.Tools))
		count(t, at, announcePath)
	}
	if diff := cmp.Diff([]int{3, 2}, got); diff != "" {
		t.Errorf("how many tools there are: %s", diff)
	}
}
