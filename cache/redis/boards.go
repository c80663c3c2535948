package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/cache"
)

// A board is a hash. Fields of one have no life of their own in the versions of
// Redis that are in use, so each value begins with the time of its end, in
// microseconds, and a bar.
const luaFields = luaNow + `
local function field(v)
  local bar = string.find(v, '|', 1, true)
  return tonumber(string.sub(v, 1, bar - 1)), string.sub(v, bar + 1)
end
`

var (
	postScript = goredis.NewScript(luaFields + `
local at = now()
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if field(all[i + 1]) <= at then redis.call('HDEL', KEYS[1], all[i]) end
end
redis.call('HSET', KEYS[1], ARGV[1], whole(at + ARGV[3] * 1000) .. '|' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[3]))
return 1`)

	// readScript answers fields and values in turn.
	readScript = goredis.NewScript(luaFields + `
local at = now()
local all = redis.call('HGETALL', KEYS[1])
local live = {}
for i = 1, #all, 2 do
  local ends, value = field(all[i + 1])
  if ends > at then
    live[#live + 1] = all[i]
    live[#live + 1] = value
  end
end
return live`)
)

// Post implements cache.Boards.
func (s *Store) Post(ctx context.Context, sc cache.Scope, board, field string, value []byte, ttl time.Duration) error {
	if _, err := s.run(ctx, postScript, []string{s.key(sc, kindBoard, board)}, field, value, millis(ttl)); err != nil {
		return fmt.Errorf("post to a board: %w", err)
	}
	return nil
}

// Remove implements cache.Boards.
func (s *Store) Remove(ctx context.Context, sc cache.Scope, board, field string) error {
	err := s.guard(ctx, func(ctx context.Context) error {
		return s.client.HDel(ctx, s.key(sc, kindBoard, board), field).Err()
	})
	if err != nil {
		return fmt.Errorf("remove from a board: %w", err)
	}
	return nil
}

// Read implements cache.Boards.
func (s *Store) Read(ctx context.Context, sc cache.Scope, board string) (map[string][]byte, error) {
	v, err := s.run(ctx, readScript, []string{s.key(sc, kindBoard, board)})
	if err != nil {
		return nil, fmt.Errorf("read a board: %w", err)
	}
	r, err := list(v, 0)
	if err != nil {
		return nil, fmt.Errorf("read a board: %w", err)
	}
	fields := make(map[string][]byte, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		name, _ := r[i].(string)
		value, _ := r[i+1].(string)
		fields[name] = []byte(value)
	}
	return fields, nil
}
