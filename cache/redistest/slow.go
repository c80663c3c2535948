package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands in front of a server and delays what it answers, or lets nothing
// through.
type Proxy struct {
	target string
	ln     net.Listener

	mu    sync.Mutex
	delay time.Duration
	cut   bool
	ended bool
	conns map[*proxied]bool
	wg    sync.WaitGroup
}

// proxied are the two connections of one client.
type proxied struct {
	client, server net.Conn
	gone           chan struct{}
	once           sync.Once
}

func (c *proxied) close() {
	c.once.Do(func() {
		close(c.gone)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// Slow starts a proxy in front of a server that listens on target, host and port.
// It ends with the test.
func Slow(tb testing.TB, target string, delay time.Duration) *Proxy {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{target: target, ln: ln, delay: delay, conns: map[*proxied]bool{}}
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		_ = ln.Close()
		p.closeAll()
		p.wg.Wait()
	})
	return p
}

// Addr gives the proxy's host and port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// URL gives the proxy's URL, without a user.
func (p *Proxy) URL() string { return "redis://" + p.Addr() + "/0" }

// Delay changes by how much answers are delayed, from the next one on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut is what a network does that loses all packets: connections stand, or seem to
// come about, but nothing arrives any more in either direction.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
}

// Heal ends what Cut began. What was sent meanwhile is lost, so connections that
// stood at that time are closed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.cut = false
	p.mu.Unlock()
	p.closeAll()
}

func (p *Proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// state gives the delay, and whether nothing passes.
func (p *Proxy) state() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.cut
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve relays one client's connection until one side closes it.
func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		return
	}
	c := &proxied{client: client, server: server, gone: make(chan struct{})}
	defer c.close()
	if !p.add(c) {
		return
	}
	defer p.remove(c)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer c.close()
		_ = p.relay(c, server, client, func(time.Duration) time.Duration { return 0 })
	})
	wg.Go(func() {
		defer c.close()
		_ = p.relay(c, client, server, func(d time.Duration) time.Duration { return d })
	})
	wg.Wait()
}

// add tells whether the proxy still runs.
func (p *Proxy) add(c *proxied) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) remove(c *proxied) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

var errGone = errors.New("the connection is gone")

// chunk is what was read at one time.
type chunk struct {
	data []byte
	due  time.Time
}

// relay copies from one side to the other, each chunk late by as much as late
// makes of the proxy's delay.
func (p *Proxy) relay(c *proxied, to, from net.Conn, late func(time.Duration) time.Duration) error {
	queue := make(chan chunk, 1024)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(queue)
	wg.Go(func() {
		for ch := range queue {
			select {
			case <-time.After(time.Until(ch.due)):
			case <-c.gone:
				continue
			}
			if _, cut := p.state(); cut {
				continue
			}
			if _, err := to.Write(ch.data); err != nil {
				c.close()
			}
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			delay, _ := p.state()
			select {
			case queue <- chunk{append([]byte(nil), buf[:n]...), time.Now().Add(late(delay))}:
			case <-c.gone:
				return errGone
			}
		}
		if err != nil {
			return err
		}
	}
}
