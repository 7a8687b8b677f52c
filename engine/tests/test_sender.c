/* The sender's manners: where it shares its core it gives way even when its port never fills,
 * or the receiver on that core would not be heard. */
#include "test.h"

#include "fake_io.h"
#include "trial.h"

#define TURNS 8U

static struct options options;
static struct trial *trial;
static unsigned turns, longest;
static uint64_t offered_before;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    const uint64_t offered = trial->ends[0].counters.tx_offered;

    if (offered - offered_before > longest)
        longest = (unsigned)(offered - offered_before);
    offered_before = offered;
    if (++turns == TURNS)
        atomic_store(&trial->stop, REASON_STOP);
    return 0;
}

static void test_gives_way_though_the_port_takes_everything(void **state)
{
    (void)state;
    static struct histogram lateness;
    struct fake_port *port = fake_open(false);

    options = (struct options){.role = &role_sender, .idle = IDLE_YIELD};
    trial = calloc(1, sizeof *trial);
    assert_non_null(trial);
    trial->options = &options;
    trial->idle = IDLE_YIELD;
    trial->ends = aligned_alloc(64, sizeof(struct end));
    assert_non_null(trial->ends);
    memset(trial->ends, 0, sizeof(struct end));
    trial->end_count = 1;
    trial->workers = 1;
    trial->next_interval = trial->end_tick = trial->next_event = UINT64_MAX;

    struct end *end = &trial->ends[0];
    const struct frame_address address = {.src_ip = 1, .dst_ip = 2, .src_udp = 3, .dst_udp = 4};
    end->port = end->tx.port = &port->base;
    end->tx.counters = &end->counters;
    end->tx.lateness = &lateness;
    pacing_begin(&end->tx.pacing, 0, 32, 1e9, clock_ticks(), UINT64_MAX, 0);
    frame_template_build(&end->tx.template, &address, 64, 0, FRAME_DATA, 1, false);

    role_sender.run(trial, 0);
    assert_int_equal(turns, TURNS);
    assert_in_range(longest, 32, 256); /* no more than a usual ring holds */
    assert_int_equal(end->counters.tx_offered, offered_before);
    fake_close(port);
    free(trial->ends);
    free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_way_though_the_port_takes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
