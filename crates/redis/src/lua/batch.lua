-- Adds cells to what keys have used in their fixed windows. It never denies.
--
-- KEYS     counters, one a key; all in one slot, so in a cluster there is one call a key
-- ARGV[1]  the window's length, in microseconds
-- ARGV[2]  'first' for windows that begin with a key's first hit; otherwise the offset, in microseconds,
--          of windows aligned to the wall clock (0 to less than the length)
-- ARGV[3]  now, in microseconds; empty for the server's time
-- ARGV[4]  and the following: the cells to add, one a key
-- Returns  for each key: cells used in the current window, and microseconds until its end
--
-- A counter is a hash: `used` and `end`, the end of its window. Its TTL is that end and is set at
-- each call, so a lost TTL is repaired. A window that has ended counts as empty, whatever the TTL.
local period = tonumber(ARGV[1])

local function number(text)
    local value = tonumber(text)
    if not value or value < 0 or value > 9007199254740991 or value ~= math.floor(value) then
        return nil
    end
    return value
end

local reply = {}
for i = 1, #KEYS do
    local cells = tonumber(ARGV[3 + i])
    local state = redis.call('HMGET', KEYS[i], 'used', 'end')
    local used, ends = 0, 0
    if state[1] or state[2] then
        used, ends = number(state[1]), number(state[2])
        if not used or not ends then
            return redis.error_reply('ERR the state of a counter cannot be read; delete the key')
        end
    end
    -- The end of a window that opens now.
    local opening, ahead_max = now + period, 0
    if ARGV[2] ~= 'first' then
        local into = (now - tonumber(ARGV[2])) % period
        opening, ahead_max = opening - into, period
    end
    if now >= ends then
        used, ends = 0, opening
    elseif ends - opening > ahead_max then
        -- The clock was set back. A window that would begin more than a period from now is taken for the
        -- current one. Without boundaries, that holds for a window that would begin at all later.
        ends = opening
    end
    -- Above 2^53 a double counts wrongly. That is over any limit.
    used = math.min(used + cells, 9007199254740991)
    -- A call without cells does not begin a window.
    if cells > 0 or used > 0 then
        redis.call('HSET', KEYS[i],
            'used', string.format('%.0f', used), 'end', string.format('%.0f', ends))
        local millis = math.ceil((ends - now) / 1000) + 1
        redis.call('PEXPIRE', KEYS[i], string.format('%.0f', millis))
    end
    reply[2 * i - 1] = used
    reply[2 * i] = ends - now
end
return reply
