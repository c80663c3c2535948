package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestGetStreamIsHeld holds the GET stream over both versions of HTTP: what is
// sent, that a change of subscriptions opens the new subscription before it closes
// the old one, and that nothing is left in the end.
func TestGetStreamIsHeld(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{}}
			if proto == "HTTP/2.0" {
				client = http2Client(t)
			}
			hub, filters := newHub(), make(chan string, 8)
			r := handler(nil)
			r.listen = func(ctx context.Context, c *federation.Call) (*federation.Subscription, error) {
				filters <- string(c.Request.Notifications.In(c.Request.Raw))
				return hub.listen(ctx, c)
			}
			reg := prometheus.NewRegistry()
			g, url := start(t, r, func(o *Options) { o.Registerer = reg })
			h := initialized(t, url+"/mcp", "2025-11-25", `{}`)
			before := runtime.NumGoroutine()
			req := h.request("", "Content-Type", "Accept", "Accept: text/event-stream")
			req.Method = http.MethodGet
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.Proto != proto || res.StatusCode != 200 || res.Header.Get("Content-Type") != typeSSE {
				t.Fatalf("%s %s: %v", res.Proto, res.Status, res.Header)
			}
			next := events(res.Body)
			expect := func(want string, wantErr error) {
				t.Helper()
				if e, err := next(); e != want || err != wantErr {
					t.Errorf("%q, %v, want %q, %v", e, err, want, wantErr)
				}
			}
			if f := <-filters; f != `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[]}` {
				t.Errorf("filter %s", f)
			}
			<-hub.opened
			const marked = `{"method":"notifications/tools/list_changed","jsonrpc":"2.0","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"a/b":2}}}`
			hub.publish(marked)
			const plain = `{"method":"notifications/tools/list_changed","jsonrpc":"2.0","params":{"_meta":{"a/b":2}}}`
			expect(":", nil)
			expect(plain, nil)
			if got := openStreams(t, reg); got != 1 {
				t.Errorf("%v streams are counted", got)
			}
			h.expect(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:\"1"}}`, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			if f := <-filters; f != `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:\"1"]}` {
				t.Errorf("filter %s", f)
			}
			<-hub.opened
			<-hub.closed
			hub.publish(marked)
			expect(plain, nil)
			if err := g.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-hub.closed
			for {
				e, err := next()
				if err == io.EOF {
					break
				}
				if e != ":" || err != nil {
					t.Fatalf("at the end: %q, %v", e, err)
				}
			}
			client.CloseIdleConnections()
			if !goroutines(before) {
				t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
			if m := g.edge.handshakes.states.(*memoryStates); len(m.attached) != 0 {
				t.Errorf("%d sessions have receivers", len(m.attached))
			}
			if got := openStreams(t, reg); got != 0 {
				t.Errorf("%v streams are counted", got)
			}
		})
	}
}

// TestGetStreamEndsWithItsSession holds that the stream is kept alive, and does not
// outlive the session's token.
func TestGetStreamEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		p, g := startPiped(t, &fakeRouter{listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
			return subscription(nil, closed), nil
		}}, nil)
		began := time.Now()
		who := tenant.Principal{Tenant: "default"}
		token, err := sealSession(g.edge.handshakes.ring, &session{
			id: "S", revision: revision202511, capabilities: []byte("{}"), expires: began.Add(20 * time.Second),
		}, federation.Endpoint{Tenant: "default"}, &who)
		if err != nil {
			t.Fatal(err)
		}
		get := func() net.Conn {
			conn := p.dial(t)
			_, err := io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+token+"\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		_, got := arrivals(t, get(), began)
		if diff := cmp.Diff([]string{"0 head", "0 :", "15 :", "20 :"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		<-closed
		res, _ := arrivals(t, get(), began)
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("after its end: %s", res.Status)
		}
	})
}
