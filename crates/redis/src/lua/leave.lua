-- A node leaves the list.
--
-- KEYS and ARGV[1] as in heartbeat.lua. Returns {1} if the node was on the list.
redis.call('HDEL', KEYS[2], ARGV[1])
return {redis.call('ZREM', KEYS[1], ARGV[1])}
