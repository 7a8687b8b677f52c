/* Which system calls no thread of the engine makes from now on (seccomp(2)): a list of forbidden
 * ones, so that it outlives libraries.
 *
 * It is for engines whose library has threads of its own, begun before: unlike confinement.h it
 * holds for them, too. A filter costs each system call some nanoseconds, whatever it forbids: DPDK
 * makes none for a frame where it is at a socket. */
#ifndef SM_CONFINEMENT_CALL_FILTER_H
#define SM_CONFINEMENT_CALL_FILTER_H

#include <stdbool.h>

/* What is left of it, since a port or a trial takes it. */
struct calls_kept {
    bool bpf, perf, connect, files;
};

/* Refuse the others (EPERM) to all threads of the process, for good; after no_new_privs is set.
 * Where the kernel or a container has none of it, or the CPU is not known here, nothing happens. */
void call_filter_set(const struct calls_kept *kept);
#endif
