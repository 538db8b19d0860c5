-- The state is a sorted set: the score is when a cell was spent, the member that and a number of its
-- own. It holds the latest cells, as many as the largest limit.
local count_refusals = ARGV[5] == '1'
local places = tonumber(ARGV[6])
local rates, window_max = {}, 0
for at = 7, #ARGV, 2 do
  local rate = {limit = tonumber(ARGV[at]), window = tonumber(ARGV[at + 1])}
  rates[#rates + 1] = rate
  window_max = math.max(window_max, rate.window)
end

local last, number = nil, 0
local latest = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if latest[1] then
  local at, sequence = string.match(latest[1], '^(%d+):(%d+)$')
  last = tonumber(latest[2])
  if not at or tonumber(at) ~= last or last > LARGEST then return alien() end
  number = tonumber(sequence) + 1
end
local at = math.max(now, last or 0)
if at ~= last then number = 0 end

local admitted = true
for _, rate in ipairs(rates) do
  rate.inside = redis.call('ZCOUNT', key, '(' .. whole(now - rate.window), '+inf')
  admitted = admitted and (least == 0 or rate.inside + least <= rate.limit)
end

local function enter(cells)
  -- More than there are places would push each other out.
  for first = 0, cells - 1, 500 do
    local members = {}
    for cell = first, math.min(first + 499, cells - 1) do
      members[#members + 1] = whole(at)
      members[#members + 1] = string.format('%016.0f:%015.0f', at, number + cell)
    end
    redis.call('ZADD', key, unpack(members))
  end
  redis.call('ZREMRANGEBYRANK', key, 0, -(places + 1))
  redis.call('PEXPIRE', key, expiry_ms(at - now + window_max))
end

local counted = least > 0 and (admitted or (count_refusals and charge))
if counted and charge then
  enter(least)
elseif last then
  repair(last - now + window_max)
end
if counted then last = at end

local remaining, wait = LARGEST, 0
for _, rate in ipairs(rates) do
  local inside = rate.inside + (counted and least or 0)
  remaining = math.min(remaining, math.max(rate.limit - inside, 0))
  if not admitted then
    -- Until so many have left that the others and these are no more than the limit.
    local back = rate.limit - least
    local leaving = redis.call('ZREVRANGE', key, back, back, 'WITHSCORES')
    if leaving[2] then wait = math.max(wait, tonumber(leaving[2]) + rate.window - now) end
  end
end
local reset = last and math.max(last + window_max - now, 0) or 0
return {admitted and least or -1, remaining, reset, wait}
