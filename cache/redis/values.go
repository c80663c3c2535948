package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// updateScript replaces a value if it still is what it was: ARGV are whether there
// was one and which, whether there is to be one and which, and its life.
var updateScript = goredis.NewScript(`
local v = redis.call('GET', KEYS[1])
if ARGV[1] == '1' then
  if v ~= ARGV[2] then return 0 end
elseif v then
  return 0
end
if ARGV[3] == '1' then
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
else
  redis.call('DEL', KEYS[1])
end
return 1`)

// updatePause is the longest wait before an update is tried again that another
// process forestalled.
const updatePause = 2 * time.Millisecond

// Get implements cache.Values.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	var v []byte
	err := s.guard(ctx, func(ctx context.Context) error {
		var err error
		v, err = s.client.Get(ctx, s.loneKey(kindValue, key)).Bytes()
		return err
	})
	switch {
	case errors.Is(err, goredis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get a value: %w", err)
	case v == nil:
		return []byte{}, nil // there is one, and it is empty
	default:
		return v, nil
	}
}

// Update implements cache.Values. It tries until ctx ends, but somebody gets on
// each time.
func (s *Store) Update(ctx context.Context, key string, ttl time.Duration, change func(old []byte) ([]byte, error)) error {
	for {
		old, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		value, err := change(old)
		if err != nil {
			return err
		}
		if old == nil && value == nil {
			return nil
		}
		v, err := s.run(ctx, updateScript, []string{s.loneKey(kindValue, key)}, old != nil, old, value != nil, value, millis(ttl))
		if err != nil {
			return fmt.Errorf("update a value: %w", err)
		}
		if v == int64(1) {
			return nil
		}
		select {
		case <-time.After(rand.N(updatePause)):
		case <-ctx.Done():
			return fmt.Errorf("update a value: %w", ctx.Err())
		}
	}
}
