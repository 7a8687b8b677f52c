/* Allocates probe ends and sets their schedules. */
#include "ends/probes.h"

#include <stdlib.h>
#include <string.h>

#include "ends/end.h"
#include "fail.h"

#define SEED_APART (1U << 31) /* makes the schedules of probes differ from those of every load */

bool probes_make(struct trial *trial, char *error, size_t size)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        end->probe = NULL;
        end->receiving.rx.companion = NULL;
        if (!trial_has_probes(trial))
            continue;
        if (end->probe_memory == NULL) {
            end->probe_memory = aligned_alloc(_Alignof(struct end), sizeof(struct end));
            if (end->probe_memory == NULL)
                return fail(error, size, "no memory for the probe stream");
            memset(end->probe_memory, 0, sizeof(struct end));
        }
        end->probe = end->probe_memory;
    }
    return true;
}

/* Load and probes use the same buffers of the port in turn, so neither can rely on their content.
 */
static void begin_probe(struct trial *trial, unsigned index)
{
    struct end *end = &trial->ends[index], *probe = end->probe;
    const struct options *o = trial->options;

    probe->port = end->port;
    probe->address = end->address;
    probe->flows = end->flows;
    probe->sending.tx.shares_port = true;
    end_join(trial, probe, index, trial_probe_stream(trial));
    end_begin_sending(trial, probe, index, trial_probe_stream(trial));
    end_begin_receiving(trial, probe, !o->role->echoes || trial->traffic.latency);
    end->receiving.rx.companion = &probe->receiving.rx;
}

void probes_begin(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].probe != NULL)
            begin_probe(trial, i);
    }
}

void probes_end(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].probe != NULL)
            receive_end(&trial->ends[i].probe->receiving.rx);
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
                          trial->traffic.line_bps, sizes_mean(&trial->traffic.sizes));
        end_set_times(trial, probe, &plan, 1, trial_seed_index(trial, i) | SEED_APART);
    }
}

void probes_close(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++)
        free(trial->ends[i].probe_memory);
}
