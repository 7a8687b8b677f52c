/* receiver: counts and verifies what arrives on one port, each worker on its queue. */
#include "trial.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned received = end_receive(trial, end);
        if (received == 0)
            trial_idle(trial, end->port, now, UINT64_MAX);
        now = trial_round(end, now, received > 0);
    }
}

const struct role role_receiver = {
    .name = "receiver",
    .summary = "counts, verifies, and finds loss, duplicates and reordering",
    .ports = 1,
    .queues = true,
    .tracks = true,
    .drains = true,
    .run = run,
};
