/* What went wrong around a trial without ending it: a peer that left, a device that went down, a
 * ring that nobody emptied. The result of such a trial is partial, and says so. */
#ifndef SM_TRIAL_PORT_FAULTS_H
#define SM_TRIAL_PORT_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct end;
struct io_port;
struct trial;

struct port_watch {
    unsigned links_lost;       /* of the port, when the trial began */
    bool was_up, went_down;    /* as seen once an interval */
    uint64_t offered, refused; /* of the end, at the last look */
    uint64_t looked_ns;        /* CLOCK_MONOTONIC */
    uint64_t stuck_ns;         /* so long the port has taken nothing of what it was offered */
    uint64_t longest_stuck_ns;
};

void port_faults_begin(struct trial *trial);
/* Once an interval, by worker 0. */
void port_faults_look(struct trial *trial, uint64_t now_ns);
/* Has a port its peer, and its device a carrier? */
bool port_is_up(struct io_port *port);

/* After the trial: whether its result is partial, and why in one line (trial->outcome.fault). */
void port_faults_judge(struct trial *trial);
#endif
