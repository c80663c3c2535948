package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

var (
	// takeScript is a bucket: u is what was used of it by the time t, of which the
	// rate gives some back all the time. One that is not there is unused, so it is
	// kept for as long as that takes. ARGV are the limit, the interval in microseconds
	// and what is wanted; the answer is what was got, and the time in microseconds
	// until there is one when that was none.
	takeScript = goredis.NewScript(luaNow + `
local limit, interval, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local c = redis.call('HMGET', KEYS[1], 'u', 't')
local at, used = now(), 0
if c[1] then
  local since = tonumber(c[2])
  at = math.max(at, since)
  used = math.max(0, tonumber(c[1]) - (at - since) * limit / interval)
  used = math.min(used, limit) -- another rate may have let it go further
end
local got = math.min(want, math.floor(limit - used + 1e-6))
if got < 1 then return {0, math.ceil((used + 1 - limit) * interval / limit)} end
used = used + got
redis.call('HSET', KEYS[1], 'u', string.format('%.17g', used), 't', whole(at))
redis.call('PEXPIRE', KEYS[1], math.ceil(used * interval / limit / 1000) + 1)
return {got, 0}`)

	// shareScript is a board of numbers. ARGV are the holder, what it wants, the
	// limit of all, and the life of its share in milliseconds.
	shareScript = goredis.NewScript(luaFields + `
local at, others = now(), 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ends, n = field(all[i + 1])
  if ends <= at then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] ~= ARGV[1] then
    others = others + tonumber(n)
  end
end
local got = math.max(0, math.min(tonumber(ARGV[2]), ARGV[3] - others))
if got == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], whole(at + ARGV[4] * 1000) .. '|' .. whole(got))
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[4]))
end
return got`)
)

// Take implements cache.Counters.
func (s *Store) Take(ctx context.Context, sc cache.Scope, counter string, r cache.Rate, want int64) (got int64, wait time.Duration, err error) {
	if want <= 0 {
		return 0, 0, nil
	}
	if r.Limit <= 0 || r.Interval <= 0 {
		return 0, r.Interval, nil
	}
	v, err := s.run(ctx, takeScript, []string{s.key(sc, kindRate, counter)}, r.Limit, max(1, r.Interval.Microseconds()), want)
	if err != nil {
		return 0, 0, fmt.Errorf("take from a rate: %w", err)
	}
	l, err := list(v, 2)
	if err != nil {
		return 0, 0, fmt.Errorf("take from a rate: %w", err)
	}
	got, _ = l[0].(int64)
	micros, _ := l[1].(int64)
	return got, time.Duration(micros) * time.Microsecond, nil
}

// Share implements cache.Counters.
func (s *Store) Share(ctx context.Context, sc cache.Scope, counter, holder string, want, limit int64, ttl time.Duration) (got int64, err error) {
	v, err := s.run(ctx, shareScript, []string{s.key(sc, kindShare, counter)}, holder, want, limit, millis(ttl))
	if err != nil {
		return 0, fmt.Errorf("share a limit: %w", err)
	}
	got, _ = v.(int64)
	return got, nil
}
