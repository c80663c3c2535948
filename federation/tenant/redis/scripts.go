package redis

import goredis "github.com/redis/go-redis/v9"

// The content is in nine keys of one slot. All scripts get them in this order; vault.go
// tells about the last three.
//
//	meta     hash: revision; epoch, a random word made with the registry; origin,
//	         which is "import" where an Import has made it
//	tenants  hash by name: the revision, a space, what tenant.EncodeTenant gives
//	keys     hash by tenant/id: the second of the last use, a line feed, what
//	         tenant.EncodeKey gives without it
//	ids      sorted set of tenant/id, by which the keys of a tenant are found
//	changes  sorted set by revision: "t:" and a tenant's name, "k:" and tenant/id of
//	         a key, "q:" and the same where only its use has changed
//	history  list of the last revisions, the newest first
//
// A revision is the server's time in microseconds, or one more than the one before
// where that is not less. So a registry that went back in time, because a replica
// that lagged behind was promoted or an old copy was restored, is ahead again with
// its next change. A revision fits a double of Lua, whose integers end at 2^53, for
// two centuries.
const prelude = `
local meta, tenants, keys, ids, changes, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local vault, vaultids, vaultrevision = KEYS[7], KEYS[8], KEYS[9]

local function text(revision) return string.format('%.0f', revision) end

local function now()
  return redis.call('HGET', meta, 'revision') or '0'
end

-- The revision of the change that is made.
local function following()
  local time = redis.call('TIME')
  return text(math.max(tonumber(now()) + 1, tonumber(time[1]) * 1000000 + tonumber(time[2])))
end

local function revisionOf(value)
  if not value then return '0' end
  return string.match(value, '^%d+')
end

local function rest(value)
  return string.sub(value, string.find(value, '[ \n]') + 1)
end

-- Notes what has changed and tells of it. History and changes are bounded: who
-- knows only what was before them reads everything.
local function commit(channel, revision, members)
  redis.call('HSET', meta, 'revision', revision)
  for _, member in ipairs(members) do redis.call('ZADD', changes, revision, member) end
  redis.call('LPUSH', history, revision)
  redis.call('LTRIM', history, 0, 999)
  redis.call('ZREMRANGEBYSCORE', changes, '-inf', '(' .. redis.call('LINDEX', history, -1))
  redis.pcall('PUBLISH', channel, revision) -- who does not hear of it will look
  return {'done', revision}
end

-- Whether what is here is not what the writer knows, but older or another one, so
-- that a change would give it the look of the newest. An empty registry is begun.
local function isOther(epoch, revision, fresh)
  local state = redis.call('HMGET', meta, 'revision', 'epoch', 'origin')
  if epoch ~= '' then
    if not state[1] then return true end
    if tonumber(state[1]) < tonumber(revision) then return true end
    if state[2] ~= epoch and state[3] ~= 'import' then return true end
  end
  redis.call('HSETNX', meta, 'epoch', fresh)
  return false
end

local function dropKey(field, members)
  redis.call('HDEL', keys, field)
  redis.call('ZREM', ids, field)
  members[#members + 1] = 'k:' .. field
end

-- The sealed values of a tenant have names that begin as tenant.VaultPrefix says.
local function dropValues(name)
  for _, field in ipairs(redis.call('ZRANGEBYLEX', vaultids, '[' .. name .. '\0\1', '(' .. name .. '\0\2')) do
    redis.call('HDEL', vault, field)
    redis.call('ZREM', vaultids, field)
  end
end
`

// Every script that changes what is registered has these arguments first: the
// channel, the epoch and the revision that the writer knows, and a new epoch in case
// there is none. They answer with {"done", revision} or with one word.
const preludeWrite = prelude + `
local channel = ARGV[1]
if isOther(ARGV[2], ARGV[3], ARGV[4]) then return {'other'} end
`

// scripts are all that run in Redis.
type scripts struct {
	read, put, remove, putKey, touchKey, deleteKey, imports *goredis.Script
	putValue, deleteValue, values                           *goredis.Script
}

func newScripts() *scripts {
	return &scripts{
		read:      goredis.NewScript(prelude + luaRead),
		put:       goredis.NewScript(preludeWrite + luaPut),
		remove:    goredis.NewScript(preludeWrite + luaDelete),
		putKey:    goredis.NewScript(preludeWrite + luaPutKey),
		touchKey:  goredis.NewScript(preludeWrite + luaTouchKey),
		deleteKey: goredis.NewScript(preludeWrite + luaDeleteKey),
		imports:   goredis.NewScript(prelude + luaImport),

		putValue:    goredis.NewScript(prelude + luaPutValue),
		deleteValue: goredis.NewScript(prelude + luaDeleteValue),
		values:      goredis.NewScript(prelude + luaValues),
	}
}

// luaRead gives what has changed since a revision, in the order of the changes, or
// everything where that is not in the history: then either too much has happened
// since, or what is here has another past, whether or not anybody saw how that came
// about. No two changes have the same revision, so one that is in the history tells
// that the past is common up to it.
const luaRead = `
local state = redis.call('HMGET', meta, 'revision', 'epoch', 'origin')
if not state[1] then return {'empty', '0', '', ''} end
local head = {'changes', state[1], state[2] or '', state[3] or ''}
if not redis.call('LPOS', history, ARGV[1]) then
  head[1] = 'all'
  return {head[1], head[2], head[3], head[4], redis.call('HGETALL', tenants), redis.call('HGETALL', keys)}
end
local list = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', changes, '(' .. ARGV[1], '+inf')) do
  local kind, field = string.sub(member, 1, 1), string.sub(member, 3)
  list[#list + 1] = kind
  list[#list + 1] = field
  list[#list + 1] = redis.call('HGET', kind == 't' and tenants or keys, field) or ''
end
head[5] = list
return head
`

// luaPut: name, JSON, the revision that is expected or "any".
const luaPut = `
local name, json, expect = ARGV[5], ARGV[6], ARGV[7]
if expect ~= 'any' and expect ~= revisionOf(redis.call('HGET', tenants, name)) then return {'conflict'} end
local revision = following()
redis.call('HSET', tenants, name, revision .. ' ' .. json)
return commit(channel, revision, {'t:' .. name})
`

// luaDelete: name, the revision that is expected or "any".
const luaDelete = `
local name, expect = ARGV[5], ARGV[6]
local old = redis.call('HGET', tenants, name)
if not old then return {'missing'} end
if expect ~= 'any' and expect ~= revisionOf(old) then return {'conflict'} end
local members = {'t:' .. name}
redis.call('HDEL', tenants, name)
-- '0' is the character after '/'.
for _, field in ipairs(redis.call('ZRANGEBYLEX', ids, '[' .. name .. '/', '(' .. name .. '0')) do
  dropKey(field, members)
end
dropValues(name)
return commit(channel, following(), members)
`

// luaPutKey: tenant, tenant/id, second of the last use, JSON.
const luaPutKey = `
local name, field, used, json = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
if redis.call('HEXISTS', tenants, name) == 0 then return {'missing'} end
redis.call('HSET', keys, field, used .. '\n' .. json)
redis.call('ZADD', ids, 0, field)
return commit(channel, following(), {'k:' .. field})
`

// luaTouchKey: tenant/id, second of the use.
const luaTouchKey = `
local field, used = ARGV[5], ARGV[6]
local old = redis.call('HGET', keys, field)
if not old then return {'missing'} end
if tonumber(string.match(old, '^%-?%d+')) >= tonumber(used) then return {'done', now()} end
redis.call('HSET', keys, field, used .. '\n' .. rest(old))
return commit(channel, following(), {'q:' .. field})
`

// luaDeleteKey: tenant/id.
const luaDeleteKey = `
local field = ARGV[5]
if redis.call('HEXISTS', keys, field) == 0 then return {'missing'} end
local members = {}
dropKey(field, members)
return commit(channel, following(), members)
`

// luaImport: the channel, a new epoch, the revision that is expected or "any", the
// number of tenants, name and JSON of each, the number of keys, tenant/id, second of
// the last use and JSON of each. It does not look for what its writer knows: it is
// how an operator puts right what was lost. The new epoch tells those who run with
// something else that they are meant to take this.
const luaImport = `
local channel, epoch, expect = ARGV[1], ARGV[2], ARGV[3]
if expect ~= 'any' and expect ~= now() then return {'conflict'} end
local revision, members, stays, at = following(), {}, {}, 4
redis.call('HSET', meta, 'epoch', epoch, 'origin', 'import')
local count = tonumber(ARGV[at])
at = at + 1
for _ = 1, count do
  local name, json = ARGV[at], ARGV[at + 1]
  at = at + 2
  stays[name] = true
  local old = redis.call('HGET', tenants, name)
  if not old or rest(old) ~= json then
    redis.call('HSET', tenants, name, revision .. ' ' .. json)
    members[#members + 1] = 't:' .. name
  end
end
for _, name in ipairs(redis.call('HKEYS', tenants)) do
  if not stays[name] then
    redis.call('HDEL', tenants, name)
    dropValues(name)
    members[#members + 1] = 't:' .. name
  end
end
stays = {}
count = tonumber(ARGV[at])
at = at + 1
for _ = 1, count do
  local field, used, json = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  stays[field] = true
  local old, new = redis.call('HGET', keys, field), used .. '\n' .. json
  if old ~= new then
    redis.call('HSET', keys, field, new)
    redis.call('ZADD', ids, 0, field)
    members[#members + 1] = ((old and rest(old) == json) and 'q:' or 'k:') .. field
  end
end
for _, field in ipairs(redis.call('HKEYS', keys)) do
  if not stays[field] then dropKey(field, members) end
end
return commit(channel, revision, members)
`
