package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
)

// The tests here run in a bubble of synctest, where time passes only when nothing
// else can happen: connections are in-memory pipes.

// pipe is a listener whose connections are pipes.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { close(p.closed); return nil }
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// dial gives the client's end of a new connection.
func (p *pipe) dial(t *testing.T) net.Conn {
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	p.conns <- server
	return client
}

// startPiped serves r on pipes until the test ends.
func startPiped(t *testing.T, r router, change func(*Options)) (*pipe, *Gateway) {
	t.Helper()
	opts := testOptions()
	if change != nil {
		change(&opts)
	}
	metrics, err := telemetry.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
	g := newGateway(opts, r, nil, metrics)
	g.serveClients(p)
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return p, g
}

// write sends a request on a connection.
func write(t *testing.T, conn net.Conn, text string, header ...string) {
	t.Helper()
	if err := request(t, "http://localhost/mcp", text, header...).Write(conn); err != nil {
		t.Fatal(err)
	}
}

// arrivals reads a response and notes when each event came, in seconds.
func arrivals(t *testing.T, conn net.Conn, began time.Time) (res *http.Response, got []string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, fmt.Sprintf("%v head", time.Since(began).Seconds()))
	if res.Header.Get("Content-Type") == typeJSON {
		return res, append(got, body(t, res))
	}
	for next := events(res.Body); ; {
		e, err := next()
		if err != nil {
			if err != io.EOF {
				got = append(got, err.Error())
			}
			return res, got
		}
		got = append(got, fmt.Sprintf("%v %s", time.Since(began).Seconds(), e))
	}
}

func TestSilentResponsesAreKeptAlive(t *testing.T) {
	tests := []struct {
		name   string
		accept string
		handle func(c *federation.Call) error
		want   []string
	}{
		{
			name: "a slow answer", accept: "*/*",
			handle: func(*federation.Call) error { time.Sleep(40 * time.Second); return nil },
			want:   []string{"15 head", "15 :", "30 :", "40 " + complete},
		},
		{
			name: "an answer just in time", accept: "*/*",
			handle: func(*federation.Call) error { time.Sleep(14 * time.Second); return nil },
			want:   []string{"14 head", complete},
		},
		{
			name: "silence after a notification", accept: "*/*",
			handle: func(c *federation.Call) error {
				time.Sleep(10 * time.Second)
				err := c.Notify([]byte(progress1))
				time.Sleep(20 * time.Second)
				return errors.Join(err, c.Notify([]byte(progress2)))
			},
			want: []string{"10 head", "10 " + progress1, "25 :", "30 " + progress2, "30 " + complete},
		},
		{
			name: "a client that takes no events", accept: "application/json",
			handle: func(*federation.Call) error { time.Sleep(40 * time.Second); return nil },
			want:   []string{"40 head", complete},
		},
		{
			name: "an error after the stream began", accept: "*/*",
			handle: func(*federation.Call) error { time.Sleep(16 * time.Second); return federation.ErrNoEndpoint },
			want:   []string{"15 head", "15 :", `16 {"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Not Found"}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := startPiped(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
					if err := tt.handle(c); err != nil {
						return nil, err
					}
					return result(c, `{"resultType":"complete"}`), nil
				}}, nil)
				conn, began := p.dial(t), time.Now()
				write(t, conn, message("tools/call", `"name":"x"`), "Accept", "Accept: "+tt.accept, "Connection: close")
				_, got := arrivals(t, conn, began)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := startPiped(t, &fakeRouter{}, nil)
		conn, began := p.dial(t), time.Now()
		text := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e := decodeError(t, body(t, res)); res.StatusCode != 408 || e.Error.Code != -32600 || time.Since(began) != 30*time.Second {
			t.Errorf("status %d after %v, code %d", res.StatusCode, time.Since(began), e.Error.Code)
		}
	})
}

// TestSlowReaderOfACall holds that a client that does not take an event has its
// work cancelled.
func TestSlowReaderOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		var took time.Duration
		p, _ := startPiped(t, &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
			began := time.Now()
			err := c.Notify([]byte(progress1))
			took = time.Since(began)
			<-ctx.Done()
			ended <- err
			return nil, ctx.Err()
		}}, nil)
		write(t, p.dial(t), message("tools/call", `"name":"x"`))
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took < 10*time.Second || took > 11*time.Second {
			t.Errorf("given up after %v", took)
		}
	})
}

func TestKeptConnectionsHaveNoOldDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := startPiped(t, &fakeRouter{}, nil)
		conn := p.dial(t)
		br := bufio.NewReader(conn)
		for _, step := range []struct{ path, header, want string }{
			{"/mcp", "X-Request-Id: a", complete},
			{"/mcp", "Expect: 100-continue", complete},
			{"/mcp", "X-Request-Id: b", complete},
			{"/nothing", "X-Request-Id: c", `{"error":"Not Found"}` + "\n"},
			{"/mcp", "X-Request-Id: d", complete},
		} {
			req := request(t, "http://localhost"+step.path, message("tools/list", ""), step.header)
			go func() {
				if err := req.Write(conn); err != nil {
					t.Error(err)
				}
			}()
			res, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode == http.StatusContinue {
				if res, err = http.ReadResponse(br, nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := body(t, res); got != step.want {
				t.Errorf("status %d: %s", res.StatusCode, got)
			}
			time.Sleep(time.Minute) // longer than any write may take
		}
	})
}

// subscription is a listen stream of the fake federation. One without a queue has no
// messages.
func subscription(c *federation.Queue, closed chan struct{}) *federation.Subscription {
	if c == nil {
		c = federation.NewQueue(1)
	}
	return federation.NewSubscription([]byte(`{"ack":1}`), c, []byte(`{"end":1}`), func() {
		select {
		case <-closed:
		default:
			close(closed)
		}
	})
}

func listenMessage() string { return message("subscriptions/listen", `"notifications":{}`) }

func TestListenStream(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		feed   func(c *federation.Queue, g *Gateway)
		want   []string
	}{
		{
			name: "messages, then the federation ends it",
			feed: func(c *federation.Queue, _ *Gateway) {
				time.Sleep(time.Second)
				c.Push([]byte(`{"m":1}`))
				time.Sleep(time.Second)
				c.Push([]byte(`{"m":2}`))
				c.End()
			},
			want: []string{"0 head", `0 {"ack":1}`, `1 {"m":1}`, `2 {"m":2}`, `2 {"end":1}`},
		},
		{
			name: "comments in silence",
			feed: func(c *federation.Queue, _ *Gateway) {
				time.Sleep(20 * time.Second)
				c.Push([]byte(`{"m":1}`))
				time.Sleep(16 * time.Second)
				c.End()
			},
			want: []string{"0 head", `0 {"ack":1}`, "15 :", `20 {"m":1}`, "35 :", `36 {"end":1}`},
		},
		{
			name:   "lifetime",
			change: func(o *Options) { o.Limits.StreamLifetime = 20 * time.Second },
			feed:   func(*federation.Queue, *Gateway) {},
			want:   []string{"0 head", `0 {"ack":1}`, "15 :", `20 {"end":1}`},
		},
		{
			name: "shutdown",
			feed: func(_ *federation.Queue, g *Gateway) {
				time.Sleep(3 * time.Second)
				if err := g.edge.streams.drain(context.Background()); err != nil {
					panic(err)
				}
			},
			want: []string{"0 head", `0 {"ack":1}`, `3 {"end":1}`},
		},
	}
	for _, tt := range tests {
		for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(tt.name+", "+proto, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, closed := federation.NewQueue(8), make(chan struct{})
					p, g := startPiped(t, &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
						return subscription(c, closed), nil
					}}, tt.change)
					conn, began := p.dial(t), time.Now()
					var text strings.Builder
					if err := request(t, "http://localhost/mcp", listenMessage()).Write(&text); err != nil {
						t.Fatal(err)
					}
					go func() {
						if _, err := io.WriteString(conn, strings.Replace(text.String(), "HTTP/1.1", proto, 1)); err != nil {
							t.Error(err)
						}
						tt.feed(c, g)
					}()
					res, got := arrivals(t, conn, began)
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
					if res.Proto != proto || res.StatusCode != 200 || res.Header.Get("Date") == "" || !res.Close {
						t.Errorf("%s %s, headers %v", res.Proto, res.Status, res.Header)
					}
					if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
						t.Errorf("the connection is still open: %v", err)
					}
					<-closed
				})
			})
		}
	}
}

func TestSlowListenerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, closed := federation.NewQueue(8), make(chan struct{})
		p, _ := startPiped(t, &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
			return subscription(c, closed), nil
		}}, nil)
		conn, began := p.dial(t), time.Now()
		write(t, conn, listenMessage())
		if _, err := conn.Read(make([]byte, 4096)); err != nil { // the acknowledgement
			t.Fatal(err)
		}
		c.Push([]byte(`{"m":1}`)) // nobody takes it
		<-closed
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("closed after %v", took)
		}
		if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
			t.Errorf("got %q, %v", rest, err)
		}
	})
}

// TestStreamsThatDoNotEnd holds that a shutdown is bounded even when a client
// takes nothing.
func TestStreamsThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		p, g := startPiped(t, &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
			return subscription(nil, closed), nil
		}}, func(o *Options) { o.Limits.WriteTimeout, o.Limits.ShutdownGrace = time.Hour, 5*time.Second })
		write(t, p.dial(t), listenMessage())
		synctest.Wait()
		began := time.Now()
		err := g.Stop(context.Background())
		if err == nil || !strings.Contains(err.Error(), "stop listen streams: some listen streams had to be cut off") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		<-closed
	})
}
