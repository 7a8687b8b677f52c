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
/* Figures and histogram of some delays. */
void report_delays(struct json *j, const char *key, const struct histogram *h);
void report_lateness(struct json *j, const struct histogram *lateness);
void report_lateness_briefly(struct json *j, const struct histogram *lateness);

/* Loss and order of the frames received at an end, in total and for each group of flows; `sent`:
 * number of frames sent to it, or SENT_UNKNOWN. The second function is for an end with several
 * queues, and also reports delays. */
void report_loss(struct json *j, const struct end *end, uint64_t sent);
void report_loss_of_queues(struct json *j, const struct trial *trial);

/* Results of the probe stream, which was sent at one end and received at the other or the same end.
 */
void report_probe(struct json *j, const struct trial *trial, const struct end *sending,
                  const struct end *receiving);

/* Parts of the next function. */
void report_cpu_use(struct json *j, const struct trial *trial);
void report_hardware(struct json *j, const struct trial *trial);

/* CPU time, cycles, turns on shared cores, hardware events. */
void report_cost(struct json *j, const struct trial *trial);

/* The rates and the shape, as part of `config`. */
void report_schedule(struct json *j, const struct trial *trial);
void report_rate(struct json *j, const char *key, double pps);
void report_shape(struct json *j, const struct schedule_plan *plan);

/* Why the trial has ended. */
const char *report_reason(enum reason reason);
void report_result(struct json *j, const struct trial *trial);

/* The values of `tcp_interval` and `tcp_result`, of roles that speak TCP. */
void report_tcp_interval(struct json *j, const struct tcp_snapshot *from,
                         const struct tcp_snapshot *to);
void report_tcp_result(struct json *j, const struct trial *trial);
#endif
