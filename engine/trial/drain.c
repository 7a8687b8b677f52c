/* How long to wait for frames in flight: a receiver cannot distinguish a late frame from a lost
 * frame.
 *
 * When all sent frames have arrived, only copies can follow, and a short silence is enough. While
 * some are missing, or the number of sent frames is unknown, the switch may only be late, for
 * example because it has no core or has used its share of CPU time, which the kernel renews every
 * 100 ms. Only a longer silence is significant; --patience sets it. */
#include "trial/drain.h"

#include "trial/loop.h"

#define SILENCE_NS (20ULL * 1000 * 1000)
#define LONGEST_NS (2000ULL * 1000 * 1000) /* RFC 2544, section 23: residual frames */

/* The end that receives the echoes or frames of an end. A client with probes gets only its probes
 * back, because the server does not echo its load. */
static const struct end *receiving_end_of(const struct trial *trial, unsigned index)
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
        const struct end *end = receiving_end_of(trial, i);
        sent += end->counters.tx_offered - end->before.tx_offered;
    }
    return sent;
}

static bool all_came(const struct trial *trial, uint64_t sent)
{
    uint64_t came = 0;

    for (unsigned i = 0; i < trial->end_count; i++) {
        const struct end *end = receiving_end_of(trial, i);
        came += end->receiving.rx.tracker != NULL ? end->receiving.rx.tracker->unique : 0;
        for (unsigned stream = 1; stream < end->receiving.stream_count; stream++)
            came += end->receiving.streams[stream - 1].tracker.unique;
    }
    return came >= sent;
}

static uint64_t frames_received(const struct end *end)
{
    return end->counters.rx_frames + (end->probe != NULL ? end->probe->counters.rx_frames : 0);
}

/* Poll all ports once; returns true if frames of the stream arrived. */
static bool poll_ports(struct trial *trial)
{
    bool heard = false;

    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        const uint64_t before = frames_received(end);
        const unsigned count = end_receive(trial, end);
        const uint64_t alone =
            end->receiving.last_poll_tick > 0 ? clock_ticks() - end->receiving.last_poll_tick : 0;
        end_note_absence(end, alone, 0, count);
        end->receiving.last_poll_tick = 0;
        heard |= frames_received(end) != before;
    }
    return heard;
}

/* A port is silent if a poll that begins late enough after the last frame finds no frame. Time in
 * which this process did not run is not evidence of silence. */
void drain(struct trial *trial)
{
    const uint64_t silence = clock_ns_to_ticks(SILENCE_NS);
    const uint64_t patience = clock_ns_to_ticks(trial->traffic.patience_ns);
    const uint64_t sent = frames_sent(trial);
    const uint64_t begun = clock_ticks();
    uint64_t now = begun;
    const uint64_t last = now + clock_ns_to_ticks(LONGEST_NS);
    uint64_t heard = now;
    uint64_t required = all_came(trial, sent) ? silence : patience;

    while (now < last) {
        if (poll_ports(trial)) {
            heard = clock_ticks();
            trial->outcome.residual_ns = clock_ticks_to_ns(heard - begun);
            required = all_came(trial, sent) ? silence : patience;
        } else if (now > heard && now - heard >= required) {
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
