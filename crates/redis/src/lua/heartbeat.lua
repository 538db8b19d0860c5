-- The heartbeat of a node. It returns how many nodes are alive, and how long this one has been on
-- the list.
--
-- KEYS[1]  sorted set: node -> time of its last heartbeat, in microseconds
-- KEYS[2]  hash: node -> when it joined, in microseconds
-- ARGV[1]  the node's id
-- ARGV[2]  how long a node is counted after a heartbeat, in microseconds
-- ARGV[3]  now, in microseconds; empty for the server's time
-- Returns  {live nodes, this one included; microseconds since it joined, without a gap}
--
-- Scores are doubles, which hold microseconds since 1970 exactly until the year 2255.
local lifetime = tonumber(ARGV[2])
local id = ARGV[1]

local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - lifetime))
for i = 1, #dead do
    redis.call('ZREM', KEYS[1], dead[i])
    redis.call('HDEL', KEYS[2], dead[i])
end

-- The clock was set back. All heartbeats that lie ahead of it move to now, as if the clock had
-- stopped between. Otherwise dead nodes would be counted, and new nodes would wait, until the clock
-- has caught up.
local from = '(' .. string.format('%.0f', now)
local ahead = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'WITHSCORES')
for i = 1, #ahead, 2 do
    local node, by = ahead[i], tonumber(ahead[i + 1]) - now
    local since = redis.call('HGET', KEYS[2], node)
    if since then
        redis.call('HSET', KEYS[2], node, string.format('%.0f', tonumber(since) - by))
    end
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), node)
end

local heard = redis.call('ZSCORE', KEYS[1], id)
local came = redis.call('HGET', KEYS[2], id)
if not heard or not came then
    came = now
    redis.call('HSET', KEYS[2], id, string.format('%.0f', now))
else
    came = tonumber(came)
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), id)

local millis = string.format('%.0f', math.ceil(lifetime / 1000) + 1)
redis.call('PEXPIRE', KEYS[1], millis)
redis.call('PEXPIRE', KEYS[2], millis)
return {
    redis.call('ZCARD', KEYS[1]),
    math.max(now - came, 0),
}
