package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds of the connections between replicas.
const (
	// peerConnect is how long a replica may take to take a connection.
	peerConnect = time.Second
	// peerSilence is after which a replica that is waited for is asked whether it is
	// still there, and peerPing how long it may take to say so.
	peerSilence = 2 * time.Second
	peerPing    = time.Second
	// peerIdle is after which an unused connection to a replica is closed.
	peerIdle = 30 * time.Second
	// peerStreams bounds the requests of another replica on one connection; it opens
	// more connections when it has more.
	peerStreams = 1000
)

// peers is how this replica reaches the others, and they it: over TLS with keys of
// the key ring, on a listener of its own.
type peers struct {
	presence
	identity *identity
	listener net.Listener
	client   *http.Transport
	log      *slog.Logger
}

// newPeers takes the port at which other replicas reach this one, whose address goes
// into what clients are given. Nothing is served there before serve.
func newPeers(opts *Options) (*peers, error) {
	c := opts.Cluster
	id, err := newIdentity(opts.Ring)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", c.PeerListen)
	if err != nil {
		return nil, fmt.Errorf("listen for other replicas: %w", err)
	}
	address := c.PeerAddress
	if address == "" {
		a, ok := l.Addr().(*net.TCPAddr)
		if !ok || a.IP.IsUnspecified() {
			return nil, errors.Join(fmt.Errorf("listen for other replicas: %s stands for all addresses of this machine: set peer.address to the one that the others use", l.Addr()), l.Close())
		}
		address = a.String()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	return &peers{
		presence: presence{boards: c.Boards, address: address, replica: c.Replica, log: opts.Logger},
		identity: id,
		listener: l,
		log:      opts.Logger,
		client: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: peerConnect}).DialContext,
			TLSClientConfig:     id.config(),
			TLSHandshakeTimeout: peerConnect,
			IdleConnTimeout:     peerIdle,
			DisableCompression:  true, // what is passed on is passed on as it is
			Protocols:           protocols,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: peerSilence, PingTimeout: peerPing},
		},
	}, nil
}

// close gives the port back, where serve has not been called, and connections.
func (p *peers) close(context.Context) error {
	p.client.CloseIdleConnections()
	if err := p.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// meet makes the gateway one of several; nil leaves it the only one.
func (g *Gateway) meet(p *peers) { g.edge.peers, g.edge.handshakes.peers = p, p }

// servePeers serves other replicas until the gateway stops, which waits for what
// they have passed on.
func (g *Gateway) servePeers() {
	p := g.edge.peers
	server := g.server(g.edge.peerRoutes())
	server.TLSConfig = p.identity.config()
	server.Protocols = p.client.Protocols
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: peerStreams}
	g.serveWith("peer listener", server, func() error { return server.ServeTLS(p.listener, "", "") })
	p.begin()
	g.cleanups.push("presence", p.end)
}
