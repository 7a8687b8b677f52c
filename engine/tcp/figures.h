/* Figures of TCP connections: counters of the engine, and sums of the counters that the kernel has
 * for each connection (TCP_INFO). */
#ifndef SM_TCP_FIGURES_H
#define SM_TCP_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

/* Names in the order of the JSON output. */
#define TCP_COUNTERS(X)                                                                            \
    X(attempted)                                                                                   \
    X(completed)                                                                                   \
    X(refused)                                                                                     \
    X(reset)                                                                                       \
    X(timed_out)                                                                                   \
    X(closed)                                                                                      \
    X(unreachable)                                                                                 \
    X(malformed)                                                                                   \
    X(failed_otherwise)                                                                            \
    X(connects)                                                                                    \
    X(connected)                                                                                   \
    X(accepted)                                                                                    \
    X(turned_away)                                                                                 \
    X(sent_bytes)                                                                                  \
    X(received_bytes)

/* Sums over all connections, the closed ones too. */
#define TCP_KERNEL_SUMS(X)                                                                         \
    X(retransmits)                                                                                 \
    X(retransmitted_bytes)                                                                         \
    X(segments_out)                                                                                \
    X(segments_in)                                                                                 \
    X(data_segments_out)                                                                           \
    X(data_segments_in)                                                                            \
    X(acked_bytes)                                                                                 \
    X(out_of_order_segments)                                                                       \
    X(busy_us)                                                                                     \
    X(receiver_limited_us)                                                                         \
    X(buffer_limited_us)

struct tcp_counters {
#define TCP_FIELD(name) uint64_t name;
    TCP_COUNTERS(TCP_FIELD)
};

/* A value that each connection has at a moment. */
struct tcp_gauge {
    uint64_t sum, min, max;
};

struct tcp_kernel {
    TCP_KERNEL_SUMS(TCP_FIELD)
#undef TCP_FIELD
    uint64_t connections; /* number of connections in the values below */
    struct tcp_gauge rtt_us, rtt_min_us, cwnd_segments, delivery_bytes_s, mss_bytes;
};

/* Add the figures of a connection; returns false if the kernel has none for this socket. */
bool tcp_kernel_add(struct tcp_kernel *sum, int socket);

void tcp_kernel_merge(struct tcp_kernel *to, const struct tcp_kernel *from);

/* The sockets in TIME_WAIT of this network namespace, from a file like /proc/self/net/sockstat; -1:
 * unknown. */
int64_t tcp_time_waits(const char *sockstat);
#endif
