/* How long a cache line takes from one core to another. A host moves the cores of a virtual
 * machine about, and rates follow that time: the bench asks before and after each trial. */
#ifndef SM_CACHE_LINE_H
#define SM_CACHE_LINE_H

#include <stdbool.h>

/* Nanoseconds of one way between two cores, in the best of short samples, since whatever disturbs
 * only adds. Takes a millisecond where both cores are to be had; false when one was not to be had
 * within 20 ms, or is not there. */
bool cache_line_ns(int core_a, int core_b, double *ns);

/* Nanoseconds of one step of a chain of dependent additions on a core: the core's clock, which no
 * counter of a virtual machine tells. */
bool cache_line_step_ns(int core, double *ns);
#endif
