-- What MoonGen runs at one end: it sends its frames over and over, or counts what comes, and answers
-- lines of JSON on standard input (see trex_client.py) with its port's counters, as JSON in one
-- line. Times are CLOCK_MONOTONIC. All tasks share one core, so that a node of one is enough.

local mg      = require "moongen"
local device  = require "device"
local memory  = require "memory"
local ffi     = require "ffi"

-- Some of these may have been declared by a library of MoonGen's.
pcall(ffi.cdef, "struct timespec { long tv_sec; long tv_nsec; };")
pcall(ffi.cdef, "int clock_gettime(int which, struct timespec* now);")
pcall(ffi.cdef, "struct switchmark_flow { volatile uint32_t flows; };")

local CLOCK_MONOTONIC = 1
local now = ffi.new("struct timespec[1]")

local function time_ns()
	ffi.C.clock_gettime(CLOCK_MONOTONIC, now)
	return tonumber(now[0].tv_sec) * 1e9 + tonumber(now[0].tv_nsec)
end

local function say(text)
	io.stdout:write(text, "\n")
	io.stdout:flush()
end

function configure(parser)
	parser:argument("frame", "The frame, x and hexadecimal digits; @ and a file with frames, one a"
		.. " line, which are sent in turn; -: only receive.")
	parser:argument("ipg", "Nanoseconds from frame to frame; 0: as fast as it can."):convert(tonumber)
	parser:argument("burst", "Frames handed to the port at a time."):convert(tonumber)
	return parser:parse()
end

function master(args)
	local dev = device.config{port = 0, rxQueues = 1, txQueues = 1}
	local sends = args.frame ~= "-"
	local flow = memory.alloc("struct switchmark_flow*", ffi.sizeof("struct switchmark_flow"))
	flow.flows = 0
	if not sends then
		mg.startSharedTask("receive", dev:getRxQueue(0))
	end
	say('{"ready": true, "version": "", "driver": "' .. dev:getDriverName() .. '"}')
	for line in io.lines() do
		local command = line:match('"do": "(%a+)"')
		if command == "start" and sends then
			flow.flows = 1
			local seconds = tonumber(line:match('"duration_s": (-?[%d.]+)'))
			mg.startSharedTask("send", dev:getTxQueue(0), args, flow, seconds)
		elseif command == "stop" then
			flow.flows = 0
		end
		local sent, received = dev:getTxStats(), dev:getRxStats()
		say(('{"t_ns": %.0f, "sent": %.0f, "received": %.0f, "sends": %s}'):format(
			time_ns(), sent, received, flow.flows == 1 and "true" or "false"))
	end
	flow.flows = 0
	mg.stop()
	mg.waitForTasks()
end

function receive(queue)
	local bufs = memory.bufArray()
	while mg.running() do
		bufs:free(queue:tryRecvIdle(bufs, 1000))
	end
end

local function bytes_of(digits)
	return (digits:gsub("%x%x", function(two)
		return string.char(tonumber(two, 16))
	end))
end

-- The frames that an argument names.
function frames_of(text)
	local frames = {}
	if text:sub(1, 1) == "@" then
		for line in io.lines(text:sub(2)) do
			frames[#frames + 1] = bytes_of(line)
		end
	else
		frames[1] = bytes_of(text:sub(2))
	end
	return frames
end

-- At a rate it sends so many frames as are due in that time, and makes up for a pause.
function send(queue, args, flow, seconds)
	local frames = frames_of(args.frame)
	local frame, at = frames[1], 0
	local mempool = memory.createMemPool(function(buf)
		ffi.copy(buf:getData(), frame, #frame)
	end)
	local bufs = mempool:bufArray(args.burst)
	local left = seconds < 0 and math.huge or math.floor(seconds * 1e9 / args.ipg + 0.5)
	local due = time_ns()
	while mg.running() and flow.flows == 1 and left > 0 do
		if args.ipg == 0 or time_ns() >= due then
			local count = math.min(args.burst, left)
			due, left = due + args.ipg * count, left - count
			bufs:allocN(#frame, count)
			if #frames > 1 then -- all have the same length
				for i = 1, count do
					at = at % #frames + 1
					ffi.copy(bufs[i]:getData(), frames[at], #frame)
				end
			end
			queue:sendN(bufs, count)
		end
	end
	flow.flows = 0
end
