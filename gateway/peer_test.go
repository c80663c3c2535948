package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// clustered are the options of one of several replicas.
func clustered(shared *cache.MemoryShared, ring *seal.Ring) Options {
	o := testOptions()
	o.Ring = ring
	o.Cluster = &Cluster{
		Cluster: federation.Cluster{Replica: "r", Lists: cache.NewMemory(0), Leases: shared, Boards: shared, Bus: shared},
		Values:  shared, PeerListen: "127.0.0.1:0", Degraded: func() string { return "" },
	}
	return o
}

// startPeer runs one of several replicas in front of r until the test ends.
func startPeer(t *testing.T, r router, opts Options) *Gateway {
	t.Helper()
	return startPeerEdge(t, r, opts, func(*edge) {})
}

// startPeerEdge is startPeer for an edge that is completed before it serves.
func startPeerEdge(t *testing.T, r router, opts Options, complete func(*edge)) *Gateway {
	t.Helper()
	budget := mcp.NewBudget(opts.Limits.MaxBuffered)
	metrics, err := telemetry.NewMetrics(opts.Registerer, budget)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPeers(&opts)
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(opts, r, budget, metrics)
	g.meet(p)
	g.cleanups.push("peers", p.close)
	complete(g.edge)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if used := budget.Used(); used != 0 {
			t.Errorf("%d buffered bytes are left", used)
		}
	})
	return g
}

func ringOf(t *testing.T, ids ...string) *seal.Ring {
	t.Helper()
	var keys []seal.Key
	for _, id := range ids {
		keys = append(keys, seal.Key{ID: id, Secret: []byte(strings.Repeat(id, seal.MinSecret))})
	}
	ring, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Only who has a key of the ring is a peer, on both sides of a connection.
func TestPeersKnowOneAnotherByTheirRing(t *testing.T) {
	tests := []struct {
		name         string
		client, host []string // ids of keys
		want         bool
	}{
		{"same", []string{"a"}, []string{"a"}, true},
		{"a new key that not all seal with yet", []string{"b", "a"}, []string{"a", "b"}, true},
		{"other keys", []string{"b"}, []string{"a"}, false},
		{"the client's key is not the host's", []string{"b", "a"}, []string{"a"}, false},
		{"the host's key is not the client's", []string{"a"}, []string{"b", "a"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := startPeer(t, &fakeRouter{}, clustered(cache.NewShared(), ringOf(t, tt.host...)))
			opts := clustered(cache.NewShared(), ringOf(t, tt.client...))
			client, err := newPeers(&opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.close(t.Context()) }()
			res, done, err := client.send(t.Context(), host.edge.peers.address, pathAnswer, answerHead{}, []byte("{}"))
			if err == nil {
				defer done()
				defer res.Body.Close()
			}
			if got := err == nil; got != tt.want {
				t.Errorf("error %v", err)
			}
		})
	}
}

// What is no peer learns nothing and can do nothing.
func TestPeerListenerRefusesStrangers(t *testing.T) {
	ring := seal.NewRandom()
	served := false
	g := startPeer(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		served = true
		return result(c, `{}`), nil
	}}, clustered(cache.NewShared(), ring))
	address := g.edge.peers.address
	own, err := newIdentity(ring)
	if err != nil {
		t.Fatal(err)
	}
	_, strange, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := certificate(strange)
	if err != nil {
		t.Fatal(err)
	}
	stranger := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: strange}
	// The public certificate of a peer under a key of one's own.
	thief := tls.Certificate{Certificate: own.own.Certificate, PrivateKey: strange}
	config := func(change func(*tls.Config)) *tls.Config {
		c := own.config()
		c.VerifyConnection = nil
		change(c)
		return c
	}
	tests := []struct {
		name   string
		config *tls.Config // nil for no TLS
		text   string
	}{
		{"plain HTTP", nil, "POST /v1/request HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		{"no certificate", config(func(c *tls.Config) { c.Certificates = nil }), ""},
		{"another key", config(func(c *tls.Config) { c.Certificates = []tls.Certificate{stranger} }), ""},
		{"a copied certificate", config(func(c *tls.Config) { c.Certificates = []tls.Certificate{thief} }), ""},
		{"an older TLS", config(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), ""},
		{"another protocol", config(func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }), ""},
		{"no protocol", config(func(c *tls.Config) { c.NextProtos = nil }), "POST /v1/request HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if tt.config != nil {
				secured := tls.Client(conn, tt.config)
				if err := secured.HandshakeContext(t.Context()); err != nil {
					return // refused at once
				}
				conn = secured
			}
			_, _ = io.WriteString(conn, tt.text) // it may be refused by now
			got, _ := io.ReadAll(conn)
			if len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.0 400 Bad Request\r\n") {
				t.Errorf("it was told %q", got)
			}
		})
	}
	if served {
		t.Error("a request of a stranger was served")
	}
}

// A replica has to know where others reach it.
func TestPeerAddress(t *testing.T) {
	tests := []struct{ name, listen, address, want, fault string }{
		{name: "that of the listener", listen: "127.0.0.1:0", want: "127.0.0.1:"},
		{name: "another one", listen: "127.0.0.1:0", address: "pod-1:7946", want: "pod-1:7946"},
		{name: "all addresses", listen: "0.0.0.0:0", fault: "set peer.address"},
		{name: "all addresses, and one to be told", listen: "0.0.0.0:0", address: "10.0.0.7:7946", want: "10.0.0.7:7946"},
		{name: "none of this machine", listen: "192.0.2.1:1", fault: "listen for other replicas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := clustered(cache.NewShared(), seal.NewRandom())
			opts.Cluster.PeerListen, opts.Cluster.PeerAddress = tt.listen, tt.address
			p, err := newPeers(&opts)
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(p.address, tt.want) {
				t.Errorf("address %s", p.address)
			}
			if err := p.close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// passing makes a message to the peer listener as another replica sends it.
func passing(t *testing.T, g *Gateway, path string, head any, body string) (status int, header http.Header, text string) {
	t.Helper()
	raw, err := appendHead(head)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+g.edge.peers.address+path, bytes.NewReader(append(raw, body...)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.edge.peers.client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(got)
}

// A request that was passed on comes with who sent it, and is not passed on again.
func TestPassedRequests(t *testing.T) {
	who := tenant.Principal{Tenant: "acme", Issuer: "https://idp", Subject: "ann", ClientID: "c", Scopes: []string{"mcp"}, Groups: []string{"g", "é\x00"}}
	var got *federation.Call
	answer := func(c *federation.Call) (*federation.Reply, error) {
		return result(c, `{"resultType":"complete"}`), nil
	}
	shared := cache.NewShared()
	g := startPeer(t, &fakeRouter{
		handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) { got = c; return answer(c) },
		listen: func(context.Context, *federation.Call) (*federation.Subscription, error) {
			t.Error("a stream was opened")
			return nil, errors.New("no")
		},
	}, clustered(shared, seal.NewRandom()))
	body := message("tools/call", `"name":"x","requestState":"s"`)
	head := func(change func(*passedHead)) *passedHead {
		req := request(t, "http://x/mcp", body, "X-Odd: a\xff", "X-Two: 1", "X-Two: 2", "Authorization: Bearer hush", "Cookie: hush")
		h := &passedHead{
			Endpoint: federation.Endpoint{Tenant: "acme", Alias: "weather"}, Principal: who, RequestID: "r-1", Client: "10.0.0.1",
			Header: passedHeader(req.Header),
		}
		change(h)
		return h
	}
	tests := []struct {
		name   string
		change func(*passedHead)
		body   string
		err    error
		status int
		want   string // part of the answer
		passed bool   // it answers the client
	}{
		{name: "served", status: 200, want: `"result":{"resultType":"complete"}`, passed: true},
		{name: "held elsewhere", err: &federation.Elsewhere{Holder: "10.0.0.9:1"}, status: 200, want: "no call waits under this requestState", passed: true},
		{name: "no retry", body: message("tools/call", `"name":"x"`), status: 200, want: "no call waits", passed: true},
		{name: "a stream", body: message("subscriptions/listen", `"notifications":{},"requestState":"s"`), status: 200, want: "no call waits", passed: true},
		{name: "no JSON", body: "{", status: 400, want: "-32700", passed: true},
		{name: "headers that do not match", change: func(h *passedHead) { h.Header["Mcp-Name"] = [][]byte{[]byte("y")} }, status: 400, want: "-32020", passed: true},
		{name: "no such endpoint", change: func(h *passedHead) { h.Endpoint.Tenant, h.Principal.Tenant = "nobody", "nobody" }, status: 404, want: "Not Found", passed: true},
		{name: "a user of another tenant", change: func(h *passedHead) { h.Endpoint.Tenant, h.Endpoint.Alias = "default", "" }, status: 400, want: "Bad Request"},
		{name: "no id", change: func(h *passedHead) { h.RequestID = "" }, status: 400, want: "Bad Request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got = nil
			if tt.change == nil {
				tt.change = func(*passedHead) {}
			}
			if tt.body == "" {
				tt.body = body
			}
			answer = func(c *federation.Call) (*federation.Reply, error) {
				return result(c, `{"resultType":"complete"}`), tt.err
			}
			if tt.err != nil {
				answer = func(*federation.Call) (*federation.Reply, error) { return nil, tt.err }
			}
			status, header, text := passing(t, g, pathRequest, head(tt.change), tt.body)
			if status != tt.status || !strings.Contains(text, tt.want) || (header.Get(headerPassed) != "") != tt.passed {
				t.Errorf("%d %v %s", status, header, text)
			}
			if tt.name != "served" {
				return
			}
			if diff := cmp.Diff(who, got.Principal); diff != "" {
				t.Errorf("principal (-want +got):\n%s", diff)
			}
			if got.Endpoint != (federation.Endpoint{Tenant: "acme", Alias: "weather"}) || header.Get("X-Request-Id") != "r-1" {
				t.Errorf("endpoint %v, header %v", got.Endpoint, header)
			}
			h := got.Header
			if h.Get("X-Odd") != "a\xff" || len(h["X-Two"]) != 2 || h.Get("Authorization") != "" || h.Get("Cookie") != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
	t.Run("a head that is cut off", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+g.edge.peers.address+pathRequest, strings.NewReader("\x00\x00\x10\x00{"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.edge.peers.client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 400 || res.Header.Get(headerPassed) != "" {
			t.Errorf("%s %v", res.Status, res.Header)
		}
	})
}

// breaking stands for the replica that holds a call: it sends what it is to, and
// breaks off.
func breaking(t *testing.T, ring *seal.Ring, head http.Header, parts ...string) string {
	t.Helper()
	id, err := newIdentity(ring)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	s := &http.Server{TLSConfig: id.config(), Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range head {
			w.Header()[name] = values
		}
		w.Header().Set(headerPassed, "1")
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return l.Addr().String()
}

// A holder that breaks off in the middle of its answer: where a message can still be
// sent, it says so; else the connection is cut off.
func TestHolderBreaksOff(t *testing.T) {
	const gone = `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"The replica of the gateway that held the call is gone","data":{"alias":"a","reason":"interrupted","retryable":false}}}`
	sse := http.Header{"Content-Type": {typeSSE}}
	tests := []struct {
		name  string
		head  http.Header
		parts []string
		want  string
		cut   bool
	}{
		{"before it begins", nil, nil, gone, false},
		{"after an event", sse, []string{"data: 1\n\n"}, "data: 1\n\nevent: message\ndata: " + gone + "\n\n", false},
		{"after a comment", sse, []string{":\n", "\n"}, ":\n\nevent: message\ndata: " + gone + "\n\n", false},
		{"in an event", sse, []string{"data: 1\n\ndata"}, "data: 1\n\ndata", true},
		{"in JSON", http.Header{"Content-Type": {typeJSON}, "Content-Length": {"20"}}, []string{`{"a":`}, `{"a":`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ring := seal.NewRandom()
			holder := breaking(t, ring, tt.head, tt.parts...)
			g := startPeer(t, &fakeRouter{handle: func(context.Context, *federation.Call) (*federation.Reply, error) {
				return nil, &federation.Elsewhere{Holder: holder, Alias: "a"}
			}}, clustered(cache.NewShared(), ring))
			res := do(t, request(t, "http://"+g.Addr().String()+"/mcp", message("tools/call", `"name":"x","requestState":"s"`)))
			got, err := io.ReadAll(bufio.NewReader(res.Body))
			if string(got) != tt.want || (err != nil) != tt.cut {
				t.Errorf("%v\ngot  %q\nwant %q", err, got, tt.want)
			}
		})
	}
}

// A replica that is not on the board any more is not tried, unless the board may
// lack replicas that are there.
func TestPresence(t *testing.T) {
	shared := cache.NewShared()
	at := func(address string) *presence {
		return &presence{boards: shared, address: address, replica: address, log: testLogger(io.Discard)}
	}
	a, b := at("a"), at("b")
	post := func(p *presence) {
		p.post(t.Context())
	}
	old := func(p *presence) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.since = p.since.Add(-2 * presenceTime)
	}
	gone := func(step string, want bool) {
		t.Helper()
		if got := a.gone(t.Context(), "b"); got != want {
			t.Errorf("%s: gone %t", step, got)
		}
	}
	gone("nobody has posted", false)
	post(a)
	gone("others may not have posted yet", false)
	post(a)
	old(a)
	gone("b has not posted", true)
	post(b)
	gone("b has posted", false)
	if err := shared.Remove(t.Context(), cache.Scope{}, boardReplicas, "b"); err != nil {
		t.Fatal(err)
	}
	gone("b has left", true)
	if err := shared.Remove(t.Context(), cache.Scope{}, boardReplicas, "a"); err != nil {
		t.Fatal(err)
	}
	gone("the board was lost", false)
	post(a)
	gone("the board was lost a moment ago", false)
}

func FuzzReadHead(f *testing.F) {
	good, err := appendHead(&passedHead{RequestID: "r", Header: map[string][][]byte{"A": {[]byte("\xff")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(good, "body"...))
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var head passedHead
		budget := mcp.NewBudget(1 << 20)
		n, err := readHead(bytes.NewReader(raw), &head, budget)
		if err == nil && n > int64(len(raw)) {
			t.Errorf("%d bytes of %d were read", n, len(raw))
		}
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are left in the budget", used)
		}
	})
}
