/* The life of a trial: begin, what the loop asks once in a while, drain, end. */
#include "trial.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "drain.h"
#include "ends.h"
#include "probes.h"
#include "report/events.h"
#include "snapshot.h"
#include "workers.h"

#define LEAD_NS (200ULL * 1000)
#define NAP_NS 50000U

bool trial_end_sends(const struct trial *trial, unsigned end)
{
    return trial->options->role->sends &&
           (end == 0 || trial->options->bidirectional || trial->options->queues > 1);
}

bool trial_has_probes(const struct trial *trial)
{
    return trial->traffic.probes || trial->traffic.probe_rate.amount > 0;
}

/* Beside probes the load is timed only where it was asked for by itself. */
bool trial_times_load(const struct trial *trial)
{
    const bool always = trial->options->role->latency != LATENCY_NONE;
    const bool echoes_probes = trial->options->role == &role_server && trial->traffic.probes;
    return (trial->traffic.latency && !echoes_probes) || (always && !trial_has_probes(trial));
}

/* A lone port tracks its own stream; of a tester's two, the one opposite a sending end. */
bool trial_end_tracks(const struct trial *trial, unsigned end)
{
    const bool sinks =
        trial->options->role == &role_server && (trial->traffic.probes || trial->traffic.latency);

    if (!trial->options->role->tracks && !sinks)
        return false;
    return trial->end_count == 1 || end == 1 || trial->options->bidirectional ||
           trial->options->queues > 1;
}

/* Beside probes a client's load may be answered or not. */
uint64_t trial_sent_to(const struct trial *trial, unsigned end)
{
    const struct role *role = trial->options->role;

    if (!role->hears_itself)
        return atomic_load(&trial->sent);
    if (role->latency == LATENCY_RTT && trial_has_probes(trial))
        return SENT_UNKNOWN;
    const struct end *from = &trial->ends[trial->end_count == 1 ? end : 1 - end];
    return from->counters.tx_offered - from->before.tx_offered;
}

const struct sender_clock *trial_sender_clock(const struct trial *trial)
{
    return trial->traffic.sender_clock.hz > 0 ? &trial->sender_clock : NULL;
}

static void set_next_event(struct trial *trial)
{
    trial->next_event = trial->next_interval;
    if (!trial->draining && trial->end_tick < trial->next_event)
        trial->next_event = trial->end_tick;
}

bool trial_event(struct trial *trial, uint64_t now)
{
    if (now >= trial->next_interval) {
        snapshot_take(trial);
        while (trial->next_interval <= now) /* a stall makes one long interval, not many */
            trial->next_interval += trial->interval_ticks;
    }
    set_next_event(trial);
    return trial->draining || now < trial->end_tick;
}

void trial_idle_slow(struct trial *trial, struct io_port *port, uint64_t now, uint64_t until)
{
    if (trial->idle == IDLE_YIELD) {
        sched_yield();
        return;
    }
    uint64_t rest_ns = NAP_NS;
    if (until != UINT64_MAX) {
        const uint64_t left_ns = until > now ? clock_ticks_to_ns(until - now) : NAP_NS;
        if (left_ns < 10000) { /* a timer could not be that exact: give way and look again */
            sched_yield();
            return;
        }
        rest_ns = left_ns < 1000000 ? left_ns : 1000000;
    }
    if (port != NULL && port->ops->rx_wait != NULL) {
        port->ops->rx_wait(port, until == UINT64_MAX ? 1000000 : rest_ns);
    } else {
        const struct timespec nap = {0, (long)rest_ns};
        nanosleep(&nap, NULL);
    }
}

void trial_check_port(struct trial *trial, const struct io_port *port)
{
    if (port->failure[0] != '\0')
        atomic_store(&trial->stop, REASON_FAILURE);
    else if (port->ended && !trial->options->role->sends)
        atomic_store(&trial->stop, REASON_REPLAYED);
}

void trial_check_sending(struct trial *trial, const struct end *end)
{
    trial_check_port(trial, end->port);
    if (transmit_is_over(&end->tx) && atomic_load(&trial->stop) == 0)
        atomic_store(&trial->stop, REASON_REPLAYED);
}

double trial_mean_frame_bytes(const struct trial *trial)
{
    return trial->replay.count > 0 ? replay_mean_frame_bytes(&trial->replay)
                                   : sizes_mean(&trial->traffic.sizes);
}

static void begin_end(struct trial *trial, unsigned index)
{
    struct end *end = &trial->ends[index];
    const struct options *o = trial->options;
    const unsigned kind = FRAME_DATA | (o->touch ? FRAME_TOUCHED : 0);
    const bool knows_mark = o->role->latency != LATENCY_NONE;
    const uint64_t stream = o->queues > 1 ? o->stream + index : o->stream;

    frame_template_build(&end->tx.template, &end->address, (uint32_t)trial->traffic.frame_size,
                         (uint16_t)stream, kind, trial->epoch, end->port->udp_payload_only);
    frame_template_fill(&end->tx.template, (enum payload_kind)o->payload);
    varied_begin(&end->tx.varied, &end->tx.template, &end->address, &trial->traffic.sizes,
                 &end->flows, &trial->zipf);
    end->before = end->counters;
    memset(end->spent_ticks, 0, sizeof end->spent_ticks);
    end->tx.shares_port = end->probe != NULL;
    end->tx.replay = trial->replay.count > 0 ? &trial->replay : NULL;
    end->tx.replay_end =
        trial->options->loops == 0 ? UINT64_MAX : trial->options->loops * trial->replay.count;
    if (trial_end_sends(trial, index))
        transmit_begin(&end->tx);
    if (trial_end_tracks(trial, index)) {
        end->rx.latency_wanted = trial_times_load(trial);
        end->rx.sender_clock = trial_sender_clock(trial);
        const uint32_t mark = load32(end->tx.template.bytes + end->tx.template.payload);
        receive_begin(&end->rx, knows_mark ? mark : 0, 0);
        lanes_begin(end);
    }
}

/* Frames of before the trial that wait in the port are counted, but not as the trial's. */
static void empty_ports(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        for (unsigned polls = 0; polls < 64 && end_receive(trial, &trial->ends[i]) > 0; polls++)
            continue;
    }
}

unsigned trial_seed_index(const struct trial *trial, unsigned end)
{
    return (unsigned)trial->options->stream * PORTS_MAX + end;
}

/* Several workers share the rate. */
static struct schedule_plan plan_of_worker(const struct trial *trial)
{
    struct schedule_plan plan = trial->plan;

    if (trial->options->queues > 1) {
        plan.rate_pps /= (double)trial->options->queues;
        plan.from_pps /= (double)trial->options->queues;
    }
    return plan;
}

/* Set the clock of the trial; it begins when everything is prepared, at `at` or shortly after
 * now, so that printing `started` is no part of it. */
static void set_times(struct trial *trial)
{
    const uint64_t soon_ns = clock_monotonic_ns() + LEAD_NS;

    trial->started_ns = trial->traffic.at_ns > soon_ns ? trial->traffic.at_ns : soon_ns;
    trial->start_tick = clock_ticks_at(trial->started_ns);
    trial->end_tick = trial->traffic.duration_ns == 0
                          ? UINT64_MAX
                          : trial->start_tick + clock_ns_to_ticks(trial->traffic.duration_ns);
    trial->interval_ticks = clock_ns_to_ticks(trial->traffic.interval_ns);
    trial->next_interval = trial->start_tick + trial->interval_ticks;
    set_next_event(trial);
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        const bool recorded = trial->plan.shape == SCHEDULE_RECORDED;
        const struct schedule_plan plan = plan_of_worker(trial);
        pacing_begin(&end->tx.pacing, plan.rate_pps, recorded ? 1 : (uint32_t)trial->traffic.burst,
                     engine_clock.hz, trial->start_tick, trial->end_tick,
                     clock_ns_to_ticks(trial->options->catch_up_ns));
        pacing_take_shape(&end->tx.pacing, &plan, engine_clock.hz, trial_seed_index(trial, i));
        if (trial->options->queues > 1 && plan.shape == SCHEDULE_CONSTANT) /* take turns */
            end->tx.pacing.next += end->tx.pacing.step / trial->options->queues * i;
        if (end->tx.replay != NULL)
            transmit_limit_burst(&end->tx);
        end->rx.lock_intended = trial->start_tick;
        lanes_start(end, trial->start_tick);
    }
    probes_set_times(trial);
}

static void wait_for_start(struct trial *trial)
{
    while (atomic_load(&trial->stop) == 0) {
        const uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= trial->started_ns)
            return;
        const uint64_t left_ns = trial->started_ns - now_ns;
        if (left_ns > 200000) {
            const struct timespec nap = {0, left_ns > 10000000 ? 10000000L : (long)left_ns / 2};
            nanosleep(&nap, NULL);
        }
    }
}

/* Blocking ports wait in the kernel whatever --idle says. */
static uint64_t choose_idle(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (trial->ends[i].port->blocking)
            return IDLE_SLEEP;
    }
    return trial->options->idle;
}

static void begin(struct trial *trial)
{
    trial->idle = choose_idle(trial);
    trial->epoch = (trial->epoch + 1) & 15;
    trial->draining = false;
    trial->drained = false;
    trial->snapshot_index = 0;
    trial->reason = REASON_NONE;
    trial->plan = schedule_plan(&trial->traffic.schedule, &trial->traffic.rate,
                                trial->traffic.line_bps, trial_mean_frame_bytes(trial));
    trial->plan.replay = &trial->replay;
    trial->plan.frames =
        trial->options->loops == 0 ? UINT64_MAX : trial->options->loops * trial->replay.count;
    replay_set_epoch(&trial->replay, trial->epoch);
    if (trial->traffic.sender_clock.hz > 0)
        trial->sender_clock = sender_clock_begin(&trial->traffic.sender_clock);
    empty_ports(trial);
    trial->number++;
    for (unsigned i = 0; i < trial->end_count; i++)
        trial->ends[i].port->trial = trial->number;
    trial_read_drops(trial);
    for (unsigned i = 0; i < trial->end_count; i++)
        begin_end(trial, i);
    probes_begin(trial);
    trial->run_delay_before_ns = cpu_run_delay_ns();
    trial->stolen_before = cpu_stolen_read(trial->options->cores, trial->options->core_count);
    cpu_times_read(&trial->cpu_before);
    set_times(trial);
    outage_begin(trial);
    event_started(trial);
    if (!trial->options->role->listens_first)
        wait_for_start(trial);
}

bool trial_run(struct trial *trial, char *error, size_t error_size)
{
    struct workers workers;

    if (trial->options->hardware_counters)
        hardware_open(&trial->hardware);
    if (!probes_make(trial, error, error_size) ||
        !workers_start(&workers, trial, error, error_size))
        return false;
    begin(trial);
    if (trial->options->hardware_counters)
        hardware_start(&trial->hardware);
    workers_go(trial);
    trial->options->role->run(trial, 0);
    trial->ended_ns = clock_monotonic_ns();
    workers_join(&workers);
    if (!ends_flush(trial, error, error_size))
        atomic_store(&trial->stop, REASON_FAILURE);
    trial->reason = (enum reason)atomic_load(&trial->stop);
    if (trial->reason == REASON_NONE)
        trial->reason = REASON_DURATION;
    if (trial->options->hardware_counters)
        hardware_finish(&trial->hardware);
    trial_totals(trial, &trial->loop_totals);
    if (trial->options->role->drains && trial->reason != REASON_FAILURE) {
        trial->draining = true;
        set_next_event(trial);
        drain(trial);
    }
    snapshot_fill(trial, &trial->last_snapshot); /* whatever is told of the end is of one moment */
    trial->drained_ns = trial->last_snapshot.t_ns;
    trial->cpu_after = trial->last_snapshot.cpu;
    trial->run_delay_after_ns = cpu_run_delay_ns();
    trial->stolen_after = cpu_stolen_read(trial->options->cores, trial->options->core_count);
    for (unsigned i = 0; i < trial->end_count; i++) {
        receive_end(&trial->ends[i].rx);
        lanes_end(&trial->ends[i]);
        trial->ends[i].port->trial = 0;
    }
    probes_end(trial);
    outage_judge(trial);
    return ends_flush(trial, error, error_size);
}
