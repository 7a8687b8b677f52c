/* Allocates denied streams and sets their schedules. */
#include "ends/denied.h"

#include <stdlib.h>
#include <string.h>

#include "ends/end.h"
#include "fail.h"

#define SEED_APART (1U << 30) /* makes the schedule differ from those of load and probes */
#define BURSTS_PER_SECOND 10000.0

bool denied_is_sent(const struct trial *trial)
{
    return trial->traffic.denied_rate.amount > 0;
}

bool denied_make(struct trial *trial, char *error, size_t size)
{
    const bool is_sent = denied_is_sent(trial);

    if (is_sent && !row_table_is_complete(&trial->denied))
        return fail(error, size,
                    "denied-rate: %u of %u rows of the denied flows have arrived; send them by the "
                    "command denied",
                    trial->denied.loaded, trial->denied.count);
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        end->denied = NULL;
        if (!is_sent || !trial_end_sends(trial, i))
            continue;
        if (end->denied_memory == NULL) {
            end->denied_memory = aligned_alloc(_Alignof(struct end), sizeof(struct end));
            if (end->denied_memory == NULL)
                return fail(error, size, "no memory for the denied stream");
            memset(end->denied_memory, 0, sizeof(struct end));
        }
        end->denied = end->denied_memory;
    }
    return true;
}

static void begin_stream(struct trial *trial, unsigned index)
{
    const struct end *end = &trial->ends[index];
    struct end *denied = end->denied;

    denied->port = end->port;
    denied->address = end->address;
    denied->sending.tx.shares_port = true;
    denied->sending.tx.port = end->port;
    denied->sending.tx.counters = &denied->counters;
    denied->sending.tx.lateness = &denied->sending.lateness;
    denied->sending.tx.frames_end = UINT64_MAX;
    end_begin_sending(trial, denied, index, (uint16_t)(trial->options->stream ^ DENIED_STREAM));
}

void denied_begin(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].denied != NULL)
            begin_stream(trial, i);
    }
}

/* Frames of a high rate are sent in bursts, so that calls of the port remain few. */
static uint32_t burst_of(const struct trial *trial, double rate_pps)
{
    const double frames = rate_pps / BURSTS_PER_SECOND;

    if (frames < 1)
        return 1;
    return frames < (double)trial->traffic.burst ? (uint32_t)frames
                                                 : (uint32_t)trial->traffic.burst;
}

void denied_set_times(struct trial *trial)
{
    const struct schedule constant = {.shape = SCHEDULE_CONSTANT};

    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].denied == NULL)
            continue;
        const struct schedule_plan plan =
            schedule_plan(&constant, &trial->traffic.denied_rate, trial->traffic.line_bps,
                          sizes_mean(&trial->traffic.sizes));
        end_set_times(trial, trial->ends[i].denied, &plan, burst_of(trial, plan.rate_pps),
                      trial_seed_index(trial, i) | SEED_APART);
    }
}

/* The rest of its frames is sent within the catch-up bound, and counts. */
void denied_stop(struct end *end, uint64_t now)
{
    const uint64_t before = end->denied->counters.tx_offered;

    transmit_end(&end->denied->sending.tx, now);
    counter_add(&end->counters.tx_denied, end->denied->counters.tx_offered - before);
}

void denied_close(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++)
        free(trial->ends[i].denied_memory);
}
