/* The parts of the `result` event. */
#ifndef SM_REPORT_H
#define SM_REPORT_H

#include "report/json.h"
#include "trial/state.h"

static inline double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

void report_counters(struct json *j, const struct counters *c);
void report_cpu(struct json *j, const struct cpu_times *from, const struct cpu_times *to);
void report_spent(struct json *j, const uint64_t from[2], const uint64_t to[2]);
void report_histogram(struct json *j, const char *key, const struct histogram *h);
void report_latency(struct json *j, enum latency_kind kind, const struct end *end);
void report_lateness(struct json *j, const struct histogram *lateness);
void report_lateness_briefly(struct json *j, const struct histogram *lateness);

/* Loss and order of what arrived at an end, of all and of each group of flows; `sent`: how many
 * frames were sent to it, or SENT_UNKNOWN. Of an end with several queues, and its delays, too. */
void report_loss(struct json *j, const struct end *end, uint64_t sent);
void report_loss_of_queues(struct json *j, const struct trial *trial);

/* What the probe stream found: sent at one end, received at the other (maybe the same). */
void report_probe(struct json *j, const struct trial *trial, const struct end *sending,
                  const struct end *receiving);

/* CPU time, cycles, turns on shared cores, events of the hardware. */
void report_cost(struct json *j, const struct trial *trial);

/* The rates and the shape, as part of `config`. */
void report_schedule(struct json *j, const struct trial *trial);
void report_result(struct json *j, const struct trial *trial);
#endif
