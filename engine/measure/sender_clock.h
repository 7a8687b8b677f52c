/* The clock of a sender on another host, whose stamps count other ticks: one moment at which both
 * clocks were read, and the rate of the other clock. The times are as exact as the reading, whose
 * uncertainty the caller knows. */
#ifndef SM_SENDER_CLOCK_H
#define SM_SENDER_CLOCK_H

#include "measure/clock.h"

/* A reading: the sender's ticks when our CLOCK_MONOTONIC was `at_ns`; hz 0: the sender uses our
 * clock. */
struct sender_clock_reading {
    uint64_t ticks, at_ns, hz;
};

struct sender_clock {
    uint64_t ticks;   /* ticks of the sender at one moment */
    uint64_t here;    /* our ticks at the same moment */
    uint64_t ratio;   /* our ticks per tick of the sender, in 2^-32 */
    uint64_t inverse; /* ticks of the sender per local tick */
};

/* Signed distance in ticks from a 48-bit stamp to now. */
static inline int64_t ticks_since(uint64_t now, uint64_t stamp48)
{
    return (int64_t)((now - stamp48) << 16) >> 16;
}

static inline struct sender_clock sender_clock_begin(const struct sender_clock_reading *reading)
{
    return (struct sender_clock){
        .ticks = reading->ticks,
        .here = clock_ticks_at(reading->at_ns),
        .ratio = (uint64_t)(engine_clock.hz / (double)reading->hz * 4294967296.0 + 0.5),
        .inverse = (uint64_t)((double)reading->hz / engine_clock.hz * 4294967296.0 + 0.5),
    };
}

/* Convert ticks of the sender to our ticks. */
static inline int64_t sender_clock_ours(const struct sender_clock *c, int64_t ticks)
{
    return (int64_t)((int128)ticks * c->ratio >> 32);
}

/* Our ticks from a stamp of the sender to now. The 48 bits of the stamp wrap once a day; the
 * present time of the sender's clock determines the day, independent of when the clocks were
 * compared. */
static inline int64_t sender_clock_since(const struct sender_clock *c, uint64_t now, uint64_t stamp)
{
    const int64_t here = (int64_t)(now - c->here);
    const int64_t sender_now = (int64_t)((int128)here * c->inverse >> 32);
    const int64_t later = sender_now - ticks_since(c->ticks + (uint64_t)sender_now, stamp);
    return here - sender_clock_ours(c, later);
}
#endif
