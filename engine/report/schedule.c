/* The schedule in `config`: every rate with its unit. */
#include <math.h>

#include "report/report.h"

/* Whole rates are written as whole numbers, like on the command line. */
void report_rate(struct json *j, const char *key, double pps)
{
    if (pps == floor(pps) && pps < 1e15)
        json_unsigned(j, key, (uint64_t)pps);
    else
        json_number(j, key, pps);
}

void report_shape(struct json *j, const struct schedule_plan *plan)
{
    json_object(j, "schedule");
    json_string(j, "shape", schedule_name(plan->shape));
    if (plan->shape == SCHEDULE_POISSON) {
        json_unsigned(j, "seed", plan->seed);
    } else if (plan->shape == SCHEDULE_ON_OFF) {
        json_unsigned(j, "on_ns", plan->on_ns);
        json_unsigned(j, "off_ns", plan->off_ns);
    } else if (plan->shape == SCHEDULE_RAMP) {
        report_rate(j, "from_pps", plan->from_pps);
        report_rate(j, "to_pps", plan->rate_pps);
        json_unsigned(j, "over_ns", plan->over_ns);
    }
    json_end_object(j);
}

static void put_replay(struct json *j, const struct trial *trial)
{
    json_object(j, "replay");
    json_string(j, "file", trial->options->replay_path);
    json_unsigned(j, "frames", trial->replay.count);
    json_number(j, "mean_frame_size_bytes", replay_mean_frame_bytes(&trial->replay));
    json_unsigned(j, "length_ns", trial->replay.length_ns);
    json_unsigned(j, "loops", trial->options->loops);
    json_bool(j, "stamped", trial->options->stamp);
    json_end_object(j);
}

void report_schedule(struct json *j, const struct trial *trial)
{
    const struct schedule_plan *plan = &trial->plan; /* the schedule `recorded` has no rate */
    const double mean_bytes = trial_mean_frame_bytes(trial);

    if (plan->rate_pps <= 0) {
        json_null(j, "rate_pps");
        json_null(j, "rate_l1_bps");
        json_null(j, "rate_l2_bps");
    } else {
        report_rate(j, "rate_pps", plan->rate_pps);
        report_rate(j, "rate_l1_bps", rate_l1_bps(plan->rate_pps, mean_bytes));
        report_rate(j, "rate_l2_bps", rate_l2_bps(plan->rate_pps, mean_bytes));
    }
    if (trial->traffic.line_bps != 0)
        json_unsigned(j, "line_rate_bps", trial->traffic.line_bps);
    report_shape(j, plan);
    if (trial->replay.count > 0)
        put_replay(j, trial);
}
