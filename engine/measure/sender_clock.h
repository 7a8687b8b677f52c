/* The clock of a sender on another host, whose stamps count other ticks than ours: one moment at
 * which both were read, and how fast the other one goes. Who says what our clock was at that
 * moment knows how well that is known; the times are as good as that. */
#ifndef SM_SENDER_CLOCK_H
#define SM_SENDER_CLOCK_H

#include "measure/clock.h"

/* As it is told: the sender's ticks when our CLOCK_MONOTONIC was `at_ns`; hz 0: the sender goes by
 * our own clock. */
struct sender_clock_told {
    uint64_t ticks, at_ns, hz;
};

struct sender_clock {
    uint64_t ticks;   /* the sender's ... */
    uint64_t here;    /* ... and ours at the same moment */
    uint64_t ratio;   /* our ticks for one of the sender's, in 2^-32 */
    uint64_t inverse; /* and its for one of ours */
};

/* Signed distance in ticks from a 48-bit stamp to now. */
static inline int64_t ticks_since(uint64_t now, uint64_t stamp48)
{
    return (int64_t)((now - stamp48) << 16) >> 16;
}

static inline struct sender_clock sender_clock_begin(const struct sender_clock_told *told)
{
    return (struct sender_clock){
        .ticks = told->ticks,
        .here = clock_ticks_at(told->at_ns),
        .ratio = (uint64_t)(engine_clock.hz / (double)told->hz * 4294967296.0 + 0.5),
        .inverse = (uint64_t)((double)told->hz / engine_clock.hz * 4294967296.0 + 0.5),
    };
}

/* So many of the sender's ticks in ours. */
static inline int64_t sender_clock_ours(const struct sender_clock *c, int64_t ticks)
{
    return (int64_t)((int128)ticks * c->ratio >> 32);
}

/* Our ticks from a stamp of the sender's to now. The stamp's 48 bits run over once a day: which day
 * it was is told by what the sender's clock shows by now, however long ago it was compared. */
static inline int64_t sender_clock_since(const struct sender_clock *c, uint64_t now, uint64_t stamp)
{
    const int64_t here = (int64_t)(now - c->here);
    const int64_t theirs = (int64_t)((int128)here * c->inverse >> 32);
    const int64_t later = theirs - ticks_since(c->ticks + (uint64_t)theirs, stamp);
    return here - sender_clock_ours(c, later);
}
#endif
