/* CPU time of this process, and how long its threads wanted to run but could not:
 * because of other threads, or because of other guests of the machine. */
#ifndef SM_CPU_H
#define SM_CPU_H

#include <stdint.h>

struct cpu_times {
    uint64_t user_ns, system_ns;
    uint64_t voluntary_switches, involuntary_switches;
};

/* One getrusage: about a microsecond. */
void cpu_times_read(struct cpu_times *times);

/* Sum over all threads, but those with these ids, of the time spent runnable but waiting for a core
 * (/proc/self/task/N/schedstat, second field); 0 where the kernel does not tell. */
uint64_t cpu_run_delay_ns(const int *left_out, unsigned count);

/* The same of this thread alone. */
uint64_t cpu_own_run_delay_ns(void);

/* What the hypervisor has given to others while a core wanted to run, since boot (/proc/stat,
 * in ticks of usually 10 ms). */
struct cpu_stolen {
    uint64_t all_ns;   /* all cores together */
    uint64_t cores_ns; /* the given ones together */
};
struct cpu_stolen cpu_stolen_read(const int *cores, unsigned count);
#endif
