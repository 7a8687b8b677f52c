/* The `result` event: totals, loss, ports, pacing, and cost. */
#include <stdio.h>

#include "report/report.h"

const char *report_reason(enum reason reason)
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
    case REASON_SENT:
        return "sent";
    case REASON_FAILURE:
        return "failure";
    default:
        return "duration";
    }
}

/* The frames of the trial. Sizes are with FCS; `frame_size_bytes` is null if there are several
 * sizes. The mean is that of the mix; the mean of the sent frames is tx_bytes / tx_offered. */
static void put_frames(struct json *j, const struct trial *trial)
{
    const struct sizes *sizes = &trial->traffic.sizes;
    const struct options *o = trial->options;
    char vlan[16];

    if (sizes->kind == SIZES_FIXED && trial->replay.count == 0)
        json_unsigned(j, "frame_size_bytes", sizes->largest);
    else
        json_null(j, "frame_size_bytes");
    if (o->address.tunnel.used || o->expected.decap)
        json_unsigned(j, "outer_header_bytes", OUTER_BYTES);
    json_number(j, "mean_frame_size_bytes", trial_mean_frame_bytes(trial));
    json_unsigned(j, "ip_version", o->address.ip6 ? 6 : 4);
    snprintf(vlan, sizeof vlan, o->address.tags == 2 ? "%u.%u" : "%u", o->address.vlan[0],
             o->address.vlan[1]);
    json_string(j, "vlan", o->address.tags > 0 ? vlan : NULL);
    json_unsigned(j, "flows", trial->table.count > 0 ? trial->table.count : o->flows.count);
    json_string(j, "payload", payload_name(o->payload));
}

/* Number of sent frames of each size. It follows from the total of each end. */
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
                frames += sizes_count(sizes, size, trial->ends[i].sending.tx.sequence);
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

static void put_pacing(struct json *j, const struct trial *trial, const struct counters *totals)
{
    static struct histogram
        lateness; /* too large for a stack; only the printing thread calls this function */
    uint64_t skipped = 0, stall = 0, away = 0;

    if (!trial->options->role->sends ||
        schedule_is_unlimited(&trial->traffic.schedule, &trial->traffic.rate)) {
        json_null(j, "pacing");
        return;
    }
    histogram_reset(&lateness);
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (!trial_end_sends(trial, i))
            continue;
        histogram_add(&lateness, &trial->ends[i].sending.lateness);
        skipped += trial->ends[i].sending.tx.skipped;
        stall = trial->ends[i].sending.tx.stall > stall ? trial->ends[i].sending.tx.stall : stall;
        away += trial->ends[i].sending.tx.away_ticks;
    }
    json_object(j, "pacing");
    report_lateness(j, &lateness);
    json_unsigned(j, "catch_up_bound_ns", trial->options->catch_up_ns);
    json_unsigned(j, "skipped", skipped);
    json_unsigned(j, "longest_stall_ns", clock_ticks_to_ns(stall));
    json_bool(j, "on_schedule", skipped * 1000 <= totals->tx_intended);
    if (role_only_sends(trial->options->role)) {
        for (unsigned i = 0; i < trial->end_count; i++)
            histogram_subtract(&lateness, &trial->ends[i].sending.lateness_away);
        json_object(j, "attentive");
        report_lateness_briefly(j, &lateness);
        json_unsigned(j, "away_ns", clock_ticks_to_ns(away));
        json_end_object(j);
    }
    json_end_object(j);
}

/* The wrong fields of received frames, and the first bytes of the first wrong frame. */
static void put_expectation(struct json *j, const struct end *end)
{
    const struct expectation *e = &end->receiving.expectation;
    char hex[2 * sizeof e->sample + 1];

    if (!e->used)
        return;
    json_object(j, "expectation");
    json_object(j, "wrong_fields");
#define WRONG_PRINT(name) json_unsigned(j, #name, e->wrong[WRONG_##name]);
    WRONG_FIELDS(WRONG_PRINT)
#undef WRONG_PRINT
    json_end_object(j);
    json_hex(hex, e->sample, e->sample_length);
    json_string(j, "sample", e->sample_length > 0 ? hex : NULL);
    json_end_object(j);
}

/* The traffic from one end of a path to the other: counters of the sending end and of the receiving
 * end. */
static void put_direction(struct json *j, const struct trial *trial, unsigned from)
{
    const struct end *sending = &trial->ends[from], *receiving = &trial->ends[1 - from];
    struct counters both = receiving->counters;

    counters_subtract(&both, &receiving->before);
#define COUNTER_OF_SENDER(name) both.name = sending->counters.name - sending->before.name;
    TX_COUNTERS(COUNTER_OF_SENDER)
#undef COUNTER_OF_SENDER
    json_object(j, NULL);
    json_unsigned(j, "from", from);
    json_unsigned(j, "to", 1 - from);
    json_object(j, "totals");
    report_counters(j, &both);
    json_end_object(j);
    report_loss(j, receiving, trial_frames_sent_to(trial, 1 - from));
    put_expectation(j, receiving);
    if (trial_times_load(trial))
        report_latency(j, LATENCY_ONE_WAY, receiving);
    if (sending->probe != NULL)
        report_probe(j, trial, sending->probe, receiving->probe);
    json_end_object(j);
}

/* The injected faults, which a receiver behind this port should find. */
static void put_faults(struct json *j, const struct fault_counts *f)
{
    json_object(j, "faults");
    json_unsigned(j, "dropped", f->did[FAULT_DROP]);
    json_unsigned(j, "duplicated", f->did[FAULT_DUPLICATE]);
    json_unsigned(j, "reordered", f->did[FAULT_REORDER]);
    json_unsigned(j, "corrupted", f->did[FAULT_CORRUPT]);
    json_unsigned(j, "limited", f->limited);
    json_unsigned(j, "overflowed", f->overflowed);
    json_unsigned(j, "too_long", f->too_long);
    json_unsigned(j, "waiting", f->waiting);
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
        if (trial->options->role->applies_faults)
            put_faults(j, &trial->ends[i].faults);
        json_end_object(j);
    }
    json_end_list(j);
}

/* Frames received after the end of the loop, without frames of an earlier trial. */
static void put_residual(struct json *j, const struct trial *trial, const struct counters *totals)
{
    const uint64_t loop = trial->outcome.loop_totals.rx_frames;

    json_object(j, "residual");
    json_unsigned(j, "frames", totals->rx_frames > loop ? totals->rx_frames - loop : 0);
    json_unsigned(j, "within_ns", trial->outcome.residual_ns);
    json_end_object(j);
}

void report_result(struct json *j, const struct trial *trial)
{
    const struct role *role = trial->options->role;
    static const uint64_t nothing_spent[2] = {0, 0};
    struct counters totals;

    trial_totals(trial, &totals);
    json_string(j, "reason", report_reason(trial->outcome.reason));
    json_bool(j, "partial", trial->outcome.partial);
    json_string(j, "fault", trial->outcome.fault[0] != '\0' ? trial->outcome.fault : NULL);
    json_unsigned(j, "duration_ns", trial->outcome.ended_ns - trial->outcome.started_ns);
    json_unsigned(j, "drain_ns", trial->outcome.drained_ns - trial->outcome.ended_ns);
    if (trial->options->role->drains) {
        json_bool(j, "drained", trial->outcome.drained);
        put_residual(j, trial, &totals);
    }
    put_config(j, trial);
    put_sizes(j, trial);
    json_object(j, "totals");
    report_counters(j, &totals);
    report_spent(j, nothing_spent, trial->intervals.last.spent_ticks);
    report_cpu(j, &trial->outcome.cpu_before, &trial->outcome.cpu_after);
    json_end_object(j);
    if (role->has_both_ends) {
        json_list(j, "directions");
        put_direction(j, trial, 0);
        if (trial->options->bidirectional)
            put_direction(j, trial, 1);
        json_end_list(j);
    } else if (trial->options->queues > 1 && role->tracks) {
        report_loss_of_queues(j, trial);
    } else if (trial_end_tracks(trial, 0)) {
        report_loss(j, &trial->ends[0], trial_frames_sent_to(trial, 0));
        put_expectation(j, &trial->ends[0]);
        if (trial_times_load(trial))
            report_latency(j, role->latency == LATENCY_NONE ? LATENCY_ONE_WAY : role->latency,
                           &trial->ends[0]);
    }
    if (!role->has_both_ends && trial->ends[0].probe != NULL)
        report_probe(j, trial, trial->ends[0].probe, trial->ends[0].probe);
    if (role->stands_between)
        put_forwarder_ports(j, trial);
    put_pacing(j, trial, &totals);
    report_cost(j, trial);
}
