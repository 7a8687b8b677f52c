/* The capabilities of the engine beyond the rights of its user (capabilities(7)), and how long it
 * keeps them.
 *
 * Root starts the engine, which then parses untrusted frames and files. So after it has opened the
 * files of its command line, and before it reads them, it keeps only the capabilities that opening
 * its ports needs (`privileges` of each backend). After the ports are open it keeps none. From the
 * same moment on it also belongs to another user (user.h), or from when its ports are open, if
 * opening them needs files of root. landlock.h then limits the rights of that user. If a library
 * starts threads, landlock.h applies already before the ports are opened, if opening them needs no
 * more, and call_filter.h follows. No program that the engine might be made to run gets anything
 * back (no_new_privs, and the bounding set if permitted). New threads inherit the state of the
 * thread that creates them. */
#ifndef SM_CONFINEMENT_PRIVILEGES_H
#define SM_CONFINEMENT_PRIVILEGES_H

struct options;

/* Keep only the capabilities that opening the ports and the given options need. Call it before any
 * thread is created. */
void privileges_narrow(const struct options *options);

/* Keep no capability, except those that the library of a port keeps and those that each trial
 * needs. */
void privileges_drop(const struct options *options);

/* Keep no capability in this thread. */
void privileges_drop_all(const struct options *options);

/* Keep only this capability, for example "sys_nice". */
void privileges_keep(const char *names);
#endif
