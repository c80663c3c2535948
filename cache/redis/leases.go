package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

// A lease is a hash: h is who has it, e and n are its fence.
var (
	// acquireScript answers whether the lease was had, by whom, and its fence.
	acquireScript = goredis.NewScript(luaDraw + `
local l = redis.call('HMGET', KEYS[1], 'h', 'e', 'n')
if l[1] then return {0, l[1], l[2], l[3]} end
local e, n = draw(KEYS[2], ARGV[3], ARGV[4])
redis.call('HSET', KEYS[1], 'h', ARGV[1], 'e', e, 'n', n)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, ARGV[1], e, n}`)

	luaHeld = `
local l = redis.call('HMGET', KEYS[1], 'h', 'e', 'n')
if l[1] ~= ARGV[1] or l[2] ~= ARGV[2] or l[3] ~= ARGV[3] then return 0 end
`
	renewScript   = goredis.NewScript(luaHeld + `return redis.call('PEXPIRE', KEYS[1], ARGV[4])`)
	releaseScript = goredis.NewScript(luaHeld + `return redis.call('DEL', KEYS[1])`)

	drawScript = goredis.NewScript(luaDraw + `
local e, n = draw(KEYS[1], ARGV[1], ARGV[2])
return {e, n}`)
)

// Acquire implements cache.Leases.
func (s *Store) Acquire(ctx context.Context, sc cache.Scope, name, holder string, ttl time.Duration) (l cache.Lease, ok bool, err error) {
	keys := []string{s.key(sc, kindLease, name), s.key(sc, kindFence)}
	v, err := s.run(ctx, acquireScript, keys, holder, millis(ttl), newEpoch(), millis(fenceLife))
	if err != nil {
		return cache.Lease{}, false, fmt.Errorf("acquire a lease: %w", err)
	}
	r, err := list(v, 4)
	if err != nil {
		return cache.Lease{}, false, fmt.Errorf("acquire a lease: %w", err)
	}
	l = cache.Lease{Scope: sc, Name: name}
	l.Holder, _ = r[1].(string)
	if l.Fence, err = fence(r[2:]); err != nil {
		return cache.Lease{}, false, fmt.Errorf("acquire a lease: %w", err)
	}
	return l, r[0] == int64(1), nil
}

// Renew implements cache.Leases.
func (s *Store) Renew(ctx context.Context, l cache.Lease, ttl time.Duration) (ok bool, err error) {
	v, err := s.run(ctx, renewScript, []string{s.key(l.Scope, kindLease, l.Name)}, append(held(l), millis(ttl))...)
	if err != nil {
		return false, fmt.Errorf("renew a lease: %w", err)
	}
	return v == int64(1), nil
}

// Release implements cache.Leases.
func (s *Store) Release(ctx context.Context, l cache.Lease) error {
	if _, err := s.run(ctx, releaseScript, []string{s.key(l.Scope, kindLease, l.Name)}, held(l)...); err != nil {
		return fmt.Errorf("release a lease: %w", err)
	}
	return nil
}

// Draw implements cache.Leases.
func (s *Store) Draw(ctx context.Context, sc cache.Scope) (cache.Fence, error) {
	v, err := s.run(ctx, drawScript, []string{s.key(sc, kindFence)}, newEpoch(), millis(fenceLife))
	if err != nil {
		return cache.Fence{}, fmt.Errorf("draw a fence: %w", err)
	}
	r, err := list(v, 2)
	if err != nil {
		return cache.Fence{}, fmt.Errorf("draw a fence: %w", err)
	}
	return fence(r)
}

// held gives what a lease's key must hold for it to be this one.
func held(l cache.Lease) []any {
	return []any{l.Holder, strconv.FormatUint(l.Fence.Epoch, 10), strconv.FormatUint(l.Fence.N, 10)}
}

// fence reads a fence: epoch and number.
func fence(r []any) (f cache.Fence, err error) {
	if f.Epoch, err = number(r[0]); err != nil {
		return cache.Fence{}, err
	}
	if f.N, err = number(r[1]); err != nil {
		return cache.Fence{}, err
	}
	return f, nil
}
