/* Faults around a trial that do not end it: a peer that disconnected, a device that went down, a
 * ring that no peer emptied. The result of such a trial is marked as partial. */
#ifndef SM_TRIAL_PORT_FAULTS_H
#define SM_TRIAL_PORT_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct end;
struct io_port;
struct trial;

struct port_watch {
    unsigned links_lost;       /* count of the port when the trial began */
    bool was_up, went_down;    /* as checked once per interval */
    uint64_t offered, refused; /* counts of the end at the last check */
    uint64_t checked_ns;       /* CLOCK_MONOTONIC */
    uint64_t stuck_ns;         /* time for which the port has accepted none of the offered frames */
    uint64_t longest_stuck_ns;
};

void port_faults_begin(struct trial *trial);
/* Call it once per interval, in worker 0. */
void port_faults_check(struct trial *trial, uint64_t now_ns);
/* Return true if a port lost its peer or its device since the trial began. In worker 0. */
bool port_faults_lost_link(const struct trial *trial);
/* Return true if the port has a peer, and its device has a carrier. */
bool port_is_up(struct io_port *port);

/* After the trial: set outcome.partial, and describe the fault in one line (outcome.fault). */
void port_faults_judge(struct trial *trial);
#endif
