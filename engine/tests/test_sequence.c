/* Sequence tracking against a plain model that remembers everything (RFC 4737 as written). */
#include "test.h"

#include "measure/sequence.h"

static struct sequence_tracker t;

static int reset(void **state)
{
    (void)state;
    sequence_reset(&t);
    return 0;
}

static void check(const uint32_t *arrivals, unsigned count)
{
    static uint32_t firsts[100000];
    unsigned unique = 0;
    uint64_t duplicates = 0, reordered = 0, extent = 0, highest = 0, lowest = UINT64_MAX;

    for (unsigned i = 0; i < count; i++) {
        bool is_duplicate = false;
        for (unsigned j = 0; j < unique && !is_duplicate; j++)
            is_duplicate = firsts[j] == arrivals[i];
        if (is_duplicate) {
            duplicates++;
            continue;
        }
        if (unique > 0 && arrivals[i] < highest) {
            reordered++;
            unsigned earliest = 0;
            while (firsts[earliest] < arrivals[i])
                earliest++;
            if (unique - earliest > extent)
                extent = unique - earliest;
        }
        firsts[unique++] = arrivals[i];
        highest = arrivals[i] > highest ? arrivals[i] : highest;
        lowest = arrivals[i] < lowest ? arrivals[i] : lowest;
    }
    sequence_reset(&t);
    for (unsigned i = 0; i < count; i++)
        sequence_add(&t, arrivals[i]);
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.received_unique, unique);
    assert_int_equal(s.duplicates, duplicates);
    assert_int_equal(s.reordered, reordered);
    assert_int_equal(s.max_reorder_extent, extent);
    assert_int_equal(s.first_sequence, lowest);
    assert_int_equal(s.last_sequence, highest);
    assert_int_equal(s.expected, highest - lowest + 1);
    assert_int_equal(s.lost, highest - lowest + 1 - unique);
    assert_false(s.extent_is_lower_bound);
    assert_int_equal(s.beyond_window, 0);
}

static void random_disorder_matches_the_model(void **state)
{
    (void)state;
    static uint32_t arrivals[4000];
    uint64_t random = 11;

    for (unsigned round = 0; round < 300; round++) {
        const unsigned loss = (unsigned)(test_random(&random) % 50);
        const unsigned swaps = (unsigned)(test_random(&random) % 200);
        unsigned count = 0;
        const uint32_t first = (uint32_t)(test_random(&random) % 100000);
        for (uint32_t i = 0; i < 600; i++) {
            if (test_random(&random) % 100 < loss)
                continue;
            arrivals[count++] = first + i;
            if (test_random(&random) % 30 == 0)
                arrivals[count++] = first + i; /* a duplicate */
        }
        for (unsigned i = 0; i < swaps && count > 1; i++) {
            const unsigned a = (unsigned)(test_random(&random) % count);
            const unsigned reach = round % 2 ? 5 : 400;
            unsigned b = a + (unsigned)(test_random(&random) % reach);
            b = b < count ? b : count - 1;
            const uint32_t kept = arrivals[a];
            arrivals[a] = arrivals[b];
            arrivals[b] = kept;
        }
        if (count > 0)
            check(arrivals, count);
    }
}

static void textbook_cases(void **state)
{
    (void)state;
    const uint32_t in_order[] = {0, 1, 2, 3};
    const uint32_t one_late[] = {1, 2, 3, 5, 6, 7, 8, 4, 9, 10}; /* RFC 4737 section 7 */
    const uint32_t before_first[] = {5, 3, 4, 6, 8, 7};
    const uint32_t twice[] = {1, 1, 1, 2, 4, 2};
    check(in_order, 4);
    check(one_late, 10);
    assert_int_equal(sequence_summarise(&t).max_reorder_extent, 4);
    check(before_first, 6);
    check(twice, 6);
}

static void numbers_grow_beyond_32_bits(void **state)
{
    (void)state;
    const uint32_t start = 0xfffff000;
    for (uint32_t i = 0; i < 3 * 4096; i++) {
        if (i % 100 != 50)
            sequence_add(&t, start + i);
    }
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.expected, 3 * 4096);
    assert_int_equal(s.lost, 123);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.reordered, 0);
    assert_int_equal(s.first_sequence, start);
    assert_int_equal(s.last_sequence, (uint64_t)start + 3 * 4096 - 1);
}

static void many_windows_keep_duplicates_exact(void **state)
{
    (void)state;
    uint64_t lost = 0, duplicates = 0;
    for (uint32_t i = 0; i < 5 * SEQUENCE_WINDOW; i++) {
        if (i > 0 && i % 7 == 0) {
            lost++;
            continue;
        }
        sequence_add(&t, i);
        if (i % 1001 == 0) {
            sequence_add(&t, i);
            duplicates++;
        }
    }
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.lost, lost);
    assert_int_equal(s.duplicates, duplicates);
    assert_int_equal(s.reordered, 0);
}

static void late_by_almost_a_window_is_exact(void **state)
{
    (void)state;
    sequence_add(&t, 0);
    for (uint32_t i = 2; i < SEQUENCE_WINDOW - 128; i++)
        sequence_add(&t, i);
    sequence_add(&t, 1);
    sequence_add(&t, 1);
    struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.reordered, 1);
    assert_int_equal(s.duplicates, 1);
    assert_int_equal(s.max_reorder_extent, SEQUENCE_WINDOW - 130);
    assert_int_equal(s.beyond_window, 0);
    for (uint32_t i = SEQUENCE_WINDOW - 128; i < 2 * SEQUENCE_WINDOW; i++)
        sequence_add(&t, i);
    sequence_add(&t, 1); /* cannot be told any more: said so */
    s = sequence_summarise(&t);
    assert_int_equal(s.beyond_window, 1);
}

static void a_leap_forgets_what_the_ring_held(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        sequence_add(&t, i);
    sequence_add(&t, 500 + SEQUENCE_WINDOW); /* same place in the ring as 500 */
    sequence_add(&t, 499 + SEQUENCE_WINDOW); /* late, no duplicate of 499 */
    sequence_add(&t, 10000 + 3 * SEQUENCE_WINDOW);
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.reordered, 1);
    assert_int_equal(s.received_unique, 1003);
}

static void too_many_gaps_are_admitted(void **state)
{
    (void)state;
    const uint32_t last = 4 * SEQUENCE_GAPS;
    for (uint32_t i = 0; i <= last; i += 2)
        sequence_add(&t, i);
    sequence_add(&t, 1);
    const struct sequence_summary s = sequence_summarise(&t);
    assert_true(s.extent_is_lower_bound);
    assert_true(s.max_reorder_extent >= SEQUENCE_GAPS);
}

static void empty_is_sound(void **state)
{
    (void)state;
    assert_false(sequence_summarise(&t).any);
    assert_int_equal(sequence_summarise(&t).expected, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(random_disorder_matches_the_model, reset),
        cmocka_unit_test_setup(textbook_cases, reset),
        cmocka_unit_test_setup(numbers_grow_beyond_32_bits, reset),
        cmocka_unit_test_setup(many_windows_keep_duplicates_exact, reset),
        cmocka_unit_test_setup(late_by_almost_a_window_is_exact, reset),
        cmocka_unit_test_setup(a_leap_forgets_what_the_ring_held, reset),
        cmocka_unit_test_setup(too_many_gaps_are_admitted, reset),
        cmocka_unit_test_setup(empty_is_sound, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
