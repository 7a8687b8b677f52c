/* How late frames arrived late, by the metrics of RFC 4737 that need no memory of all frames:
 * reordering extent (4.2), late time offset (4.3), gaps between reordering discontinuities (4.5),
 * reordering-free runs (4.6) and n-reordering (5.3). Byte offset (4.4) is left out, because it
 * follows from extent and frame size. Only late frames are processed here, so frames in order cost
 * nothing.
 *
 * A reordering discontinuity is a frame that arrived before others with lower numbers that were not
 * lost: it opened the gap that a late frame belongs to. Gaps are between consecutive
 * discontinuities in order of arrival, so their sum is the distance of the first from the last,
 * independent of when each was found. A run is the frames in order between two late frames, or
 * before the first; no frame is a run of 0.
 *
 * n-reordering counts how many first copies right before this frame had higher numbers. All since
 * the gap opened had, except earlier late frames: of these, only the latest with a lower number
 * matters. A stack has the late frames that may still be that frame, in rising order of both
 * arrival and number. If it is full its oldest entry is removed, and a frame that would have needed
 * it is counted with the degree that is certain. */
#ifndef SM_REORDER_H
#define SM_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#define REORDER_STACK 1024U /* a power of two */
#define REORDER_DEGREES 8
extern const unsigned reorder_degrees[REORDER_DEGREES]; /* the values of n that are counted */

struct reorder {
    uint64_t max_extent, extent_sum;   /* first copies */
    uint64_t max_late_ticks;           /* late time offset */
    uint64_t late_ticks_sum;           /* wraps after 190 years of offsets at 3 GHz */
    uint64_t max_degree;               /* highest degree of n-reordering */
    uint64_t degrees[REORDER_DEGREES]; /* n-reordered frames, by reorder_degrees */
    uint64_t gaps, gap_frames;         /* gaps between discontinuities: number and sum */
    uint64_t gap_ticks;                /* the same in time */
    bool discontinuous; /* there was a discontinuity; the next values are the first and the last */
    uint64_t first_at, last_at, first_tick, last_tick;
    uint64_t runs, run_frames, longest_run;
    uint64_t run_begun; /* arrival that began the current run */
    double run_squares;
    uint64_t bottom, top; /* positions in the stack, which only grow */
    uint64_t forgotten;   /* arrival of the latest removed entry, + 1 */
    struct {
        uint64_t sequence, arrival;
    } stack[REORDER_STACK];
};

/* Process a late first copy: `arrival` first copies arrived before it, the last `extent` of them
 * since the earliest with a higher number, which arrived `late_ticks` ago. */
void reorder_add(struct reorder *r, uint64_t sequence, uint64_t arrival, uint64_t extent,
                 uint64_t late_ticks);

/* Process a discontinuity: the `arrival`th first copy, which arrived at `tick`; call it once for
 * each. */
void reorder_add_discontinuity(struct reorder *r, uint64_t arrival, uint64_t tick);

/* Standard deviation of the lengths of runs, in frames. */
double reorder_run_stdev(const struct reorder *r);
#endif
