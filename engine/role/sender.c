/* sender: sends on one port, by its schedule; each worker on its queue.
 *
 * Where it shares its core (`--idle baton`, `yield`), its receiver is probably one of those it
 * shares it with. A switch that drops what the receiver cannot take is then faster than one that
 * delivers: the sender's ring is never full, so it would never give way, and the receiver would see
 * a few frames a tick (seen: 0.18 instead of 10 million a second). So it gives way after half of
 * what a usual ring holds, too. */
#include "trial/loop.h"

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    struct spell spell = idle_spell(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned sent = end_send(trial, end, now);
        if (sent > 0)
            now = trial_round(end, now, true);
        if (idle_is_due(&spell, sent)) {
            const uint64_t begun = now;
            trial_idle(trial, spell.worked, NULL, now, end_next_due(end, now));
            now = trial_round(end, now, false);
            transmit_looked(&end->sending.tx, begun, now);
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
    .run = run,
};

ROLE(role_sender);
