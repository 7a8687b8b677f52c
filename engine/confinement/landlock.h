/* Limits the access of a thread to its host, except for files that are already open (landlock(7)).
 *
 * Without capabilities a thread still has the rights of its user, which is usually root: an
 * attacker who takes it over with a malicious frame could write a file that root executes. So after
 * its ports are open, the thread can open files only to read those of the kernel and the libraries;
 * it cannot run programs, create or remove files, connect to TCP ports or send signals. This costs
 * nothing per frame, because the kernel checks when a file is opened and not at each system call,
 * unlike a filter of system calls. Landlock cannot forbid a connection to a socket with a path. */
#ifndef SM_CONFINEMENT_LANDLOCK_H
#define SM_CONFINEMENT_LANDLOCK_H

#include <stdint.h>

/* Confine this thread and the threads that it creates, permanently; no_new_privs must be set
 * before. In the directory of each of these `paths` the thread may create sockets and remove files,
 * and it may connect to this TCP `port` (0: to none).
 * If the kernel has no Landlock, or a container forbids it, nothing happens; an older Landlock
 * forbids less. */
void confine(const char *const *paths, unsigned count, uint16_t port);
#endif
