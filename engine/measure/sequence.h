/* Loss, duplicates and reordering from sequence numbers, in bounded memory.
 *
 * Every sequence number of the last 2^20 has one bit in a ring. The usual case, the next number in
 * order, is one comparison and one bit. Reordering follows RFC 4737: a first copy is reordered if a
 * higher sequence number arrived before it. Its extent is the number of first copies since the
 * earliest of those, and its late time offset is the time since then. That frame opened the gap
 * that the late frame belongs to, so a ring of the last 16384 gaps gives both. A frame is
 * n-reordered if the n first copies right before it all had higher numbers; see reorder.h. Frames
 * outside the window or the ring are counted, never estimated: `beyond_window` and
 * `extent_is_lower_bound`.
 *
 * A number that is 2^20 or more away from the expected number is counted separately, as RFC 3550
 * (A.1) does for RTP, so that a single stray frame moves no boundary. Behind, the frame is late,
 * and neither a first copy nor a duplicate. Ahead, the frame is early until the next number out of
 * order is near it, which proves that the numbers in between are missing. */
#ifndef SM_SEQUENCE_H
#define SM_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/reorder.h"

#define SEQUENCE_WINDOW (1U << 20)
#define SEQUENCE_GAPS (1U << 14)
#define SEQUENCE_ORIGIN (1ULL << 32) /* number 0 of a trial, so that numbers below have room */
#define SEQUENCE_WORDS (SEQUENCE_WINDOW / 64)

struct sequence_gap {
    uint64_t first, end; /* numbers missing when it opened: [first, end) */
    uint64_t arrival;    /* first copies that had arrived before the frame that opened it */
    uint64_t tick;       /* arrival time of that frame */
    bool closing;        /* a late frame belongs to it, so that frame was a discontinuity */
};

struct sequence_tracker {
    uint64_t next; /* highest number received + 1, extended to 64 bits */
    uint64_t lowest, first;
    uint64_t unique, duplicates, reordered;
    struct reorder reorder;
    uint64_t first_tick; /* arrival time of the first frame */
    bool older_came; /* a frame older than the first arrived, so the first was a discontinuity */
    uint64_t beyond_window; /* too late to distinguish a duplicate from a first copy: counted as
                               neither */
    uint64_t early;         /* far ahead of all others: also not counted as first copies */
    uint64_t early_number;  /* number of the last early frame, while `has_early` */
    bool has_early;         /* the next frame may prove that the last early frame was right */
    bool started;
    bool extent_is_lower_bound;
    uint64_t gap_count;
    uint64_t arrived[SEQUENCE_WORDS];
    struct sequence_gap gaps[SEQUENCE_GAPS];
};

/* Reset a tracker that is zero or in use. */
void sequence_reset(struct sequence_tracker *t);

/* Kind of an arrival: a first copy in order, a late first copy, another copy; a copy that came too
 * late to distinguish, a frame far ahead of all others. The last two kinds are a first copy that
 * also decides about earlier frames: the last early frame was also a first copy
 * (`SEQUENCE_CONFIRMS`), or all earlier frames were early (`SEQUENCE_RESTARTS`). */
enum sequence_arrival {
    SEQUENCE_FIRST,
    SEQUENCE_LATE,
    SEQUENCE_AGAIN,
    SEQUENCE_BEYOND,
    SEQUENCE_EARLY,
    SEQUENCE_ARRIVALS, /* number of kinds that are counted */
    SEQUENCE_CONFIRMS = SEQUENCE_ARRIVALS,
    SEQUENCE_RESTARTS
};

/* Process any number except the next in order. */
enum sequence_arrival sequence_out_of_order(struct sequence_tracker *t, uint32_t sequence,
                                            uint64_t now);

/* Return true if this is the number after the highest. */
static inline bool sequence_is_next(const struct sequence_tracker *t, uint32_t sequence)
{
    return sequence == (uint32_t)t->next && t->started;
}

/* The sender's number of a frame, extended to 64 bits from its low 32 bits. */
static inline uint64_t sequence_extended(const struct sequence_tracker *t, uint32_t sequence)
{
    if (!t->started)
        return sequence;
    return t->next + (uint64_t)(int32_t)(sequence - (uint32_t)t->next) - SEQUENCE_ORIGIN;
}

/* Process the arrival of that number. */
static inline void sequence_advance(struct sequence_tracker *t)
{
    const uint64_t next = t->next;
    const uint64_t bit = 1ULL << (next & 63);
    uint64_t *word = &t->arrived[(next / 64) % SEQUENCE_WORDS];

    *word = (next & 63) == 0 ? bit : *word | bit; /* a new word still contains the last round */
    t->next = next + 1;
    t->unique++;
}

/* `now`: the tick at which the frame arrived. */
static inline enum sequence_arrival sequence_add(struct sequence_tracker *t, uint32_t sequence,
                                                 uint64_t now)
{
    if (__builtin_expect(!sequence_is_next(t, sequence), 0))
        return sequence_out_of_order(t, sequence, now);
    sequence_advance(t);
    return SEQUENCE_FIRST;
}

/* Process the `count` numbers after the highest, which arrived in order and consecutively. */
static inline void sequence_add_next(struct sequence_tracker *t, unsigned count)
{
    uint64_t next = t->next;
    const uint64_t end = next + count;

    while (next < end) {
        const unsigned bit = next & 63, room = 64 - bit;
        const unsigned take = end - next < room ? (unsigned)(end - next) : room;
        const uint64_t bits = ~0ULL >> (64 - take) << bit;
        uint64_t *word = &t->arrived[(next / 64) % SEQUENCE_WORDS];
        *word = bit == 0 ? bits : *word | bits;
        next += take;
    }
    t->next = end;
    t->unique += count;
}

/* The figures to report; sequence numbers are as sent (64-bit, counted from the epoch of the
 * first). Expected numbers are those from `begin` to before `end`: from the lowest to the highest
 * that arrived. Each frame beyond the window, or early, may have been one of the lost frames:
 * `lost_at_least` is the loss if all of them were. */
struct sequence_summary {
    uint64_t expected, received_unique, lost, lost_at_least, duplicates, reordered;
    uint64_t first_sequence, last_sequence, beyond_window, early;
    uint64_t begin, end;
    bool extent_is_lower_bound, any;
};

struct sequence_summary sequence_summarise(const struct sequence_tracker *t);

/* Set `lost_at_least` from the other figures. */
void sequence_finish(struct sequence_summary *s);

/* Use the known number of sent frames, which begin at number 0: frames before the first and after
 * the last received frame are also lost. */
#define SENT_UNKNOWN UINT64_MAX
void sequence_set_sent(struct sequence_summary *s, uint64_t sent);
#endif
