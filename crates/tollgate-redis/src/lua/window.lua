-- The state is the window that is open: "micros_at_which_it_ends cells_counted".
local limit, period = tonumber(ARGV[5]), tonumber(ARGV[6])
-- How far into its window the epoch lies; '' where a window begins with its first cell.
local ahead = tonumber(ARGV[7])

local ends, counted = 0, 0
local state = redis.call('GET', key)
if state then
  local at, count = string.match(state, '^(%d+) (%d+)$')
  at, count = tonumber(at), tonumber(count)
  if not at or at > LARGEST or count > LARGEST then return alien() end
  if now < at then ends, counted = at, count end
end
if ends == 0 then
  ends = now + period
  if ahead then ends = ends - math.fmod(now + ahead, period) end
end

local room = math.max(limit - counted, 0)
local cells = -1
if least == 0 or least <= room then cells = math.max(least, math.min(most, room)) end

if cells > 0 then counted = counted + cells end
if cells > 0 and charge then
  redis.call('SET', key, whole(ends) .. ' ' .. whole(counted), 'PX', expiry_ms(ends - now))
elseif state then
  repair(counted > 0 and ends - now or 0)
end
return {cells, counted, ends - now}
