/* tester: has both ends of a path, so that a switch can have another core for itself, and both ends
 * use one clock, which permits one-way latency. With one core: one loop over both ends; with two
 * cores: each worker has its end. */
#include "trial/loop.h"

/* One round at one end; returns the number of moved frames. */
static unsigned step(struct trial *trial, unsigned index, uint64_t *due)
{
    struct end *end = &trial->ends[index];
    unsigned moved = 0;

    if (trial_end_tracks(trial, index))
        moved += end_receive(trial, end);
    if (trial_end_sends(trial, index)) {
        const uint64_t now = clock_ticks();
        moved += end_send(trial, end, now);
        const uint64_t next = end_next_due(end, now);
        *due = next < *due ? next : *due;
    }
    return moved;
}

static void run(struct trial *trial, unsigned worker)
{
    const unsigned first = trial->threads.count == 2 ? worker : 0;
    const unsigned last = trial->threads.count == 2 ? worker : 1;
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        uint64_t due = UINT64_MAX;
        unsigned moved = 0;
        for (unsigned i = first; i <= last; i++)
            moved += step(trial, i, &due);
        if (idle_is_due(&quantum, moved))
            trial_idle(trial, quantum.worked, first == last ? trial->ends[first].port : NULL, now,
                       due);
        now = trial_round(&trial->ends[first], now, moved > 0);
    }
    for (unsigned i = first; i <= last; i++) {
        if (trial_end_sends(trial, i))
            end_stop_sending(&trial->ends[i], now);
    }
}

const struct role role_tester = {
    .name = "tester",
    .summary = "owns both ends of a path: throughput, loss and one-way latency",
    .ports = 2,
    .sends = true,
    .tracks = true,
    .has_both_ends = true,
    .receives_own = true,
    .drains = true,
    .latency = LATENCY_ONE_WAY,
    .takes_table = true,
    .takes_modifiers = true,
    .takes_encapsulation = true,
    .takes_expectation = true,
    .run = run,
};

ROLE(role_tester);
