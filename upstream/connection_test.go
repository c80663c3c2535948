package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// dying is an upstream that answers the first request of each connection and
// closes it when a second one has arrived: what a client sees whose request
// crosses the server's closing of an idle connection.
func dying(t *testing.T) (url string, received *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received = new(atomic.Int32)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := 1; ; n++ {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					received.Add(1)
					if n == 2 {
						return
					}
					resp := http.Response{
						StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1,
						Header: http.Header{"Content-Type": {"application/json"}},
						Body:   io.NopCloser(strings.NewReader(callResult)), ContentLength: int64(len(callResult)),
					}
					resp.Write(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return "http://" + l.Addr().String(), received
}

// A request that went out on a dying connection may have been carried out: a call
// is not sent again, a list is.
func TestDyingConnection(t *testing.T) {
	tests := []struct {
		name   string
		method string
		header http.Header
		class  Class
		want   int32 // requests received
	}{
		{"call", mcp.MethodToolsCall, nil, ClassConnect, 2},
		{"call with an idempotency key", mcp.MethodToolsCall, http.Header{"Idempotency-Key": {"k"}}, ClassConnect, 2},
		{"list", mcp.MethodToolsList, nil, "", 3},
		{"read", mcp.MethodResourcesRead, nil, "", 3},
		{"completion", mcp.MethodComplete, nil, "", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, received := dying(t)
			c := dial(t, url)
			if _, err := read(context.Background(), c, toolCall()); err != nil {
				t.Fatal(err)
			}
			req := request(tt.method)
			req.Header = tt.header
			_, err := read(context.Background(), c, req)
			if tt.class != "" {
				wantClass(t, err, tt.class, false)
			} else if err != nil {
				t.Error(err)
			}
			if n := received.Load(); n != tt.want {
				t.Errorf("the upstream received %d requests, want %d", n, tt.want)
			}
			c.Close()
		})
	}
}

// A server that closes idle connections loses no call of sparse traffic, since
// the client closes them first: after its own idle time, or after what the server
// announces.
func TestSparseTraffic(t *testing.T) {
	const serverIdle = 200 * time.Millisecond
	tests := []struct {
		name     string
		idle     time.Duration
		announce string
	}{
		{"client's idle time", serverIdle / 4, ""},
		{"announced idle time", time.Hour, "timeout=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			idle := serverIdle
			if tt.announce != "" {
				idle = time.Second
			}
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.announce != "" {
					w.Header().Set("Keep-Alive", tt.announce)
				}
				answerJSON(w, 200, callResult)
			}), func(s *httptest.Server) { s.Config.IdleTimeout = idle })
			c := dial(t, s.URL, func(c *Config) { c.IdleTimeout = tt.idle })
			// Pauses around the time at which the server closes.
			for _, percent := range []int{0, 97, 100, 103} {
				<-time.After(idle * time.Duration(percent) / 100)
				if _, err := read(context.Background(), c, toolCall()); err != nil {
					t.Errorf("after a pause of %d%% of the server's idle time: %v", percent, err)
				}
			}
		})
	}
}

// Where no connection can be made, nothing was sent, and every method is tried
// twice.
func TestRefusedConnection(t *testing.T) {
	var dials atomic.Int32
	transports := egress.New(egress.Options{Control: func(context.Context, string, string, syscall.RawConn) error {
		dials.Add(1)
		return syscall.ECONNREFUSED
	}})
	c := New(Config{Alias: "ledger", URL: "http://127.0.0.1:1/"}, transports, Deps{})
	defer c.Close()
	_, err := c.Do(context.Background(), toolCall())
	wantClass(t, err, ClassConnect, true)
	if !errors.Is(err, syscall.ECONNREFUSED) || dials.Load() != 2 {
		t.Errorf("%v after %d dials, want a refusal after 2", err, dials.Load())
	}
}

// A request's pooled memory is not given back while the transport still sends it,
// also when the upstream answers before it has read the request.
func TestBodyIsNotReusedEarly(t *testing.T) {
	for _, size := range []int{copyLimit, 2 * copyLimit, 1 << 20} {
		arrived := make(chan []byte)
		answered := make(chan struct{})
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			send := events(w)
			send(progress(1))
			<-answered
			all, _ := io.ReadAll(r.Body)
			arrived <- all
			send(callResult)
		}), smallWindow(t))
		c := dial(t, s.URL)
		for range 10 {
			want := bytes.Repeat([]byte("a"), size)
			buf := mcp.GetBuffer(size)
			buf.B = append(buf.B, want...)
			resp, err := c.Do(context.Background(), &Request{Method: mcp.MethodToolsCall, ID: []byte("7"), Body: buf})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Next(); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				other := mcp.GetBuffer(size)
				defer other.Release()
				other.B = append(other.B, bytes.Repeat([]byte("b"), size)...)
			}
			answered <- struct{}{}
			if got := <-arrived; !bytes.Equal(got, want) {
				t.Errorf("a body of %d bytes was overwritten while it was sent", size)
			}
			resp.Close()
		}
	}
}

// smallWindow makes a server take little of a request that it does not read, so
// that the rest stays at the client.
func smallWindow(t *testing.T) func(*httptest.Server) {
	return func(s *httptest.Server) {
		listen := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			control := c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
			})
			return errors.Join(control, err)
		}}
		l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.Listener.Close()
		s.Listener = l
	}
}

// Over HTTP/2 all is the same: streams, cancellation and large bodies.
func TestHTTP2(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("protocol = %s, want HTTP/2", r.Proto)
		}
		n, _ := io.Copy(io.Discard, r.Body)
		send := events(w)
		send(progress(int(n)))
		if r.Header.Get(mcp.HeaderMethod) == mcp.MethodListen {
			<-r.Context().Done()
			close(gone)
			return
		}
		send(callResult)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c := New(Config{Alias: "ledger", URL: s.URL}, egress.New(egress.Options{TLS: &tls.Config{RootCAs: roots}}), Deps{})
	defer c.Close()
	for _, size := range []int{100, 2 * copyLimit, 1 << 20} {
		buf := mcp.GetBuffer(size)
		buf.B = buf.B[:size]
		got, err := read(context.Background(), c, &Request{Method: mcp.MethodToolsCall, ID: []byte("7"), Body: buf})
		if want := []string{progress(size), callResult}; err != nil || !slices.Equal(got, want) {
			t.Errorf("messages = %q, %v, want %q", got, err, want)
		}
	}
	req := request(mcp.MethodListen)
	req.Listen = true
	resp, err := c.Do(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Next(); err != nil {
		t.Error(err)
	}
	resp.Close()
	<-gone
}
