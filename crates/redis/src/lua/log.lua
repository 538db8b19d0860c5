-- The state is a sorted set. A cell's score is when it was spent; its member is a time that is no
-- earlier than those before, usually the score, and a number larger than those before. So the member
-- of the latest cell is last among equal scores too. The set holds the latest cells, no more than the
-- largest limit of all quotas that have charged the key since it was last idle.
local count_denials = ARGV[5] == '1'
local places = tonumber(ARGV[6])
local rates, window_max = {}, 0
for at = 7, #ARGV, 2 do
  local rate = {limit = tonumber(ARGV[at]), window = tonumber(ARGV[at + 1])}
  rates[#rates + 1] = rate
  window_max = math.max(window_max, rate.window)
end

local function member(at, number)
  return string.format('%016.0f:%015.0f', at, number)
end

-- Adds scores and members in parts, because a call takes a limited number of arguments.
local function put(list)
  for first = 1, #list, 1000 do
    redis.call('ZADD', key, unpack(list, first, math.min(first + 999, #list)))
  end
end

local last, number, stamp = nil, 0, 0
local latest = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if latest[1] then
  local prefix, sequence = string.match(latest[1], '^(%d+):(%d+)$')
  last = math.ceil(tonumber(latest[2]))
  if not sequence or #latest[1] ~= 32 or last > LARGEST then return alien() end
  number, stamp = tonumber(sequence) + 1, tonumber(prefix)
  -- The clock is behind by more than the longest window: the latest cell moves to now, and those before
  -- it move back with it. One command scales all scores, which shortens the spans between cells by the
  -- fraction that the clock is behind: a year of 56 is 2 %.
  if last - now > window_max then
    if charge then
      -- Another quota may have a longer window, so the expiry stays as far from the latest cell as it was. The
      -- server's clock has left both ahead by as much. A given time has left only the cell ahead.
      local kept = redis.call('PTTL', key)
      if ARGV[1] == '' then kept = kept - math.floor((last - now) / 1000) end
      redis.call('ZUNIONSTORE', key, 1, key, 'WEIGHTS', string.format('%.17g', now / last))
      redis.call('PEXPIRE', key, whole(math.max(tonumber(expiry_ms(window_max)), kept)))
      -- The product is rounded, perhaps up. A cell before the latest one would not be the latest.
      last = math.ceil(tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]))
    else
      now = last
    end
  end
end
local at = math.max(now, last or 0)

local admitted = true
for _, rate in ipairs(rates) do
  rate.inside = redis.call('ZCOUNT', key, '(' .. whole(now - rate.window), '+inf')
  admitted = admitted and (min_cells == 0 or rate.inside + min_cells <= rate.limit)
end

local function enter(cells)
  local entered = {}
  for cell = 0, cells - 1 do
    entered[#entered + 1], entered[#entered + 2] = whole(at), member(math.max(at, stamp), number + cell)
  end
  -- Another quota with a larger limit or a longer window may need all cells that are there. How long its
  -- window is cannot be told, so the set never shrinks. It does not grow beyond the largest limit either.
  local expiry, kept = tonumber(expiry_ms(at - now + window_max)), redis.call('PTTL', key)
  local keep = math.max(places, redis.call('ZCARD', key))
  put(entered)
  redis.call('ZREMRANGEBYRANK', key, 0, -(keep + 1))
  redis.call('PEXPIRE', key, whole(math.max(expiry, kept)))
end

local counted = min_cells > 0 and (admitted or (count_denials and charge))
if counted and charge then
  enter(min_cells)
elseif last then
  repair(last - now + window_max)
end
if counted then last = at end

local remaining, wait = LARGEST, 0
for _, rate in ipairs(rates) do
  local inside = rate.inside + (counted and min_cells or 0)
  remaining = math.min(remaining, math.max(rate.limit - inside, 0))
  if not admitted then
    -- How long until so many cells have left that the rest and these fit the limit.
    local back = rate.limit - min_cells
    local leaving = redis.call('ZREVRANGE', key, back, back, 'WITHSCORES')
    if leaving[2] then wait = math.max(wait, math.ceil(tonumber(leaving[2])) + rate.window - now) end
  end
end
local reset = last and math.max(last + window_max - now, 0) or 0
return {admitted and min_cells or -1, remaining, reset, wait}
