/* The core's own event counters (perf_event_open): cycles, instructions and misses of the
 * threads that measure, from the beginning to the end of a trial. They are started and read
 * outside the loop; in between they cost nothing but what the core takes to count. A machine
 * or user that may not count says why. */
#ifndef SM_HARDWARE_H
#define SM_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#define HARDWARE_EVENTS 5
extern const char *const hardware_names[HARDWARE_EVENTS];

struct hardware {
    int fds[HARDWARE_EVENTS];         /* -1: cannot be counted */
    uint64_t counts[HARDWARE_EVENTS]; /* scaled up when the events had to share the counters */
    double counted_share;             /* of the time, least of all events: 1 is exact */
    bool with_kernel;                 /* time in the kernel is counted, too */
    char reason[160];                 /* why something is missing; empty: nothing is */
};

/* Set the counters up for this thread and those that it makes from now on. */
void hardware_open(struct hardware *h);
void hardware_start(struct hardware *h);
/* Stop, read and close. */
void hardware_finish(struct hardware *h);
#endif
