-- The time, for scripts whose ARGV[3] gives it: microseconds, or empty for the server's time.
local now = ARGV[3]
if now == nil or now == '' then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
else
    now = tonumber(now)
end
