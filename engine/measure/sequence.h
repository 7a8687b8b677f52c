/* Loss, duplicates and reordering from sequence numbers, in bounded memory.
 *
 * Every sequence of the last 2^20 has one bit in a ring. The usual case, the next number in
 * order, is one comparison and one bit. Reordering is RFC 4737's: a first copy is reordered
 * when a higher sequence came before it; its extent is how many first copies ago the earliest
 * of those came, and its late time offset how long ago. That one opened the gap the late frame
 * falls into, so a ring of the last 16384 gaps answers both. It is n-reordered when the n first
 * copies right before it all had higher numbers: reorder.h. What falls outside window or ring
 * is counted, never guessed: `beyond_window` and `extent_is_lower_bound`.
 *
 * A number that is 2^20 or more away from the expected one is counted by itself, as RFC 3550
 * (A.1) does it for RTP, so that a single stray frame moves no boundary: behind, the frame is
 * late, and neither a first copy nor a duplicate; ahead, the frame is early until the next number
 * outside the order is near it, which shows that the numbers between are really missing. */
#ifndef SM_SEQUENCE_H
#define SM_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/reorder.h"

#define SEQUENCE_WINDOW (1U << 20)
#define SEQUENCE_GAPS (1U << 14)
#define SEQUENCE_WORDS (SEQUENCE_WINDOW / 64)

struct sequence_gap {
    uint64_t first, end; /* missing when it opened: [first, end) */
    uint64_t arrival;    /* first copies that had arrived before the frame that opened it */
    uint64_t tick;       /* when that frame arrived */
    bool closing;        /* a late frame fell into it: that frame was a discontinuity */
};

struct sequence_tracker {
    uint64_t next; /* highest seen + 1, in the tracker's own 64-bit numbering */
    uint64_t lowest, first;
    uint64_t unique, duplicates, reordered;
    struct reorder reorder;
    uint64_t first_tick;    /* when the first frame arrived */
    bool older_came;        /* than the first: it was a discontinuity */
    uint64_t beyond_window; /* too late to tell a duplicate from a first copy: counted as neither */
    uint64_t early;         /* far ahead of all others: not counted as first copies either */
    uint64_t early_number;  /* of the last one, while `early_held` */
    bool early_held;        /* the next frame may show that the last early one was right */
    bool started;
    bool extent_is_lower_bound;
    uint64_t gap_count;
    uint64_t seen[SEQUENCE_WORDS];
    struct sequence_gap gaps[SEQUENCE_GAPS];
};

/* Of a tracker that is all zero, or in use. */
void sequence_reset(struct sequence_tracker *t);

/* What an arrival was: a first copy in order, a first copy that comes late, another copy; a copy
 * that came too late to tell, a frame far ahead of all others. The last two stand for a first copy
 * that also settles what the frame before it was: the last early one was a first copy, too
 * (`SEQUENCE_CONFIRMS`), or all that came before it was early (`SEQUENCE_RESTARTS`). */
enum sequence_arrival {
    SEQUENCE_FIRST,
    SEQUENCE_LATE,
    SEQUENCE_AGAIN,
    SEQUENCE_BEYOND,
    SEQUENCE_EARLY,
    SEQUENCE_ARRIVALS, /* how many are counted */
    SEQUENCE_CONFIRMS = SEQUENCE_ARRIVALS,
    SEQUENCE_RESTARTS
};

/* Everything but the next number in order. */
enum sequence_arrival sequence_out_of_order(struct sequence_tracker *t, uint32_t sequence,
                                            uint64_t now);

/* Is this the number after the highest one? */
static inline bool sequence_is_next(const struct sequence_tracker *t, uint32_t sequence)
{
    return sequence == (uint32_t)t->next && t->started;
}

/* That number arrived. */
static inline void sequence_advance(struct sequence_tracker *t)
{
    const uint64_t next = t->next;
    const uint64_t bit = 1ULL << (next & 63);
    uint64_t *word = &t->seen[(next / 64) % SEQUENCE_WORDS];

    *word = (next & 63) == 0 ? bit : *word | bit; /* a new word still holds the last round */
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

/* The `count` numbers after the highest one arrived in order, one arrival after the other. */
static inline void sequence_add_next(struct sequence_tracker *t, unsigned count)
{
    uint64_t next = t->next;
    const uint64_t end = next + count;

    while (next < end) {
        const unsigned bit = next & 63, room = 64 - bit;
        const unsigned take = end - next < room ? (unsigned)(end - next) : room;
        const uint64_t bits = ~0ULL >> (64 - take) << bit;
        uint64_t *word = &t->seen[(next / 64) % SEQUENCE_WORDS];
        *word = bit == 0 ? bits : *word | bits;
        next += take;
    }
    t->next = end;
    t->unique += count;
}

/* The figures to report; sequences are as sent (64-bit, counted from the first one's epoch).
 * Expected are those from `begin` to before `end`: from the lowest to the highest that came. Each
 * frame beyond the window, or early, may have been one of the lost: `lost_at_least` says how many
 * are lost even if all of them were. */
struct sequence_summary {
    uint64_t expected, received_unique, lost, lost_at_least, duplicates, reordered;
    uint64_t first_sequence, last_sequence, beyond_window, early;
    uint64_t begin, end;
    bool extent_is_lower_bound, any;
};

struct sequence_summary sequence_summarise(const struct sequence_tracker *t);

/* Set `lost_at_least` from the other figures. */
void sequence_settle(struct sequence_summary *s);

/* It is known how many frames were sent, from number 0 on: what was lost before the first and after
 * the last that came is lost, too. */
#define SENT_UNKNOWN UINT64_MAX
void sequence_told(struct sequence_summary *s, uint64_t sent);
#endif
