/* NUMA nodes of devices and cores, and random names. */
#ifndef SM_IO_NODE_H
#define SM_IO_NODE_H

#include <stddef.h>

#define NODE_UNKNOWN (-1)

/* The node of a PCI function ("0000:03:00.1" or "03:00.1") or of a core, from files of the kernel
 * below `sys` ("/sys"); NODE_UNKNOWN: there is no file. */
int node_of_function(const char *sys, const char *address);
int node_of_core(const char *sys, int core);

/* Get random bytes from the kernel, for unique names. */
void random_fill(void *bytes, size_t size);
#endif
