/* sender: sends on one port, by its schedule. */
#include "trial.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[0];
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned sent = end_send(trial, end, now);
        if (sent == 0)
            trial_idle(trial, NULL, now, end_next_due(end, now));
        now = trial_round(end, now, sent > 0);
    }
    transmit_end(&end->tx, now);
}

const struct role role_sender = {
    .name = "sender",
    .summary = "sends frames by rate and burst",
    .ports = 1,
    .sends = true,
    .run = run,
};
