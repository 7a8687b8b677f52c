/* The clock: ticks and CLOCK_MONOTONIC must tell the same time to 0.01 %. */
#include "test.h"

#include <time.h>

#include "measure/clock.h"
#include "measure/sender_clock.h"

static void intervals_agree_with_the_kernel(void **state)
{
    (void)state;
    const struct timespec rest = {0, 200000000};
    const uint64_t ns = clock_monotonic_ns(), ticks = clock_ticks();
    nanosleep(&rest, NULL);
    const uint64_t ticks_later = clock_ticks(), ns_later = clock_monotonic_ns();
    const double kernel = (double)(ns_later - ns);
    const double ours = (double)clock_ticks_to_ns(ticks_later - ticks);

    /* 20 us for being preempted between the two readings */
    assert_true(ours > kernel * 0.9999 - 20000 && ours < kernel * 1.0001 + 20000);
}

static void conversions_invert_each_other(void **state)
{
    (void)state;
    const uint64_t spans[] = {1000, 1000000, 1000000000, 3600 * NS_PER_S, 1000000 * NS_PER_S};
    for (unsigned i = 0; i < 5; i++) {
        const double back = (double)clock_ticks_to_ns(clock_ns_to_ticks(spans[i]));
        assert_true(back > (double)spans[i] * 0.999999 - 2 &&
                    back < (double)spans[i] * 1.000001 + 2);
    }
}

static void a_tick_can_be_named_ahead(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_monotonic_ns();
    const uint64_t tick = clock_ticks_at(now_ns + NS_PER_S);
    const uint64_t distance_ns = clock_ticks_to_ns(tick - clock_ticks());
    assert_true(distance_ns < NS_PER_S && distance_ns > NS_PER_S - 50000000);
    assert_true(clock_ticks_at(now_ns - NS_PER_S) < clock_ticks());
}

static void both_clocks_are_read_at_one_moment(void **state)
{
    (void)state;
    uint64_t ticks[2], ns[2];
    const struct timespec rest = {0, 20000000};
    clock_both(&ticks[0], &ns[0]);
    nanosleep(&rest, NULL);
    clock_both(&ticks[1], &ns[1]);
    const double kernel = (double)(ns[1] - ns[0]);
    const double ours = (double)clock_ticks_to_ns(ticks[1] - ticks[0]);
    assert_true(ours > kernel * 0.9999 - 20000 && ours < kernel * 1.0001 + 20000);
}

/* What a sender's clock is told to be agrees with what it is, to what two readings differ. */
static void a_clock_that_is_told_is_ours_again(void **state)
{
    (void)state;
    struct sender_clock_told told = {.hz = (uint64_t)engine_clock.hz};
    clock_both(&told.ticks, &told.at_ns);
    const struct sender_clock clock = sender_clock_begin(&told);
    const uint64_t now = clock_ticks();
    const int64_t since = sender_clock_since(&clock, now, now & 0xffffffffffffULL);
    assert_true(since > -60000 && since < 60000);
}

int main(void)
{
    clock_begin();
    clock_calibrate();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_agree_with_the_kernel),
        cmocka_unit_test(conversions_invert_each_other),
        cmocka_unit_test(a_tick_can_be_named_ahead),
        cmocka_unit_test(both_clocks_are_read_at_one_moment),
        cmocka_unit_test(a_clock_that_is_told_is_ours_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
