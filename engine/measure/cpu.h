/* CPU time of this process, and how long its threads waited for a core because of other threads or
 * other guests of the machine. */
#ifndef SM_CPU_H
#define SM_CPU_H

#include <stdint.h>

struct cpu_times {
    uint64_t user_ns, system_ns;
    uint64_t voluntary_switches, involuntary_switches;
};

/* One call of getrusage: about a microsecond. */
void cpu_times_read(struct cpu_times *times);

/* Sum over all threads, except those with these ids, of the time spent runnable without a core
 * (/proc/self/task/N/schedstat, second field); 0 if the kernel does not report it. */
uint64_t cpu_run_delay_ns(const int *left_out, unsigned count);

/* The same for the calling thread. */
uint64_t cpu_own_run_delay_ns(void);

/* Time that the hypervisor gave to other guests while a core was runnable, since boot (/proc/stat,
 * in ticks of usually 10 ms). */
struct cpu_stolen {
    uint64_t all_ns;   /* sum of all cores */
    uint64_t cores_ns; /* sum of the given cores */
};
struct cpu_stolen cpu_stolen_read(const int *cores, unsigned count);
#endif
