/* The command line and the overrides of the `start` command. Both are read by one table in table.c,
 * which has the name, kind, bounds and help of every option in one row. */
#ifndef SM_OPTIONS_OPTIONS_H
#define SM_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/io.h"
#include "measure/sender_clock.h"
#include "role/faults.h"
#include "tcp/options.h"
#include "traffic/expectation.h"
#include "traffic/flows.h"
#include "traffic/frame.h"
#include "traffic/schedule.h"
#include "traffic/sizes.h"

#define EAL_ARGUMENTS_MAX 32
#define PORTS_MAX 64 /* a forwarder takes many pairs */
#define CORES_MAX IO_QUEUES_MAX

enum idle { IDLE_POLL, IDLE_YIELD, IDLE_SLEEP, IDLE_TOKEN };

/* Which frames a server with probes sends back. */
enum echo { ECHO_PROBES, ECHO_ALL };

/* Values that a `start` command may override for one trial. */
struct traffic {
    struct rate rate; /* amount 0: max */
    bool rate_given;  /* by the text from which these values were read */
    struct schedule schedule;
    uint64_t line_bps; /* the line rate to which a rate in percent refers; 0: not given */
    uint64_t burst;
    uint64_t frame_size; /* with FCS; if there are several sizes, the largest */
    struct sizes sizes;
    uint64_t duration_ns; /* 0: until stopped */
    uint64_t interval_ns;
    uint64_t patience_ns; /* while frames may still arrive late */
    uint64_t latency; /* receiver, duplex, server: 1 measures the one-way latency of every frame */
    struct sender_clock_reading sender_clock;
    struct rate probe_rate; /* rate of timed frames next to the load; amount 0: no probes */
    struct schedule probe_schedule;
    struct rate denied_rate; /* rate of frames that the switch must drop; amount 0: none */
    uint64_t probes;         /* receiver, server, duplex: 1 if there is a probe stream */
    uint64_t echo;           /* enum echo */
    uint64_t at_ns;          /* CLOCK_MONOTONIC; 0: now */
};

struct options {
    const struct role *role;
    const char *ports[PORTS_MAX];
    unsigned port_count;
    struct frame_address address;
    struct frame_address address_b; /* forwarder: MAC addresses of port B, if given */
    bool src_mac_b_given, dst_mac_b_given;
    bool src_mac_given, dst_mac_given, src_ip_given, dst_ip_given, src_udp_given, dst_udp_given;
    uint64_t ip_version; /* 0: the version of the addresses, or 4 */
    bool ip4_given, ip6_given;
    struct flow_set flows; /* as seen from port A */
    struct expected_headers expected;
    struct modifiers modifiers;
    bool ttl_given, dscp_given;            /* for sent frames */
    bool outer_src_given, outer_dst_given; /* MACs of address.tunnel */
    uint64_t payload;                      /* enum payload_kind */
    bool payload_given;
    const char *replay_path;
    uint64_t loops;  /* rounds of the replay; 0: until the trial ends */
    bool stamp;      /* write our stamp into replayed frames */
    uint64_t frames; /* frames that a sender sends; 0: unlimited */
    uint64_t stream, probe_stream;
    uint64_t flow_groups; /* 0: no groups */
    bool probe_stream_given;
    bool touch, bidirectional, mac_update, session, start_now, hardware_counters;
    bool list_json;
    uint64_t catch_up_ns, gather_ns;
    uint64_t idle; /* enum idle */
    const char *token_path;
    uint64_t queues; /* queues of the port of a sender or receiver, each with a worker */
    int cores[CORES_MAX];
    unsigned core_count;
    bool unforced_buffers;
    uint64_t dpdk_memory_mb;
    uint64_t dpdk_pages; /* enum io_pages */
    const char *eal_arguments[EAL_ARGUMENTS_MAX];
    unsigned eal_argument_count;
    bool idle_given;
    struct tcp_options tcp;
    struct traffic traffic;
    struct reference reference;
};

enum parse_result {
    PARSE_OK,
    PARSE_HELP,
    PARSE_VERSION,
    PARSE_MANUAL,
    PARSE_LIST,
    PARSE_CACHE_LINE,
    PARSE_CHECK,
    PARSE_BAD
};

/* Read the command line. On PARSE_BAD `error` has one line. */
enum parse_result options_parse(struct options *options, int argc, char **argv, char *error,
                                size_t error_size);

/* Read one "key=value" of a `start` command into `traffic`. */
bool options_override(struct traffic *traffic, const char *assignment, char *error,
                      size_t error_size);

/* Return true if the values of a trial fit together and fit the command line, after all of them
 * were read. */
bool options_fit(const struct options *options, const struct traffic *traffic, char *error,
                 size_t error_size);

/* "0", "0,1", "2-3": at most `max` cores; returns the number of cores, or 0 if the text is not a
 * list. */
unsigned options_parse_cores(const char *text, int *cores, unsigned max);

/* Return true if all options fit together. Sets the options that follow from others (IP version,
 * payload). */
bool options_check(struct options *options, char *error, size_t error_size);

void options_print_help(void);
void options_print_manual(void); /* the same text as a man page (roff) */

const char *idle_name(uint64_t idle);
const char *payload_name(uint64_t payload);
#endif
