/* What a thread of the engine may reach of its host beyond what it has open (landlock(7)).
 *
 * Without capabilities it still has its user's rights, and that is as a rule root: who took it over
 * by a frame could write a file that root runs. So once its ports are open it opens no file but to
 * read the kernel's own and the libraries, runs no program, removes and makes nothing, connects to
 * no TCP port and signals nobody. That costs nothing for a frame: the kernel asks where something
 * is opened, and not at each system call, as with a filter of system calls. What it does not
 * forbid is to connect to a socket that has a path. */
#ifndef SM_CONFINEMENT_LANDLOCK_H
#define SM_CONFINEMENT_LANDLOCK_H

/* Confine this thread and those it will make, for good; after no_new_privs is set. In the folder of
 * each of these `paths` it may make sockets and remove files. Where the kernel has no Landlock, or
 * a container forbids it, nothing happens; an older one forbids less. */
void confine(const char *const *paths, unsigned count);
#endif
