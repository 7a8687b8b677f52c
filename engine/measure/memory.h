/* How much memory this process may still use. What is allocated beyond it is granted all the same,
 * and touching it gets the process killed without a word: so large needs are compared first. */
#ifndef SM_MEASURE_MEMORY_H
#define SM_MEASURE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, by what the machine has free and by the limits of the control groups (version 1 and 2)
 * that the process is in; UINT64_MAX: nobody tells. `proc` and `groups` are /proc and
 * /sys/fs/cgroup. */
uint64_t memory_left(const char *proc, const char *groups);

/* Are there so many bytes? If not, one line into `error`, which begins with `what`. */
bool memory_suffices(uint64_t bytes, const char *what, char *error, size_t size);
#endif
