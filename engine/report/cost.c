/* The cost of a trial: CPU time, cycles, turns on shared cores, hardware events. */
#include <sched.h>
#include <sys/resource.h>

#include "report/report.h"

/* If a thread of a library ended during the trial, its waiting time is no longer part of the sum.
 */
static uint64_t run_delay_ns(const struct trial *trial)
{
    const uint64_t before = trial->outcome.run_delay_before_ns,
                   after = trial->outcome.run_delay_after_ns;
    return after > before ? after - before : 0;
}

/* The numbers of Linux; C libraries do not define all of these names. */
static const char *const policies[] = {"other", "fifo", "rr",       "batch",
                                       NULL,    "idle", "deadline", "ext"};

static void put_scheduling(struct json *j)
{
    struct sched_param parameters = {0};
    const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    const bool known = policy >= 0 && policy < (int)(sizeof policies / sizeof policies[0]);

    sched_getparam(0, &parameters);
    json_object(j, "scheduling");
    json_string(j, "policy", known ? policies[policy] : NULL);
    json_signed(j, "priority", parameters.sched_priority);
    json_signed(j, "nice", getpriority(PRIO_PROCESS, 0));
    json_end_object(j);
}

void report_cpu_use(struct json *j, const struct trial *trial)
{
    const struct cpu_times *from = &trial->outcome.cpu_before, *to = &trial->outcome.cpu_after;
    const uint64_t user_ns = to->user_ns - from->user_ns;
    const uint64_t system_ns = to->system_ns - from->system_ns;

    json_object(j, "cpu");
    json_unsigned(j, "wall_ns", trial->outcome.drained_ns - trial->outcome.started_ns);
    json_unsigned(j, "cpu_ns", user_ns + system_ns);
    json_unsigned(j, "user_ns", user_ns);
    json_unsigned(j, "system_ns", system_ns);
    json_unsigned(j, "voluntary_switches", to->voluntary_switches - from->voluntary_switches);
    json_unsigned(j, "involuntary_switches", to->involuntary_switches - from->involuntary_switches);
    json_unsigned(j, "run_delay_ns", run_delay_ns(trial));
    json_unsigned(j, "stolen_ns",
                  trial->outcome.stolen_after.all_ns - trial->outcome.stolen_before.all_ns);
    if (trial->options->core_count > 0)
        json_unsigned(j, "stolen_own_cores_ns",
                      trial->outcome.stolen_after.cores_ns - trial->outcome.stolen_before.cores_ns);
    else
        json_null(j, "stolen_own_cores_ns");
    put_scheduling(j);
    json_end_object(j);
}

/* Frames that passed through the loop: received frames, or sent frames, or both. */
static uint64_t frames_moved(const struct role *role, const struct counters *c)
{
    const uint64_t received =
        role->stands_between ? c->rx_frames
                             : c->rx_frames + c->rx_foreign + c->rx_other + c->rx_verification +
                                   c->rx_corrupt + c->rx_stale + c->rx_beyond_window + c->rx_early;
    return received + (role->sends ? c->tx_offered : 0);
}

static void put_cycles(struct json *j, const struct trial *trial)
{
    const struct snapshot *last = &trial->intervals.last;
    const uint64_t useful = last->spent_ticks[1], all = useful + last->spent_ticks[0];
    const uint64_t frames = frames_moved(trial->options->role, &trial->outcome.loop_totals);

    json_object(j, "cycles");
    json_unsigned(j, "useful_ticks", useful);
    json_unsigned(j, "idle_ticks", last->spent_ticks[0]);
    json_number(j, "useful_share", share(useful, all));
    json_unsigned(j, "frames", frames);
    if (frames > 0)
        json_number(j, "ticks_per_frame", share(useful, frames));
    else
        json_null(j, "ticks_per_frame");
    json_end_object(j);
}

/* The sum over all workers that take turns on their cores. */
static void put_tokens(struct json *j, const struct trial *trial)
{
    struct core_token_counts sum = {0};

    if (trial->threads.idle != IDLE_TOKEN)
        return;
    for (unsigned i = 0; i < trial->threads.count; i++) {
        const struct core_token_counts *worker = &trial->threads.passed[i];
        sum.passes += worker->passes;
        sum.by_yield += worker->by_yield;
        sum.silent += worker->silent;
        sum.waited += worker->waited;
        sum.longest = worker->longest > sum.longest ? worker->longest : sum.longest;
    }
    json_object(j, "baton");
    json_unsigned(j, "passes", sum.passes);
    json_unsigned(j, "by_yield", sum.by_yield);
    json_unsigned(j, "waited_ns", clock_ticks_to_ns(sum.waited));
    json_unsigned(j, "longest_wait_ns", clock_ticks_to_ns(sum.longest));
    json_unsigned(j, "silent_holders", sum.silent);
    json_end_object(j);
}

void report_hardware(struct json *j, const struct trial *trial)
{
    const struct hardware *h = &trial->outcome.hardware;

    if (!trial->options->hardware_counters) {
        json_null(j, "hardware");
        return;
    }
    json_object(j, "hardware");
    json_bool(j, "with_kernel", h->with_kernel);
    json_number(j, "counted_share", h->counted_share);
    json_string(j, "reason", h->reason[0] != '\0' ? h->reason : NULL);
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++) {
        if (h->fds[i] >= 0)
            json_unsigned(j, hardware_names[i], h->counts[i]);
        else
            json_null(j, hardware_names[i]);
    }
    json_end_object(j);
}

void report_cost(struct json *j, const struct trial *trial)
{
    report_cpu_use(j, trial);
    put_cycles(j, trial);
    put_tokens(j, trial);
    report_hardware(j, trial);
}
