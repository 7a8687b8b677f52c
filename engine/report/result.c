/* What the `result` event says after the counters: loss, latency, pacing, CPU. */
#include <stdio.h>
#include <stdlib.h>

#include "report/report.h"

static const char *reason_name(enum reason reason)
{
    switch (reason) {
    case REASON_STOP:
        return "stop";
    case REASON_SIGNAL:
        return "signal";
    case REASON_EOF:
        return "eof";
    case REASON_REPLAYED:
        return "replayed";
    case REASON_FAILURE:
        return "failure";
    default:
        return "duration";
    }
}

/* What the frames are. Sizes with FCS; `frame_size_bytes` is null where there are several, and
 * the mean is that of the mix (of what was sent: tx_bytes / tx_offered). */
static void put_frames(struct json *j, const struct trial *trial)
{
    const struct sizes *sizes = &trial->traffic.sizes;
    const struct options *o = trial->options;
    char vlan[16];

    if (sizes->kind == SIZES_FIXED && trial->replay.count == 0)
        json_unsigned(j, "frame_size_bytes", sizes->largest);
    else
        json_null(j, "frame_size_bytes");
    json_number(j, "mean_frame_size_bytes", trial_mean_frame_bytes(trial));
    json_unsigned(j, "ip_version", o->address.ip6 ? 6 : 4);
    snprintf(vlan, sizeof vlan, o->address.tags == 2 ? "%u.%u" : "%u", o->address.vlan[0],
             o->address.vlan[1]);
    json_string(j, "vlan", o->address.tags > 0 ? vlan : NULL);
    json_unsigned(j, "flows", o->flows.count);
    json_string(j, "payload", payload_name(o->payload));
}

/* How many frames of each size were sent. Every end's follow from how many it sent at all. */
static void put_sizes(struct json *j, const struct trial *trial)
{
    const struct sizes *sizes = &trial->traffic.sizes;

    if (!trial->options->role->sends || sizes->kind != SIZES_CYCLE)
        return;
    json_list(j, "sizes");
    for (uint32_t size = sizes->smallest; size <= sizes->largest; size++) {
        uint64_t frames = 0;
        if (sizes_count(sizes, size, sizes->cycle_length) == 0)
            continue;
        for (unsigned i = 0; i < trial->end_count; i++) {
            if (trial_end_sends(trial, i))
                frames += sizes_count(sizes, size, trial->ends[i].tx.sequence);
        }
        json_object(j, NULL);
        json_unsigned(j, "frame_size_bytes", size);
        json_unsigned(j, "tx_frames", frames);
        json_end_object(j);
    }
    json_end_list(j);
}

static void put_config(struct json *j, const struct trial *trial)
{
    json_object(j, "config");
    report_schedule(j, trial);
    json_unsigned(j, "burst", trial->traffic.burst);
    put_frames(j, trial);
    json_bool(j, "touch", trial->options->touch);
    json_string(j, "idle", idle_name(trial->options->idle));
    json_end_object(j);
}

void report_loss(struct json *j, const struct sequence_tracker *tracker)
{
    const struct sequence_summary s = sequence_summarise(tracker);

    json_object(j, "loss");
    json_unsigned(j, "expected", s.expected);
    json_unsigned(j, "received_unique", s.received_unique);
    json_unsigned(j, "lost", s.lost);
    json_unsigned(j, "duplicates", s.duplicates);
    json_unsigned(j, "reordered", s.reordered);
    json_unsigned(j, "max_reorder_extent", s.max_reorder_extent);
    if (s.any) {
        json_unsigned(j, "first_sequence", s.first_sequence);
        json_unsigned(j, "last_sequence", s.last_sequence);
    } else {
        json_null(j, "first_sequence");
        json_null(j, "last_sequence");
    }
    json_unsigned(j, "beyond_window", s.beyond_window);
    json_bool(j, "extent_is_lower_bound", s.extent_is_lower_bound);
    json_end_object(j);
}

static void put_summary(struct json *j, const struct histogram *h)
{
    static const struct {
        const char *name;
        double value;
    } percentiles[] = {{"50", 50},     {"90", 90},       {"99", 99},
                       {"99.9", 99.9}, {"99.99", 99.99}, {"99.999", 99.999}};

    json_unsigned(j, "count", h->count);
    json_unsigned(j, "min_ns", h->count > 0 ? h->min : 0);
    json_unsigned(j, "max_ns", h->max);
    json_number(j, "mean_ns", histogram_mean(h));
    json_number(j, "stdev_ns", histogram_stdev(h));
    json_unsigned(j, "clamped", h->clamped);
    json_object(j, "percentiles");
    for (unsigned i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++)
        json_unsigned(j, percentiles[i].name, histogram_percentile(h, percentiles[i].value));
    json_end_object(j);
}

static void put_encoded(struct json *j, const char *key, const struct histogram *h)
{
    char *text = histogram_encode(h);
    json_string(j, key, text);
    free(text);
}

void report_latency(struct json *j, enum latency_kind kind, const struct histogram *actual,
                    const struct histogram *intended)
{
    json_object(j, "latency");
    json_string(j, "kind", kind == LATENCY_RTT ? "rtt" : "one_way");
    json_string(j, "unit", "ns");
    put_summary(j, actual);
    put_encoded(j, "from_actual", actual);
    put_encoded(j, "from_intended", intended);
    json_object(j, "intended");
    put_summary(j, intended);
    json_end_object(j);
    json_end_object(j);
}

static void put_pacing(struct json *j, const struct trial *trial, const struct counters *totals)
{
    static struct histogram lateness; /* too large for a stack; only the printer comes here */
    uint64_t skipped = 0, stall = 0;

    if (!trial->options->role->sends ||
        schedule_is_unlimited(&trial->traffic.schedule, &trial->traffic.rate)) {
        json_null(j, "pacing");
        return;
    }
    histogram_reset(&lateness);
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (!trial_end_sends(trial, i))
            continue;
        histogram_add(&lateness, &trial->ends[i].lateness);
        skipped += trial->ends[i].tx.skipped;
        stall = trial->ends[i].tx.stall > stall ? trial->ends[i].tx.stall : stall;
    }
    json_object(j, "pacing");
    json_unsigned(j, "late_max_ns", lateness.max);
    json_number(j, "late_mean_ns", histogram_mean(&lateness));
    json_unsigned(j, "late_p99_ns", histogram_percentile(&lateness, 99));
    json_unsigned(j, "late_p999_ns", histogram_percentile(&lateness, 99.9));
    json_unsigned(j, "catch_up_bound_ns", trial->options->catch_up_ns);
    json_unsigned(j, "skipped", skipped);
    json_unsigned(j, "longest_stall_ns", clock_ticks_to_ns(stall));
    json_bool(j, "on_schedule", skipped * 1000 <= totals->tx_intended);
    json_end_object(j);
}

static void put_cpu(struct json *j, const struct trial *trial)
{
    const struct cpu_times *from = &trial->cpu_before, *to = &trial->cpu_after;
    const uint64_t user_ns = to->user_ns - from->user_ns;
    const uint64_t system_ns = to->system_ns - from->system_ns;

    json_object(j, "cpu");
    json_unsigned(j, "wall_ns", trial->drained_ns - trial->started_ns);
    json_unsigned(j, "cpu_ns", user_ns + system_ns);
    json_unsigned(j, "user_ns", user_ns);
    json_unsigned(j, "system_ns", system_ns);
    json_unsigned(j, "voluntary_switches", to->voluntary_switches - from->voluntary_switches);
    json_unsigned(j, "involuntary_switches", to->involuntary_switches - from->involuntary_switches);
    json_unsigned(j, "run_delay_ns", trial->run_delay_after_ns - trial->run_delay_before_ns);
    json_end_object(j);
}

/* A tester's traffic from one end to the other: what one end sent and the other received. */
static void put_direction(struct json *j, const struct trial *trial, unsigned from)
{
    const struct end *sending = &trial->ends[from], *receiving = &trial->ends[1 - from];
    struct counters tx = sending->counters, rx = receiving->counters;

    counters_subtract(&tx, &sending->before);
    counters_subtract(&rx, &receiving->before);
    rx.tx_intended = tx.tx_intended;
    rx.tx_offered = tx.tx_offered;
    rx.tx_dropped = tx.tx_dropped;
    rx.tx_bytes = tx.tx_bytes;
    rx.ring_full_polls = tx.ring_full_polls;
    rx.tx_polls = tx.tx_polls;
    json_object(j, NULL);
    json_unsigned(j, "from", from);
    json_unsigned(j, "to", 1 - from);
    json_object(j, "totals");
    report_counters(j, &rx);
    json_end_object(j);
    report_loss(j, &receiving->tracker);
    if (trial_times_load(trial))
        report_latency(j, LATENCY_ONE_WAY, &receiving->from_actual, &receiving->from_intended);
    if (sending->probe != NULL)
        report_probe(j, trial, sending->probe, receiving->probe);
    json_end_object(j);
}

static void put_forwarder_ports(struct json *j, const struct trial *trial)
{
    json_list(j, "ports");
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct counters c = trial->ends[i].counters;
        counters_subtract(&c, &trial->ends[i].before);
        json_object(j, NULL);
        json_unsigned(j, "rx_frames", c.rx_frames);
        json_unsigned(j, "rx_socket_drops", c.rx_socket_drops);
        json_unsigned(j, "tx_offered", c.tx_offered);
        json_unsigned(j, "tx_dropped", c.tx_dropped);
        json_end_object(j);
    }
    json_end_list(j);
}

void report_result(struct json *j, const struct trial *trial)
{
    const struct role *role = trial->options->role;
    struct counters totals;

    trial_totals(trial, &totals);
    json_string(j, "reason", reason_name(trial->reason));
    json_unsigned(j, "duration_ns", trial->ended_ns - trial->started_ns);
    json_unsigned(j, "drain_ns", trial->drained_ns - trial->ended_ns);
    if (trial->options->role->drains)
        json_bool(j, "drained", trial->drained);
    put_config(j, trial);
    put_sizes(j, trial);
    json_object(j, "totals");
    report_counters(j, &totals);
    report_cpu(j, &trial->cpu_before, &trial->cpu_after);
    json_end_object(j);
    if (role == &role_tester) {
        json_list(j, "directions");
        put_direction(j, trial, 0);
        if (trial->options->bidirectional)
            put_direction(j, trial, 1);
        json_end_list(j);
    } else if (trial_end_tracks(trial, 0)) {
        report_loss(j, &trial->ends[0].tracker);
        if (trial_times_load(trial))
            report_latency(j, role->latency == LATENCY_NONE ? LATENCY_ONE_WAY : role->latency,
                           &trial->ends[0].from_actual, &trial->ends[0].from_intended);
    }
    if (role != &role_tester && trial->ends[0].probe != NULL)
        report_probe(j, trial, trial->ends[0].probe, trial->ends[0].probe);
    if (role->stands_between)
        put_forwarder_ports(j, trial);
    put_pacing(j, trial, &totals);
    put_cpu(j, trial);
}
