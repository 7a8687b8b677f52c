/* When frames are due. At a constant rate bursts of `burst` frames are due at start + k * burst /
 * rate, counted in ticks with 64 fraction bits, so that no rounding error accumulates. Shaped
 * schedules have other rules (pacing.c), which are called once per burst. A late sender catches up,
 * but only for `bound` ticks: earlier frames are given up and counted, because a generator that
 * catches up after any delay would turn one stall into a flood. */
#ifndef SM_PACING_H
#define SM_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/clock.h"
#include "traffic/schedule.h"

struct pacing {
    bool unlimited;
    bool shaped; /* the next burst is not simply one step later */
    uint32_t burst;
    uint128 next;   /* when the next burst is due, in ticks with 64 fraction bits */
    uint128 step;   /* for Poisson: the mean */
    uint64_t bound; /* ticks */
    uint64_t end;   /* tick at which the schedule ends */
    enum schedule_shape shape;
    uint128 start;
    uint64_t random;             /* Poisson: state of the random generator */
    uint128 window, on, period;  /* on-off: begin of the current on-time; lengths */
    uint128 within, slack;       /* on-off, not unlimited: place of the next burst (see pacing.c) */
    uint64_t index;              /* index of the next burst; not for Poisson */
    const struct replay *replay; /* recorded: the file with the times */
    uint64_t frames;             /* recorded: number of frames in all rounds */
    double ticks_a_ns;
    double from, to, slope, over; /* ramp: frames per tick, their change per tick, ticks */
};

static inline uint128 pacing_fixed(double ticks)
{
    const uint64_t whole = (uint64_t)ticks;
    return ((uint128)whole << 64) + (uint128)((ticks - (double)whole) * 18446744073709551616.0);
}

/* The distance of bursts. A fraction that a double cannot represent is rounded up. If it were
 * rounded down, the burst that is due exactly at the end of a trial, and so is not part of it,
 * could be due before the end. */
static inline uint128 pacing_step(double ticks)
{
    const uint128 step = pacing_fixed(ticks);
    return step + (step >> 51) + 1;
}

/* A constant rate; `rate_pps` 0 means unlimited. */
static inline void pacing_begin(struct pacing *p, double rate_pps, uint32_t burst, double hz,
                                uint64_t start, uint64_t end, uint64_t bound)
{
    p->unlimited = rate_pps <= 0;
    p->shaped = false;
    p->shape = SCHEDULE_CONSTANT;
    p->burst = burst;
    p->next = (uint128)start << 64;
    p->start = p->next;
    p->bound = bound;
    p->end = end;
    p->step = 0;
    if (!p->unlimited)
        p->step = pacing_step((double)burst * hz / rate_pps);
}

/* Set the shape of a plan in a schedule that has begun. `index` makes schedules with the same seed
 * differ: those of several ends and streams must not be in step. */
void pacing_take_shape(struct pacing *p, const struct schedule_plan *plan, double hz,
                       unsigned index);

/* Functions for shaped schedules; use the functions without `shaped`. */
void pacing_advance_shaped(struct pacing *p);
uint64_t pacing_give_up_shaped(struct pacing *p, uint64_t limit);
bool pacing_is_open_shaped(struct pacing *p, uint64_t now);

static inline uint64_t pacing_due(const struct pacing *p)
{
    return (uint64_t)(p->next >> 64);
}

static inline void pacing_advance(struct pacing *p)
{
    if (__builtin_expect(p->shaped, 0))
        pacing_advance_shaped(p);
    else
        p->next += p->step;
}

/* For an unlimited schedule, return true if frames may be sent now. `pacing_due` returns since
 * when, or from when. */
static inline bool pacing_is_open(struct pacing *p, uint64_t now)
{
    return __builtin_expect(!p->shaped, 1) || pacing_is_open_shaped(p, now);
}

static inline bool pacing_ended(const struct pacing *p, uint64_t now)
{
    return (p->unlimited ? now : pacing_due(p)) >= p->end;
}

/* Give up the bursts that were due before `limit`; returns the number of their frames. */
static inline uint64_t pacing_give_up_before(struct pacing *p, uint64_t limit)
{
    if (limit > p->end)
        limit = p->end;
    if (p->unlimited || pacing_due(p) >= limit)
        return 0;
    if (p->shaped)
        return pacing_give_up_shaped(p, limit);
    const uint128 back = ((uint128)limit << 64) - p->next;
    const uint128 bursts = (back + p->step - 1) / p->step;
    p->next += bursts * p->step;
    return (uint64_t)bursts * p->burst;
}
#endif
