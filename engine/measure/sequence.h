/* Loss, duplicates and reordering from sequence numbers, in bounded memory.
 *
 * Every sequence of the last 2^20 has one bit in a ring. The usual case, the next number in
 * order, is one comparison and one bit. Reordering is RFC 4737's: a first copy is reordered
 * when a higher sequence came before it; its extent is how many first copies ago the earliest
 * of those came, and its late time offset how long ago. That one opened the gap the late frame
 * falls into, so a ring of the last 16384 gaps answers both. It is n-reordered when the n first
 * copies right before it all had higher numbers: reorder.h. What falls outside window or ring
 * is counted, never guessed: `beyond_window` and `extent_is_lower_bound`. */
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
    uint64_t beyond_window; /* too late to tell a duplicate from a late frame: counted late */
    bool started;
    bool extent_is_lower_bound;
    uint64_t gap_count;
    uint64_t seen[SEQUENCE_WORDS];
    struct sequence_gap gaps[SEQUENCE_GAPS];
};

/* Of a tracker that is all zero, or in use. */
void sequence_reset(struct sequence_tracker *t);

/* What an arrival was: a first copy in order, a first copy that comes late, another copy. */
enum sequence_arrival { SEQUENCE_FIRST, SEQUENCE_LATE, SEQUENCE_AGAIN, SEQUENCE_ARRIVALS };

/* Everything but the next number in order. */
enum sequence_arrival sequence_out_of_order(struct sequence_tracker *t, uint32_t sequence,
                                            uint64_t now);

/* `now`: the tick at which the frame arrived. */
static inline enum sequence_arrival sequence_add(struct sequence_tracker *t, uint32_t sequence,
                                                 uint64_t now)
{
    const uint64_t next = t->next;

    if (__builtin_expect(sequence != (uint32_t)next || !t->started, 0)) {
        return sequence_out_of_order(t, sequence, now);
    }
    const uint64_t bit = 1ULL << (next & 63);
    uint64_t *word = &t->seen[(next / 64) % SEQUENCE_WORDS];
    *word = (next & 63) == 0 ? bit : *word | bit; /* a new word still holds the last round */
    t->next = next + 1;
    t->unique++;
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
 * Expected are those from `begin` to before `end`: from the lowest to the highest that came. */
struct sequence_summary {
    uint64_t expected, received_unique, lost, duplicates, reordered;
    uint64_t first_sequence, last_sequence, beyond_window;
    uint64_t begin, end;
    bool extent_is_lower_bound, any;
};

struct sequence_summary sequence_summarise(const struct sequence_tracker *t);

/* It is known how many frames were sent, from number 0 on: what was lost before the first and after
 * the last that came is lost, too. */
#define SENT_UNKNOWN UINT64_MAX
void sequence_told(struct sequence_summary *s, uint64_t sent);
#endif
