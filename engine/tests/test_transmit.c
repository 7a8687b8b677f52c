/* Sending into ports that are full, accept parts or have no buffers. Earlier tools crashed on an
 * empty pool and sent the first frames of a burst twice after a partial send. */
#include "test.h"

#include <unistd.h>

#include "fake_io.h"
#include "measure/sequence.h"
#include "report/json.h"
#include "report/report.h"
#include "traffic/transmit.h"

static struct transmitter tx;
static struct counters counters;
static struct histogram lateness;
static struct fake_port *port;
static const struct frame_address address = {.src_ip = 1, .dst_ip = 2};

static int begin(uint64_t rate, uint32_t burst, uint64_t end, uint64_t bound)
{
    port = fake_open(false);
    memset(&counters, 0, sizeof counters);
    memset(&tx, 0, sizeof tx);
    tx.port = &port->base;
    tx.counters = &counters;
    tx.lateness = &lateness;
    frame_template_build(&tx.template, &address, 64, 1, FRAME_DATA, 0, false);
    transmit_begin(&tx);
    pacing_begin(&tx.pacing, rate, burst, 1e9, 0, end, bound);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    fake_close(port);
    return 0;
}

static void check_sequences(unsigned count)
{
    assert_int_equal(port->sent_count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(__builtin_bswap32(load32(port->sent[i] + 46)), i);
}

static void partial_sends_keep_order_and_numbers(void **state)
{
    (void)state;
    begin(0, 32, UINT64_MAX, 0);
    port->accepts = 5;
    for (uint64_t now = 0; now < 100; now++)
        transmit_step(&tx, now);
    check_sequences((unsigned)counters.tx_offered);
    assert_int_equal(counters.tx_intended, counters.tx_offered);
    assert_int_equal(counters.tx_bytes, counters.tx_offered * 64);
    assert_int_equal(counters.tx_dropped, 0);
    assert_true(counters.ring_full_polls > 80);
    assert_int_equal(counters.tx_polls, 100);
}

static void empty_pool_is_like_full_ring(void **state)
{
    (void)state;
    begin(0, 32, UINT64_MAX, 0);
    port->pool = 0;
    for (uint64_t now = 0; now < 10; now++)
        assert_int_equal(transmit_step(&tx, now), 0);
    port->pool = 3;
    assert_int_equal(transmit_step(&tx, 11), 3);
    check_sequences(3);
    assert_int_equal(counters.ring_full_polls, 11);
}

static void unsent_frames_are_stamped_again(void **state)
{
    (void)state;
    begin(1000000, 4, UINT64_MAX, 1000000);
    port->refusals = 1;
    assert_int_equal(transmit_step(&tx, 10), 0);
    assert_int_equal(transmit_step(&tx, 700), 4);
    check_sequences(4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(__builtin_bswap64(load64(port->sent[i] + 50)) >> 16, 0);
        assert_int_equal(__builtin_bswap32(load32(port->sent[i] + 56)), 700);
    }
}

static void catch_up_is_bounded(void **state)
{
    (void)state;
    begin(1000000, 1, 10000000, 50000); /* one frame per 1000 ticks */
    assert_int_equal(transmit_step(&tx, 0), 1);
    uint64_t now = 5000500; /* a stall of 5 ms: the bound permits to catch up with 50 us of it */
    unsigned sent = 0;
    while (transmit_step(&tx, now) == 1)
        sent++;
    assert_in_range(sent, 49, 50);
    assert_int_equal(counters.tx_intended, 5001);
    assert_int_equal(counters.tx_dropped, 5000 - sent);
    assert_int_equal(counters.tx_offered + counters.tx_dropped, counters.tx_intended);
    assert_int_equal(tx.skipped, counters.tx_dropped);
    assert_int_equal(counters.tx_late, counters.tx_dropped); /* the port was not full */
    check_sequences(sent + 1); /* frames that were given up used no numbers */
}

/* If the rate is too high, a sender is always too late, and must not spend its rounds only on
 * giving up. */
static void overloaded_sender_sends_in_every_round(void **state)
{
    (void)state;
    begin(1000000000, 1, UINT64_MAX, 1000); /* one frame per tick, one round per 100 ticks */
    for (uint64_t now = 0; now < 200000; now += 100)
        assert_int_equal(transmit_step(&tx, now), 1);
    assert_in_range(counters.tx_intended, 200000 - 1100, 200000);
    assert_int_equal(counters.tx_offered + counters.tx_dropped, counters.tx_intended);
    assert_int_equal(counters.tx_late, counters.tx_dropped);
}

static void full_ring_gives_up_in_time(void **state)
{
    (void)state;
    begin(1000000, 10, UINT64_MAX, 20000);
    port->accepts = 0;
    for (uint64_t now = 0; now < 100000; now += 100)
        transmit_step(&tx, now);
    port->accepts = UINT32_MAX;
    for (uint64_t now = 100000; now < 200000; now += 100)
        transmit_step(&tx, now);
    assert_int_equal(counters.tx_intended, 200);
    assert_int_equal(counters.tx_offered + counters.tx_dropped, 200);
    assert_in_range(counters.tx_dropped, 70, 90);
    assert_int_equal(counters.tx_late, 0);
    const uint64_t refused = counters.tx_dropped;
    transmit_step(&tx, 1000000); /* away for longer than the bound */
    assert_true(counters.tx_late > 0);
    assert_int_equal(counters.tx_late, counters.tx_dropped - refused);
    check_sequences((unsigned)counters.tx_offered);
}

static void end_accounts_for_all_frames(void **state)
{
    (void)state;
    begin(1000000, 8, 1000000, 0);
    port->accepts = 3;
    transmit_step(&tx, 0);
    transmit_end(&tx, 2000000);
    assert_int_equal(counters.tx_intended, 1000);
    assert_int_equal(counters.tx_offered + counters.tx_dropped, 1000);
}

/* The sender has no core while it sends late frames at the end, for longer than it would poll a
 * full port, but for less than the bound. */
static void rest_is_sent_within_bound(void **state)
{
    (void)state;
    const uint64_t now = clock_ticks(), hour = 3600 * NS_PER_S; /* a tick is a nanosecond here */
    begin(0, 8, now, hour);
    pacing_begin(&tx.pacing, 400, 8, 1e9, now - NS_PER_S, now, hour);
    port->pause_ns = 5 * 1000 * 1000;
    transmit_end(&tx, now);
    assert_int_equal(counters.tx_intended, 400);
    check_sequences(400);
}

/* One frame per 1000 ticks of 1 ns; the loop checks every 50 ticks, but was away from 20,050 to
 * 25,120. */
static void lateness_of_absence_is_separate(void **state)
{
    (void)state;
    static struct histogram away;
    begin(1000000, 1, UINT64_MAX, 1000000);
    tx.lateness_away = &away;
    transmit_begin(&tx);
    for (uint64_t now = 0, next; now < 60000; now = next) {
        const bool sent = transmit_step(&tx, now) > 0;
        next = now == 20050 ? 25120 : now + 50;
        if (!sent)
            transmit_idle_round(&tx, now, next);
    }
    assert_int_equal(tx.away_ticks, 5070);
    assert_int_equal(tx.lateness->count, 60);
    assert_int_equal(away.count, 5); /* 21,000 to 25,000 */
    assert_int_equal(away.max, 4120);
    histogram_subtract(tx.lateness, &away);
    assert_true(tx.lateness->max <= 50);
    transmit_idle_round(&tx, 60000, 9000000); /* longer than the bound */
    assert_int_equal(transmit_step(&tx, 9000000), 1);
    assert_true(tx.skipped > 0);
    transmit_idle_round(&tx, 9000000, 9000050);
    assert_true(tx.away); /* the remaining frames are late for the same reason */
    tx.lateness_away = NULL;
}

#define NEAR (UINT32_MAX - 9ULL) /* ten frames before 2^32 */
#define COUNTER_IS_WIDE(name) _Static_assert(sizeof counters.name == 8, #name " has 64 bits");
#define COUNTER_NEAR(name) counters.name = NEAR;
#define COUNTER_RISES(name) assert_true(counters.name >= before.name && counters.name >= NEAR);

/* A trial of hours: counts go on beyond 2^32, and so do numbers for receivers that follow them. */
static void counts_and_numbers_beyond_32_bits(void **state)
{
    (void)state;
    static struct sequence_tracker tracker;
    COUNTERS(COUNTER_IS_WIDE)
    begin(0, 32, UINT64_MAX, 0);
    port->accepts = 5;
    tx.sequence = NEAR;
    COUNTERS(COUNTER_NEAR)
    for (uint64_t now = 0; now < 20; now++) {
        const struct counters before = counters;
        transmit_step(&tx, now);
        COUNTERS(COUNTER_RISES)
    }
    assert_true(port->sent_count > 20);
    assert_int_equal(counters.tx_offered, NEAR + port->sent_count);
    assert_true(counters.tx_offered > UINT32_MAX);
    assert_int_equal(tx.sequence, counters.tx_offered);
    sequence_reset(&tracker);
    for (unsigned i = 0; i < port->sent_count; i++)
        sequence_add(&tracker, __builtin_bswap32(load32(port->sent[i] + 46)), i);
    const struct sequence_summary s = sequence_summarise(&tracker);
    assert_int_equal(s.first_sequence, NEAR);
    assert_int_equal(s.last_sequence, tx.sequence - 1);
    assert_int_equal(s.lost + s.duplicates + s.reordered, 0);
}

/* Reports have as many digits. */
static void counts_beyond_32_bits_are_reported(void **state)
{
    (void)state;
    struct json j = {0};
    struct counters sum = {.tx_offered = NEAR}, one = {.tx_offered = 100};
    char text[2048] = "";
    int pipes[2];

    counters_sum(&sum, &one);
    assert_int_equal(pipe(pipes), 0);
    json_begin(&j);
    report_counters(&j, &sum);
    assert_true(json_write(&j, pipes[1]));
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "\"tx_offered\":4294967386,"));
    close(pipes[0]);
    close(pipes[1]);
    json_free(&j);
}

static void large_bursts_use_several_calls(void **state)
{
    (void)state;
    begin(1000, 1000, UINT64_MAX, 1000000000);
    unsigned calls = 0;
    while (transmit_step(&tx, 5) > 0)
        calls++;
    assert_int_equal(calls, 4);
    check_sequences(1000);
}

static void prepared_and_copied_frames_are_the_same(void **state)
{
    (void)state;
    begin(0, 16, UINT64_MAX, 0);
    transmit_step(&tx, 77);
    struct fake_port *copied = port;
    begin(0, 16, UINT64_MAX, 0);
    port->persistent = true;
    transmit_begin(&tx);
    assert_true(tx.prepared);
    transmit_step(&tx, 77);
    for (unsigned i = 0; i < 16; i++)
        assert_memory_equal(port->sent[i], copied->sent[i], 60);
    fake_close(copied);
}

static void verification_ends_if_ring_is_full(void **state)
{
    (void)state;
    static struct frame_template frame;
    begin(0, 1, UINT64_MAX, 0);
    frame_template_build(&frame, &address, 64, 1, FRAME_VERIFICATION, 0, false);
    port->accepts = 3;
    assert_int_equal(transmit_now(&port->base, &frame, 0, 0, 10), 3);
    port->pool = 0;
    assert_int_equal(transmit_now(&port->base, &frame, 0, 3, 10), 0);
    check_sequences(3);
}

static void number_of_frames_is_exact_if_late(void **state)
{
    (void)state;
    begin(1000000, 32, UINT64_MAX, 40000);
    tx.counts = true;
    tx.frames_end = 70;
    for (uint64_t now = 0; now < 10000000 && !transmit_is_over(&tx); now += 50000) {
        port->accepts = now % 100000 == 0 ? 5 : 0;
        transmit_step(&tx, now);
    }
    assert_true(transmit_is_over(&tx));
    assert_true(tx.skipped > 0);
    assert_int_equal(counters.tx_dropped, 0); /* they were sent later */
    assert_int_equal(counters.tx_intended, 70);
    assert_int_equal(counters.tx_offered, 70);
    check_sequences(70);
}

/* A sender was away: its given number of frames leaves later, and no frame counts twice. */
static void given_number_slips_and_counts_once(void **state)
{
    (void)state;
    begin(1000000, 8, UINT64_MAX, 50000); /* one burst per 8000 ticks */
    tx.counts = true;
    tx.frames_end = 300;
    for (uint64_t now = 0; now < 10000000 && !transmit_is_over(&tx); now += 500) {
        if (now == 100000)
            now = 5000000;
        transmit_step(&tx, now);
    }
    assert_true(tx.skipped > 4000);
    assert_true(tx.stall > 4000000);
    transmit_end(&tx, 9000000);
    assert_int_equal(counters.tx_intended, 300);
    assert_int_equal(counters.tx_offered, 300);
    assert_int_equal(counters.tx_dropped, 0);
}

/* The trial ends first: the rest of the given number was not sent. */
static void given_number_counts_unsent_rest(void **state)
{
    (void)state;
    begin(1000000, 8, 1000000, 50000);
    tx.counts = true;
    tx.frames_end = 300;
    for (uint64_t now = 0; now < 100000; now += 500)
        transmit_step(&tx, now);
    const uint64_t sent = counters.tx_offered;
    assert_in_range(sent, 96, 112);
    port->accepts = 0;
    transmit_end(&tx, 2000000);
    assert_int_equal(counters.tx_offered, sent);
    assert_int_equal(counters.tx_intended, 300);
    assert_int_equal(counters.tx_dropped, 300 - sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(partial_sends_keep_order_and_numbers, finish),
        cmocka_unit_test_teardown(empty_pool_is_like_full_ring, finish),
        cmocka_unit_test_teardown(unsent_frames_are_stamped_again, finish),
        cmocka_unit_test_teardown(catch_up_is_bounded, finish),
        cmocka_unit_test_teardown(overloaded_sender_sends_in_every_round, finish),
        cmocka_unit_test_teardown(full_ring_gives_up_in_time, finish),
        cmocka_unit_test_teardown(end_accounts_for_all_frames, finish),
        cmocka_unit_test_teardown(rest_is_sent_within_bound, finish),
        cmocka_unit_test_teardown(lateness_of_absence_is_separate, finish),
        cmocka_unit_test_teardown(counts_and_numbers_beyond_32_bits, finish),
        cmocka_unit_test(counts_beyond_32_bits_are_reported),
        cmocka_unit_test_teardown(large_bursts_use_several_calls, finish),
        cmocka_unit_test_teardown(prepared_and_copied_frames_are_the_same, finish),
        cmocka_unit_test_teardown(verification_ends_if_ring_is_full, finish),
        cmocka_unit_test_teardown(number_of_frames_is_exact_if_late, finish),
        cmocka_unit_test_teardown(given_number_slips_and_counts_once, finish),
        cmocka_unit_test_teardown(given_number_counts_unsent_rest, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
