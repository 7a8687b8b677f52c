/* The counters of intervals and results. A worker adds to them once per burst, never per frame, and
 * another thread may read them: relaxed atomics, which cost the same as plain additions. */
#ifndef SM_COUNTERS_H
#define SM_COUNTERS_H

#include <stdint.h>

#include "cache_line_bytes.h"

/* Names in the order of the JSON output, of the sending and of the receiving half of an end. Sums
 * and copies of a half use these lists, so that no counter is forgotten. */
#define TX_COUNTERS(X)                                                                             \
    X(tx_intended)                                                                                 \
    X(tx_offered)                                                                                  \
    X(tx_dropped)                                                                                  \
    X(tx_late)                                                                                     \
    X(tx_denied)                                                                                   \
    X(tx_misfits)                                                                                  \
    X(tx_bytes)                                                                                    \
    X(tx_polls)                                                                                    \
    X(ring_full_polls)

#define RX_COUNTERS(X)                                                                             \
    X(rx_bytes)                                                                                    \
    X(rx_frames)                                                                                   \
    X(rx_foreign)                                                                                  \
    X(rx_other)                                                                                    \
    X(rx_runts)                                                                                    \
    X(rx_jumbos)                                                                                   \
    X(rx_tagged)                                                                                   \
    X(rx_verification)                                                                             \
    X(rx_wrong_next_hop)                                                                           \
    X(rx_wrong_header)                                                                             \
    X(rx_denied)                                                                                   \
    X(rx_corrupt)                                                                                  \
    X(rx_stale)                                                                                    \
    X(rx_beyond_window)                                                                            \
    X(rx_early)                                                                                    \
    X(rx_socket_drops)                                                                             \
    X(rx_missing)                                                                                  \
    X(rx_missed_away)                                                                              \
    X(idle_polls)                                                                                  \
    X(useful_polls)

#define COUNTERS(X)                                                                                \
    TX_COUNTERS(X)                                                                                 \
    RX_COUNTERS(X)

struct counters {
#define COUNTER_FIELD(name) uint64_t name;
    COUNTERS(COUNTER_FIELD)
#undef COUNTER_FIELD
} __attribute__((aligned(CACHE_LINE_BYTES)));

static inline void counter_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static inline void counter_set(uint64_t *counter, uint64_t value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

/* Read a counter to which another thread may add at the same time. */
static inline uint64_t counter_read(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline void counters_sum(struct counters *to, const struct counters *from)
{
#define COUNTER_SUM(name) to->name += counter_read(&from->name);
    COUNTERS(COUNTER_SUM)
#undef COUNTER_SUM
}

static inline void counters_subtract(struct counters *to, const struct counters *from)
{
#define COUNTER_SUBTRACT(name) to->name -= from->name;
    COUNTERS(COUNTER_SUBTRACT)
#undef COUNTER_SUBTRACT
}
#endif
