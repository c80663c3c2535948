package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// luaNow gives the server's time to a script, in microseconds. A double, which is
// what Lua has, holds them exactly until the year 2255.
const luaNow = `
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local function whole(n) return string.format('%.0f', n) end
`

// luaDraw draws the next fence of the counter at key. epoch is that of a counter
// which is made.
const luaDraw = luaNow + `
local function draw(key, epoch, keep)
  local c = redis.call('HMGET', key, 'e', 'n')
  local n = now()
  if c[1] then
    epoch = c[1]
    n = math.max(tonumber(c[2]) + 1, n)
  end
  redis.call('HSET', key, 'e', epoch, 'n', whole(n))
  redis.call('PEXPIRE', key, keep)
  return epoch, whole(n)
end
`

// fenceLife is how long a counter of fences is kept after its last use. It may be
// lost: the time goes on, and the epoch tells.
const fenceLife = 7 * 24 * time.Hour

// run runs a script, which Redis is sent when it does not have it (any more).
func (s *Store) run(ctx context.Context, script *goredis.Script, keys []string, args ...any) (any, error) {
	var v any
	err := s.guard(ctx, func(ctx context.Context) error {
		var err error
		v, err = script.Run(ctx, s.client, keys, args...).Result()
		return err
	})
	if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, err
	}
	return v, nil
}

// millis gives a duration as PEXPIRE takes it: at least 1.
func millis(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// newEpoch makes a random number by which a store is told from one that has lost
// what it knew.
func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return strconv.FormatUint(binary.BigEndian.Uint64(b[:]), 10)
}

var errReply = errors.New("redis gave an answer that is not understood")

// list gives the elements of a script's answer, at least n.
func list(v any, n int) ([]any, error) {
	l, ok := v.([]any)
	if !ok || len(l) < n {
		return nil, errReply
	}
	return l, nil
}

// number reads a whole number of a script's answer.
func number(v any) (uint64, error) {
	switch v := v.(type) {
	case int64:
		return uint64(v), nil
	case string:
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errReply, err)
		}
		return n, nil
	default:
		return 0, errReply
	}
}
