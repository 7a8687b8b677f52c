/* How far and how long late frames came late, by the metrics of RFC 4737 that need no memory of
 * all frames: reordering extent (4.2), late time offset (4.3) and n-reordering (5.3). Not taken:
 * byte offset (4.4, follows from extent and frame size), gaps and free runs between
 * discontinuities (4.5, 4.6). Only late frames come here, so order costs nothing.
 *
 * n-reordering asks how many first copies right before this one had higher numbers. All since
 * the gap opened had, but for earlier late frames: of those, only the latest one with a lower
 * number matters. A stack keeps the late frames that may still be that one, in rising order of
 * both arrival and number. When it is full its oldest entry goes, and what would have needed
 * it is counted by the degree that is certain. */
#ifndef SM_REORDER_H
#define SM_REORDER_H

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
    uint64_t bottom, top;              /* of the stack, counted without end */
    uint64_t forgotten;                /* arrival of the latest entry that was pushed out, + 1 */
    struct {
        uint64_t sequence, arrival;
    } stack[REORDER_STACK];
};

/* A late first copy: `arrival` first copies came before it, the last `extent` of them since the
 * earliest with a higher number, which came `late_ticks` ago. */
void reorder_add(struct reorder *r, uint64_t sequence, uint64_t arrival, uint64_t extent,
                 uint64_t late_ticks);
#endif
