/* duplex: a sender and a receiver on one port, for a path that carries traffic in both directions.
 * It receives already before its schedule begins, so that frames of a peer that begins a moment
 * earlier belong to the trial. */
#include "trial/loop.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[0];
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const uint64_t begun = now;
        const unsigned received = end_receive(trial, end);
        unsigned moved = received;
        uint64_t due = trial->clock.start_tick;

        now = clock_ticks();
        if (now >= trial->clock.start_tick) {
            moved += end_send(trial, end, now);
            due = end_next_due(end, now);
        }
        uint64_t rested = 0;
        if (idle_is_due(&quantum, moved)) {
            rested = clock_ticks();
            trial_idle(trial, quantum.worked, end->port, now, due);
        }
        now = trial_round(end, begun, moved > 0);
        end_note_absence(end, now - begun, rested > 0 ? now - rested : 0, received);
    }
    end_stop_sending(end, now);
}

const struct role role_duplex = {
    .name = "duplex",
    .summary = "sends and receives on one port, and reports the loss of received frames",
    .ports = 1,
    .sends = true,
    .tracks = true,
    .receives_early = true,
    .drains = true,
    .takes_latency = true,
    .takes_probes = true,
    .takes_table = true,
    .takes_expectation = true,
    .takes_encapsulation = true,
    .run = run,
};

ROLE(role_duplex);
