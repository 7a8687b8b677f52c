/* How long to wait for what is on its way: a receiver cannot tell a late frame from a lost one.
 *
 * Once all frames have come that were sent, only copies can follow, and a short silence will do.
 * While some are missing, or nobody said how many there were, a switch may only be late: without a
 * core for a while, or out of its share of CPU time, which the kernel gives anew every 100 ms. A
 * silence must be longer than that to mean anything; who knows better says so (--patience). */
#include "trial/drain.h"

#include "trial/loop.h"

#define SILENCE_NS (20ULL * 1000 * 1000)
#define LONGEST_NS (2000ULL * 1000 * 1000) /* RFC 2544, section 23: residual frames */

/* What is received of the end's stream; of a client's probes, its load is not answered. */
static const struct end *heard_by(const struct trial *trial, unsigned index)
{
    const struct end *end = &trial->ends[index];

    return end->probe != NULL && trial->options->role->latency == LATENCY_RTT ? end->probe : end;
}

static uint64_t frames_sent(const struct trial *trial)
{
    uint64_t sent = 0;

    if (!trial->options->role->receives_own)
        return atomic_load(&trial->request.sent);
    for (unsigned i = 0; i < trial->end_count; i++) {
        const struct end *end = heard_by(trial, i);
        sent += end->counters.tx_offered - end->before.tx_offered;
    }
    return sent;
}

static bool all_came(const struct trial *trial, uint64_t sent)
{
    uint64_t came = 0;

    for (unsigned i = 0; i < trial->end_count; i++) {
        const struct end *end = heard_by(trial, i);
        came += end->receiving.rx.tracker != NULL ? end->receiving.rx.tracker->unique : 0;
        for (unsigned stream = 1; stream < end->receiving.stream_count; stream++)
            came += end->receiving.streams[stream - 1].tracker.unique;
    }
    return came >= sent;
}

static uint64_t frames_heard(const struct end *end)
{
    return end->counters.rx_frames + (end->probe != NULL ? end->probe->counters.rx_frames : 0);
}

/* One look at all ports; returns whether frames of our stream came. */
static bool look(struct trial *trial)
{
    bool heard = false;

    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        const uint64_t before = frames_heard(end);
        const unsigned count = end_receive(trial, end);
        const uint64_t alone =
            end->receiving.last_poll_tick > 0 ? clock_ticks() - end->receiving.last_poll_tick : 0;
        end_note_absence(end, alone, 0, count);
        end->receiving.last_poll_tick = 0;
        heard |= frames_heard(end) != before;
    }
    return heard;
}

/* A port is silent when a look that *begins* late enough after the last frame finds nothing:
 * time in which this process did not run proves nothing. */
void drain(struct trial *trial)
{
    const uint64_t silence = clock_ns_to_ticks(SILENCE_NS);
    const uint64_t patience = clock_ns_to_ticks(trial->traffic.patience_ns);
    const uint64_t sent = frames_sent(trial);
    const uint64_t begun = clock_ticks();
    uint64_t now = begun;
    const uint64_t last = now + clock_ns_to_ticks(LONGEST_NS);
    uint64_t heard = now;
    uint64_t wanted = all_came(trial, sent) ? silence : patience;

    while (now < last) {
        if (look(trial)) {
            heard = clock_ticks();
            trial->outcome.residual_ns = clock_ticks_to_ns(heard - begun);
            wanted = all_came(trial, sent) ? silence : patience;
        } else if (now > heard && now - heard >= wanted) {
            trial->outcome.drained = true;
            return;
        } else {
            trial_idle(trial, false, trial->ends[trial->end_count - 1].port, now, UINT64_MAX);
        }
        now = clock_ticks();
        if (now >= __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED))
            trial_event(trial, now);
    }
}
