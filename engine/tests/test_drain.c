/* The end of a trial: the drain waits for late frames while some are missing, but not for ever. */
#include "test.h"

#include "ends/end.h"
#include "fake_io.h"
#include "threads/workers.h"
#include "trial/drain.h"
#include "trial/loop.h"

#define STREAM 7
#define FIRST 10 /* frames in the port when the trial ends */
#define LATE 5   /* frames that arrive afterwards */

static struct options options;
static struct trial *trial;
static struct fake_port *port;
static const struct frame_address address = {.src_mac = {2, 0, 0, 0, 0, 1},
                                             .dst_mac = {2, 0, 0, 0, 0, 2},
                                             .src_ip = 1,
                                             .dst_ip = 2,
                                             .src_udp = 3,
                                             .dst_udp = 4};

static void queue(uint32_t sequence)
{
    static struct frame_template t;
    frame_template_build(&t, &address, 64, STREAM, FRAME_DATA, 1, false);
    const struct frame_times times = frame_times_make(5, 6);
    frame_stamp(&t, t.bytes, sequence, &times);
    fake_queue(port, t.bytes, t.length);
}

/* A trial whose loop is over; its last frames arrive after `late_ms`. */
static void make_trial(const struct role *role, unsigned late_ms)
{
    options = (struct options){.role = role, .stream = STREAM, .idle = IDLE_YIELD};
    options.address = frame_address_swapped(&address);
    trial = calloc(1, sizeof *trial);
    trial->options = &options;
    trial->traffic.patience_ns = 150000000;
    trial->ends = aligned_alloc(64, sizeof(struct end));
    memset(trial->ends, 0, sizeof(struct end));
    trial->end_count = trial->threads.count = 1;
    trial->clock.next_event = UINT64_MAX;
    trial->threads.idle = IDLE_YIELD;
    atomic_store(&trial->request.sent, SENT_UNKNOWN);
    port = fake_open(false);
    trial->ends->port = &port->base;
    trial->ends->address = options.address;
    end_join(trial, trial->ends, 0, STREAM);
    receive_begin(&trial->ends->receiving.rx, 0, 0);
    for (uint32_t i = 0; i < FIRST + LATE; i++)
        queue(i);
    port->late_from = FIRST;
    port->late_until = clock_ticks() + clock_ns_to_ticks((uint64_t)late_ms * 1000000);
}

static uint64_t came(void)
{
    return trial->ends->receiving.tracker.unique;
}

static void end_trial(void)
{
    assert_int_equal(port->unreleased, 0);
    fake_close(port);
    free(trial->ends);
    free(trial);
}

static void drain_waits_for_missing_frames(void **state)
{
    (void)state;
    make_trial(&role_receiver, 100);
    atomic_store(&trial->request.sent, FIRST + LATE);
    const uint64_t begun = clock_ticks();
    drain(trial);
    assert_true(trial->outcome.drained);
    assert_int_equal(came(), FIRST + LATE);
    const uint64_t due_ns = clock_ticks_to_ns(port->late_until - begun);
    assert_in_range(trial->outcome.residual_ns, due_ns - 1000000, due_ns + 1000000);
    end_trial();
}

static void drain_waits_if_sent_is_unknown(void **state)
{
    (void)state;
    make_trial(&role_duplex, 100);
    drain(trial);
    assert_true(trial->outcome.drained);
    assert_int_equal(came(), FIRST + LATE);
    end_trial();
}

static void drain_of_client_uses_sent_frames(void **state)
{
    (void)state;
    make_trial(&role_client, 100);
    trial->ends->before.tx_offered = 3; /* sent in an earlier trial */
    trial->ends->counters.tx_offered = 3 + FIRST + LATE;
    atomic_store(&trial->request.sent, 0);
    drain(trial);
    assert_true(trial->outcome.drained);
    assert_int_equal(came(), FIRST + LATE);
    end_trial();
}

static void drain_ends_if_frames_are_lost(void **state)
{
    (void)state;
    make_trial(&role_receiver, 3600000);
    atomic_store(&trial->request.sent, FIRST + LATE);
    drain(trial);
    assert_true(trial->outcome.drained);
    assert_int_equal(came(), FIRST);
    end_trial();
}

static void drain_with_short_patience_ends_early(void **state)
{
    (void)state;
    make_trial(&role_receiver, 100);
    trial->traffic.patience_ns = 30000000;
    atomic_store(&trial->request.sent, FIRST + LATE);
    drain(trial);
    assert_true(trial->outcome.drained);
    assert_int_equal(came(), FIRST);
    end_trial();
}

static void drain_ends_if_frames_never_end(void **state)
{
    (void)state;
    make_trial(&role_receiver, 0);
    port->endless = true;
    atomic_store(&trial->request.sent, FIRST + LATE);
    drain(trial);
    assert_false(trial->outcome.drained);
    assert_int_equal(came(), FIRST + LATE);
    end_trial();
}

/* The port had no worker for 10 ms, and its ring was full: the missing frames after it are a loss
 * of the engine. */
static void loss_before_drain_is_attributed(void **state)
{
    (void)state;
    make_trial(&role_receiver, 30);
    for (uint32_t i = 0; i < LATE; i++) { /* the late frames have numbers higher by ten */
        free(port->rx[--port->rx_count]);
    }
    for (uint32_t i = 0; i < LATE; i++)
        queue(FIRST + 10 + i);
    trial->ends->receiving.absence = (struct absence){
        .ring = FIRST, .limit = clock_ns_to_ticks(20000), .limit_a_frame = clock_ns_to_ticks(1000)};
    trial->ends->receiving.last_poll_tick = clock_ticks() - clock_ns_to_ticks(10000000);
    drain(trial);
    assert_int_equal(came(), FIRST + LATE);
    assert_int_equal(trial->ends->counters.rx_missed_away, 10);
    end_trial();
}

/* A worker whose trial has ended continues to receive until it must leave. */
static void worker_receives_until_joined(void **state)
{
    (void)state;
    const struct timespec nap = {0, 1000000};
    struct workers workers;
    char error[100];

    make_trial(&role_receiver, 20);
    struct end *ends = aligned_alloc(64, 2 * sizeof(struct end));
    memset(ends, 0, 2 * sizeof(struct end));
    struct fake_port *other = fake_open(false);
    ends[1] = trial->ends[0];
    ends[1].receiving.rx.counters = &ends[1].counters;
    ends[1].receiving.rx.tracker = &ends[1].receiving.tracker;
    ends[1].receiving.rx.groups = NULL;
    ends[0].port = &other->base;
    free(trial->ends);
    trial->ends = ends;
    trial->end_count = trial->threads.count = 2;
    trial->clock.end_tick = 0;
    assert_true(workers_start(&workers, trial, error, sizeof error));
    workers_go(trial);
    for (unsigned i = 0;
         i < 10000 && __atomic_load_n(&ends[1].counters.rx_frames, __ATOMIC_RELAXED) < FIRST + LATE;
         i++)
        nanosleep(&nap, NULL);
    workers_stop(trial);
    workers_join(&workers);
    assert_int_equal(ends[1].counters.rx_frames, FIRST + LATE);
    assert_true(ends[1].receiving.last_poll_tick > 0);
    fake_close(other);
    trial->end_count = 1;
    end_trial();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_before_drain_is_attributed),
        cmocka_unit_test(worker_receives_until_joined),
        cmocka_unit_test(drain_waits_for_missing_frames),
        cmocka_unit_test(drain_waits_if_sent_is_unknown),
        cmocka_unit_test(drain_of_client_uses_sent_frames),
        cmocka_unit_test(drain_ends_if_frames_are_lost),
        cmocka_unit_test(drain_with_short_patience_ends_early),
        cmocka_unit_test(drain_ends_if_frames_never_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
