/* The histogram: no sample lost, errors below 0.1 %, edges clamped and counted. */
#include <math.h>

#include "test.h"

#include "measure/histogram.h"

static struct histogram h, other;

static int reset(void **state)
{
    (void)state;
    histogram_reset(&h);
    histogram_reset(&other);
    return 0;
}

static void error_is_below_a_thousandth(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (unsigned i = 0; i < 20000; i++) {
        const uint64_t value = 100 + (test_random(&random) % (HISTOGRAM_HIGHEST - 100) >> i % 30);
        histogram_reset(&h);
        histogram_record(&h, (int64_t)value);
        histogram_record(&h, HISTOGRAM_HIGHEST);
        const uint64_t read = histogram_percentile(&h, 50);
        const uint64_t error = read > value ? read - value : value - read;
        assert_true(error * 1000 < value || error == 0);
    }
}

static void reset_removes_all_values(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 20; i++)
            histogram_record(&h, (int64_t)(test_random(&random) >> (i * 3)));
        histogram_record_magnitude(&h, round % 2 ? 0 : 5000);
        histogram_reset(&h);
        assert_memory_equal(&h, &other, sizeof h); /* equal to a histogram that never had a value */
    }
}

static void slots_are_in_order_and_inside(void **state)
{
    (void)state;
    uint32_t last = 0;
    for (uint64_t value = 1; value <= HISTOGRAM_HIGHEST; value += 1 + value / 5000) {
        const uint32_t index = histogram_index(value);
        assert_true(index >= last && index < HISTOGRAM_COUNTS);
        last = index;
    }
    assert_true(histogram_index(HISTOGRAM_HIGHEST) < HISTOGRAM_COUNTS);
}

/* Both ends of every slot from 100 ns to 100 s: the reported value differs from the true value by
 * less than a thousandth, wherever it is in its slot. */
static void every_slot_is_narrow_enough(void **state)
{
    (void)state;
    uint64_t first = 100;
    while (first <= HISTOGRAM_HIGHEST) {
        uint64_t end = first + 1, step = 1;
        while (histogram_index(end) ==
               histogram_index(first)) /* double the distance, then search back */
            end += step, step *= 2;
        for (uint64_t low = first; end - low > 1;) {
            const uint64_t middle = low + (end - low) / 2;
            if (histogram_index(middle) == histogram_index(first))
                low = middle;
            else
                end = middle;
        }
        const uint64_t last = end - 1;
        assert_true((last - first) * 1000 < first);
        histogram_reset(&h);
        histogram_record(&h, (int64_t)first);
        histogram_record(&h, HISTOGRAM_HIGHEST);
        const uint64_t due = last < HISTOGRAM_HIGHEST ? last : HISTOGRAM_HIGHEST;
        if (histogram_index(first) % 64 ==
            0) /* the percentile walks all slots, so only a sample is tested */
            assert_int_equal(histogram_percentile(&h, 50), due);
        first = end;
    }
}

static void magnitudes_begin_at_0(void **state)
{
    (void)state;
    histogram_record_magnitude(&h, 0);
    histogram_record_magnitude(&h, 7);
    histogram_record_magnitude(&h, UINT64_MAX);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.clamped, 1);
    assert_int_equal(h.min, 0);
    assert_int_equal(histogram_percentile(&h, 1), 0);
    assert_int_equal(h.max, HISTOGRAM_HIGHEST);
}

/* The summary of merged parts equals that of all samples in one histogram. */
static void merged_parts_equal_whole(void **state)
{
    (void)state;
    static struct histogram parts[5], merged;
    uint64_t random = 9;
    for (unsigned i = 0; i < 5; i++)
        histogram_reset(&parts[i]);
    for (unsigned i = 0; i < 100000; i++) {
        const int64_t value = (int64_t)(test_random(&random) >> (test_random(&random) % 40 + 20));
        histogram_record(&parts[test_random(&random) % 4], value); /* the fifth part stays empty */
        histogram_record(&h, value);
    }
    histogram_reset(&merged);
    for (unsigned i = 0; i < 5; i++)
        histogram_add(&merged, &parts[i]);
    assert_memory_equal(&merged, &h, sizeof h);
}

static void no_sample_is_dropped(void **state)
{
    (void)state;
    const int64_t values[] = {INT64_MIN, -1, 0, 1, 100000000000, 100000000001, INT64_MAX};
    for (unsigned i = 0; i < 7; i++)
        histogram_record(&h, values[i]);
    assert_int_equal(h.count, 7);
    assert_int_equal(h.clamped, 5);
    assert_int_equal(h.min, 1);
    assert_int_equal(h.max, HISTOGRAM_HIGHEST);
    uint64_t counted = 0;
    for (unsigned i = 0; i < HISTOGRAM_COUNTS; i++)
        counted += h.counts[i];
    assert_int_equal(counted, 7);
}

static void summary_of_a_ramp(void **state)
{
    (void)state;
    for (int64_t value = 1; value <= 1000; value++)
        histogram_record(&h, value);
    assert_true(histogram_mean(&h) > 500.499 && histogram_mean(&h) < 500.501);
    assert_true(histogram_stdev(&h) > 288.67 && histogram_stdev(&h) < 288.68);
    assert_int_equal(histogram_percentile(&h, 50), 500);
    assert_int_equal(histogram_percentile(&h, 99), 990);
    assert_int_equal(histogram_percentile(&h, 99.9), 999);
    assert_int_equal(histogram_percentile(&h, 100), 1000);
    assert_int_equal(histogram_percentile(&h, 0), 1);
}

/* A constant long delay has standard deviation 0, and a small jitter on it is measured exactly,
 * although the slots of 20 ms are 16 us wide. */
static void deviation_is_exact(void **state)
{
    (void)state;
    const int64_t delays[] = {20000777, HISTOGRAM_HIGHEST - 10};
    for (unsigned i = 0; i < 2; i++) {
        histogram_reset(&h);
        for (unsigned n = 0; n < 1000; n++)
            histogram_record(&h, delays[i]);
        assert_true(histogram_stdev(&h) == 0.0);
        for (unsigned n = 0; n < 1000; n++)
            histogram_record_times(&other, delays[i] + 6, 1);
        histogram_add(&h, &other); /* half of the values 3 ns above, half below */
        assert_true(fabs(histogram_stdev(&h) - 3.0) < 1e-6);
        histogram_subtract(&h, &other);
        assert_true(histogram_stdev(&h) == 0.0);
        histogram_reset(&other);
    }
}

static void merge_adds_counts(void **state)
{
    (void)state;
    histogram_record(&h, 5);
    histogram_record(&other, 3);
    histogram_record(&other, 9000000);
    histogram_add(&h, &other);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.min, 3);
    assert_int_equal(h.max, 9000000);
    assert_true((uint64_t)h.sum == 9000008);
}

static void empty_histogram_is_valid(void **state)
{
    (void)state;
    assert_int_equal(histogram_percentile(&h, 50), 0);
    assert_true(histogram_mean(&h) == 0.0 && histogram_stdev(&h) == 0.0);
    char *text = histogram_encode(&h);
    assert_non_null(text);
    assert_true(strncmp(text, "HISTFAAA", 8) == 0); /* the cookie in base64 */
    free(text);
}

static void subtracted_samples_are_removed(void **state)
{
    (void)state;
    static struct histogram all, some, rest;
    histogram_reset(&all);
    histogram_reset(&some);
    histogram_reset(&rest);
    for (int64_t i = 1; i <= 3000; i++) {
        struct histogram *part = i % 3 == 0 || i > 2990 ? &some : &rest;
        histogram_record(&all, i * 977);
        histogram_record(part, i * 977);
    }
    histogram_subtract(&all, &some);
    assert_int_equal(all.count, rest.count);
    assert_true(all.sum == rest.sum);
    assert_memory_equal(all.counts, rest.counts, sizeof all.counts);
    assert_true(all.max >= rest.max && all.max <= rest.max + rest.max / 1000);
    assert_in_range(histogram_percentile(&all, 99), histogram_percentile(&rest, 99),
                    histogram_percentile(&rest, 99));
    histogram_subtract(&all, &rest);
    assert_int_equal(all.count, 0);
    assert_int_equal(histogram_percentile(&all, 99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subtracted_samples_are_removed),
        cmocka_unit_test_setup(error_is_below_a_thousandth, reset),
        cmocka_unit_test_setup(reset_removes_all_values, reset),
        cmocka_unit_test_setup(slots_are_in_order_and_inside, reset),
        cmocka_unit_test_setup(every_slot_is_narrow_enough, reset),
        cmocka_unit_test_setup(magnitudes_begin_at_0, reset),
        cmocka_unit_test_setup(merged_parts_equal_whole, reset),
        cmocka_unit_test_setup(no_sample_is_dropped, reset),
        cmocka_unit_test_setup(summary_of_a_ramp, reset),
        cmocka_unit_test_setup(deviation_is_exact, reset),
        cmocka_unit_test_setup(merge_adds_counts, reset),
        cmocka_unit_test_setup(empty_histogram_is_valid, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
