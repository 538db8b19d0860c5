-- A node says that it ends.
--
-- KEYS and ARGV[1] as in heartbeat.lua. Returns {1} if it was there.
redis.call('HDEL', KEYS[2], ARGV[1])
return {redis.call('ZREM', KEYS[1], ARGV[1])}
