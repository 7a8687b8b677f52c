/* Delay variation: only pairs of neighbours, with sign; lost, late and duplicated frames make no
 * pair. */
#include "test.h"

#include "measure/variation.h"

static struct variation v;

static int reset(void **state)
{
    (void)state;
    variation_reset(&v);
    return 0;
}

static void changes_have_sign(void **state)
{
    (void)state;
    const int64_t delays[] = {1000, 1500, 1500, 300, 301};
    for (uint32_t i = 0; i < 5; i++)
        variation_add(&v, 0xfffffffe + i, delays[i]); /* the sequence wraps in between */
    assert_int_equal(v.grown.count, 3);               /* 500, 0, 1 */
    assert_int_equal(v.grown.max, 500);
    assert_int_equal(v.grown.min, 0);
    assert_true((uint64_t)v.grown.sum == 501);
    assert_int_equal(v.shrunk.count, 1);
    assert_int_equal(v.shrunk.max, 1200);
    assert_int_equal(v.grown.clamped + v.shrunk.clamped,
                     0); /* no change is a value, not an error */
}

static void only_neighbours_in_order_make_pairs(void **state)
{
    (void)state;
    variation_add(&v, 10, 100);
    variation_add(&v, 12, 900);  /* 11 is missing */
    variation_add(&v, 11, 5000); /* late */
    variation_add(&v, 12, 7000); /* duplicated */
    assert_int_equal(v.grown.count + v.shrunk.count, 0);
    variation_add(&v, 13, 910); /* the first copy of 12 and this frame */
    assert_int_equal(v.grown.count, 1);
    assert_int_equal(v.grown.max, 10);
    assert_int_equal(v.shrunk.count, 0);
}

static void first_frame_makes_no_pair(void **state)
{
    (void)state;
    variation_add(&v, 0, 70); /* `next` is also 0 after a reset */
    assert_int_equal(v.grown.count + v.shrunk.count, 0);
    variation_add(&v, 1, 60);
    assert_int_equal(v.shrunk.count, 1);
}

static void random_walk_equals_list(void **state)
{
    (void)state;
    uint64_t random = 5, grown = 0, shrunk = 0, pairs = 0;
    int64_t delays[5000];
    bool arrives[5000];
    for (unsigned i = 0; i < 5000; i++) {
        delays[i] = (int64_t)(test_random(&random) % 1000000);
        arrives[i] = test_random(&random) % 10 != 0;
        if (i > 0 && arrives[i] && arrives[i - 1]) {
            const int64_t change = delays[i] - delays[i - 1];
            pairs++;
            grown += change > 0 ? (uint64_t)change : 0;
            shrunk += change < 0 ? (uint64_t)-change : 0;
        }
        if (arrives[i])
            variation_add(&v, i, delays[i]);
    }
    assert_int_equal(v.grown.count + v.shrunk.count, pairs);
    assert_int_equal((uint64_t)v.grown.sum, grown);
    assert_int_equal((uint64_t)v.shrunk.sum, shrunk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(changes_have_sign, reset),
        cmocka_unit_test_setup(only_neighbours_in_order_make_pairs, reset),
        cmocka_unit_test_setup(first_frame_makes_no_pair, reset),
        cmocka_unit_test_setup(random_walk_equals_list, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
