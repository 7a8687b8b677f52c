/* If a sender shares its core, it gives way even when its ring is never full, so that the receiver
 * on that core can run. */
#include "test.h"

#include "fake_io.h"
#include "trial/loop.h"

#define TURNS 8U

static struct options options;
static struct trial *trial;
static unsigned turns, longest;
static uint64_t offered_before;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (trial == NULL) /* a linked sanitizer also calls it at the end */
        return 0;

    const uint64_t offered = trial->ends[0].counters.tx_offered;

    if (offered - offered_before > longest)
        longest = (unsigned)(offered - offered_before);
    offered_before = offered;
    if (++turns == TURNS)
        atomic_store(&trial->request.stop, REASON_STOP);
    return 0;
}

/* A sender on a port that accepts everything; `rate_pps` 0: unlimited. */
static struct fake_port *begin(double rate_pps, uint64_t start)
{
    static struct histogram lateness;
    struct fake_port *port = fake_open(false);

    turns = longest = 0;
    offered_before = 0;
    options = (struct options){.role = &role_sender, .idle = IDLE_YIELD};
    trial = calloc(1, sizeof *trial);
    assert_non_null(trial);
    trial->options = &options;
    trial->threads.idle = IDLE_YIELD;
    trial->ends = aligned_alloc(64, sizeof(struct end));
    assert_non_null(trial->ends);
    memset(trial->ends, 0, sizeof(struct end));
    trial->end_count = 1;
    trial->threads.count = 1;
    trial->clock.next_interval = trial->clock.end_tick = trial->clock.next_event = UINT64_MAX;

    struct end *end = &trial->ends[0];
    const struct frame_address address = {.src_ip = 1, .dst_ip = 2, .src_udp = 3, .dst_udp = 4};
    end->port = end->sending.tx.port = &port->base;
    end->sending.tx.counters = &end->counters;
    end->sending.tx.lateness = &lateness;
    pacing_begin(&end->sending.tx.pacing, rate_pps, 32, engine_clock.hz, start, UINT64_MAX,
                 UINT64_MAX / 2);
    frame_template_build(&end->sending.tx.template, &address, 64, 0, FRAME_DATA, 1, false);
    return port;
}

static void finish(struct fake_port *port)
{
    fake_close(port);
    free(trial->ends);
    free(trial);
    trial = NULL;
}

static void sender_gives_way_if_ring_is_never_full(void **state)
{
    (void)state;
    struct fake_port *port = begin(0, clock_ticks());
    const struct end *end = &trial->ends[0];

    role_sender.run(trial, 0);
    assert_int_equal(turns, TURNS);
    assert_in_range(longest, 32, 256); /* at most a usual ring */
    assert_int_equal(end->counters.tx_offered, offered_before);
    finish(port);
}

/* Late frames at the end are also sent in turns: sent at once they would find a full ring. At so
 * low a rate almost no further frame becomes due while this thread waits for the machine. */
static void sender_gives_way_while_sending_rest(void **state)
{
    (void)state;
    const uint64_t behind = 1000, rate_pps = 500;
    const uint64_t now = clock_ticks();
    struct fake_port *port =
        begin((double)rate_pps, now - clock_ns_to_ticks(behind * NS_PER_S / rate_pps));
    const struct end *end = &trial->ends[0];

    atomic_store(&trial->request.stop, REASON_STOP); /* before its first round */
    role_sender.run(trial, 0);
    assert_true(end->counters.tx_offered >= behind);
    assert_true(turns >= behind / 256);
    assert_in_range(longest, 32, 256);
    finish(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_gives_way_if_ring_is_never_full),
        cmocka_unit_test(sender_gives_way_while_sending_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
