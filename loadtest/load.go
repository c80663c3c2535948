package main

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// warmUp is how long all clients run before a measurement starts.
const warmUp = 100 * time.Millisecond

// grace is how long an answer may take before the measurement fails.
const grace = 10 * time.Second

// sample is one measurement of one system.
type sample struct {
	rate     float64 // requests per second
	p50, p99 time.Duration
	cpu      time.Duration // of the system's processes for each request; 0 when not known
	sent     int64         // all requests, also those that do not count
}

// generate is the closed loop: each of c clients has a connection of its own to
// each address, takes them in turn, and sends its next request when the last one's
// answer was read and checked. What
// was sent after the warm-up and answered within d counts; the sample has no more
// than how many were sent when nothing was. The first wrong answer fails the
// measurement. cpu gives the processor time that the system has used so far, or
// false.
func generate(ctx context.Context, addrs []string, r *request, c int, d time.Duration, cpu func() (time.Duration, bool)) (sample, error) {
	clients := make([]*client, c)
	for i := range clients {
		clients[i] = &client{request: r, wire: slices.Clone(r.bytes), next: clientID(i), times: make([]time.Duration, 0, 1<<16)}
		defer clients[i].close()
		if err := clients[i].connect(ctx, addrs, warmUp+d+grace); err != nil {
			return sample{}, err
		}
	}
	start := time.Now().Add(warmUp)
	end := start.Add(d)
	group, ctx := errgroup.WithContext(ctx)
	for _, cl := range clients {
		group.Go(func() error { return cl.loop(ctx, start, end) })
	}
	// The clients' own stop times hold; this only reads a counter near them.
	var used [2]time.Duration
	var known [2]bool
	group.Go(func() error {
		for i, at := range []time.Time{start, end} {
			select {
			case <-time.After(time.Until(at)):
				used[i], known[i] = cpu()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return sample{}, err
	}
	var times []time.Duration
	var s sample
	for i, cl := range clients {
		times = append(times, cl.times...)
		s.sent += cl.next - clientID(i)
	}
	if len(times) == 0 {
		return s, nil
	}
	slices.Sort(times)
	s.rate, s.p50, s.p99 = float64(len(times))/d.Seconds(), quantile(times, 0.50), quantile(times, 0.99)
	if known[0] && known[1] {
		s.cpu = (used[1] - used[0]) / time.Duration(len(times))
	}
	return s, nil
}

// clientID is the first id of a client. Ids are apart, so that no client takes
// another one's answer for its own.
func clientID(i int) int64 { return firstID + int64(i)*1_000_000 }

// client is one client of the closed loop.
type client struct {
	conns   []*conn // that it takes in turn
	request *request
	wire    []byte // the request's bytes, with this client's id
	next    int64
	times   []time.Duration
}

// connect connects the client for a time, and sends one request to each address.
func (c *client) connect(ctx context.Context, addrs []string, life time.Duration) error {
	for _, addr := range addrs {
		cn, err := dial(ctx, addr)
		if err != nil {
			return err
		}
		c.conns = append(c.conns, cn)
		if err := cn.c.SetDeadline(time.Now().Add(life)); err != nil {
			return err
		}
	}
	for range addrs {
		if _, err := c.first(); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) close() {
	for _, cn := range c.conns {
		_ = cn.c.Close() // the server may have closed it first
	}
}

// conn gives the connection whose turn it is.
func (c *client) conn() *conn { return c.conns[c.next%int64(len(c.conns))] }

// first sends one request, looks at the whole of its answer, and gives its size.
func (c *client) first() (int, error) {
	digits := c.request.setID(c.wire, c.next)
	resp, err := c.conn().roundTrip(c.wire)
	if err != nil {
		return 0, err
	}
	c.next++
	return len(resp.body), c.request.checkWhole(&resp, digits)
}

func (c *client) loop(ctx context.Context, start, end time.Time) error {
	for ctx.Err() == nil {
		sent := time.Now()
		if !sent.Before(end) {
			return nil
		}
		digits := c.request.setID(c.wire, c.next)
		cn := c.conn()
		c.next++
		resp, err := cn.roundTrip(c.wire)
		got := time.Now()
		if err != nil {
			return err
		}
		if err := c.request.check(&resp, digits); err != nil {
			return err
		}
		if !sent.Before(start) && !got.After(end) {
			c.times = append(c.times, got.Sub(sent))
		}
	}
	return ctx.Err()
}

// quantile gives the smallest of sorted times that the share q of them does not
// exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median gives the middle of values, and of an even number the mean of the two
// in the middle.
func median[T int | float64 | time.Duration](values []T) T {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
