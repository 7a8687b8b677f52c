/* The schedule: no drift, no division by zero, rates beyond 32 bits, exact giving up. */
#include "test.h"

#include "traffic/pacing.h"

static struct pacing p;

static uint64_t frames_until(uint64_t end)
{
    uint64_t frames = 0;
    while (pacing_due(&p) < end && !pacing_ended(&p, 0)) {
        pacing_advance(&p);
        frames += p.burst;
    }
    return frames;
}

/* A trial has the bursts that are due before its end. The burst that is due exactly at the end does
 * not belong to it, even for rates and clocks with which a rounding error would decide. */
static void pacing_counts_are_exact(void **state)
{
    (void)state;
    const uint64_t rates[] = {1, 3, 7, 1000, 999983, 100000, 3000000, 7000000, 10000000};
    const uint64_t clocks[] = {1000000000, 2600000000, 2999998000, 3000000000, 2599998140};
    const uint32_t bursts[] = {1, 4, 32};
    for (unsigned i = 0; i < 9 * 5 * 3; i++) {
        const uint64_t rate = rates[i % 9], hz = clocks[i / 9 % 5];
        const uint32_t burst = bursts[i / 45];
        pacing_begin(&p, (double)rate, burst, (double)hz, 12345, UINT64_MAX, 0);
        const uint64_t due = (3 * rate + burst - 1) / burst;
        assert_int_equal(frames_until(12345 + 3 * hz), due * burst);
    }
}

static void pacing_rates_beyond_32_bits_and_clock(void **state)
{
    (void)state;
    pacing_begin(&p, 5000000000ULL, 1, 1e9, 0, UINT64_MAX, 0);
    assert_in_range(frames_until(1000000), 5000000, 5000005);
    pacing_begin(&p, 10000000000ULL, 1, 1e9, 0, UINT64_MAX, 0);
    assert_in_range(frames_until(100000), 1000000, 1000010);
}

static void slow_schedules_do_not_overflow(void **state)
{
    (void)state;
    pacing_begin(&p, 1, 65536, 5e9, 1ULL << 62, UINT64_MAX, 0);
    pacing_advance(&p);
    assert_int_equal(pacing_due(&p) - (1ULL << 62), 65536 * 5000000000ULL);
}

static void pacing_unlimited_is_due_until_end(void **state)
{
    (void)state;
    pacing_begin(&p, 0, 32, 1e9, 100, 200, 0);
    assert_true(p.unlimited);
    assert_false(pacing_ended(&p, 199));
    assert_true(pacing_ended(&p, 200));
    assert_int_equal(pacing_give_up_before(&p, 150), 0);
}

static void pacing_give_up_equals_counting(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (unsigned i = 0; i < 2000; i++) {
        const uint64_t rate = 1 + test_random(&random) % 20000000;
        const uint32_t burst = 1 + (uint32_t)(test_random(&random) % 64);
        const uint64_t limit = 1000 + test_random(&random) % 3000000;
        struct pacing counted;
        pacing_begin(&p, rate, burst, 2.6e9, 1000, 2000000, 0);
        counted = p;
        const uint64_t given_up = pacing_give_up_before(&p, limit);
        uint64_t frames = 0;
        while (pacing_due(&counted) < limit && pacing_due(&counted) < counted.end) {
            pacing_advance(&counted);
            frames += burst;
        }
        assert_int_equal(given_up, frames);
        assert_true(p.next == counted.next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pacing_counts_are_exact),
        cmocka_unit_test(pacing_rates_beyond_32_bits_and_clock),
        cmocka_unit_test(slow_schedules_do_not_overflow),
        cmocka_unit_test(pacing_unlimited_is_due_until_end),
        cmocka_unit_test(pacing_give_up_equals_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
