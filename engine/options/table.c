/* The option table. */
#include "options/table.h"

#include <string.h>

#include "measure/clock.h"
#include "measure/flow_groups.h"
#include "options/options.h"
#include "role/role.h"

#define AT(field) offsetof(struct options, field)
#define DURATION_MAX (1000000ULL * NS_PER_S)

const struct option_row option_table[] = {
    {"port", KIND_PORT, "SPEC", 0, 0, 0, 0, false,
     "BACKEND:key=value,... (see Ports; needed); a tester takes two, a forwarder pairs"},
    {"src-mac", KIND_MAC, "MAC", 0, 0, AT(address.src_mac), AT(src_mac_given), false,
     "this port's MAC (default: the port's own)"},
    {"dst-mac", KIND_MAC, "MAC", 0, 0, AT(address.dst_mac), AT(dst_mac_given), false,
     "the peer's MAC (default: broadcast; required for sending to a device)"},
    {"src-ip", KIND_IP, "IP", 0, 0, AT(address.src_ip), AT(src_ip_given), false,
     "this port's IPv4 or IPv6 address (default 198.18.0.1 or 2001:2::1)"},
    {"dst-ip", KIND_IP, "IP", 0, 0, AT(address.dst_ip), AT(dst_ip_given), false,
     "the peer's address (default 198.18.0.2 or 2001:2::2)"},
    {"ip-version", KIND_IP_VERSION, "4|6", 0, 0, AT(ip_version), 0, false,
     "IP version of the frames (default: that of the given addresses, otherwise 4)"},
    {"vlan", KIND_VLAN, "ID|OUTER.INNER|none", 1, 4094, 0, 0, false,
     "tag frames with a VLAN ID (802.1Q), or with two (802.1ad outside) (default: untagged)"},
    {"src-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.src_udp), AT(src_udp_given), false,
     "this port's UDP port (default 5000)"},
    {"dst-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.dst_udp), AT(dst_udp_given), false,
     "the peer's UDP port (default 5000)"},
    {"flows", KIND_FLOWS, "N[:FIELDS]", 0, 0, 0, 0, false,
     "N flows that differ in FIELDS, joined by '+': src-mac, dst-mac, src-ip, dst-ip, src-port, "
     "dst-port, vlan, each with =COUNT or /random; then :zipf=S, :seed=N (default 1; of src-ip)"},
    {"modify", KIND_MODIFIER, "FIELD=VALUES", 0, 0, 0, 0, false,
     "sender, tester, receiver: header field by the number of the frame (repeatable): "
     "increment,START,STEP,COUNT, decrement,START,STEP,COUNT, values,V,V,..., "
     "random,LOW,HIGH,COUNT[,SEED] or one value; list --json has the fields (default: none)"},
    {"ttl", KIND_COUNT, "N", 1, 255, AT(address.ttl), AT(ttl_given), false,
     "TTL or hop limit of sent frames (default 64)"},
    {"dscp", KIND_COUNT, "N", 0, 63, AT(address.dscp), AT(dscp_given), false,
     "DSCP of sent frames (default 0)"},
    {"encap", KIND_TUNNEL, "vxlan|none", 0, 0, AT(address.tunnel.used), 0, false,
     "sender, tester, duplex: send frames in VXLAN over IPv4, by the table of the command tunnels; "
     "sizes and rates are those of the inner frames; receiver: verification frames only (default "
     "none)"},
    {"outer-src-mac", KIND_MAC, "MAC", 0, 0, AT(address.tunnel.src_mac), AT(outer_src_given), false,
     "--encap: source MAC of the outer header (default: the port's own)"},
    {"outer-dst-mac", KIND_MAC, "MAC", 0, 0, AT(address.tunnel.dst_mac), AT(outer_dst_given), false,
     "--encap: destination MAC of the outer header (default: --dst-mac)"},
    {"decap", KIND_TUNNEL, "vxlan|none", 0, 0, AT(expected.decap), 0, false,
     "receiver, tester, duplex: frames arrive in VXLAN over IPv4; check the outer header, then the "
     "inner frame; sender: verification frames only (default none)"},
    {"next-hops", KIND_MACS, "MAC,MAC,...", 0, 0, AT(expected), 0, false,
     "receiver, tester: destination MAC that frames must have, by the next hop of their row of the "
     "table; without a table the first (default: any)"},
    {"expect-src-mac", KIND_MAC, "MAC", 0, 0, AT(expected.src_mac), AT(expected.src_mac_given),
     false, "receiver, tester: source MAC that frames must have (default: any)"},
    {"expect-ttl", KIND_COUNT, "N", 1, 255, AT(expected.ttl), AT(expected.ttl_given), false,
     "receiver, tester: TTL or hop limit that frames must have (default: any)"},
    {"expect-dscp", KIND_COUNT, "N", 0, 63, AT(expected.dscp), AT(expected.dscp_given), false,
     "receiver, tester: DSCP that frames must have (default: any)"},
    {"expect-vlan", KIND_EXPECTED_VLAN, "ID|none", 1, 4094, AT(expected.vlan),
     AT(expected.vlan_given), false,
     "receiver, tester: VLAN ID of the one tag that frames must have, or no tag (default: as "
     "--vlan)"},
    {"packet-size", KIND_SIZES, "SIZES", FRAME_SIZE_MIN, FRAME_SIZE_MAX, 0, 0, true,
     "Ethernet frame with FCS, 64 to 9018; in turn: 64*7+570*4+1518, imix, genome:3afag; or "
     "random:64-1518, random:imix (default 64; tags and IPv6 need more)"},
    {"stream", KIND_COUNT, "ID", 0, 65535, AT(stream), 0, false,
     "number that a sender and its receiver share (default 0)"},
    {"touch", KIND_FLAG, NULL, 0, 0, AT(touch), 0, false, "write and verify every payload byte"},
    {"payload", KIND_PAYLOAD, "fixed|counter|random", 0, 0, AT(payload), AT(payload_given), false,
     "content behind the stamp (default fixed: zeros; with --touch random)"},
    {"rate", KIND_RATE, "RATE|max", 0, 0, AT(traffic.rate), AT(traffic.rate_given), true,
     "frames per second (1.5M), bits per second (1Gbps-l1, 500Mbps-l2), or a share of a line (80% "
     "of "
     "10Gbps; 80%) (default max)"},
    {"line-rate", KIND_LINE_RATE, "BPS", 0, 0, AT(traffic.line_bps), 0, true,
     "line rate that a rate in percent refers to, such as 10Gbps (default: none)"},
    {"schedule", KIND_SCHEDULE, "SHAPE", 0, 0, AT(traffic.schedule), 0, true,
     "constant, poisson[:SEED], on-off:ON:OFF, ramp:FROM:TO:OVER or recorded (default constant)"},
    {"replay", KIND_TEXT, "FILE", 0, 0, AT(replay_path), 0, false,
     "send the frames of a pcap file: at --rate, or with --schedule recorded at its own times "
     "(default: frames of the engine)"},
    {"loops", KIND_COUNT, "N", 0, UINT32_MAX, AT(loops), 0, false,
     "number of rounds of the replay; 0: until the trial ends (default 1)"},
    {"stamp", KIND_FLAG, NULL, 0, 0, AT(stamp), 0, false,
     "--replay: replace the UDP payload of the frames by the engine's stamp"},
    {"frames", KIND_COUNT, "N", 0, UINT64_MAX, AT(frames), 0, false,
     "sender: end after the port has accepted N frames; frames that were too late do not count "
     "(default 0: unlimited)"},
    {"burst", KIND_COUNT, "N", 1, 65536, AT(traffic.burst), 0, true,
     "frames that are due together (default 32)"},
    {"duration", KIND_TIME, "TIME", 0, DURATION_MAX, AT(traffic.duration_ns), 0, true,
     "duration of the trial: 10, 1.5s, 500ms, 2m; 0: until stopped (default 0)"},
    {"interval", KIND_TIME, "TIME", 1000000, 3600 * NS_PER_S, AT(traffic.interval_ns), 0, true,
     "time between interval lines, 0.001 to 3600 (default 1)"},
    {"patience", KIND_TIME, "TIME", 20000000, 2 * NS_PER_S, AT(traffic.patience_ns), 0, true,
     "receiving roles: how long the port must be silent before missing frames count as lost "
     "(default 150ms)"},
    {"catch-up-us", KIND_MICROSECONDS, "N", 10, 1000000000ULL, AT(catch_up_ns), 0, false,
     "how far behind its schedule a sender may be and still catch up, 10 microseconds or "
     "more (default 1000)"},
    {"bidirectional", KIND_FLAG, NULL, 0, 0, AT(bidirectional), 0, false,
     "tester: send from both ports"},
    {"src-mac-b", KIND_MAC, "MAC", 0, 0, AT(address_b.src_mac), AT(src_mac_b_given), false,
     "forwarder --mac-update: port B's own MAC (default: --dst-mac)"},
    {"dst-mac-b", KIND_MAC, "MAC", 0, 0, AT(address_b.dst_mac), AT(dst_mac_b_given), false,
     "forwarder --mac-update: destination of frames that leave by port B (default: --src-mac)"},
    {"mac-update", KIND_FLAG, NULL, 0, 0, AT(mac_update), 0, false,
     "forwarder: write --src-mac and --dst-mac into frames that leave by port A, and swapped, or "
     "--src-mac-b and --dst-mac-b, by port B"},
    {"gather-us", KIND_MICROSECONDS, "N", 0, 1000000, AT(gather_ns), 0, false,
     "forwarder of two DPDK ports: hold frames until there are 32, or until this timer expires, as "
     "DPDK's l2fwd does (default 0: holds no frame)"},
    {"latency", KIND_COUNT, "0|1", 0, 1, AT(traffic.latency), 0, true,
     "receiver, duplex, server: time every frame from its sender (on another host: see "
     "--sender-clock) (default 0)"},
    {"sender-clock", KIND_CLOCK, "TICKS:NS:HZ", 0, 0, AT(traffic.sender_clock), 0, true,
     "--latency with a sender on another host: its clock (see its 'counters' and 'ready') read "
     "TICKS when CLOCK_MONOTONIC was NS here, and has HZ ticks per second (default: this host's)"},
    {"probe-rate", KIND_PROBE_RATE, "RATE|none", 0, 0, AT(traffic.probe_rate), 0, true,
     "sender, client, duplex, tester: send a timed probe stream at this rate, and do not time the "
     "load (default: no probes)"},
    {"probe-schedule", KIND_SCHEDULE, "SHAPE", 0, 0, AT(traffic.probe_schedule), 0, true,
     "constant or poisson[:SEED] (default poisson: independent of the load)"},
    {"probes", KIND_COUNT, "0|1", 0, 1, AT(traffic.probes), 0, true,
     "receiver, server, duplex: the sender has --probe-rate (default 0)"},
    {"probe-stream", KIND_COUNT, "ID", 0, 65535, AT(probe_stream), AT(probe_stream_given), false,
     "ID of the probe stream (default: --stream with its highest bit flipped)"},
    {"denied-rate", KIND_PROBE_RATE, "RATE|none", 0, 0, AT(traffic.denied_rate), 0, true,
     "sender, tester: also send frames that the switch must drop, of the table of the command "
     "denied, at this rate (default: none)"},
    {"echo", KIND_ECHO, "probes|all", 0, 0, AT(traffic.echo), 0, true,
     "server with --probes: send back the probes and count the load, or both (default probes)"},
    {"flow-groups", KIND_COUNT, "N", 0, FLOW_GROUPS_MAX, AT(flow_groups), 0, false,
     "receiver, client, tester: loss and order by sequence number modulo N, a power of two "
     "(default 0: no groups)"},
    {"delay-us", KIND_MICROSECONDS, "N", 0, 10000000000ULL, AT(reference.delay_ns), 0, false,
     "reference: delay every frame by this time (default 0)"},
    {"jitter-us", KIND_MICROSECONDS, "N", 0, 10000000000ULL, AT(reference.jitter_ns), 0, false,
     "reference: vary the delay of each frame by this time (see --jitter) (default 0)"},
    {"jitter", KIND_JITTER, "uniform|normal", 0, 0, AT(reference.jitter), 0, false,
     "reference: at most --jitter-us more or less, or with that standard deviation (default "
     "uniform)"},
    {"drop-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_DROP]), 0, false,
     "reference: drop one data frame in N (default 0: none)"},
    {"duplicate-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_DUPLICATE]), 0,
     false, "reference: send one data frame in N twice (default 0: none)"},
    {"reorder-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_REORDER]), 0, false,
     "reference: let one data frame in N be overtaken by the next (default 0: none)"},
    {"corrupt-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_CORRUPT]), 0, false,
     "reference: flip a bit in one data frame in N (default 0: none)"},
    {"drop-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_DROP]), 0, false,
     "reference: drop each data frame with this probability, 0 to 1 (default 0)"},
    {"duplicate-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_DUPLICATE]),
     0, false, "reference: the same for duplicates (default 0)"},
    {"reorder-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_REORDER]), 0,
     false, "reference: the same for frames overtaken by the next (default 0)"},
    {"corrupt-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_CORRUPT]), 0,
     false, "reference: the same for a flipped bit (default 0)"},
    {"fault-seed", KIND_COUNT, "N", 0, UINT64_MAX, AT(reference.seed), 0, false,
     "reference: seed of the random faults (default 1)"},
    {"limit-pps", KIND_COUNT, "N", 0, 10000000000ULL, AT(reference.limit_pps), 0, false,
     "reference: drop data frames above this rate per second (default 0: no limit)"},
    {"limit-burst", KIND_COUNT, "N", 1, 1048576, AT(reference.limit_burst), 0, false,
     "reference: frames that may pass together after a pause (default 256)"},
    {"cost-ns", KIND_COUNT, "N", 0, 1000000, AT(reference.cost_ns), 0, false,
     "reference: time per frame, including the work for it (default 0: no additional time)"},
    {"queue", KIND_COUNT, "N", 2, 1048576, AT(reference.queue), 0, false,
     "reference: frames that can wait until they are due, a power of two (default 8192)"},
    {"connect", KIND_TCP_ADDRESS, "IP:PORT", 0, 0, AT(tcp.connect), 0, false,
     "tcp-client: the server (198.18.0.2:5201, [2001:2::2]:5201; needed)"},
    {"listen", KIND_TCP_ADDRESS, "IP:PORT", 0, 0, AT(tcp.listen), 0, false,
     "tcp-server: the address at which it listens (needed)"},
    {"workload", KIND_WORKLOAD, "rr|crr|stream|http", 0, 0, AT(tcp.workload), 0, false,
     "tcp-client and its server: requests on open connections, a connection for each request, a "
     "stream to the server, or HTTP/1.1 (default rr)"},
    {"connections", KIND_COUNT, "N", 1, TCP_CONNECTIONS_MAX, AT(tcp.connections),
     AT(tcp.connections_given), false,
     "tcp-client: connections, each with one request at a time; tcp-server: the most at a time "
     "(default: client 1, server 4096)"},
    {"request-size", KIND_COUNT, "BYTES", 1, TCP_MESSAGE_MAX, AT(tcp.request_bytes), 0, false,
     "rr, crr: length of a request; stream: of a write (default: 64, of a write 131072)"},
    {"response-size", KIND_COUNT, "BYTES", 1, TCP_MESSAGE_MAX, AT(tcp.response_bytes), 0, false,
     "rr, crr: length of a response; tcp-server with http: of its body (default: 64)"},
    {"timeout", KIND_TIME, "TIME", 10000000, 100 * NS_PER_S, AT(tcp.timeout_ns), 0, false,
     "tcp-client: give a request up after this time, from its connect or send (default 5)"},
    {"congestion-control", KIND_TEXT, "NAME", 0, 0, AT(tcp.congestion), 0, false,
     "TCP congestion control of the sockets (default: that of the route or of the machine)"},
    {"path", KIND_TEXT, "PATH", 0, 0, AT(tcp.path), 0, false,
     "tcp-client with http: path of the GET request (default: /)"},
    {"server-spin-us", KIND_MICROSECONDS, "N", 0, 10000000, AT(tcp.spin_ns), 0, false,
     "tcp-server: compute for this time before each response (default 0)"},
    {"idle", KIND_IDLE, "poll|yield|sleep|baton", 0, 0, AT(idle), AT(idle_given), false,
     "action of a worker without work (default poll; with TCP sleep)"},
    {"baton", KIND_TEXT, "FILE", 0, 0, AT(token_path), 0, false,
     "--idle baton: the file by which programs on one core take turns, created if it does not "
     "exist "
     "(default: none)"},
    {"queues", KIND_COUNT, "N", 1, IO_QUEUES_MAX, AT(queues), 0, false,
     "sender, receiver: queues of the port, each with its worker and stream "
     "(--stream and the following numbers); the workers share --rate (default 1)"},
    {"core", KIND_CORES, "N[,N]", 0, 0, 0, 0, false,
     "core of the worker, or one for each of --queues; a tester with two cores has two threads "
     "(default: not pinned)"},
    {"start", KIND_START, "now|command", 0, 0, AT(start_now), 0, false,
     "begin at once, or at a command on standard input (default command)"},
    {"session", KIND_FLAG, NULL, 0, 0, AT(session), 0, false,
     "wait for the next command after each result instead of exiting"},
    {"hardware-counters", KIND_FLAG, NULL, 0, 0, AT(hardware_counters), 0, false,
     "count cycles, instructions and misses of the trial (perf_event_open)"},
    {"unforced-buffers", KIND_FLAG, NULL, 0, 0, AT(unforced_buffers), 0, false,
     "do not raise socket buffers above the limits of the machine (net.core.rmem_max, wmem_max), "
     "like an ordinary user"},
    {"dpdk-memory-mb", KIND_COUNT, "N", 16, 1048576, AT(dpdk_memory_mb), 0, false,
     "memory for DPDK in MiB (default 64, for up to four ports or two of jumbo frames; more for "
     "further ports and queues or long rings)"},
    {"dpdk-pages", KIND_PAGES, "huge|4KiB", 0, 0, AT(dpdk_pages), 0, false,
     "pages of DPDK's memory: hugepages, or the kernel's ordinary pages, which need no hugepages "
     "and no privileges (default huge)"},
    {"eal", KIND_EAL, "ARG", 0, 0, 0, 0, false,
     "pass ARG unchanged to DPDK's EAL (repeatable) (default: none)"},
};

const struct option_alias option_aliases[] = {
    {"frame-size", "packet-size"}, {"streams", "connections"}, {NULL, NULL}};

static const char *const options_of_all[] = {
    "rate",  "schedule", "duration", "interval", "patience",          "idle",
    "baton", "core",     "start",    "session",  "hardware-counters", NULL};
static const char *const options_of_tcp[] = {"connect",
                                             "listen",
                                             "workload",
                                             "connections",
                                             "request-size",
                                             "response-size",
                                             "timeout",
                                             "path",
                                             "congestion-control",
                                             "server-spin-us",
                                             NULL};

static bool is_listed(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

bool option_is_taken_by(const struct option_row *row, const struct role *role)
{
    return is_listed(row->name, options_of_all) ||
           is_listed(row->name, options_of_tcp) == role->speaks_tcp;
}

const unsigned option_rows = sizeof option_table / sizeof option_table[0];
