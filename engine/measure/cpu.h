/* CPU time of this process, and how long its threads wanted to run but could not. */
#ifndef SM_CPU_H
#define SM_CPU_H

#include <stdint.h>

struct cpu_times {
    uint64_t user_ns, system_ns;
    uint64_t voluntary_switches, involuntary_switches;
};

/* One getrusage: about a microsecond. */
void cpu_times_read(struct cpu_times *times);

/* Sum over all threads of the time spent runnable but waiting for a core
 * (/proc/self/task/N/schedstat, second field); 0 where the kernel does not tell. */
uint64_t cpu_run_delay_ns(void);
#endif
