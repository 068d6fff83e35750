#!lua flags=allow-oom
-- Messages that are out: taken from their lists and leased in one step, so that no moment exists in which a message
-- lies in neither place. allow-oom: a full server must still be drained.
--
-- KEYS[1] leases: sorted set, token -> when the lease runs out, in Unix seconds of this server's clock
-- KEYS[2] leased: hash, token -> the list it came from, a NUL, and the message as it lay there
-- KEYS[3..] lists that the operation takes from or puts to
-- ARGV[1] operation; the rest are its own arguments

local leases, leased = KEYS[1], KEYS[2]
local CHUNK = 1000  -- arguments that fit on Lua's stack with room to spare

local function now()
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end

local function in_chunks(command, key, arguments)
  local done = 0
  for first = 1, #arguments, CHUNK do
    done = done + redis.call(command, key, unpack(arguments, first, math.min(first + CHUNK - 1, #arguments)))
  end
  return done
end

local function tokens()
  local all = {}
  for each = 2, #ARGV do
    all[each - 1] = ARGV[each]
  end
  return all
end

-- Ends a lease; returns its list and message, or nothing if it was over already.
local function end_lease(token)
  local value = redis.call('HGET', leased, token)
  local held = redis.call('ZREM', leases, token) + redis.call('HDEL', leased, token)
  if not value or held == 0 then
    return nil
  end
  local nul = string.find(value, '\0', 1, true)
  return string.sub(value, 1, nul - 1), string.sub(value, nul + 1)
end

-- Says in a message's headers, where kombu says it too, that somebody had it before.
local function marked(message)
  local found, brace = string.find(message, '"headers":%s*{')
  if not found then
    return message
  end
  local rest = string.sub(message, brace + 1)
  if string.find(rest, '^"redelivered":true') then
    return message
  end
  local comma = string.find(rest, '^%s*}') and '' or ','
  return string.sub(message, 1, brace) .. '"redelivered":true' .. comma .. rest
end

local operations = {}

-- lease in seconds, how many at most, first part of their tokens
-- Returns how many came from each list, the length of each message, and the messages, each as one string: a client in
-- Python reads one long string much faster than a hundred short ones.
function operations.reserve()
  local until_, left, stem = now() + ARGV[2], tonumber(ARGV[3]), ARGV[4]
  redis.call('ZSCORE', leases, '')  -- a key of a wrong type must fail here, before anything is taken
  redis.call('HEXISTS', leased, '')
  local counts, lengths, messages = {}, {}, {}
  for each = 3, #KEYS do
    local taken = left > 0 and redis.pcall('RPOP', KEYS[each], left) or {}
    if taken.err then
      taken = {}
    end
    local scores, fields = {}, {}
    for index, message in ipairs(taken) do
      local number = #messages + 1
      local token = stem .. string.format('%05d', number)
      messages[number], lengths[number] = message, #message
      scores[2 * index - 1], scores[2 * index] = until_, token
      fields[2 * index - 1], fields[2 * index] = token, KEYS[each] .. '\0' .. message
    end
    in_chunks('ZADD', leases, scores)
    in_chunks('HSET', leased, fields)
    left = left - #taken
    counts[#counts + 1] = #taken
  end
  return {table.concat(counts, ','), table.concat(lengths, ','), table.concat(messages)}
end

-- tokens; returns how many leases were still held
function operations.ack()
  local gone = tokens()
  in_chunks('HDEL', leased, gone)
  return in_chunks('ZREM', leases, gone)
end

-- tokens in the order they were reserved; returns how many were still held
function operations.release()
  local done = 0
  for each = #ARGV, 2, -1 do
    local list, message = end_lease(ARGV[each])
    if list then
      redis.call('RPUSH', list, marked(message))
      done = done + 1
    end
  end
  return done
end

-- tokens, to the end of KEYS[3]; returns how many were still held
function operations.move()
  local done = 0
  for _, token in ipairs(tokens()) do
    local list, message = end_lease(token)
    if list then
      redis.call('LPUSH', KEYS[3], message)
      done = done + 1
    end
  end
  return done
end

-- lease in seconds, tokens; returns the positions (from 0) of those that are lost
function operations.renew()
  local until_, lost = now() + ARGV[2], {}
  for each = 3, #ARGV do
    if redis.call('ZSCORE', leases, ARGV[each]) then
      redis.call('ZADD', leases, until_, ARGV[each])
    else
      lost[#lost + 1] = each - 3
    end
  end
  return lost
end

-- how many at most; returns how many messages went back to the front of their lists
function operations.restore()
  local over = redis.call('ZRANGE', leases, '-inf', now(), 'BYSCORE', 'LIMIT', 0, tonumber(ARGV[2]))
  for each = #over, 1, -1 do
    local list, message = end_lease(over[each])
    if list then
      redis.call('RPUSH', list, marked(message))
    end
  end
  return #over
end

return operations[ARGV[1]]()
