/* A role is one file with one short loop. Everything it needs is in the trial; with several
 * workers each has ends of its own. */
#ifndef SM_ROLE_H
#define SM_ROLE_H

#include <stdbool.h>

struct trial;

enum latency_kind { LATENCY_NONE, LATENCY_RTT, LATENCY_ONE_WAY };

struct role {
    const char *name;
    const char *summary;
    unsigned ports;
    bool pairs;          /* takes any multiple of `ports` */
    bool queues;         /* may have a worker for each queue of its port */
    bool stands_between; /* reports what each port saw */
    bool sends;          /* follows a schedule (needs its peer to be there) */
    bool tracks;         /* reports loss from sequence numbers */
    bool drains;         /* waits for frames in flight after the end */
    bool hears_itself;   /* what it receives are frames that it sent */
    bool listens_first;  /* runs before its schedule begins */
    enum latency_kind latency;
    void (*run)(struct trial *trial, unsigned worker);
};

extern const struct role role_sender, role_receiver, role_client, role_server, role_forwarder,
    role_reference, role_tester, role_duplex;

/* All of them, ended by NULL. */
extern const struct role *const roles[];
#endif
