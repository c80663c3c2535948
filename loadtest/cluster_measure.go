package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Waits of the measurements.
const (
	betweenChanges = 300 * time.Millisecond // so that each is looked at on its own
	listenWait     = 20 * time.Second       // until a replica listens to the upstream
)

// mode is one way to spread calls.
type mode struct {
	name     string
	replicas []*replica
	stopped  bool // Redis is
}

// modes are in the order of each round. What Redis's end costs is compared with the
// turn right before it.
func (c *cluster) modes() []mode {
	modes := []mode{{name: "1, without Redis", replicas: []*replica{c.alone}}}
	for n := range replicaCount {
		modes = append(modes, mode{name: fmt.Sprint(n + 1), replicas: c.replicas[:n+1]})
	}
	return append(modes, mode{name: fmt.Sprintf("%d, Redis stopped", replicaCount), replicas: c.replicas, stopped: true})
}

// measureCalls measures tools/call, spread over replicas by the clients themselves.
func (c *cluster) measureCalls(ctx context.Context) error {
	tools := c.catalogue.first(smallList)
	for _, r := range append([]*replica{c.alone}, c.replicas...) {
		if err := c.awaitChild(ctx, r.child, func(ctx context.Context) error {
			_, err := once(ctx, r.at.addr, newRequest(r.at, methodCall, tools))
			return err
		}); err != nil {
			return err
		}
	}
	modes := c.modes()
	for _, clients := range []int{16, 64} {
		c.say("measuring calls with %d clients", clients)
		samples := make([][]sample, len(modes))
		for range c.options.rounds {
			for i, m := range modes {
				s, err := c.measureMode(ctx, m, clients)
				if err != nil {
					return fmt.Errorf("calls, %d clients, %s: %w", clients, m.name, err)
				}
				samples[i] = append(samples[i], s)
			}
		}
		for i, m := range modes {
			c.report.calls = append(c.report.calls, callRow{clients: clients, mode: m.name, stopped: m.stopped, sample: medianSample(samples[i])})
		}
	}
	return nil
}

func (c *cluster) measureMode(ctx context.Context, m mode, clients int) (s sample, err error) {
	var addrs []string
	for _, r := range m.replicas {
		addrs = append(addrs, r.at.addr)
	}
	cpu := func() (time.Duration, bool) { return cpuOf(m.replicas) }
	if m.stopped {
		var paused error
		first := true
		cpu = func() (time.Duration, bool) {
			// The first time is when what counts begins.
			if first {
				first, paused = false, pause(c.redis.cmd.Process)
			}
			return cpuOf(m.replicas)
		}
		defer func() { err = errors.Join(err, paused, c.resumeRedis(ctx)) }()
	}
	s, err = generate(ctx, addrs, newRequest(m.replicas[0].at, methodCall, c.catalogue.first(smallList)), clients, c.options.duration, cpu)
	if err == nil && s.rate == 0 {
		err = fmt.Errorf("no answer within %v", c.options.duration)
	}
	return s, err
}

// cpuOf gives the processor time that replicas have used so far; false where that is
// not known.
func cpuOf(replicas []*replica) (sum time.Duration, ok bool) {
	for _, r := range replicas {
		used, ok := cpuTime(r.pid())
		if !ok {
			return 0, false
		}
		sum += used
	}
	return sum, true
}

// resumeRedis has Redis go on, and waits until all replicas use it again.
func (c *cluster) resumeRedis(ctx context.Context) error {
	if err := resume(c.redis.cmd.Process); err != nil {
		return fmt.Errorf("resume Redis: %w", err)
	}
	for _, r := range c.replicas {
		if err := c.awaitChild(ctx, r.child, r.healthy); err != nil {
			return err
		}
	}
	return nil
}

// measureFanout measures how long a change takes from its announcement to the
// clients of all replicas.
func (c *cluster) measureFanout(ctx context.Context) error {
	n := replicaCount * c.options.listeners
	if ok, err := c.mayOpen(n, "the fan-out"); !ok {
		return err
	}
	c.say("measuring the fan-out to %d clients", n)
	a := newAudience()
	defer a.close()
	for _, r := range c.replicas {
		if err := c.warm(ctx, r); err != nil {
			return err
		}
		if err := a.open(ctx, r.at, c.options.listeners); err != nil {
			return err
		}
	}
	if err := c.awaitListener(ctx); err != nil {
		return err
	}
	// The first one is a rehearsal: stacks and buffers grow with it.
	var began []time.Time
	for range 1 + c.options.changes {
		at, err := c.announce(ctx, a)
		if err != nil {
			return err
		}
		began = append(began, at)
	}
	all, err := a.latencies(began, 1)
	if err != nil {
		return err
	}
	most, err := askCount(ctx, c.upstream, mostPath)
	if err != nil {
		return err
	}
	c.report.fanout = &fanout{
		clients: n, changes: c.options.changes, upstreamStreams: most,
		p50: quantile(all, 0.50), p99: quantile(all, 0.99), max: all[len(all)-1],
	}
	return nil
}

// warm asks a replica for its list, so that changes are changes of what is known.
func (c *cluster) warm(ctx context.Context, r *replica) error {
	list := newRequest(r.at, methodList, c.catalogue.first(smallList))
	list.list.mayOmit = maxInvalid + 1 // the one that comes and goes
	_, err := once(ctx, r.at.addr, list)
	return err
}

// awaitListener waits until somebody listens to the upstream.
func (c *cluster) awaitListener(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listenWait)
	defer cancel()
	for {
		n, err := askCount(ctx, c.upstream, hearersPath)
		if err != nil {
			return err
		}
		if n > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no replica listens to the upstream after %v", listenWait)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// announce has the upstream announce a change, waits until all have heard of it,
// and gives when it began.
func (c *cluster) announce(ctx context.Context, a *audience) (time.Time, error) {
	reached := a.expect()
	began, err := askCount(ctx, c.upstream, announcePath)
	if err != nil {
		return time.Time{}, err
	}
	if err := a.await(ctx, reached); err != nil {
		return time.Time{}, fmt.Errorf("notifications: %w", err)
	}
	select {
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(betweenChanges):
	}
	return time.Unix(0, began), nil
}

// measureMemory measures what open listen streams take at one replica. That is a
// new process, since one that has worked has memory to spare.
func (c *cluster) measureMemory(ctx context.Context) error {
	n := c.options.streams
	if ok, err := c.mayOpen(n, "the memory of listen streams"); !ok {
		return err
	}
	c.say("measuring the memory of %d listen streams", n)
	r, err := c.startReplica(ctx, c.plan, "replica-memory", c.redisAt)
	if err != nil {
		return err
	}
	if err := c.warm(ctx, r); err != nil {
		return err
	}
	m := &memory{streams: n}
	if m.base, err = measureFootprint(ctx, r); err != nil {
		return err
	}
	a := newAudience()
	defer a.close()
	if err := a.open(ctx, r.at, n); err != nil {
		return err
	}
	if m.open, err = measureFootprint(ctx, r); err != nil {
		return err
	}
	if err := c.awaitListener(ctx); err != nil {
		return err
	}
	if _, err := c.announce(ctx, a); err != nil {
		return err
	}
	if m.told, err = measureFootprint(ctx, r); err != nil {
		return err
	}
	c.report.memory = m
	return nil
}
