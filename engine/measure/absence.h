/* Frames that were lost because the receiver had no core.
 *
 * A receiver that gives its core away, or loses it to another program or guest, returns to a full
 * ring, and later frames are lost: this is a loss of the receiver's core, not of the switch. So a
 * round that took longer than its frames explain is an absence, and so is a long rest after them.
 * If the ring was full afterwards, sequence numbers that turn out to be missing until the receiver
 * has emptied the ring and received the next frames were lost in the absence. If the size of the
 * ring is unknown, no loss is attributed. */
#ifndef SM_ABSENCE_H
#define SM_ABSENCE_H

#include <stdbool.h>
#include <stdint.h>

#define ABSENCE_NS 20000U      /* no round takes so long without frames */
#define ABSENCE_FRAME_NS 1000U /* maximum time per frame, with every byte of 9 kB verified */
#define ABSENCE_FRAMES_MAX                                                                         \
    4096U /* more than any ring: a receiver that has not emptied its ring by then never will */

enum absence_state {
    ABSENCE_NONE,     /* no absence to examine */
    ABSENCE_EMPTYING, /* after an absence: the ring still has frames from it */
    ABSENCE_EMPTIED,  /* the ring was empty: the next frames show which numbers are missing */
};

struct absence {
    uint32_t ring;                 /* frames that can wait in the port; 0: unknown */
    uint64_t limit, limit_a_frame; /* ticks */
    enum absence_state state;
    bool ring_was_full;      /* after an earlier absence that is not yet examined */
    uint32_t frames;         /* received since the last absence, until the ring was empty */
    uint64_t missing_before; /* missing numbers when the absence began */
};

/* Receivers refill a ring in bulk, so it is full before every place is used. */
static inline bool absence_filled_ring(const struct absence *a)
{
    return a->frames >= a->ring / 4 * 3;
}

/* Call it after each round, which took `took` ticks, the last `rested` of them without the core,
 * and received `count` frames; `missing` is the number of missing sequence numbers. Returns how
 * many of them were lost in an absence that has ended. */
static inline uint64_t absence_round(struct absence *a, uint64_t took, uint64_t rested,
                                     unsigned count, uint64_t missing)
{
    const bool away = rested > a->limit || took - rested > a->limit + count * a->limit_a_frame;
    uint64_t lost = 0;

    if (a->state != ABSENCE_NONE) {
        const bool received_again = a->state == ABSENCE_EMPTIED && count > 0;
        if (a->state == ABSENCE_EMPTYING)
            a->frames += count;
        if (count == 0)
            a->state = ABSENCE_EMPTIED;
        if (received_again || a->frames > ABSENCE_FRAMES_MAX) {
            const bool was_full = a->ring_was_full || absence_filled_ring(a);
            lost = was_full && missing > a->missing_before ? missing - a->missing_before : 0;
            a->state = ABSENCE_NONE;
        }
    }
    if (__builtin_expect(away, 0) && a->ring > 0) {
        a->ring_was_full = a->state != ABSENCE_NONE && (a->ring_was_full || absence_filled_ring(a));
        if (a->state == ABSENCE_NONE)
            a->missing_before = missing;
        a->state = ABSENCE_EMPTYING;
        a->frames = rested > a->limit ? 0 : count; /* frames from before a rest are not evidence */
    }
    return lost;
}
#endif
