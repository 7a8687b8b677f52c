/* Values that follow from the state of a trial and its options. */
#include "trial/state.h"

#include <string.h>

bool trial_end_sends(const struct trial *trial, unsigned end)
{
    return trial->options->role->sends &&
           (end == 0 || trial->options->bidirectional || trial->options->queues > 1);
}

bool trial_has_probes(const struct trial *trial)
{
    return trial->traffic.probes || trial->traffic.probe_rate.amount > 0;
}

uint16_t trial_probe_stream(const struct trial *trial)
{
    const struct options *o = trial->options;
    return (uint16_t)(o->probe_stream_given ? o->probe_stream : o->stream ^ 0x8000U);
}

/* With a replay, the option for frame sizes applies only to the probes. */
double trial_probe_rate_pps(const struct trial *trial)
{
    return rate_pps(&trial->traffic.probe_rate, trial->traffic.line_bps,
                    sizes_mean(&trial->traffic.sizes));
}

/* With probes, the load is timed only if an option requires it. */
bool trial_times_load(const struct trial *trial)
{
    const bool always = trial->options->role->latency != LATENCY_NONE;
    const bool echoes_probes = trial->options->role->echoes && trial->traffic.probes;
    return (trial->traffic.latency && !echoes_probes) || (always && !trial_has_probes(trial));
}

/* A single port tracks its own stream. If a role has two ports, the port opposite a sending end
 * tracks. */
bool trial_end_tracks(const struct trial *trial, unsigned end)
{
    const bool sinks =
        trial->options->role->echoes && (trial->traffic.probes || trial->traffic.latency);

    if (!trial->options->role->tracks && !sinks)
        return false;
    return trial->end_count == 1 || end == 1 || trial->options->bidirectional ||
           trial->options->queues > 1;
}

/* With probes, the server may echo the load of a client or not. */
uint64_t trial_frames_sent_to(const struct trial *trial, unsigned end)
{
    const struct role *role = trial->options->role;

    if (!role->receives_own)
        return trial->outcome.sent;
    if (role->latency == LATENCY_RTT && trial_has_probes(trial))
        return SENT_UNKNOWN;
    const struct end *from = &trial->ends[trial->end_count == 1 ? end : 1 - end];
    return from->counters.tx_offered - from->before.tx_offered;
}

const struct sender_clock *trial_sender_clock(const struct trial *trial)
{
    return trial->traffic.sender_clock.hz > 0 ? &trial->sender_clock : NULL;
}

double trial_mean_frame_bytes(const struct trial *trial)
{
    return trial->replay.count > 0 ? replay_mean_frame_bytes(&trial->replay)
                                   : sizes_mean(&trial->traffic.sizes);
}

uint64_t trial_frames_to_send(const struct trial *trial)
{
    const uint64_t loops = trial->replay.count == 0 ? 0 : trial->options->loops;
    const uint64_t replayed = loops == 0 ? UINT64_MAX : loops * trial->replay.count;
    const uint64_t limit = trial->options->frames == 0 ? UINT64_MAX : trial->options->frames;

    return replayed < limit ? replayed : limit;
}

uint64_t trial_now_ns(const struct trial *trial)
{
    const uint64_t now_ns = clock_monotonic_ns();
    return now_ns > trial->outcome.started_ns ? now_ns : trial->outcome.started_ns;
}

unsigned trial_seed_index(const struct trial *trial, unsigned end)
{
    return (unsigned)trial->options->stream * PORTS_MAX + end;
}

void trial_read_drops(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct io_port *port = trial->ends[i].port;
        if (port->ops->rx_drops != NULL)
            counter_set(&trial->ends[i].counters.rx_socket_drops, port->ops->rx_drops(port));
    }
}

void trial_totals(const struct trial *trial, struct counters *totals)
{
    memset(totals, 0, sizeof *totals);
    for (unsigned i = 0; i < trial->end_count; i++) {
        counters_sum(totals, &trial->ends[i].counters);
        counters_subtract(totals, &trial->ends[i].before);
    }
}
