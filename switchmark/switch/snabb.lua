-- Our program for Snabb: vhost-user ports joined in pairs, or by Snabb's learning bridge.
--
--    snabb snsh snabb.lua cross-connect|learning|route AGEING_SECONDS PLAN PORT PORT ...
--
-- PLAN is the plan of the network functions (snabb_functions.lua, in the same folder), or `-`.
-- Port N is the app `pN`, a vhost-user client of the N-th port's socket; where a port is no path
-- but the name of an interface, a raw socket on that (a cable to another host). The bridge gets one port
-- more, `witness`: what comes out of it was flooded. Whether a port has its peer stands in
-- the counter switchmark/pN.counter (1 or 0), beside the counters of Snabb's own links. While
-- it runs, ports can be added and taken away: switchmark/spare.

local ffi = require("ffi")
local S = require("syscall")
local counter = require("core.counter")
local memory = require("core.memory")
local shm = require("core.shm")
local timer = require("core.timer")
local RawSocket = require("apps.socket.raw").RawSocket
local VhostUser = require("apps.vhost.vhost_user").VhostUser

local HANDSHAKE_NS = 1e7 -- Snabb's own 500 ms make a start slow
local VERSION_1 = 2^32   -- without it virtio-user peers send no SET_FEATURES, and Snabb dies

local parameters = main.parameters
local mode = table.remove(parameters, 1)
local ageing_s = tonumber(table.remove(parameters, 1))
local plan_file = table.remove(parameters, 1)
local plan, functions
if plan_file ~= "-" then
   plan = dofile(plan_file)
   functions = dofile(plan_file:gsub("[^/]*$", "").."snabb_functions.lua")
end

-- Nothing here does DMA, so packets may lie in anonymous hugepages. Snabb's own way mounts a
-- file system that stays behind, shares it with every other instance, and raises the
-- machine's number of hugepages when there are too few.
function memory.allocate_next_chunk ()
   local size = memory.huge_page_size
   local base, err = S.mmap(nil, size, "read, write", "private, anonymous, hugetlb", -1, 0)
   if not base then error("no hugepage is left for packets: "..tostring(err)) end
   local chunk = {pointer = ffi.cast("char *", base), physical = 0ULL, size = size, used = 0}
   table.insert(memory.chunks, chunk)
end

-- Snabb remembers features per socket in a file in /tmp, for the sake of a peer that
-- reconnects with the wrong ones. Ours do not.
function VhostUser:update_features (features)
   return features
end

-- A queue is kicked when its own addresses are known, but Snabb then polls both.
for _, name in ipairs{"set_vring_kick", "set_vring_enable"} do
   local handler = VhostUser[name]
   VhostUser[name] = function (self, ...)
      handler(self, ...)
      self.vhost_ready = self.vhost_ready and self.dev:ready() ~= nil
   end
end

-- A device whose queue is full is no reason to die: the frame waits, as at any full ring.
function RawSocket:try_transmit (p)
   local sent, err = S.write(self.sock, p.data, p.length)
   if not sent and (err.AGAIN or err.NOBUFS) then return false end
   return assert(sent, err) == p.length
end

local function is_socket (port)
   return port:sub(1, 1) == "/"
end

local ports = {}
for i = 1, #parameters do ports[i] = "p"..(i - 1) end

-- The whole switch, with so many ports more that have nobody behind them.
local function graph_with (more)
   local graph, all = config.new(), {unpack(ports)}
   for i, port in ipairs(parameters) do
      if is_socket(port) then
         config.app(graph, ports[i], VhostUser, {socket_path = port})
      else
         config.app(graph, ports[i], RawSocket, port)
      end
   end
   for i = 1, more do
      local name = "n"..(i - 1)
      table.insert(all, name)
      config.app(graph, name, VhostUser, {socket_path = parameters[1]..".n"..(i - 1)})
   end
   -- The outputs from which the frames of each port go on, and the inputs for frames to it.
   local tails, heads = {}, {}
   for _, port in ipairs(all) do tails[port], heads[port] = port..".tx", port..".rx" end
   if plan and functions.connect(graph, ports, plan, tails, heads) then return graph end
   if mode == "cross-connect" then
      for i = 1, #all, 2 do
         config.link(graph, tails[all[i]].." -> "..heads[all[i + 1]])
         config.link(graph, tails[all[i + 1]].." -> "..heads[all[i]])
      end
   else
      local bridge = require("apps.bridge.learning").bridge
      config.app(graph, "bridge", bridge,
                 {ports = {"witness", unpack(all)}, config = {mac_table = {timeout = ageing_s}}})
      config.app(graph, "sink", require("apps.basic.basic_apps").Sink)
      config.app(graph, "silent", {new = function () return {} end})
      config.link(graph, "bridge.witness -> sink.input")
      config.link(graph, "silent.output -> bridge.witness")
      for _, port in ipairs(all) do
         config.link(graph, tails[port].." -> bridge."..port)
         config.link(graph, "bridge."..port.." -> "..heads[port])
      end
   end
   return graph
end

local began = ffi.C.get_time_ns()
engine.configure(graph_with(0))
if plan then
   for name, count in pairs(functions.entries()) do
      counter.set(counter.create("switchmark/"..name..".counter"), count)
   end
   counter.set(counter.create("switchmark/load_ns.counter"), ffi.C.get_time_ns() - began)
end

local up = {}
for i, port in ipairs(ports) do
   local app = engine.app_table[port]
   up[i] = counter.create("switchmark/"..port..".counter")
   if is_socket(parameters[i]) then
      -- No checksum offload: Snabb would verify the checksum of every frame it delivers.
      app.dev.supported_features = app.dev.supported_features + VERSION_1 - ffi.C.VIRTIO_NET_F_CSUM
      -- A peer that met another switch before asks how far its queues had come.
      app.dev.get_vring_base = function (self, index) return self.virtq[index].avail or 0 end
      app.process_qemu_timer = timer.new("vhost-user handshake of "..port,
                                         function () app:process_qemu_requests() end,
                                         HANDSHAKE_NS, "non-repeating")
   end
end

-- How many spare ports there shall be, written by the bench, and how many there are.
local spare = shm.create("switchmark/spare", "struct { uint64_t wanted, there; }")

timer.activate(timer.new("which ports are up", function ()
   if spare.wanted ~= spare.there then
      engine.configure(graph_with(tonumber(spare.wanted)))
      spare.there = spare.wanted
   end
   for i, port in ipairs(ports) do
      local ready = not is_socket(parameters[i]) or engine.app_table[port].vhost_ready
      counter.set(up[i], ready and 1 or 0)
   end
end, HANDSHAKE_NS, "repeating"))

engine.busywait = true
engine.main({no_report = true})
