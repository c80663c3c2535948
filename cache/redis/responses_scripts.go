package redis

import goredis "github.com/redis/go-redis/v9"

// The scripts of responses. Each works on the hash of one topic:
//
//	g    its generation
//	a    the generation as of which all of it was invalidated, or the hash was made
//	d    a number that rises when an entry is dropped for all
//	p    there when it has, or had, entries that all credentials share
//	u:…  a mark: the generation as of which that parameter was invalidated
//
// Generations are at least the server's time in microseconds, and higher than all
// that the caller has seen, so that they never come again, whatever the server has
// lost.
const luaTopic = luaNow + `
local topic, time = KEYS[1], now()
local function field(name) return tonumber(redis.call('HGET', topic, name) or '0') end
local function after(n, seen) return math.max(n + 1, seen + 1, time) end
-- anew makes the hash anew, so that nothing is valid that was read before. What
-- follows DEL in a script is written even when there is no memory left.
local function anew(g)
	local d = field('d')
	if d == 0 then d = time end
	redis.call('DEL', topic)
	redis.call('HSET', topic, 'g', whole(g), 'a', whole(g), 'd', whole(d))
	return d
end
`

// scriptGeneration gives the generation, the number of drops and the time. A hash
// that is missing is made. When the caller has seen a higher generation, the
// server has lost what made it so, and all is invalidated.
//
// Arguments: the highest generation seen, the hash's life in milliseconds, the
// channel, the note of a message about a whole invalidation.
var scriptGeneration = goredis.NewScript(luaTopic + `
local g, d, seen = field('g'), field('d'), tonumber(ARGV[1])
if g == 0 then
	g = after(0, seen)
	d = anew(g)
elseif g < seen then
	local prev = g
	g = after(g, seen)
	d = anew(g)
	redis.call('PUBLISH', ARGV[3], whole(g) .. ' ' .. whole(prev) .. ' ' .. ARGV[4])
end
redis.call('PEXPIRE', topic, ARGV[2])
return {g, d, time}
`)

// scriptInvalidate gives the generation before and after. With marks, only those
// parameters are invalidated; without, or when there would be too many or no
// memory is left for them, all is. When the second key is there, another process
// has done it already.
//
// Keys: the topic, and one by which the change is done once. Arguments: the
// highest generation seen, the hash's life, the channel, the message's note, how
// many fields the hash may have, the life of the second key or 0, then the marks.
var scriptInvalidate = goredis.NewScript(luaTopic + `
local prev, seen = field('g'), tonumber(ARGV[1])
if ARGV[6] ~= '0' and redis.call('EXISTS', KEYS[2]) == 1 then return {prev, prev} end
local g = after(prev, seen)
local all = #ARGV == 6 or prev == 0 or prev < seen or redis.call('HLEN', topic) + #ARGV - 6 > tonumber(ARGV[5])
if not all then
	local fields = {'g', whole(g)}
	for i = 7, #ARGV do
		fields[#fields + 1] = ARGV[i]
		fields[#fields + 1] = whole(g)
	end
	local reply = redis.pcall('HSET', topic, unpack(fields))
	all = type(reply) == 'table' and reply.err
	if all and string.sub(all, 1, 3) ~= 'OOM' then return reply end
end
if all then anew(g) end
redis.call('PEXPIRE', topic, ARGV[2])
if ARGV[6] ~= '0' then redis.call('SET', KEYS[2], '1', 'PX', ARGV[6]) end
redis.call('PUBLISH', ARGV[3], whole(g) .. ' ' .. whole(prev) .. ' ' .. ARGV[4])
return {prev, g}
`)

// scriptGet gives what is known of the topic, how long the entry will live, and the
// entry. It is a script since a full server refuses all that is between MULTI and
// EXEC, and writes nothing since one that takes no writes can be asked too.
//
// Keys: the topic, the entry. Argument: the field of the mark.
var scriptGet = goredis.NewScript(`
return {redis.call('HMGET', KEYS[1], 'g', 'a', 'd', ARGV[1]), redis.call('PTTL', KEYS[2]), redis.call('GET', KEYS[2])}
`)

// scriptPut gives whether it stored the value, the generation, the number of drops
// and the time. It stores if the generation is still the value's, unless what is
// there was fetched under a later lease. How long it is to live is reckoned from
// when it was read by the server's time: a command may lie about for long before
// a server that was suspended does it.
//
// Keys: the topic, the entry. Arguments: the generation, the hash's life, the
// value, its life in milliseconds, when it was read, whether all credentials share
// it.
var scriptPut = goredis.NewScript(luaTopic + `
local g, entry = field('g'), KEYS[2]
local function answer(stored) return {stored, g, field('d'), time} end
if g == 0 or g ~= tonumber(ARGV[1]) then return answer(0) end
local ends = math.floor(math.min(time, tonumber(ARGV[5])) / 1000) + tonumber(ARGV[4])
local new = string.sub(ARGV[3], 1, 26)
local old = redis.call('GETRANGE', entry, 0, 25)
if #old == 26 and string.byte(old) == string.byte(new) and string.sub(old, 11, 18) == string.sub(new, 11, 18) then
	local gen, fence = struct.unpack('>I8', old, 3), struct.unpack('>I8', old, 19)
	if gen >= g and fence > struct.unpack('>I8', new, 19) then return answer(0) end
end
if ends * 1000 <= time then
	redis.call('DEL', entry)
	return answer(0)
end
redis.call('SET', entry, ARGV[3], 'PXAT', whole(ends))
if ARGV[6] == '1' then redis.call('HSET', topic, 'p', '1') end
redis.call('PEXPIRE', topic, ARGV[2])
return answer(1)
`)

// scriptDelete drops an entry. It tells of it, unless no process can have it, and
// then gives the numbers of drops before and after, else nothing.
//
// Keys: the topic, the entry. Arguments: the channel, the message's note, whether
// all credentials share the entry.
var scriptDelete = goredis.NewScript(luaTopic + `
redis.call('DEL', KEYS[2])
local known = redis.call('EXISTS', topic) == 1
if known and ARGV[3] == '1' and redis.call('HEXISTS', topic, 'p') == 0 then return {} end
local prev = field('d')
local d = math.max(prev + 1, time)
if known then redis.call('HSET', topic, 'd', whole(d)) end
redis.call('PUBLISH', ARGV[1], whole(d) .. ' ' .. whole(prev) .. ' ' .. ARGV[2])
return {prev, d}
`)
