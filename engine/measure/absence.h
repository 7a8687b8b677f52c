/* Frames that were lost because the receiver was not there to take them.
 *
 * A receiver that gives its core away, or loses it to another program or guest, comes back to a
 * ring that has run full, and what arrived beyond it is gone: the loss of the receiver's core, not
 * of the switch. So a round that took longer than its frames explain is an absence, and so is a
 * long rest after them; when the ring was full after it, the numbers that are found missing until
 * the receiver has emptied it and has heard the next frames were lost meanwhile. Where the ring's
 * size is not known nothing is charged.
 */
#ifndef SM_ABSENCE_H
#define SM_ABSENCE_H

#include <stdbool.h>
#include <stdint.h>

#define ABSENCE_NS 20000U      /* no round takes so long by itself, but for its frames: */
#define ABSENCE_FRAME_NS 1000U /* the most that one costs, every byte of 9 kB verified */
#define ABSENCE_FRAMES_MAX                                                                         \
    4096U /* longer than any ring: who has not emptied it then, never will                         \
           */

struct absence {
    uint32_t ring;                 /* frames that can wait in the port; 0: not known */
    uint64_t limit, limit_a_frame; /* ticks */
    bool open, emptied;            /* since the last absence */
    bool filled;                   /* the ring was full after an earlier one */
    uint32_t found;                /* frames since the last one */
    uint64_t before;               /* missing when it began */
};

/* Receivers refill a ring in bulk: it is full before every place is taken. */
static inline bool absence_filled_ring(const struct absence *a)
{
    return a->found >= a->ring / 4 * 3;
}

/* A round took `took` ticks, the last `rested` of them without the core, and found `count` frames;
 * `missing` are the numbers that have not come until now. Returns how many of them were lost in an
 * absence that is over. */
static inline uint64_t absence_round(struct absence *a, uint64_t took, uint64_t rested,
                                     unsigned count, uint64_t missing)
{
    const bool away = rested > a->limit || took - rested > a->limit + count * a->limit_a_frame;
    uint64_t lost = 0;

    if (a->open) {
        const bool heard_again = a->emptied && count > 0;
        a->found += a->emptied ? 0 : count;
        a->emptied |= count == 0;
        if (heard_again || a->found > ABSENCE_FRAMES_MAX) {
            const bool filled = a->filled || absence_filled_ring(a);
            lost = filled && missing > a->before ? missing - a->before : 0;
            a->open = false;
        }
    }
    if (__builtin_expect(away, 0) && a->ring > 0) {
        a->filled = a->open && (a->filled || absence_filled_ring(a));
        if (!a->open)
            a->before = missing;
        a->open = true;
        a->emptied = false;
        a->found = rested > a->limit ? 0 : count; /* what came before a rest is no evidence */
    }
    return lost;
}
#endif
