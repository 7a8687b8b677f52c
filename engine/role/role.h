/* A role is one file with one short loop, which registers itself by ROLE. Flags describe the role
 * to all other files, so that no file compares a role with a certain role. With several workers
 * each worker has its own ends. */
#ifndef SM_ROLE_H
#define SM_ROLE_H

#include <stdbool.h>
#include <stddef.h>

struct trial;
struct tcp_snapshot;

enum latency_kind { LATENCY_NONE, LATENCY_RTT, LATENCY_ONE_WAY };

struct role {
    const char *name;
    const char *summary;
    unsigned ports;

    /* Properties of the role. */
    bool sends;            /* follows a schedule, and needs a connected peer */
    bool tracks;           /* finds loss by sequence numbers */
    bool echoes;           /* sends frames back by the port at which they arrived */
    bool stands_between;   /* forwards between ports, and reports each port */
    bool applies_faults;   /* delays, drops and changes frames on purpose */
    bool has_both_ends;    /* its two ports are the two ends of one path */
    bool receives_own;     /* the frames that it receives are frames that it sent */
    bool receives_early;   /* receives already before its schedule begins */
    bool drains;           /* waits for frames in flight after the end */
    bool speaks_tcp;       /* has no ports: it uses TCP sockets of the kernel */
    bool sends_requests;   /* it is the client of TCP roles */
    bool answers_requests; /* it is the server */
    enum latency_kind latency;

    /* Options that it takes; options/check.c has the table. */
    bool takes_pairs; /* any multiple of `ports` */
    bool takes_queues;
    bool takes_latency;
    bool takes_probes;
    bool takes_frames;
    bool takes_mac_update;
    bool takes_gathering;
    bool takes_table;         /* a table of flows */
    bool takes_modifiers;     /* --modify */
    bool takes_encapsulation; /* sends and receives frames in tunnels */
    bool takes_expectation;   /* headers that the switch must have changed */

    void (*run)(struct trial *trial, unsigned worker);

    /* Only of roles without ports. `open` is called with the rights that ports are opened with,
     * `prepare` before each trial, `settle` behind its loop. The first two return false and write
     * one line on failure. */
    bool (*open)(struct trial *trial, char *error, size_t error_size);
    bool (*prepare)(struct trial *trial, char *error, size_t error_size);
    void (*settle)(struct trial *trial);
    void (*close)(struct trial *trial);
    void (*snapshot)(struct trial *trial, struct tcp_snapshot *snapshot);
};

static inline bool role_only_sends(const struct role *role)
{
    return role->sends && !role->tracks;
}

static inline bool role_only_receives(const struct role *role)
{
    return role->tracks && !role->sends;
}

/* Only for unit tests. */
extern const struct role role_sender, role_receiver, role_client, role_server, role_forwarder,
    role_reference, role_tester, role_duplex;

/* All roles in the order of their names, ended by NULL. */
#define ROLES_MAX 31
extern const struct role *roles[ROLES_MAX + 1];

/* Register a role. If two roles have the same name, the role that is registered first stays. */
void role_register(const struct role *role);

/* Registers the role before main. A role with a priority below that of other constructors replaces
 * a role of the engine, as in bench/engine/descriptors.c. */
#define ROLE(role) ROLE_CONSTRUCTOR(role, constructor)
#define ROLE_REPLACEMENT(role) ROLE_CONSTRUCTOR(role, constructor(101))
#define ROLE_CONSTRUCTOR(role, attribute)                                                          \
    __attribute__((attribute)) static void register_##role(void)                                   \
    {                                                                                              \
        role_register(&(role));                                                                    \
    }                                                                                              \
    struct role /* takes the semicolon */
#endif
