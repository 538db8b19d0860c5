-- The state is the current window: "micros_at_which_it_ends cells_counted". All quotas with this
-- period count in it.
local limit, period = tonumber(ARGV[5]), tonumber(ARGV[6])
-- How far into its window the epoch lies; '' if a window begins with its first cell.
local ahead = tonumber(ARGV[7])

-- The end of a window that opens now.
local opening = now + period
if ahead then opening = opening - math.fmod(now + ahead, period) end

local ends, counted, is_moved = opening, 0, false
local state = redis.call('GET', key)
if state then
  local at, count = string.match(state, '^(%d+) (%d+)$')
  at, count = tonumber(at), tonumber(count)
  if not at or at > LARGEST or count > LARGEST then return alien() end
  if now < at then ends, counted = at, count end
  -- The clock was set back. A window that would begin more than a period from now is taken for the
  -- current one. Without boundaries, that holds for a window that would begin at all later.
  is_moved = ends - opening > (ahead and period or 0)
  if is_moved then ends = opening end
end

local room = math.max(limit - counted, 0)
local cells = -1
if min_cells == 0 or min_cells <= room then cells = math.max(min_cells, math.min(max_cells, room)) end

if cells > 0 then counted = counted + cells end
if charge and (cells > 0 or is_moved) then
  redis.call('SET', key, whole(ends) .. ' ' .. whole(counted), 'PX', expiry_ms(ends - now))
elseif state then
  repair(counted > 0 and ends - now or 0)
end
return {cells, counted, ends - now}
