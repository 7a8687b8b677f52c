/* What the engine may do beyond its user's rights (capabilities(7)), and for how long.
 *
 * It is started by root, reads frames and files of anybody and parses them. So once the files
 * of its command line are open, and before it looks into them, it keeps only the capabilities that
 * opening its ports takes (`privileges` in the row of each backend), and once they are open none.
 * From the same moment on, or from when its ports are open if opening them takes files of root, it
 * is another user's (user.h). What its user may besides, it then may not (confinement.h); where a
 * library begins threads, that begins before the ports are opened, if opening them takes no more,
 * and ends with call_filter.h. No program that it could be made to run gets any back (no_new_privs,
 * and the bounding set where that is permitted). All threads begin with what their maker has at
 * that moment. */
#ifndef SM_CONFINEMENT_PRIVILEGES_H
#define SM_CONFINEMENT_PRIVILEGES_H

struct options;

/* Keep those that opening the ports, and what was asked for, takes. Before any thread is made. */
void privileges_narrow(const struct options *options);

/* Keep none, but those that a port keeps for its library, and what each trial takes. */
void privileges_drop(const struct options *options);

/* The same for a thread that needs none whatever was asked for. */
void privileges_drop_all(const struct options *options);

/* Keep one alone ("sys_nice"). */
void privileges_keep(const char *names);
#endif
