/* The part of the result about the probe stream. None of it is included in the figures of the load.
 */
#include "report/report.h"

static void put_pacing(struct json *j, const struct transmitter *tx)
{
    json_object(j, "pacing");
    json_unsigned(j, "late_max_ns", tx->lateness->max);
    json_number(j, "late_mean_ns", histogram_mean(tx->lateness));
    json_unsigned(j, "late_p99_ns", histogram_percentile(tx->lateness, 99));
    json_unsigned(j, "skipped", tx->skipped);
    json_end_object(j);
}

void report_probe(struct json *j, const struct trial *trial, const struct end *sending,
                  const struct end *receiving)
{
    const struct role *role = trial->options->role;
    struct counters totals = sending->counters;

    counters_subtract(&totals, &sending->before);
    if (receiving != sending) {
        counters_sum(&totals, &receiving->counters);
        counters_subtract(&totals, &receiving->before);
    }
    json_object(j, "probe");
    json_unsigned(j, "stream", trial_probe_stream(trial));
    if (role->sends) {
        json_number(j, "rate_pps", trial_probe_rate_pps(trial));
        json_string(j, "schedule", schedule_name(trial->traffic.probe_schedule.shape));
    }
    json_object(j, "totals");
    report_counters(j, &totals);
    json_end_object(j);
    if (role->tracks || role->echoes)
        report_loss(j, receiving,
                    role->receives_own ? sending->counters.tx_offered - sending->before.tx_offered
                                       : SENT_UNKNOWN);
    if (receiving->receiving.rx.latency_wanted && (role->tracks || role->echoes))
        report_latency(j, role->latency == LATENCY_RTT ? LATENCY_RTT : LATENCY_ONE_WAY, receiving);
    if (role->sends)
        put_pacing(j, &sending->sending.tx);
    json_end_object(j);
}
