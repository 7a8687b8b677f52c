/* Event counters of the core (perf_event_open): cycles, instructions and misses of the measuring
 * threads, from the begin to the end of a trial. They are started and read outside the loop and
 * cost almost nothing in between. If counting is not permitted or not possible, `reason` explains
 * it. */
#ifndef SM_HARDWARE_H
#define SM_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#define HARDWARE_EVENTS 5
extern const char *const hardware_names[HARDWARE_EVENTS];

struct hardware {
    int fds[HARDWARE_EVENTS];         /* -1: not available */
    uint64_t counts[HARDWARE_EVENTS]; /* scaled up if the events had to share the counters */
    double counted_share; /* smallest share of the time in which an event was counted: 1 is exact */
    bool with_kernel;     /* time in the kernel is included */
    char reason[160];     /* why something is missing; empty: nothing is missing */
};

/* Set up the counters for this thread and for threads that it creates later. */
void hardware_open(struct hardware *h);
void hardware_start(struct hardware *h);
/* Stop the counters, read and close them. */
void hardware_finish(struct hardware *h);
#endif
