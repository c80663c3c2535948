package main

import (
	"context"
	"fmt"
	"strconv"
)

// countAround begins to count what upstreams are asked while a system is
// measured, where that is of interest. The function that it gives ends that, and
// is told how many requests the clients have sent.
func (b *bench) countAround(ctx context.Context, m measurement, s *system) (func(sent int64) error, error) {
	var (
		count func(context.Context) (int64, error)
		add   func(sent, had int64)
	)
	switch {
	case s.name == sysCauseway && m.method == methodList:
		count = b.upstreamRequests
		add = func(_, had int64) { b.listRequests = max(b.listRequests, 0) + had }
	case m.name == callHandshake:
		count = func(ctx context.Context) (int64, error) { return askCount(ctx, b.handshakeAddr, callsPath) }
		add = func(sent, had int64) {
			b.handshake.sent, b.handshake.calls = b.handshake.sent+sent, b.handshake.calls+had
		}
	default:
		return func(int64) error { return nil }, nil
	}
	before, err := count(ctx)
	if err != nil {
		return nil, err
	}
	return func(sent int64) error {
		after, err := count(ctx)
		if err == nil {
			add(sent, after-before)
		}
		return err
	}, nil
}

// upstreamRequests gives how many MCP requests all modern upstreams have had.
func (b *bench) upstreamRequests(ctx context.Context) (int64, error) {
	var sum int64
	for _, at := range b.upstreams.at {
		n, err := askCount(ctx, at.addr, countPath)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// countOther ends the count of what the handshake upstream was asked, if that was
// measured.
func (b *bench) countOther(ctx context.Context) error {
	if b.handshake.sent == 0 {
		return nil
	}
	all, err := askCount(ctx, b.handshakeAddr, countPath)
	if err != nil {
		return err
	}
	calls, err := askCount(ctx, b.handshakeAddr, callsPath)
	b.handshake.other = all - calls
	return err
}

// askCount asks an upstream for one of its counts.
func askCount(ctx context.Context, addr, path string) (int64, error) {
	text, err := get(ctx, "http://"+addr+path, 64)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count of %s: %w", addr, err)
	}
	return n, nil
}
