/* How much memory this process may still use. The kernel grants allocations beyond it, and kills
 * the process without a message when it touches them: so large needs are checked before. */
#ifndef SM_MEASURE_MEMORY_H
#define SM_MEASURE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, from the free memory of the machine and the limits of the process's control groups
 * (version 1 and 2); UINT64_MAX: unknown. `proc` and `groups` are /proc and /sys/fs/cgroup. */
uint64_t memory_left(const char *proc, const char *groups);

/* Return true if so many bytes are available; otherwise one line in `error`, which begins with
 * `purpose`. */
bool memory_suffices(uint64_t bytes, const char *purpose, char *error, size_t size);

/* Return memory that reads as zeros, or NULL if there is not enough. The kernel gives it a page
 * when the page is used or populated. */
void *memory_map(size_t bytes);
void memory_unmap(void *memory, size_t bytes); /* NULL is permitted */

/* Get the pages of new memory from the kernel in one call, which costs half as much as a page fault
 * for each. Hundreds of engines may start at the same time. */
void memory_populate(void *memory, size_t bytes);
#endif
