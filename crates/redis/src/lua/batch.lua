-- Adds cells to what keys have used in their fixed windows. It never denies.
--
-- KEYS     counters, one a key; all in one slot, so in a cluster there is one call a key
-- ARGV[1]  the window's length, in microseconds
-- ARGV[2]  'first' for windows that begin with a key's first hit; otherwise the offset, in microseconds,
--          of windows aligned to the wall clock (0 to less than the length)
-- ARGV[3]  now, in microseconds; empty for the server's time
-- ARGV[4]  and the following: the cells to add, one a key
-- Returns  for each key: cells used in the current window, and microseconds until its end; or -1 and 0 if
--          the key is not a counter (another type), -2 and 0 if its counter cannot be read, -3 and 0 if
--          the user may not write it. Such a key is left as it is. The others are counted, because a call
--          that failed for all of them would be sent again, and count them again. If no key can be
--          written, the server's error.
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

-- What a key has used in its window, and when that ends; or a negative number.
local function read(key)
    local state = redis.pcall('HMGET', key, 'used', 'end')
    if state.err then return -1, 0 end
    if not state[1] and not state[2] then return 0, 0 end
    local used, ends = number(state[1]), number(state[2])
    if not used or not ends then return -2, 0 end
    return used, ends
end

-- The last error of a write.
local unwritten

local function is_written(reply)
    if type(reply) ~= 'table' or not reply.err then return true end
    unwritten = reply
    return false
end

local function whole(number)
    return string.format('%.0f', number)
end

-- Writes what a key has used, and its TTL. If the user may not set a TTL, what was there before stays: the
-- caller sends the cells again.
local function write(key, used, ends, used_before, ends_before)
    local millis = math.ceil((ends - now) / 1000) + 1
    if not is_written(redis.pcall('HSET', key, 'used', whole(used), 'end', whole(ends))) then
        return false
    end
    if is_written(redis.pcall('PEXPIRE', key, whole(millis))) then return true end
    redis.pcall('HSET', key, 'used', whole(used_before), 'end', whole(ends_before))
    if ends_before == 0 then redis.pcall('DEL', key) end
    return false
end

-- Adds cells to a key, and returns what it has used and how long its window stays open.
local function add(key, cells)
    local used, ends = read(key)
    if used < 0 then return used, 0 end
    local used_before, ends_before = used, ends
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
    local is_begun = cells > 0 or used > 0
    if is_begun and not write(key, used, ends, used_before, ends_before) then return -3, 0 end
    return used, ends - now
end

local reply, is_any_counted = {}, false
for i = 1, #KEYS do
    local used, left = add(KEYS[i], tonumber(ARGV[3 + i]))
    reply[2 * i - 1], reply[2 * i] = used, left
    is_any_counted = is_any_counted or used >= 0
end
-- The server is full or read-only, or the user has no right to write.
if unwritten and not is_any_counted then return unwritten end
return reply
