/* The life of a trial: begin, loop of the role, drain, end. */
#include "trial/trial.h"

#include <stdio.h>
#include <time.h>

#include "ends/denied.h"
#include "ends/end.h"
#include "ends/ends.h"
#include "ends/probes.h"
#include "report/events.h"
#include "threads/idle.h"
#include "threads/workers.h"
#include "trial/drain.h"
#include "trial/loop.h"
#include "trial/snapshot.h"

#define LEAD_NS (200ULL * 1000)

static void begin_end(struct trial *trial, unsigned index)
{
    struct end *end = &trial->ends[index];
    const struct options *o = trial->options;
    const uint64_t stream = o->queues > 1 ? o->stream + index : o->stream;

    end->sending.tx.shares_port = end->probe != NULL || end->denied != NULL;
    end->sending.tx.replay = trial->replay.count > 0 ? &trial->replay : NULL;
    end->sending.tx.frames_end = trial_frames_to_send(trial);
    end->sending.tx.counts =
        end->sending.tx.replay != NULL || end->sending.tx.frames_end != UINT64_MAX;
    end_begin_sending(trial, end, index, (uint16_t)stream);
    if (trial_end_tracks(trial, index)) {
        end_begin_receiving(trial, end, trial_times_load(trial));
        queues_begin(end);
    }
}

/* Frames from before the trial that wait in the port are received and counted, but not as frames of
 * the trial. */
static void empty_ports(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct io_port *port = trial->ends[i].port;
        for (unsigned polls = 0; polls < 64 && end_receive(trial, &trial->ends[i]) > 0; polls++)
            continue;
        if (i > 0 && trial->threads.count > 1 && port->ops->thread_leave != NULL)
            port->ops->thread_leave(port);
    }
}

/* Workers share the rate. */
static struct schedule_plan plan_of_worker(const struct trial *trial)
{
    struct schedule_plan plan = trial->plan;

    if (trial->options->queues > 1) {
        plan.rate_pps /= (double)trial->options->queues;
        plan.from_pps /= (double)trial->options->queues;
    }
    return plan;
}

/* Set the times of the trial. It begins when everything is prepared, at `at` or shortly after now,
 * so that the time for printing `started` is not part of it. */
static void set_times(struct trial *trial)
{
    const uint64_t soon_ns = clock_monotonic_ns() + LEAD_NS;

    trial->outcome.started_ns = trial->traffic.at_ns > soon_ns ? trial->traffic.at_ns : soon_ns;
    trial->clock.start_tick = clock_ticks_at(trial->outcome.started_ns);
    trial->clock.end_tick =
        trial->traffic.duration_ns == 0
            ? UINT64_MAX
            : trial->clock.start_tick + clock_ns_to_ticks(trial->traffic.duration_ns);
    trial->clock.interval_ticks = clock_ns_to_ticks(trial->traffic.interval_ns);
    trial->clock.next_interval = trial->clock.start_tick + trial->clock.interval_ticks;
    trial_set_next_event(trial);
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct end *end = &trial->ends[i];
        const bool recorded = trial->plan.shape == SCHEDULE_RECORDED;
        const struct schedule_plan plan = plan_of_worker(trial);
        end_set_times(trial, end, &plan, recorded ? 1 : (uint32_t)trial->traffic.burst,
                      trial_seed_index(trial, i));
        if (trial->options->queues > 1 &&
            plan.shape == SCHEDULE_CONSTANT) /* the queues send in turn */
            end->sending.tx.pacing.next += end->sending.tx.pacing.step / trial->options->queues * i;
        if (end->sending.tx.counts)
            transmit_limit_burst(&end->sending.tx);
        queues_start(end, trial->clock.start_tick);
    }
    probes_set_times(trial);
    denied_set_times(trial);
}

static void wait_for_start(struct trial *trial)
{
    while (atomic_load(&trial->request.stop) == 0) {
        const uint64_t now_ns = clock_monotonic_ns();
        if (now_ns >= trial->outcome.started_ns)
            return;
        const uint64_t left_ns = trial->outcome.started_ns - now_ns;
        if (left_ns > 200000) {
            const struct timespec nap = {0, left_ns > 10000000 ? 10000000L : (long)left_ns / 2};
            nanosleep(&nap, NULL);
        }
    }
}

/* Blocking ports wait in the kernel, regardless of --idle. */
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
    clock_calibrate();
    trial->threads.idle = choose_idle(trial);
    trial->epoch = (trial->epoch + 1) & 15;
    trial->draining = false;
    trial->outcome.drained = false;
    trial->outcome.residual_ns = 0;
    trial->intervals.next_index = 0;
    trial->outcome.reason = REASON_NONE;
    trial->plan = schedule_plan(&trial->traffic.schedule, &trial->traffic.rate,
                                trial->traffic.line_bps, trial_mean_frame_bytes(trial));
    trial->plan.replay = &trial->replay;
    trial->plan.frames = trial_frames_to_send(trial);
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
    denied_begin(trial);
    trial->outcome.run_delay_before_ns = cpu_run_delay_ns(NULL, 0);
    trial->outcome.stolen_before =
        cpu_stolen_read(trial->options->cores, trial->options->core_count);
    cpu_times_read(&trial->outcome.cpu_before);
    set_times(trial);
    port_faults_begin(trial);
    event_started(trial);
    if (!trial->options->role->receives_early)
        wait_for_start(trial);
}

bool trial_run(struct trial *trial, char *error, size_t error_size)
{
    struct workers workers;

    if (trial->options->hardware_counters)
        hardware_open(&trial->outcome.hardware);
    if (trial->tcp != NULL && !trial->options->role->prepare(trial, error, error_size))
        return false;
    if (!probes_make(trial, error, error_size) || !denied_make(trial, error, error_size) ||
        !workers_start(&workers, trial, error, error_size))
        return false;
    begin(trial);
    if (trial->options->hardware_counters)
        hardware_start(&trial->outcome.hardware);
    workers_go(trial);
    idle_begin(trial, 0);
    trial->options->role->run(trial, 0);
    trial->outcome.ended_ns = trial_now_ns(trial);
    workers_stop(trial);
    workers_join(&workers);
    if (!ends_flush(trial, error, error_size))
        atomic_store(&trial->request.stop, REASON_FAILURE);
    trial->outcome.reason = (enum reason)atomic_load(&trial->request.stop);
    if (trial->outcome.reason == REASON_NONE)
        trial->outcome.reason = REASON_DURATION;
    if (trial->options->hardware_counters)
        hardware_finish(&trial->outcome.hardware);
    trial_totals(trial, &trial->outcome.loop_totals);
    if (trial->options->role->drains && trial->outcome.reason != REASON_FAILURE) {
        trial->draining = true;
        trial_set_next_event(trial);
        if (trial->tcp != NULL)
            trial->options->role->settle(trial);
        else
            drain(trial);
    }
    idle_end(trial, 0);
    snapshot_fill(trial, &trial->intervals.last); /* all values of the end are from one moment */
    trial->outcome.sent = atomic_load(&trial->request.sent);
    trial->outcome.drained_ns = trial->intervals.last.t_ns;
    trial->outcome.cpu_after = trial->intervals.last.cpu;
    trial->outcome.run_delay_after_ns = workers_run_delay_ns(&workers);
    trial->outcome.stolen_after =
        cpu_stolen_read(trial->options->cores, trial->options->core_count);
    for (unsigned i = 0; i < trial->end_count; i++) {
        receive_end(&trial->ends[i].receiving.rx);
        queues_end(&trial->ends[i]);
        trial->ends[i].port->trial = 0;
    }
    probes_end(trial);
    port_faults_judge(trial);
    return ends_flush(trial, error, error_size);
}
