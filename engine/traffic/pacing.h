/* When frames are due. Bursts of `burst` frames are due at start + k * burst / rate, counted
 * in ticks with 64 fraction bits, so no rounding adds up. A sender that comes late catches up,
 * but only `bound` ticks' worth: what lies further back is given up and counted, since a
 * generator that makes up for any delay turns one stall into a flood of its own making. */
#ifndef SM_PACING_H
#define SM_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/clock.h"

struct pacing {
    bool unlimited;
    uint32_t burst;
    uint128 next; /* when the next burst is due, 64.64 ticks */
    uint128 step;
    uint64_t bound; /* ticks */
    uint64_t end;   /* tick at which the schedule ends */
};

/* `rate_pps` 0 stands for unlimited. */
static inline void pacing_begin(struct pacing *p, uint64_t rate_pps, uint32_t burst, double hz,
                                uint64_t start, uint64_t end, uint64_t bound)
{
    p->unlimited = rate_pps == 0;
    p->burst = burst;
    p->next = (uint128)start << 64;
    p->bound = bound;
    p->end = end;
    p->step = 0;
    if (!p->unlimited) {
        const double step = (double)burst * hz / (double)rate_pps;
        const uint64_t whole = (uint64_t)step;
        p->step = (uint128)whole << 64;
        p->step += (uint128)((step - (double)whole) * 18446744073709551616.0);
        if (p->step == 0)
            p->step = 1;
    }
}

static inline uint64_t pacing_due(const struct pacing *p)
{
    return (uint64_t)(p->next >> 64);
}

static inline void pacing_advance(struct pacing *p)
{
    p->next += p->step;
}

static inline bool pacing_ended(const struct pacing *p, uint64_t now)
{
    return (p->unlimited ? now : pacing_due(p)) >= p->end;
}

/* Give up the bursts that were due before `limit`; returns how many frames that was. */
static inline uint64_t pacing_give_up_before(struct pacing *p, uint64_t limit)
{
    if (limit > p->end)
        limit = p->end;
    if (p->unlimited || pacing_due(p) >= limit)
        return 0;
    const uint128 back = ((uint128)limit << 64) - p->next;
    const uint128 bursts = (back + p->step - 1) / p->step;
    p->next += bursts * p->step;
    return (uint64_t)bursts * p->burst;
}
#endif
