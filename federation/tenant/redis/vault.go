package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// The sealed values of a registry are in the slot of its other keys, so that they go
// with their tenant at once and are listed in order, also in a cluster. They are not
// held in memory here: a value is asked for when it is needed. They are no part of
// what ErrLost is about: a Redis that lost what it held has lost them too, and takes
// new ones.
//
//	vault          hash by tenant.VaultKey.Encode: the revision, a space, what was sealed
//	vaultids       sorted set of the same names, by which they are listed
//	vaultrevision  the last revision of a value
//
// Revisions are made as those of the registry.

var _ tenant.Vault = (*Registry)(nil)

// atVault is the place of the hash among the keys of a registry.
const atVault = 6

// luaPutValue: name, what was sealed, the revision that is expected or "any".
const luaPutValue = `
local name, sealed, expect = ARGV[1], ARGV[2], ARGV[3]
if expect ~= 'any' and expect ~= revisionOf(redis.call('HGET', vault, name)) then return {'conflict'} end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', vaultrevision) or '0')
local revision = text(math.max(last + 1, tonumber(time[1]) * 1000000 + tonumber(time[2])))
redis.call('SET', vaultrevision, revision)
redis.call('HSET', vault, name, revision .. ' ' .. sealed)
redis.call('ZADD', vaultids, 0, name)
return {'done', revision}
`

// luaDeleteValue: name, the revision that is expected or "any".
const luaDeleteValue = `
local name, expect = ARGV[1], ARGV[2]
local old = redis.call('HGET', vault, name)
if not old then return {'done', '0'} end
if expect ~= 'any' and expect ~= revisionOf(old) then return {'conflict'} end
redis.call('HDEL', vault, name)
redis.call('ZREM', vaultids, name)
return {'done', '0'}
`

// luaValues: the name that the page begins after, and how many it has at most. It
// gives name and value of each.
const luaValues = `
local page = {}
for _, name in ipairs(redis.call('ZRANGEBYLEX', vaultids, '(' .. ARGV[1], '+', 'LIMIT', 0, ARGV[2])) do
  page[#page + 1] = name
  page[#page + 1] = redis.call('HGET', vault, name)
end
return page
`

// Secret implements tenant.Vault.
func (r *Registry) Secret(ctx context.Context, key tenant.VaultKey) (tenant.VaultValue, error) {
	if err := key.CheckKey(); err != nil {
		return tenant.VaultValue{}, err
	}
	const what = "read a sealed value"
	value, err := r.client.HGet(ctx, r.keys[atVault], key.Encode()).Result()
	if errors.Is(err, goredis.Nil) {
		return tenant.VaultValue{}, tenant.ErrNotFound
	} else if err != nil {
		return tenant.VaultValue{}, fmt.Errorf("%s: registry in redis: %w", what, err)
	}
	v, err := decodeValue(key, value)
	if err != nil {
		return tenant.VaultValue{}, fmt.Errorf("%s: registry in redis: %w", what, err)
	}
	return v, nil
}

func decodeValue(key tenant.VaultKey, value string) (tenant.VaultValue, error) {
	revision, sealed, ok := strings.Cut(value, " ")
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil || !ok {
		return tenant.VaultValue{}, errAnswer
	}
	return tenant.VaultValue{Key: key, Revision: n, Sealed: []byte(sealed)}, nil
}

// PutSecret implements tenant.Vault.
func (r *Registry) PutSecret(ctx context.Context, key tenant.VaultKey, sealed []byte, expect uint64) (uint64, error) {
	if err := key.CheckValue(sealed); err != nil {
		return 0, err
	}
	return r.ask(ctx, "write a sealed value", r.scripts.putValue, []any{key.Encode(), sealed, expected(expect)})
}

// DeleteSecret implements tenant.Vault.
func (r *Registry) DeleteSecret(ctx context.Context, key tenant.VaultKey, expect uint64) error {
	if err := key.CheckKey(); err != nil {
		return err
	}
	_, err := r.ask(ctx, "delete a sealed value", r.scripts.deleteValue, []any{key.Encode(), expected(expect)})
	return err
}

// Secrets implements tenant.Vault.
func (r *Registry) Secrets(ctx context.Context, after tenant.VaultKey, limit int) ([]tenant.VaultValue, error) {
	limit, err := tenant.CheckPage(after, limit)
	if err != nil {
		return nil, err
	}
	const what = "read the sealed values"
	list, err := r.scripts.values.Run(ctx, r.client, r.keys, after.Encode(), limit).StringSlice()
	if err == nil && len(list)%2 != 0 {
		err = errAnswer
	}
	if err != nil {
		return nil, fmt.Errorf("%s: registry in redis: %w", what, err)
	}
	page := make([]tenant.VaultValue, 0, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		key, err := tenant.DecodeVaultKey(list[i])
		if err != nil {
			return nil, fmt.Errorf("%s: registry in redis: %w", what, err)
		}
		one, err := decodeValue(key, list[i+1])
		if err != nil {
			return nil, fmt.Errorf("%s: registry in redis: %w", what, err)
		}
		page = append(page, one)
	}
	return page, nil
}
