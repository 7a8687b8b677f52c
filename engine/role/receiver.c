/* receiver: counts and verifies the frames that arrive on one port, each worker on its queue. */
#include "trial/loop.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    struct quantum quantum = idle_quantum_to_empty(trial, end->port);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const uint64_t begun = now;
        const unsigned received = end_receive(trial, end);
        uint64_t rested = 0;
        if (idle_is_due(&quantum, received)) {
            rested = clock_ticks();
            trial_idle(trial, quantum.worked, end->port, begun, UINT64_MAX);
        }
        now = trial_round(end, begun, received > 0);
        end_note_absence(end, now - begun, rested > 0 ? now - rested : 0, received);
    }
}

const struct role role_receiver = {
    .name = "receiver",
    .summary = "counts, verifies, and finds loss, duplicates and reordering",
    .ports = 1,
    .tracks = true,
    .drains = true,
    .takes_queues = true,
    .takes_latency = true,
    .takes_probes = true,
    .takes_encapsulation = true,
    .takes_table = true,
    .takes_modifiers = true,
    .takes_expectation = true,
    .run = run,
};

ROLE(role_receiver);
