/* The option table, and the help made from it. */
#include "options_table.h"

#include <stdio.h>

#include "io/io.h"
#include "measure/clock.h"
#include "options.h"
#include "role/role.h"

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
     "this port's IPv4 or IPv6 address (default 198.18.0.1 or 2001:2::1)"},
    {"dst-ip", KIND_IP, "IP", 0, 0, AT(address.dst_ip), AT(dst_ip_given), false,
     "the peer's address (default 198.18.0.2 or 2001:2::2)"},
    {"ip-version", KIND_IP_VERSION, "4|6", 0, 0, AT(ip_version), 0, false,
     "IP version of the frames (default: that of the addresses given, else 4)"},
    {"vlan", KIND_VLAN, "ID|OUTER.INNER", 1, 4094, 0, 0, false,
     "tag frames with a VLAN ID (802.1Q), or with two (802.1ad outside)"},
    {"src-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.src_udp), AT(src_udp_given), false,
     "this port's UDP port (default 5000)"},
    {"dst-port", KIND_UDP_PORT, "N", 1, 65535, AT(address.dst_udp), AT(dst_udp_given), false,
     "the peer's UDP port (default 5000)"},
    {"flows", KIND_FLOWS, "N[:FIELDS]", 0, 0, 0, 0, false,
     "N flows that differ in FIELDS, joined by '+': src-mac, dst-mac, src-ip, dst-ip, src-port, "
     "dst-port, vlan, each with =COUNT or /random; then :zipf=S, :seed=N (default 1; src-ip)"},
    {"frame-size", KIND_SIZES, "SIZES", FRAME_SIZE_MIN, FRAME_SIZE_MAX, 0, 0, true,
     "Ethernet frame with FCS, 64 to 9018; in turn: 64*7+570*4+1518, imix, genome:aaafag; or "
     "random:64-1518 (default 64; tags and IPv6 need more)"},
    {"stream", KIND_COUNT, "ID", 0, 65535, AT(stream), 0, false,
     "tells pairs of senders and receivers apart (default 0)"},
    {"touch", KIND_FLAG, NULL, 0, 0, AT(touch), 0, false, "write and verify every payload byte"},
    {"payload", KIND_PAYLOAD, "fixed|counter|random", 0, 0, AT(payload), AT(payload_given), false,
     "what lies behind the stamp (default fixed: zeros; with --touch random)"},
    {"rate", KIND_RATE, "RATE|max", 0, 0, AT(traffic.rate), AT(rate_given), true,
     "frames a second (1.5M), bits a second (1Gbps-l1, 500Mbps-l2), or 80% (default max)"},
    {"line-rate", KIND_LINE_RATE, "BPS", 0, 0, AT(traffic.line_bps), 0, true,
     "what a rate in percent is a share of, such as 10Gbps"},
    {"schedule", KIND_SCHEDULE, "SHAPE", 0, 0, AT(traffic.schedule), 0, true,
     "constant, poisson[:SEED], on-off:ON:OFF, ramp:FROM:TO:OVER or recorded (default constant)"},
    {"replay", KIND_TEXT, "FILE", 0, 0, AT(replay_path), 0, false,
     "send the frames of a pcap file: at --rate, or with --schedule recorded at its own times"},
    {"loops", KIND_COUNT, "N", 0, UINT32_MAX, AT(loops), 0, false,
     "how often the file is replayed; 0: until the end (default 1)"},
    {"stamp", KIND_FLAG, NULL, 0, 0, AT(stamp), 0, false,
     "--replay: put the engine's stamp in the place of the frames' UDP payload"},
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
    {"probe-rate", KIND_RATE, "RATE", 0, 0, AT(traffic.probe_rate), 0, true,
     "sender, client, tester: time a stream of its own at this rate, and not the load"},
    {"probe-schedule", KIND_SCHEDULE, "SHAPE", 0, 0, AT(traffic.probe_schedule), 0, true,
     "constant or poisson[:SEED] (default poisson: probes keep no step with the load)"},
    {"probes", KIND_COUNT, "0|1", 0, 1, AT(traffic.probes), 0, true,
     "receiver, server: the sender has --probe-rate"},
    {"probe-stream", KIND_COUNT, "ID", 0, 65535, AT(probe_stream), AT(probe_stream_given), false,
     "ID of the probe stream (default --stream with its highest bit flipped)"},
    {"echo", KIND_ECHO, "probes|all", 0, 0, AT(traffic.echo), 0, true,
     "server with --probes: send back the probes and count the load, or both (default probes)"},
    {"delay-us", KIND_MICROSECONDS, "N", 0, 10000000000ULL, AT(reference.delay_ns), 0, false,
     "reference: hold every frame for so long"},
    {"jitter-us", KIND_MICROSECONDS, "N", 0, 10000000000ULL, AT(reference.jitter_ns), 0, false,
     "reference: vary the delay of each frame by so much (see --jitter)"},
    {"jitter", KIND_JITTER, "uniform|normal", 0, 0, AT(reference.jitter), 0, false,
     "reference: at most --jitter-us either way, or with that deviation (default uniform)"},
    {"drop-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_DROP]), 0, false,
     "reference: drop one data frame in N (0: none)"},
    {"duplicate-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_DUPLICATE]), 0,
     false, "reference: send one data frame in N twice (0: none)"},
    {"reorder-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_REORDER]), 0, false,
     "reference: let one data frame in N be overtaken by the next (0: none)"},
    {"corrupt-every", KIND_COUNT, "N", 0, UINT32_MAX, AT(reference.every[FAULT_CORRUPT]), 0, false,
     "reference: flip a bit in one data frame in N (0: none)"},
    {"drop-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_DROP]), 0, false,
     "reference: drop each data frame with this probability, 0 to 1"},
    {"duplicate-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_DUPLICATE]),
     0, false, "reference: the same for duplicates"},
    {"reorder-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_REORDER]), 0,
     false, "reference: the same for being overtaken by the next"},
    {"corrupt-share", KIND_SHARE, "P", 0, FAULT_SHARE_WHOLE, AT(reference.share[FAULT_CORRUPT]), 0,
     false, "reference: the same for a flipped bit"},
    {"fault-seed", KIND_COUNT, "N", 0, UINT64_MAX, AT(reference.seed), 0, false,
     "reference: of the random faults (default 1)"},
    {"limit-pps", KIND_COUNT, "N", 0, 10000000000ULL, AT(reference.limit_pps), 0, false,
     "reference: drop data frames above this rate (0: no limit)"},
    {"limit-burst", KIND_COUNT, "N", 1, 1048576, AT(reference.limit_burst), 0, false,
     "reference: frames that may pass at once after a pause (default 256)"},
    {"queue", KIND_COUNT, "N", 2, 1048576, AT(reference.queue), 0, false,
     "reference: frames that can wait for their time, a power of two (default 8192)"},
    {"idle", KIND_IDLE, "poll|yield|sleep", 0, 0, AT(idle), 0, false,
     "what to do when there is nothing to do (default poll)"},
    {"core", KIND_CORES, "N[,N]", 0, 0, 0, 0, false,
     "pin the worker; two cores give a tester two threads"},
    {"start", KIND_START, "now|command", 0, 0, AT(start_now), 0, false,
     "begin at once, or when told on standard input (default command)"},
    {"session", KIND_FLAG, NULL, 0, 0, AT(session), 0, false,
     "return to idle after each result instead of exiting"},
    {"hardware-counters", KIND_FLAG, NULL, 0, 0, AT(hardware_counters), 0, false,
     "count cycles, instructions and misses of the trial (perf_event_open)"},
    {"dpdk-memory-mb", KIND_COUNT, "N", 16, 1048576, AT(dpdk_memory_mb), 0, false,
     "hugepage memory for DPDK"},
    {"eal", KIND_EAL, "ARG", 0, 0, 0, 0, false, "hand ARG to DPDK's EAL as it is (repeatable)"},
};

const unsigned option_rows = sizeof option_table / sizeof option_table[0];

static const char examples[] =
    "Examples:\n"
    "  the ceiling of the engine on this core\n"
    "    switchmark-traffic sender --port null: --duration 2 --start now\n"
    "  count what arrives at eth0 until interrupted\n"
    "    switchmark-traffic receiver --port raw:dev=eth0,mmsg --start now\n"
    "  100,000 frames a second of 512 bytes to a peer\n"
    "    switchmark-traffic sender --port raw:dev=eth0,mmsg --dst-mac 02:00:00:00:00:02 \\\n"
    "        --rate 100k --burst 8 --frame-size 512 --duration 10 --start now\n"
    "  round trip times through a switch between two UDP sockets\n"
    "    switchmark-traffic server --port udp:dev=eth0 --src-ip 198.18.0.2 --dst-ip 198.18.0.1\n"
    "    switchmark-traffic client --port udp:dev=eth0 --src-ip 198.18.0.1 --dst-ip 198.18.0.2 \\\n"
    "        --rate 1k --burst 1 --duration 10\n"
    "  a million flows of IMIX, VLAN 100, popular and rare ones after Zipf\n"
    "    switchmark-traffic sender --port dpdk:virtio-user=a.sock --dst-mac 02:00:00:00:00:02 \\\n"
    "        --frame-size 68*7+570*4+1522 --vlan 100 --flows 1M:src-ip+src-port:zipf=1.0\n";

void options_print_help(void)
{
    printf("switchmark-traffic: the traffic engine of switchmark\n\n"
           "Usage: switchmark-traffic ROLE --port SPEC [--port SPEC] [options]\n\nRoles:\n");
    for (unsigned i = 0; roles[i] != NULL; i++)
        printf("  %-10s %s\n", roles[i]->name, roles[i]->summary);
    printf("\nPorts:\n");
    for (unsigned i = 0; io_backends[i] != NULL; i++)
        printf("  %-10s %s\n", io_backends[i]->name, io_backends[i]->summary);
    printf("\nOptions:\n");
    for (unsigned i = 0; i < option_rows; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", option_table[i].name,
                 option_table[i].value != NULL ? option_table[i].value : "");
        printf("  %-29s %s\n", left, option_table[i].help);
    }
    printf("  %-29s %s\n  %-29s %s\n", "--help", "this text", "--version", "the version");
    printf(
        "\nCommands on standard input: probe N, probe-broadcast N, counters,\n"
        "start [key=value ...] (rate, schedule, burst, duration, ...), stop.\n"
        "Events are JSON lines on standard output; docs/engine-protocol.md describes both.\n\n%s",
        examples);
}
