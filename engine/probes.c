/* Making probe ends and giving them their schedule. */
#include "probes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

#define SEED_APART (1U << 31) /* the probes' schedules are not those of any port's load */

uint16_t probe_stream(const struct options *o)
{
    return (uint16_t)(o->probe_stream_given ? o->probe_stream : o->stream ^ 0x8000U);
}

/* Beside a replay, too: its frames are not those of the probes. */
static double mean_probe_bytes(const struct trial *trial)
{
    return sizes_mean(&trial->traffic.sizes);
}

double probe_rate_pps(const struct trial *trial)
{
    return rate_pps(&trial->traffic.probe_rate, trial->traffic.line_bps, mean_probe_bytes(trial));
}

bool probes_make(struct trial *trial, char *error, size_t size)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        end->probe = NULL;
        end->rx.companion = NULL;
        if (!trial_has_probes(trial))
            continue;
        if (end->probe_memory == NULL) {
            end->probe_memory = aligned_alloc(64, sizeof(struct end));
            if (end->probe_memory == NULL) {
                snprintf(error, size, "no memory for the probe stream");
                return false;
            }
            memset(end->probe_memory, 0, sizeof(struct end));
        }
        end->probe = end->probe_memory;
    }
    return true;
}

/* Load and probes take turns at the port's buffers, so neither may rely on what lies in them. */
static void begin_end(struct trial *trial, unsigned index)
{
    struct end *end = &trial->ends[index], *probe = end->probe;
    const struct options *o = trial->options;
    const unsigned kind = FRAME_DATA | (o->touch ? FRAME_TOUCHED : 0);

    probe->port = end->port;
    probe->address = end->address;
    probe->flows = end->flows;
    ends_join(probe, o, index, probe_stream(o));
    frame_template_build(&probe->tx.template, &probe->address, (uint32_t)trial->traffic.frame_size,
                         probe_stream(o), kind, trial->epoch, end->port->udp_payload_only);
    frame_template_fill(&probe->tx.template, (enum payload_kind)o->payload);
    varied_begin(&probe->tx.varied, &probe->tx.template, &probe->address, &trial->traffic.sizes,
                 &probe->flows, &trial->zipf);
    probe->before = probe->counters;
    probe->tx.shares_port = true;
    if (trial_end_sends(trial, index))
        transmit_begin(&probe->tx);
    probe->rx.latency_wanted = o->role != &role_server || trial->traffic.latency;
    probe->rx.sender_clock = trial_sender_clock(trial);
    const uint8_t *payload = probe->tx.template.bytes + probe->tx.template.payload;
    receive_begin(&probe->rx, o->role->latency != LATENCY_NONE ? load32(payload) : 0, 0);
    end->rx.companion = &probe->rx;
}

void probes_begin(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].probe != NULL)
            begin_end(trial, i);
    }
}

void probes_end(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].probe != NULL)
            receive_end(&trial->ends[i].probe->rx);
    }
}

void probes_set_times(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *probe = trial->ends[i].probe;
        if (probe == NULL)
            continue;
        const struct schedule_plan plan =
            schedule_plan(&trial->traffic.probe_schedule, &trial->traffic.probe_rate,
                          trial->traffic.line_bps, mean_probe_bytes(trial));
        pacing_begin(&probe->tx.pacing, plan.rate_pps, 1, engine_clock.hz, trial->start_tick,
                     trial->end_tick, clock_ns_to_ticks(trial->options->catch_up_ns));
        pacing_take_shape(&probe->tx.pacing, &plan, engine_clock.hz,
                          trial_seed_index(trial, i) | SEED_APART);
        probe->rx.lock_intended = trial->start_tick;
    }
}

void probes_close(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++)
        free(trial->ends[i].probe_memory);
}
