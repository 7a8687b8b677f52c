/* What a receiver lost while it was away: charged only when it was away, and came back to a ring
 * that had run full. */
#include "test.h"

#include "measure/absence.h"

#define RING 256
#define AWAY 50000
#define SOON 500

static struct absence begin(uint32_t ring)
{
    return (struct absence){.ring = ring, .limit = ABSENCE_NS, .limit_a_frame = ABSENCE_FRAME_NS};
}

static void test_a_full_ring_after_an_absence(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    assert_int_equal(absence_round(&a, SOON, 0, 32, 7), 0);
    assert_int_equal(absence_round(&a, AWAY, AWAY, 0, 7), 0);
    assert_int_equal(absence_round(&a, SOON, 0, RING, 7), 0);
    assert_int_equal(absence_round(&a, SOON, 0, 0, 7),
                     0); /* empty: the gap is behind the next one */
    assert_int_equal(absence_round(&a, SOON, 0, 32, 107), 100);
    assert_int_equal(absence_round(&a, SOON, 0, 32, 150), 0); /* the switch's own */
}

static void test_a_ring_with_room_lost_nothing(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 0);
    absence_round(&a, SOON, 0, RING / 2, 0);
    absence_round(&a, SOON, 0, 0, 0);
    assert_int_equal(absence_round(&a, SOON, 0, 32, 100), 0);
}

static void test_one_that_was_there_is_not_charged(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(absence_round(&a, RING * 500, 0, RING, 10 * i), 0); /* busy, no more */
    assert_int_equal(absence_round(&a, SOON, 0, 0, 2000), 0);
}

static void test_a_second_absence_before_the_first_is_over(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 10);
    absence_round(&a, SOON, 0, RING, 10);
    absence_round(&a, AWAY, AWAY, 0, 10); /* emptied, and away again */
    absence_round(&a, SOON, 0, RING, 40);
    absence_round(&a, SOON, 0, 0, 40);
    assert_int_equal(absence_round(&a, SOON, 0, 5, 110), 100);
}

static void test_a_long_rest_after_frames_is_an_absence(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY - SOON, 128, 0); /* 128 frames explain the time, a rest none */
    absence_round(&a, SOON, 0, RING, 0);
    absence_round(&a, SOON, 0, 0, 0);
    assert_int_equal(absence_round(&a, SOON, 0, 1, 40), 40);
}

static void test_a_full_ring_stays_evidence_over_a_second_absence(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 40);
    absence_round(&a, SOON, 0, RING, 40);
    absence_round(&a, AWAY, AWAY - SOON, 32, 40);
    absence_round(&a, SOON, 0, RING / 2, 90);
    absence_round(&a, SOON, 0, 0, 90);
    assert_int_equal(absence_round(&a, SOON, 0, 1, 100), 60);
}

static void test_late_frames_make_no_negative_loss(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 50);
    absence_round(&a, SOON, 0, RING, 20);
    absence_round(&a, SOON, 0, 0, 20);
    assert_int_equal(absence_round(&a, SOON, 0, 1, 30), 0);
}

static void test_a_ring_that_is_never_empty_ends_it(void **state)
{
    (void)state;
    struct absence a = begin(RING);
    uint64_t lost = 0;

    absence_round(&a, AWAY, AWAY, 0, 0);
    for (unsigned i = 0; i < 64; i++)
        lost += absence_round(&a, SOON, 0, RING, 100);
    assert_int_equal(lost, 100);
    assert_int_equal(a.state, ABSENCE_NONE);
}

static void test_a_ring_of_unknown_size_is_never_charged(void **state)
{
    (void)state;
    struct absence a = begin(0);

    absence_round(&a, AWAY, AWAY, 0, 0);
    absence_round(&a, SOON, 0, RING, 0);
    absence_round(&a, SOON, 0, 0, 0);
    assert_int_equal(absence_round(&a, SOON, 0, 32, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_ring_after_an_absence),
        cmocka_unit_test(test_a_ring_with_room_lost_nothing),
        cmocka_unit_test(test_one_that_was_there_is_not_charged),
        cmocka_unit_test(test_a_second_absence_before_the_first_is_over),
        cmocka_unit_test(test_a_long_rest_after_frames_is_an_absence),
        cmocka_unit_test(test_a_full_ring_stays_evidence_over_a_second_absence),
        cmocka_unit_test(test_late_frames_make_no_negative_loss),
        cmocka_unit_test(test_a_ring_that_is_never_empty_ends_it),
        cmocka_unit_test(test_a_ring_of_unknown_size_is_never_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
