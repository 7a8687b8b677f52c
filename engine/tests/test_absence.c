/* Losses during absences of a receiver: attributed only if it was away and returned to a full ring.
 */
#include "test.h"

#include "measure/absence.h"

#define RING 256
#define AWAY 50000
#define SOON 500

static struct absence begin(uint32_t ring)
{
    return (struct absence){.ring = ring, .limit = ABSENCE_NS, .limit_a_frame = ABSENCE_FRAME_NS};
}

static void absence_full_ring_loss_is_attributed(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    assert_int_equal(absence_round(&a, SOON, 0, 32, 7), 0);
    assert_int_equal(absence_round(&a, AWAY, AWAY, 0, 7), 0);
    assert_int_equal(absence_round(&a, SOON, 0, RING, 7), 0);
    assert_int_equal(absence_round(&a, SOON, 0, 0, 7),
                     0); /* empty: the gap is behind the next frame */
    assert_int_equal(absence_round(&a, SOON, 0, 32, 107), 100);
    assert_int_equal(absence_round(&a, SOON, 0, 32, 150), 0); /* lost by the switch */
}

static void absence_ring_with_room_has_no_loss(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 0);
    absence_round(&a, SOON, 0, RING / 2, 0);
    absence_round(&a, SOON, 0, 0, 0);
    assert_int_equal(absence_round(&a, SOON, 0, 32, 100), 0);
}

static void absence_none_no_loss_is_attributed(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(absence_round(&a, RING * 500, 0, RING, 10 * i), 0); /* busy, not away */
    assert_int_equal(absence_round(&a, SOON, 0, 0, 2000), 0);
}

static void absence_second_before_first_ends(void **state)
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

static void absence_long_rest_after_frames(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY - SOON, 128, 0); /* 128 frames explain the time, but not a rest */
    absence_round(&a, SOON, 0, RING, 0);
    absence_round(&a, SOON, 0, 0, 0);
    assert_int_equal(absence_round(&a, SOON, 0, 1, 40), 40);
}

static void absence_full_ring_counts_after_second_absence(void **state)
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

static void absence_late_frames_no_negative_loss(void **state)
{
    (void)state;
    struct absence a = begin(RING);

    absence_round(&a, AWAY, AWAY, 0, 50);
    absence_round(&a, SOON, 0, RING, 20);
    absence_round(&a, SOON, 0, 0, 20);
    assert_int_equal(absence_round(&a, SOON, 0, 1, 30), 0);
}

static void absence_ends_if_ring_is_never_empty(void **state)
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

static void absence_unknown_ring_no_loss(void **state)
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
        cmocka_unit_test(absence_full_ring_loss_is_attributed),
        cmocka_unit_test(absence_ring_with_room_has_no_loss),
        cmocka_unit_test(absence_none_no_loss_is_attributed),
        cmocka_unit_test(absence_second_before_first_ends),
        cmocka_unit_test(absence_long_rest_after_frames),
        cmocka_unit_test(absence_full_ring_counts_after_second_absence),
        cmocka_unit_test(absence_late_frames_no_negative_loss),
        cmocka_unit_test(absence_ends_if_ring_is_never_empty),
        cmocka_unit_test(absence_unknown_ring_no_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
