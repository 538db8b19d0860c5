-- KEYS[1]  the state of one key; ARGV[1] the time in microseconds, or '' for the server's
-- ARGV[2]  the smallest number of cells wanted, ARGV[3] the largest, ARGV[4] '1' to charge them
-- Each script adds its own arguments from ARGV[5] on. All numbers are whole and below 2^53.
local key = KEYS[1]
local min_cells, max_cells = tonumber(ARGV[2]), tonumber(ARGV[3])
local charge = ARGV[4] == '1'

local now, slack_ms
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now, slack_ms = tonumber(time[1]) * 1000000 + tonumber(time[2]), 1
else
  -- The server's clock also expires keys. States must not expire before the given time says so.
  now, slack_ms = tonumber(ARGV[1]), 3600000
end

local LARGEST = 9007199254740991

local function whole(number)
  return string.format('%.0f', number)
end

-- The quotient, exact for whole numbers even where a rounded quotient is not.
local function div(a, b)
  return (a - math.fmod(a, b)) / b
end

local function expiry_ms(micros)
  return whole(math.ceil(math.max(micros, 0) / 1000) + slack_ms)
end

-- Gives an expiry to a state that is not written now and would otherwise stay for ever.
local function repair(micros)
  if redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, expiry_ms(micros))
  end
end

local function alien()
  return redis.error_reply(
    'ALIEN the value of this key is not the state of a limiter: delete it, or use another prefix')
end
