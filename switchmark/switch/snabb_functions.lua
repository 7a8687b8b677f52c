-- Network functions in Snabb: the apps between the ports, by the plan that the bench has written.
--
-- The plan is a Lua table in a file: ip_version, routers (a MAC address a port), hops (MAC address
-- and port of each next hop), routes (a file of rows: network address, prefix length, number of
-- the next hop in two bytes, network byte order), filter (an expression of pcap-filter(7) that
-- passes what the list permits), policer (bytes/s and bytes), vlan and trunks (the tag, and true for
-- each trunk port). Ports are numbered from 0.

local ffi = require("ffi")
local C = ffi.C
local bit = require("bit")
local counter = require("core.counter")
local link = require("core.link")
local lpm4_248 = require("lib.lpm.lpm4_248").LPM4_248
local packet = require("core.packet")
local poptrie = require("lib.poptrie")
local PcapFilter = require("apps.packet_filter.pcap_filter").PcapFilter
local vlan = require("apps.vlan.vlan")
local RateLimiter = require("apps.rate_limiter.rate_limiter").RateLimiter

local ETHERNET = 14
local FIELDS = {
   [4] = {ethertype = 0x0008, ttl = ETHERNET + 8, destination = ETHERNET + 16, bytes = 4, header = 20},
   [6] = {ethertype = 0xdd86, ttl = ETHERNET + 7, destination = ETHERNET + 24, bytes = 16, header = 40},
}

local function mac_of (text)
   local bytes, at = ffi.new("uint8_t[6]"), 0
   for pair in text:gmatch("%x%x") do
      bytes[at], at = tonumber(pair, 16), at + 1
   end
   return bytes
end

-- The routes: DIR-24-8 for IPv4, a poptrie for IPv6. A value is the number of a next hop plus 1.
local function load_routes (plan)
   local width = FIELDS[plan.ip_version].bytes
   local file = assert(io.open(plan.routes, "rb"))
   local text = file:read("*a")
   file:close()
   local row_bytes = width + 3
   local rows, count = ffi.cast("const uint8_t *", text), #text / row_bytes
   local table4 = plan.ip_version == 4 and lpm4_248:new()
   local table6 = plan.ip_version == 6 and poptrie.new{direct_pointing = true}
   for k = 0, count - 1 do
      local row = rows + k * row_bytes
      local bits, hop = row[width], row[width + 1] * 256 + row[width + 2] + 1
      if table4 then
         local address = ((row[0] * 256 + row[1]) * 256 + row[2]) * 256 + row[3]
         table4:add(ffi.cast("uint32_t", address), bits, hop)
      else
         local key = ffi.new("uint8_t[16]")
         ffi.copy(key, row, 16)
         table6:add(key, bits, hop)
      end
   end
   local found = 0
   if table4 then
      table4:build()
      for entry in table4:entries() do
         if entry.key > 0 then found = found + 1 end
      end
      local search = function (address)
         return table4:search16(bit.bswap(ffi.cast("const uint32_t *", address)[0]))
      end
      return search, found
   end
   table6:build()
   local function walk (node)
      if node.value then found = found + 1 end
      if node.left then walk(node.left) end
      if node.right then walk(node.right) end
   end
   if table6.rib then walk(table6.rib) end
   return function (address) return table6:lookup128(address) end, found
end

-- A router: links pN in and out. It drops frames that are not sent to its MAC address at the
-- port, that have no route, or whose TTL would become 0.
local Router = {}

function Router:new (plan)
   local self = setmetatable({shm = {dropped = {counter}}}, {__index = Router})
   self.fields = FIELDS[plan.ip_version]
   self.is_ipv4 = plan.ip_version == 4
   self.decrement = plan.decrement
   self.names, self.macs, self.hops = {}, {}, {}
   for i, text in ipairs(plan.routers) do
      self.names[i], self.macs[i] = "p"..(i - 1), mac_of(text)
   end
   for i, hop in ipairs(plan.hops) do
      local header = ffi.new("uint8_t[12]")
      ffi.copy(header, mac_of(hop.mac), 6)
      ffi.copy(header + 6, self.macs[hop.port + 1], 6)
      self.hops[i] = {header = header, port = "p"..hop.port}
   end
   self.search, self.found = load_routes(plan)
   return self
end

function Router:push ()
   local fields, search, decrement = self.fields, self.search, self.decrement
   for i, name in ipairs(self.names) do
      local input, mac = self.input[name], self.macs[i]
      for _ = 1, link.nreadable(input) do
         local p = link.receive(input)
         local data = p.data
         local hop
         if p.length >= ETHERNET + fields.header and C.memcmp(data, mac, 6) == 0
            and ffi.cast("uint16_t *", data + 12)[0] == fields.ethertype
            and data[fields.ttl] > 1 then
            hop = self.hops[search(data + fields.destination)]
         end
         if hop then
            ffi.copy(data, hop.header, 12)
            data[fields.ttl] = data[fields.ttl] - decrement
            if self.is_ipv4 then
               -- RFC 1141: the checksum grows by what the TTL loses.
               local sum = data[24] * 256 + data[25] + decrement * 256
               sum = bit.band(sum, 0xffff) + bit.rshift(sum, 16)
               data[24], data[25] = bit.rshift(sum, 8), bit.band(sum, 0xff)
            end
            link.transmit(self.output[hop.port], p)
         else
            counter.add(self.shm.dropped)
            packet.free(p)
         end
      end
   end
end

-- Put the apps of a plan behind each port. `tails`: the output from which the frames of a port
-- go on, by the name of the port; `heads`: the input to which frames for a port go. Return true if the plan has a router, which then joins all ports.
local function connect (graph, ports, plan, tails, heads)
   for i, port in ipairs(ports) do
      local function through (name, class, argument)
         config.app(graph, name, class, argument)
         config.link(graph, tails[port].." -> "..name..".input")
         tails[port] = name..".output"
      end
      local number = i - 1
      if plan.policer then
         through("policer"..number, RateLimiter,
                 {rate = plan.policer.rate, bucket_capacity = plan.policer.burst})
      end
      if plan.trunks and plan.trunks[number] then
         through("untag"..number, vlan.Untagger, {tag = plan.vlan})
         config.app(graph, "tag"..number, vlan.Tagger, {tag = plan.vlan})
         config.link(graph, "tag"..number..".output -> "..heads[port])
         heads[port] = "tag"..number..".input"
      end
      if plan.filter then through("acl"..number, PcapFilter, {filter = plan.filter}) end
      if plan.routes then
         config.link(graph, tails[port].." -> router."..port)
         config.link(graph, "router."..port.." -> "..port..".rx")
      end
   end
   if plan.routes then config.app(graph, "router", Router, plan) end
   return plan.routes ~= nil
end

-- The entries of each kind that the running engine has.
local function entries ()
   local count = {routes = 0, filters = 0, policers = 0, tags = 0}
   for name, app in pairs(engine.app_table) do
      if name == "router" then count.routes = app.found end
      if name:match("^acl%d") then count.filters = count.filters + 1 end
      if name:match("^tag%d") then count.tags = count.tags + 1 end
      if name:match("^policer%d") then count.policers = count.policers + 1 end
   end
   return count
end

return {connect = connect, entries = entries}
