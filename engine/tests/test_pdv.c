/* Delay variation against the shortest delay, compared with the sorted list of all delays: good to
 * a thousandth of the variation, however long the delays are. */
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

/* `found` has these delays: every percentile is that of the list, `steps` slots wide at the most.
 */
static void check(const struct pdv *found, unsigned count, double steps)
{
    static const double asked[] = {0, 0.1, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100};

    qsort(delays, count, sizeof delays[0], rising);
    assert_int_equal(found->above.count + found->below.count, count);
    for (unsigned i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const uint64_t due = delays[histogram_rank(count, asked[i]) - 1] - delays[0];
        const uint64_t told = pdv_percentile(found, delays[0], asked[i]);
        const double error = (double)(told > due ? told - due : due - told);
        const double scale =
            due > found->base_ns - delays[0] ? (double)due : (double)(found->base_ns - delays[0]);
        if (error > steps + 0.001 * steps * scale)
            fail_msg("percentile %g: %llu, not %llu", asked[i], (unsigned long long)told,
                     (unsigned long long)due);
    }
}

static void fill(struct pdv *to, uint64_t *list, uint64_t least, uint64_t spread, uint64_t *random)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        /* the first is slow, as first frames are; some few are much slower than the rest */
        const uint64_t slow = i == 0 || test_random(random) % 1000 == 0 ? 30 : 1;
        list[i] = least + test_random(random) % (spread * slow);
        pdv_add(to, (int64_t)list[i], 1);
    }
    pdv_finish(to);
}

static void jitter_on_long_delays_is_told_as_well_as_on_short_ones(void **state)
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

static void few_delays_are_enough(void **state)
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

/* A path that becomes shorter once the base is chosen. */
static void delays_below_the_base_count(void **state)
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

static void several_frames_may_share_a_delay(void **state)
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

static void queues_are_merged_whatever_their_bases(void **state)
{
    (void)state;
    static struct pdv one, other;
    uint64_t random = 11;
    fill(&one, delays, 20000000, 10000, &random);
    fill(&other, delays + SAMPLES, 20004000, 90000, &random);
    pdv_finish(&p);
    pdv_merge(&p, &other);
    pdv_merge(&p, &one);
    check(&p, 2 * SAMPLES, 2); /* a slot of its own, and one of the sum */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(jitter_on_long_delays_is_told_as_well_as_on_short_ones, reset),
        cmocka_unit_test_setup(few_delays_are_enough, reset),
        cmocka_unit_test_setup(delays_below_the_base_count, reset),
        cmocka_unit_test_setup(several_frames_may_share_a_delay, reset),
        cmocka_unit_test_setup(queues_are_merged_whatever_their_bases, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
