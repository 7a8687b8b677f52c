/* sender: sends on one port, by its schedule; each worker on its queue. */
#include "trial.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        if (end_send(trial, end, now) == 0)
            trial_idle(trial, NULL, now, end_next_due(end, now));
        now = clock_ticks();
    }
    transmit_end(&end->tx, now);
}

const struct role role_sender = {
    .name = "sender",
    .summary = "sends frames by rate and burst",
    .ports = 1,
    .queues = true,
    .sends = true,
    .run = run,
};
