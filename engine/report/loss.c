/* Loss, duplicates, the reordering metrics of RFC 4737, and groups of flows. */
#include <stdio.h>

#include "report/report.h"

/* RFC 4737; measure/reorder.h lists the metrics. */
static void put_reordering(struct json *j, const struct reorder *r, uint64_t reordered,
                           uint64_t unique)
{
    const uint64_t late_ticks = reordered > 0 ? r->late_ticks_sum / reordered : 0;

    json_number(j, "reordered_ratio", share(reordered, unique));
    json_unsigned(j, "max_reorder_extent", r->max_extent);
    json_number(j, "mean_reorder_extent", share(r->extent_sum, reordered));
    json_unsigned(j, "max_late_offset_ns", clock_ticks_to_ns(r->max_late_ticks));
    json_unsigned(j, "mean_late_offset_ns", clock_ticks_to_ns(late_ticks));
    json_unsigned(j, "max_n_reordered", r->max_degree);
    json_object(j, "gaps");
    json_unsigned(j, "count", r->gaps);
    json_number(j, "mean_frames", share(r->gap_frames, r->gaps));
    json_unsigned(j, "mean_ns", r->gaps > 0 ? clock_ticks_to_ns(r->gap_ticks / r->gaps) : 0);
    json_end_object(j);
    json_object(j, "free_runs");
    json_unsigned(j, "count", r->runs);
    json_number(j, "mean_frames", share(r->run_frames, r->runs));
    json_number(j, "stdev_frames", reorder_run_stdev(r));
    json_unsigned(j, "max_frames", r->longest_run);
    json_end_object(j);
    json_object(j, "n_reordered");
    for (unsigned i = 0; i < REORDER_DEGREES; i++) {
        char name[12];
        snprintf(name, sizeof name, "%u", reorder_degrees[i]);
        json_unsigned(j, name, r->degrees[i]);
    }
    json_end_object(j);
}

static void put_loss(struct json *j, struct sequence_summary s, const struct reorder *reorder,
                     uint64_t sent)
{
    json_object(j, "loss");
    if (sent == SENT_UNKNOWN)
        json_null(j, "sent");
    else
        json_unsigned(j, "sent", sent);
    json_unsigned(j, "expected", s.expected);
    json_unsigned(j, "received_unique", s.received_unique);
    json_unsigned(j, "lost", s.lost);
    json_unsigned(j, "lost_at_least", s.lost_at_least);
    json_unsigned(j, "duplicates", s.duplicates);
    json_unsigned(j, "reordered", s.reordered);
    put_reordering(j, reorder, s.reordered, s.received_unique);
    if (s.any) {
        json_unsigned(j, "first_sequence", s.first_sequence);
        json_unsigned(j, "last_sequence", s.last_sequence);
    } else {
        json_null(j, "first_sequence");
        json_null(j, "last_sequence");
    }
    json_unsigned(j, "beyond_window", s.beyond_window);
    json_unsigned(j, "early", s.early);
    json_bool(j, "extent_is_lower_bound", s.extent_is_lower_bound);
    json_end_object(j);
}

/* Groups of frames, by sequence number modulo the number of groups. */
static void put_flow_groups(struct json *j, const struct end *end,
                            const struct sequence_summary *all)
{
    if (end->receiving.groups.count == 0)
        return;
    json_list(j, "flow_groups");
    for (uint32_t group = 0; group < end->receiving.groups.count; group++) {
        const struct flow_group_summary s =
            flow_group_summarise(&end->receiving.groups, group, all);
        json_object(j, NULL);
        json_unsigned(j, "expected", s.expected);
        json_unsigned(j, "received_unique", s.received_unique);
        json_unsigned(j, "lost", s.lost);
        json_unsigned(j, "duplicates", s.duplicates);
        json_unsigned(j, "reordered", s.reordered);
        json_end_object(j);
    }
    json_end_list(j);
}

void report_loss(struct json *j, const struct end *end, uint64_t sent)
{
    struct sequence_summary all = sequence_summarise(&end->receiving.tracker);

    sequence_set_sent(&all, sent);
    put_loss(j, all, &end->receiving.tracker.reorder, sent);
    put_flow_groups(j, end, &all);
}

/* The sum of several queues. */
void report_loss_of_queues(struct json *j, const struct trial *trial)
{
    static struct end all; /* too large for a stack; only the printing thread calls this function */
    const uint64_t sent = trial_frames_sent_to(trial, 0);
    struct sequence_summary s = queues_summarise(trial, &all);

    sequence_set_sent(&s, sent);
    put_loss(j, s, &all.receiving.tracker.reorder, sent);
    if (trial_times_load(trial))
        report_latency(j, LATENCY_ONE_WAY, &all);
}
