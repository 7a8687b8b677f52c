/* Finds faults in the states of ports and in counters, once per interval. */
#include "trial/port_faults.h"

#include <stdio.h>
#include <string.h>

#include "trial/state.h"

#define STUCK_NS                                                                                   \
    (1000ULL * 1000 *                                                                              \
     1000) /* a shorter time can have other causes, for example a peer without a core */

static bool device_is_up(struct io_port *port)
{
    return port->ops->device_up == NULL || port->ops->device_up(port);
}

bool port_is_up(struct io_port *port)
{
    const bool device = device_is_up(port);

    return (port->ops->link_up == NULL || port->ops->link_up(port)) && device;
}

void port_faults_begin(struct trial *trial)
{
    trial->outcome.partial = false;
    trial->outcome.fault[0] = '\0';
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        const bool up =
            port_is_up(end->port); /* first, because it also counts earlier losses of the link */
        end->watch = (struct port_watch){
            .links_lost = io_links_lost(end->port),
            .was_up = up,
            .offered = counter_read(&end->counters.tx_offered),
            .refused = counter_read(&end->counters.ring_full_polls),
            .checked_ns = trial->outcome.started_ns,
        };
    }
}

static void check_end(struct end *end, uint64_t now_ns)
{
    struct port_watch *w = &end->watch;
    const uint64_t offered = counter_read(&end->counters.tx_offered);
    const uint64_t refused = counter_read(&end->counters.ring_full_polls);
    const bool up = port_is_up(end->port);

    if (offered == w->offered && refused != w->refused && now_ns > w->checked_ns)
        w->stuck_ns += now_ns - w->checked_ns;
    else
        w->stuck_ns = 0;
    if (w->stuck_ns > w->longest_stuck_ns)
        w->longest_stuck_ns = w->stuck_ns;
    w->went_down |= w->was_up && !up;
    w->was_up |= up;
    w->offered = offered;
    w->refused = refused;
    w->checked_ns = now_ns;
}

void port_faults_check(struct trial *trial, uint64_t now_ns)
{
    for (unsigned i = 0; i < trial->end_count; i++)
        check_end(&trial->ends[i], now_ns);
}

/* If a receiver has no set duration and its peer leaves for good, the peer has simply ended. A
 * device of the kernel does not end with a peer. */
static bool link_loss_counts(const struct trial *trial, const struct end *end)
{
    return trial->options->role->sends || trial->traffic.duration_ns != 0 ||
           port_is_up(end->port) || !device_is_up(end->port);
}

static bool was_lost(const struct end *end)
{
    return end->watch.went_down || io_links_lost(end->port) != end->watch.links_lost;
}

bool port_faults_lost_link(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (was_lost(&trial->ends[i]))
            return true;
    }
    return false;
}

/* The peers of a forwarder come and go; its interval lines have their state. */
static bool judge_end(struct trial *trial, unsigned index)
{
    const struct end *end = &trial->ends[index];
    const struct port_watch *w = &end->watch;
    const uint64_t trial_ns = trial->outcome.ended_ns - trial->outcome.started_ns;
    const bool took_nothing = end->counters.tx_offered == end->before.tx_offered &&
                              end->counters.ring_full_polls != end->before.ring_full_polls;

    if (was_lost(end) && !trial->options->role->stands_between && link_loss_counts(trial, end)) {
        snprintf(trial->outcome.fault, sizeof trial->outcome.fault,
                 "port %u (%.200s): its peer or device went away during the trial%s", index,
                 end->port->spec, port_is_up(end->port) ? " and came back" : "");
        return true;
    }
    if (trial_end_sends(trial, index) && (w->longest_stuck_ns >= STUCK_NS || took_nothing)) {
        snprintf(trial->outcome.fault, sizeof trial->outcome.fault,
                 "port %u (%.200s): took nothing for %.1f s although frames were due: its peer "
                 "does not empty the ring",
                 index, end->port->spec,
                 (double)(took_nothing ? trial_ns : w->longest_stuck_ns) / 1e9);
        return true;
    }
    return false;
}

void port_faults_judge(struct trial *trial)
{
    if (trial->outcome.reason == REASON_FAILURE)
        trial->outcome.partial = true;
    for (unsigned i = 0; i < trial->end_count && trial->outcome.fault[0] == '\0'; i++) {
        struct io_port *port = trial->ends[i].port;
        if (port->failure[0] != '\0')
            snprintf(trial->outcome.fault, sizeof trial->outcome.fault, "port %u (%.200s): %s", i,
                     port->spec, port->failure);
        else if (!judge_end(trial, i))
            continue;
        trial->outcome.partial = true;
    }
}
