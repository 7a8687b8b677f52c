/* How far and how long late frames came late, by the metrics of RFC 4737 that need no memory of
 * all frames: reordering extent (4.2), late time offset (4.3), gaps between reordering
 * discontinuities (4.5), reordering-free runs (4.6) and n-reordering (5.3). Not taken: byte offset
 * (4.4, follows from extent and frame size). Only late frames come here, so order costs nothing.
 *
 * A reordering discontinuity is a frame that came before others with lower numbers that were not
 * lost: it opened the gap a late frame falls into. Gaps lie between those next to each other in
 * arrival, so their sum is the distance of the first from the last, however late each was found. A
 * run is the in-order frames between two late ones, or before the first; none is a run of 0.
 *
 * n-reordering asks how many first copies right before this one had higher numbers. All since
 * the gap opened had, but for earlier late frames: of those, only the latest one with a lower
 * number matters. A stack keeps the late frames that may still be that one, in rising order of
 * both arrival and number. When it is full its oldest entry goes, and what would have needed
 * it is counted by the degree that is certain. */
#ifndef SM_REORDER_H
#define SM_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#define REORDER_STACK 1024U /* a power of two */
#define REORDER_DEGREES 8
extern const unsigned reorder_degrees[REORDER_DEGREES]; /* the n that are counted */

struct reorder {
    uint64_t max_extent, extent_sum;   /* first copies */
    uint64_t max_late_ticks;           /* late time offset */
    uint64_t late_ticks_sum;           /* wraps after 190 years of offsets at 3 GHz */
    uint64_t max_degree;               /* of n-reordering */
    uint64_t degrees[REORDER_DEGREES]; /* frames that are n-reordered, by reorder_degrees */
    uint64_t gaps, gap_frames;         /* between discontinuities: how many, and their sum */
    uint64_t gap_ticks;                /* the same in time */
    bool discontinuous;                /* there was one; these are the first and the last: */
    uint64_t first_at, last_at, first_tick, last_tick;
    uint64_t runs, run_frames, longest_run;
    uint64_t run_begun; /* arrival that began the present one */
    double run_squares;
    uint64_t bottom, top; /* of the stack, counted without end */
    uint64_t forgotten;   /* arrival of the latest entry that was pushed out, + 1 */
    struct {
        uint64_t sequence, arrival;
    } stack[REORDER_STACK];
};

/* A late first copy: `arrival` first copies came before it, the last `extent` of them since the
 * earliest with a higher number, which came `late_ticks` ago. */
void reorder_add(struct reorder *r, uint64_t sequence, uint64_t arrival, uint64_t extent,
                 uint64_t late_ticks);

/* The `arrival`th first copy, which came at `tick`, is found to be a discontinuity; once each. */
void reorder_add_discontinuity(struct reorder *r, uint64_t arrival, uint64_t tick);

/* Of the lengths of the runs, in frames. */
double reorder_run_stdev(const struct reorder *r);
#endif
