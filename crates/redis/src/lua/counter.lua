-- The state is the latest sub-window that was charged, its count, and the counts of those before
-- it: "index cells_0 cells_1 .. cells_older". A sub-window is period / older. A position within a
-- sub-window is in parts of a microsecond, of which there are `older`. All quotas with this period
-- and number of sub-windows count here. Each quota weighs a sub-window with its own limit at most.
local limit, period = tonumber(ARGV[5]), tonumber(ARGV[6])
local older, ahead = tonumber(ARGV[7]), tonumber(ARGV[8])

-- floor(a * b / c) for b <= c, computed digit by digit where the product is not exact.
local function share(a, b, c)
  if a * b <= LARGEST then return div(a * b, c) end
  local quotient, rest, bit = 0, 0, 1
  while bit * 2 <= a do bit = bit * 2 end
  while bit >= 1 do
    quotient, rest = quotient * 2, rest * 2
    if a >= bit then a, rest = a - bit, rest + b end
    while rest >= c do quotient, rest = quotient + 1, rest - c end
    bit = bit / 2
  end
  return quotient
end

local placed = math.fmod(now + ahead, period) * older
local index = div(now + ahead, period) * older + div(placed, period)
local passed = math.fmod(placed, period)

local latest, counts = -1, {}
local state = redis.call('GET', key)
if state then
  local head, rest = string.match(state, '^(%d+)([ %d]+)$')
  latest = tonumber(head)
  if not latest or latest > LARGEST then return alien() end
  for count in string.gmatch(rest, ' (%d+)') do counts[#counts + 1] = tonumber(count) end
  if #counts ~= older + 1 then return alien() end
  for _, count in ipairs(counts) do
    if count > LARGEST then return alien() end
  end
end

-- If the clock is behind the latest charge, it is taken to be at the beginning of that sub-window.
-- If it is behind by more than a period, the charges move back by whole periods, to less than a
-- period ahead.
local behind = math.max(latest - index, 0)
local is_moved = behind > older
if is_moved then
  behind = math.fmod(behind, older)
  latest = index + behind
end
if behind > 0 then index, passed = latest, 0 end
local current = {}
for back = 0, older do
  current[back + 1] = state and counts[back + 1 - (index - latest)] or 0
end
local estimate = share(math.min(current[older + 1], limit), period - passed, period)
for back = 0, older - 1 do estimate = estimate + math.min(current[back + 1], limit) end

local room = math.max(limit - estimate, 0)
local cells = -1
if min_cells == 0 or min_cells <= room then cells = math.max(min_cells, math.min(max_cells, room)) end

-- How long until nothing counts any more, rounded up.
local function until_idle(at)
  return (at - index + behind + 1) * math.ceil(period / older) + period
end
if cells > 0 then
  current[1] = current[1] + cells
  latest, counts = index, current
end
if charge and (cells > 0 or is_moved) then
  local value = {whole(latest)}
  for back = 0, older do value[back + 2] = whole(counts[back + 1]) end
  redis.call('SET', key, table.concat(value, ' '), 'PX', expiry_ms(until_idle(latest)))
elseif state then
  repair(until_idle(latest))
end
return {cells, now, latest, unpack(counts)}
