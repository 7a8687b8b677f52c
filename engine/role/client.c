/* client: sends requests by its schedule and measures the round-trip time of every reply. */
#include "trial/loop.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[0];
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const uint64_t begun = now;
        const unsigned received = end_receive(trial, end);
        now = clock_ticks();
        const unsigned sent = end_send(trial, end, now);
        if (idle_is_due(&quantum, received + sent))
            trial_idle(trial, quantum.worked, end->port, now, end_next_due(end, now));
        now = trial_round(end, begun, received + sent > 0);
    }
    end_stop_sending(end, now);
}

const struct role role_client = {
    .name = "client",
    .summary = "sends to a server and measures round trip times",
    .ports = 1,
    .sends = true,
    .tracks = true,
    .receives_own = true,
    .drains = true,
    .latency = LATENCY_RTT,
    .run = run,
};

ROLE(role_client);
