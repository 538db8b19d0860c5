-- The state is when it was written, how long the debt of that moment takes to drain, and how long a
-- cell takes: "micros debt cell", e.g. "1780000000000000 3600000000+0 360000000+0/1". A span is a
-- pair of whole microseconds and parts of one, so no rate is rounded. The cell's span ends with the
-- number of parts in a microsecond.
--
-- Different quotas. A debt is a number of cells, whatever the rate. A reader with another rate
-- converts the debt, and drains it at its own rate. A reader whose burst is smaller than the debt
-- owes its burst at most. It still writes the whole debt, followed by its own debt and its burst's
-- span: "... own burst". A process with the larger burst therefore forgets nothing. The whole debt
-- never exceeds the largest burst and never drains faster than the largest rate, which bounds what
-- all processes are granted.
local parts = tonumber(ARGV[5])
local cap_us, cap_part = tonumber(ARGV[6]), tonumber(ARGV[7])
local cell_us, cell_part = tonumber(ARGV[8]), tonumber(ARGV[9])
local cost_us, cost_part = tonumber(ARGV[10]), tonumber(ARGV[11])
local burst, rate = ARGV[6] .. '+' .. ARGV[7], ARGV[8] .. '+' .. ARGV[9] .. '/' .. ARGV[5]

-- Converts a span at another rate to a span at this rate. It is rounded up to a 1024th of a cell,
-- less what the division may have rounded, so whole cells stay whole cells.
local function convert(us, part, its_rate)
  local its_us, its_part, its_parts = string.match(its_rate, '^(%d+)%+(%d+)/(%d+)$')
  its_us, its_part, its_parts = tonumber(its_us), tonumber(its_part), tonumber(its_parts)
  local cells = (us + part / its_parts) / (its_us + its_part / its_parts)
  cells = math.ceil(cells * 1024 - 1 / 1024) / 1024
  local span = math.min(cells * (cell_us + cell_part / parts), LARGEST / 2)
  us = math.floor(span)
  part = math.max(math.ceil((span - us) * parts - 1 / 1024), 0)
  if part >= parts then return us + 1, 0 end
  return us, part
end

local function is_more(us, part, than_us, than_part)
  return us > than_us or (us == than_us and part > than_part)
end

local function drained(us, part, passed)
  if us < passed then return 0, 0 end
  return us - passed, part
end

-- The whole debt, and the part of it that this quota's bucket owes.
local all_us, all_part, debt_us, debt_part = 0, 0, 0, 0
-- Whether the debt was cut to the burst because the clock is behind.
local is_bounded = false
local state = redis.call('GET', key)
if state then
  local at, us, part, its_rate, own = string.match(state, '^(%d+) (%d+)%+(%d+) (%d+%+%d+/[1-9]%d*)(.*)$')
  at, us, part = tonumber(at), tonumber(us), tonumber(part)
  if not at or math.max(at, us, part) > LARGEST or string.match(its_rate, '^0+%+0+/') then
    return alien()
  end
  all_us, all_part = us, part
  if its_rate ~= rate then all_us, all_part = convert(us, part, its_rate) end
  debt_us, debt_part = all_us, all_part
  if own ~= '' then
    local own_us, own_part, its_burst = string.match(own, '^ (%d+)%+(%d+) (%d+%+%d+)$')
    own_us, own_part = tonumber(own_us), tonumber(own_part)
    if not own_us or math.max(own_us, own_part) > LARGEST then return alien() end
    if its_rate == rate and its_burst == burst then debt_us, debt_part = own_us, own_part end
  end
  -- The clock is behind: nothing has drained since, but the debt is the burst at most.
  if now < at then debt_us = debt_us + at - now end
  if is_more(debt_us, debt_part, cap_us, cap_part) then
    debt_us, debt_part, is_bounded = cap_us, cap_part, now < at
  end
  if now > at then
    all_us, all_part = drained(all_us, all_part, now - at)
    debt_us, debt_part = drained(debt_us, debt_part, now - at)
  end
  if is_more(debt_us, debt_part, all_us, all_part) then all_us, all_part = debt_us, debt_part end
end

local function plus(us, part, more_us, more_part)
  us, part = us + more_us, part + more_part
  if part >= parts then return us + 1, part - parts end
  return us, part
end

local function fits(us, part)
  us, part = plus(debt_us, debt_part, us, part)
  return not is_more(us, part, cap_us, cap_part)
end

local function cost(cells)
  local part = cells * cell_part
  return cells * cell_us + div(part, parts), math.fmod(part, parts)
end

local cells = min_cells
if min_cells > 0 and not fits(cost_us, cost_part) then
  cells = -1
elseif max_cells > min_cells then
  local room = cap_us - debt_us + (cap_part - debt_part) / parts
  local about = math.floor(room / (cell_us + cell_part / parts))
  cells = math.min(max_cells, math.max(min_cells, about))
  while cells > min_cells and not fits(cost(cells)) do cells = cells - 1 end
  while cells < max_cells and fits(cost(cells + 1)) do cells = cells + 1 end
  cost_us, cost_part = cost(cells)
end

if cells > 0 then
  debt_us, debt_part = plus(debt_us, debt_part, cost_us, cost_part)
  all_us, all_part = plus(all_us, all_part, cost_us, cost_part)
end
if charge and (cells > 0 or is_bounded) then
  local value = whole(now) .. ' ' .. whole(all_us) .. '+' .. whole(all_part) .. ' ' .. rate
  if is_more(all_us, all_part, debt_us, debt_part) then
    value = value .. ' ' .. whole(debt_us) .. '+' .. whole(debt_part) .. ' ' .. burst
  end
  redis.call('SET', key, value, 'PX', expiry_ms(all_us + 1))
elseif state then
  repair(all_us + 1)
end
return {cells, debt_us, debt_part}
