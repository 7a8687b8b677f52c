/* The option table. */
#include "options_table.h"

#include "measure/clock.h"
#include "options.h"

#define AT(field) offsetof(struct options, field)
#define DURATION_MAX (1000000ULL * NS_PER_S)

const struct option_row option_table[] = {
    {"port", KIND_PORT, "SPEC", 0, 0, 0, 0, false,
     "BACKEND:key=value,... (see Ports); a tester takes two, a forwarder pairs"},
    {"src-mac", KIND_MAC, "MAC", 0, 0, AT(address.src_mac), AT(src_mac_given), false,
     "this port's MAC (default: the port's own)"},
    {"dst-mac", KIND_MAC, "MAC", 0, 0, AT(address.dst_mac), AT(dst_mac_given), false,
     "the peer's MAC"},
    {"src-ip", KIND_IP, "IP", 0, 0, AT(address.src_ip), AT(src_ip_given), false,
     "this port's IPv4 address (default 198.18.0.1)"},
    {"dst-ip", KIND_IP, "IP", 0, 0, AT(address.dst_ip), AT(dst_ip_given), false,
     "the peer's IPv4 address (default 198.18.0.2)"},
    {"src-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.src_udp), AT(src_udp_given), false,
     "this port's UDP port (default 5000)"},
    {"dst-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.dst_udp), AT(dst_udp_given), false,
     "the peer's UDP port (default 5000)"},
    {"frame-size", KIND_COUNT, "BYTES", FRAME_SIZE_MIN, FRAME_SIZE_MAX, AT(traffic.frame_size), 0,
     true, "Ethernet frame with FCS, 64 to 9018 (default 64)"},
    {"stream", KIND_COUNT, "ID", 0, 65535, AT(stream), 0, false,
     "tells pairs of senders and receivers apart (default 0)"},
    {"touch", KIND_FLAG, NULL, 0, 0, AT(touch), 0, false, "write and verify every payload byte"},
    {"rate", KIND_RATE, "PPS|max", 1, 10000000000ULL, AT(traffic.rate_pps), 0, true,
     "frames a second; suffixes k, M, G (default max)"},
    {"burst", KIND_COUNT, "N", 1, 65536, AT(traffic.burst), 0, true,
     "frames that are due together (default 32)"},
    {"duration", KIND_SECONDS, "SECONDS", 0, DURATION_MAX, AT(traffic.duration_ns), 0, true,
     "0: until stopped (default 0)"},
    {"interval", KIND_SECONDS, "SECONDS", 1000000, 3600 * NS_PER_S, AT(traffic.interval_ns), 0,
     true, "between interval lines, 0.001 to 3600 (default 1)"},
    {"catch-up-us", KIND_MICROSECONDS, "N", 0, 1000000000ULL, AT(catch_up_ns), 0, false,
     "how far behind its schedule a sender may be and still make up for it (default 1000)"},
    {"bidirectional", KIND_FLAG, NULL, 0, 0, AT(bidirectional), 0, false,
     "tester: send from both ports"},
    {"mac-update", KIND_FLAG, NULL, 0, 0, AT(mac_update), 0, false,
     "forwarder: write --src-mac and --dst-mac into frames that leave by port A, swapped by port "
     "B"},
    {"latency", KIND_COUNT, "0|1", 0, 1, AT(traffic.latency), 0, true,
     "receiver: time every frame from its sender, which must run on the same host"},
    {"delay-us", KIND_MICROSECONDS, "N", 0, 10000000000ULL, AT(reference.delay_ns), 0, false,
     "reference: hold every frame for so long"},
    {"drop-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.drop_every), 0, false,
     "reference: drop one data frame in N (0: none)"},
    {"duplicate-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.duplicate_every), 0, false,
     "reference: send one data frame in N twice (0: none)"},
    {"reorder-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.reorder_every), 0, false,
     "reference: let one data frame in N be overtaken by the next (0: none)"},
    {"limit-pps", KIND_COUNT, "N", 0, 10000000000ULL, AT(reference.limit_pps), 0, false,
     "reference: drop data frames above this rate (0: no limit)"},
    {"limit-burst", KIND_COUNT, "N", 1, 1048576, AT(reference.limit_burst), 0, false,
     "reference: frames that may pass at once after a pause (default 256)"},
    {"queue", KIND_COUNT, "N", 2, 1048576, AT(reference.queue), 0, false,
     "reference: frames that can wait for their time, a power of two (default 8192)"},
    {"idle", KIND_IDLE, "poll|yield|sleep", 0, 0, AT(idle), 0, false,
     "what to do when there is nothing to do (default poll)"},
    {"queues", KIND_COUNT, "N", 1, IO_QUEUES_MAX, AT(queues), 0, false,
     "sender, receiver: queues of the port, each with a worker that has a stream of its own "
     "(--stream and the next ones); the workers share --rate (default 1)"},
    {"core", KIND_CORES, "N[,N]", 0, 0, 0, 0, false,
     "pin the worker, or a core for each of --queues; two cores give a tester two threads"},
    {"start", KIND_START, "now|command", 0, 0, AT(start_now), 0, false,
     "begin at once, or when told on standard input (default command)"},
    {"session", KIND_FLAG, NULL, 0, 0, AT(session), 0, false,
     "return to idle after each result instead of exiting"},
    {"dpdk-memory-mb", KIND_COUNT, "N", 16, 1048576, AT(dpdk_memory_mb), 0, false,
     "hugepage memory for DPDK (default 64, for up to four ports or two of jumbo frames; what "
     "further ports and queues or long rings need beyond that is added)"},
    {"eal", KIND_EAL, "ARG", 0, 0, 0, 0, false, "hand ARG to DPDK's EAL as it is (repeatable)"},
};

const unsigned option_rows = sizeof option_table / sizeof option_table[0];
