/* sender: sends on one port by its schedule; each worker on its queue.
 *
 * If it shares its core (`--idle baton` or `yield`), it probably shares it with its receiver. A
 * switch that drops the frames that the receiver does not take is then faster than a switch that
 * delivers them: the ring of the sender is never full, so the sender would never give way, and the
 * receiver would get a few frames per time slice (0.18 instead of 10 million per second were
 * measured). So the sender also gives way after half of a usual ring. */
#include "trial/loop.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned sent = end_send(trial, end, now);
        if (sent > 0)
            now = trial_round(end, now, true);
        if (idle_is_due(&quantum, sent)) {
            const uint64_t begun = now;
            trial_idle(trial, quantum.worked, NULL, now, end_next_due(end, now));
            now = trial_round(end, now, false);
            transmit_idle_round(&end->sending.tx, begun, now);
        }
    }
    end_stop_sending(end, now);
}

const struct role role_sender = {
    .name = "sender",
    .summary = "sends frames by rate and burst",
    .ports = 1,
    .sends = true,
    .takes_queues = true,
    .takes_frames = true,
    .takes_table = true,
    .takes_modifiers = true,
    .takes_encapsulation = true,
    .run = run,
};

ROLE(role_sender);
