-- One end of a run by Pktgen-DPDK, told what to do on standard input: `run`, `watch` or `quit`.
-- It prints lines that begin with "switchmark", each time with the counter as Pktgen has it, which
-- renews it once a second. Settings come before this text: size, burst, and for a sender also
-- rate_pps (0: as fast as it can), mac, source, target, source_port, target_port.

local COUNTER_S, QUIET_S, LOOK_MS = 1.0, 2.3, 2
local UNKNOWN_MBPS = 4294967295 -- what DPDK has in place of a speed that a port does not know
local FCS_AND_GAP = 20 -- bytes on a wire that belong to a frame, beyond its size

-- Nanoseconds of the kernel's monotonic clock: plain Lua has no clock finer than a second.
local function now_ns()
  local file = assert(io.open("/proc/timer_list"))
  file:read("l")
  file:read("l")
  local now = tonumber(string.match(file:read("l"), "now at (%d+)"))
  file:close()
  assert(now, "/proc/timer_list has no clock")
  return now
end

local function say(...)
  io.write("\nswitchmark ", table.concat({ ... }, " "), "\n")
  io.flush()
end

local function counted(counter)
  return pktgen.portStats("0", "port")[0][counter]
end

-- Says when the counter has changed, until `over`; returns it.
local function count_until(over, counter, since)
  local last = since
  repeat
    local frames = counted(counter)
    if frames ~= last then
      last = frames
      say("count", now_ns(), frames - since)
    end
    pktgen.delay(LOOK_MS)
  until over()
  return last
end

-- The counter once it stays as it is for longer than Pktgen takes to renew it.
local function settled(counter)
  local last, changed = counted(counter), now_ns()
  while now_ns() - changed < QUIET_S * 1e9 do
    pktgen.delay(LOOK_MS)
    if counted(counter) ~= last then
      last, changed = counted(counter), now_ns()
    end
  end
  return last
end

local function set_rate()
  local told = string.match(pktgen.linkState("0")[0], "UP%-(%d+)")
  local mbps = tonumber(told) or UNKNOWN_MBPS
  local percent = 100
  if rate_pps > 0 then
    percent = rate_pps * (size + FCS_AND_GAP) * 8 / (mbps * 1e6) * 100
    if percent > 100 then
      say("refused", "its port claims a link of", mbps, "Mbit/s")
      return
    end
  end
  pktgen.set("0", "rate", string.format("%.15f", percent))
  say("ready", mbps)
end

pktgen.screen("off")
say("version", pktgen.info.Pktgen_Version)
pktgen.set("0", "size", size)
pktgen.set("0", "burst", burst)
if mac then
  pktgen.set_mac("0", "dst", mac)
  pktgen.set_ipaddr("0", "src", source)
  pktgen.set_ipaddr("0", "dst", target)
  pktgen.set_proto("0", "udp")
  pktgen.set("0", "sport", source_port)
  pktgen.set("0", "dport", target_port)
end
pktgen.delay(math.floor(COUNTER_S * 1100)) -- what came before has been counted
if mac then set_rate() else say("ready", 0) end

for line in io.lines() do
  local word, value = string.match(line, "^(%a+) ?(.*)$")
  if word == "quit" then break end
  if word == "run" then
    local since = counted("opackets")
    local begun = now_ns()
    local ends = begun + tonumber(value) * 1e9
    pktgen.start("0")
    say("begun", begun)
    count_until(function() return now_ns() >= ends end, "opackets", since)
    pktgen.stop("0")
    say("stopped", now_ns())
    say("total", settled("opackets") - since)
  elseif word == "watch" then -- until this file is there
    local since = counted("ipackets")
    say("begun", now_ns())
    count_until(function()
      local file = io.open(value)
      if file then file:close() end
      return file ~= nil
    end, "ipackets", since)
    say("total", settled("ipackets") - since)
  end
end
pktgen.quit()
