/* System calls that all threads of the engine must not make from now on (seccomp(2)). It is a list
 * of forbidden calls, so that it remains valid for newer libraries.
 *
 * It is for engines whose library started threads earlier: unlike landlock.h it also applies to
 * those. A filter costs each system call some nanoseconds; DPDK makes no system call per frame if
 * the port is a socket of a peer. */
#ifndef SM_CONFINEMENT_CALL_FILTER_H
#define SM_CONFINEMENT_CALL_FILTER_H

#include <stdbool.h>

/* Calls that stay allowed because a port or a trial needs them. */
struct allowed_calls {
    bool bpf, perf, connect, files;
};

/* Refuse the other calls (EPERM) in all threads of the process, permanently; no_new_privs must be
 * set before. If the kernel or a container does not support filters, or the CPU is unknown here,
 * nothing happens. */
void call_filter_set(const struct allowed_calls *allowed);
#endif
