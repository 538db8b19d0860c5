-- The state is when all that was charged will have drained: "micros parts parts_in_micro".
-- A time is a pair, whole microseconds and parts of one, so that no rate is rounded.
local parts = tonumber(ARGV[5])
local cap_us, cap_part = tonumber(ARGV[6]), tonumber(ARGV[7])
local cell_us, cell_part = tonumber(ARGV[8]), tonumber(ARGV[9])
local cost_us, cost_part = tonumber(ARGV[10]), tonumber(ARGV[11])

local debt_us, debt_part = 0, 0
local state = redis.call('GET', key)
if state then
  local us, part, of = string.match(state, '^(%d+) (%d+) (%d+)$')
  us, part = tonumber(us), tonumber(part)
  if not us or us > LARGEST or part > LARGEST then return alien() end
  if tonumber(of) ~= parts then
    -- Written at another rate: its part of a microsecond counts as a whole one.
    us, part = us + math.min(part, 1), 0
  end
  if us >= now then debt_us, debt_part = us - now, part end
end

local function after(us, part)
  us, part = debt_us + us, debt_part + part
  if part >= parts then return us + 1, part - parts end
  return us, part
end

local function fits(us, part)
  us, part = after(us, part)
  return us < cap_us or (us == cap_us and part <= cap_part)
end

local function cost(cells)
  local part = cells * cell_part
  return cells * cell_us + div(part, parts), math.fmod(part, parts)
end

local cells = least
if least > 0 and not fits(cost_us, cost_part) then
  cells = -1
elseif most > least then
  local room = cap_us - debt_us + (cap_part - debt_part) / parts
  local about = math.floor(room / (cell_us + cell_part / parts))
  cells = math.min(most, math.max(least, about))
  while cells > least and not fits(cost(cells)) do cells = cells - 1 end
  while cells < most and fits(cost(cells + 1)) do cells = cells + 1 end
  cost_us, cost_part = cost(cells)
end

if cells > 0 then debt_us, debt_part = after(cost_us, cost_part) end
if cells > 0 and charge then
  local value = whole(now + debt_us) .. ' ' .. whole(debt_part) .. ' ' .. whole(parts)
  redis.call('SET', key, value, 'PX', expiry_ms(debt_us + 1))
elseif state then
  repair(debt_us + 1)
end
return {cells, debt_us, debt_part}
