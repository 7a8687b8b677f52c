/* Delay variation relative to the shortest delay, compared with the sorted list of all delays:
 * exact to a thousandth of the variation, however long the delays are. */
#include "test.h"

#include "measure/pdv.h"

#define SAMPLES 40000

static struct pdv p;
static uint64_t delays[2 * SAMPLES];

static int reset(void **state)
{
    (void)state;
    pdv_reset(&p);
    return 0;
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* `pdv` has these delays: every percentile is that of the list, within `steps` widths of a slot. */
static void check(const struct pdv *pdv, unsigned count, double steps)
{
    static const double percentiles[] = {0,  0.1, 1,    10,    25,     50, 75,
                                         90, 99,  99.9, 99.99, 99.999, 100};

    qsort(delays, count, sizeof delays[0], rising);
    assert_int_equal(pdv->above.count + pdv->below.count, count);
    for (unsigned i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++) {
        const uint64_t due = delays[histogram_rank(count, percentiles[i]) - 1] - delays[0];
        const uint64_t reported = pdv_percentile(pdv, delays[0], percentiles[i]);
        const double error = (double)(reported > due ? reported - due : due - reported);
        const double scale =
            due > pdv->base_ns - delays[0] ? (double)due : (double)(pdv->base_ns - delays[0]);
        if (error > steps + 0.001 * steps * scale)
            fail_msg("percentile %g: %llu, not %llu", percentiles[i], (unsigned long long)reported,
                     (unsigned long long)due);
    }
}

static void fill(struct pdv *to, uint64_t *list, uint64_t least, uint64_t spread, uint64_t *random)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        /* the first delay is long, as usual; a few are much longer than the others */
        const uint64_t slow = i == 0 || test_random(random) % 1000 == 0 ? 30 : 1;
        list[i] = least + test_random(random) % (spread * slow);
        pdv_add(to, (int64_t)list[i], 1);
    }
    pdv_finish(to);
}

static void pdv_is_exact_for_long_delays(void **state)
{
    (void)state;
    const uint64_t least[] = {300, 5000, 20000777, 3000000000, HISTOGRAM_HIGHEST - 1000000};
    uint64_t random = 4;
    for (unsigned i = 0; i < 5; i++) {
        pdv_reset(&p);
        fill(&p, delays, least[i], 9000, &random);
        assert_true(p.base_ns - least[i] < 1000);
        check(&p, SAMPLES, 1);
    }
}

static void pdv_few_delays(void **state)
{
    (void)state;
    const uint64_t few[] = {7000100, 7000000, 7000050, 7000050};
    for (unsigned i = 0; i < 4; i++)
        pdv_add(&p, (int64_t)few[i], 1);
    pdv_finish(&p);
    assert_int_equal(p.base_ns, 7000000);
    assert_int_equal(pdv_percentile(&p, 7000000, 50), 50);
    assert_int_equal(pdv_percentile(&p, 7000000, 99), 100);
    pdv_reset(&p);
    pdv_finish(&p);
    assert_int_equal(pdv_percentile(&p, 0, 50), 0);
}

/* A path that becomes shorter after the base was chosen. */
static void pdv_delays_below_base_count(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SAMPLES; i++) {
        delays[i] = i < 3000 ? 50000000 : 20000000 + i % 777;
        pdv_add(&p, (int64_t)delays[i], 1);
    }
    assert_int_equal(p.base_ns, 50000000);
    assert_int_equal(p.below.count, SAMPLES - 3000);
    check(&p, SAMPLES, 1);
}

static void pdv_several_frames_with_one_delay(void **state)
{
    (void)state;
    unsigned count = 0;
    for (unsigned i = 0; i < 3000; i++) {
        const uint64_t delay = 1000000 + i * 7919 % 5003;
        pdv_add(&p, (int64_t)delay, 1 + i % 5);
        for (unsigned n = 0; n < 1 + i % 5; n++)
            delays[count++] = delay;
    }
    check(&p, count, 1);
}

static void pdv_merge_of_different_bases(void **state)
{
    (void)state;
    static struct pdv left, other;
    uint64_t random = 11;
    fill(&left, delays, 20000000, 10000, &random);
    fill(&other, delays + SAMPLES, 20004000, 90000, &random);
    pdv_finish(&p);
    pdv_merge(&p, &other);
    pdv_merge(&p, &left);
    check(&p, 2 * SAMPLES, 2); /* its slot, and one slot of the sum */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pdv_is_exact_for_long_delays, reset),
        cmocka_unit_test_setup(pdv_few_delays, reset),
        cmocka_unit_test_setup(pdv_delays_below_base_count, reset),
        cmocka_unit_test_setup(pdv_several_frames_with_one_delay, reset),
        cmocka_unit_test_setup(pdv_merge_of_different_bases, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
