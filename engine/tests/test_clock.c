/* The clock: ticks and CLOCK_MONOTONIC must tell the same time to 0.01 %. */
#include "test.h"

#include <time.h>

#include "measure/clock.h"

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

int main(void)
{
    clock_begin();
    clock_calibrate();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_agree_with_the_kernel),
        cmocka_unit_test(conversions_invert_each_other),
        cmocka_unit_test(a_tick_can_be_named_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
