/* How long a cache line takes from one core to another. A host may move the cores of a virtual
 * machine, and rates follow that time: the bench measures it before and after each trial. */
#ifndef SM_CACHE_LINE_H
#define SM_CACHE_LINE_H

#include <stdbool.h>

/* Nanoseconds for one direction between two cores, from the best of short samples, because
 * disturbances only add time. It takes a millisecond if both cores are available; false if a core
 * was not available within 20 ms, or does not exist. */
bool cache_line_ns(int core_a, int core_b, double *ns);

/* Nanoseconds of one step in a chain of dependent additions on a core: its clock rate, which
 * virtual machines do not report. */
bool cache_line_step_ns(int core, double *ns);
#endif
