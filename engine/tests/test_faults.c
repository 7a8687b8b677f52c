/* Injected faults must be as configured: each is applied as often as set, independently of other
 * faults, and the same with the same seed. Delayed frames leave in the order of their due times,
 * without loss and not early. */
#include "test.h"

#include <math.h>

#include "measure/clock.h"
#include "role/delay_line.h"
#include "role/faults.h"
#include "traffic/frame.h"

#define FRAMES 200000U

static unsigned strikes(const struct reference *r, enum fault fault, unsigned direction)
{
    unsigned count = 0;
    for (uint64_t i = 0; i < FRAMES; i++)
        count += faults_strike(r, fault, direction, i);
    return count;
}

static void every_nth_fault_is_exact(void **state)
{
    (void)state;
    for (unsigned fault = 0; fault < FAULTS; fault++) {
        struct reference r = {.seed = 3};
        assert_int_equal(strikes(&r, fault, 0), 0);
        r.every[fault] = 125;
        assert_int_equal(strikes(&r, fault, 0), FRAMES / 125);
        assert_true(faults_strike(&r, fault, 1, 62) && !faults_strike(&r, fault, 1, 0));
        r.every[fault] = 1;
        assert_int_equal(strikes(&r, fault, 0), FRAMES);
    }
}

/* Four standard deviations of the binomial distribution. The seeds are fixed, so the result is
 * always the same. */
static void fault_shares_are_binomial(void **state)
{
    (void)state;
    const uint64_t shares[] = {1000, 1000000, 30000000, 500000000, 999000000};
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned fault = 0; fault < FAULTS; fault++) {
            struct reference r = {.seed = 3 + i};
            r.share[fault] = shares[i];
            const double p = (double)shares[i] / FAULT_SHARE_WHOLE;
            const double bound = 4 * sqrt(FRAMES * p * (1 - p)) + 1;
            assert_true(fabs(strikes(&r, fault, 0) - FRAMES * p) < bound);
        }
    }
    struct reference all = {.seed = 1, .share = {FAULT_SHARE_WHOLE}};
    assert_int_equal(strikes(&all, FAULT_DROP, 0), FRAMES);
}

/* Both of two faults with p = q = 1/2 are applied to a quarter of the frames, and so are both
 * directions. */
static void faults_and_directions_are_independent(void **state)
{
    (void)state;
    const struct reference r = {.seed = 8, .share = {500000000, 500000000, 0, 0}};
    unsigned both = 0, both_ways = 0, twice_in_a_row = 0;
    for (uint64_t i = 0; i < FRAMES; i++) {
        const bool drop = faults_strike(&r, FAULT_DROP, 0, i);
        both += drop && faults_strike(&r, FAULT_DUPLICATE, 0, i);
        both_ways += drop && faults_strike(&r, FAULT_DROP, 1, i);
        twice_in_a_row += drop && faults_strike(&r, FAULT_DROP, 0, i + 1);
        assert_int_equal(drop, faults_strike(&r, FAULT_DROP, 0, i)); /* no state */
    }
    const double due = FRAMES / 4.0, bound = 4 * sqrt(FRAMES * 0.1875);
    assert_true(fabs(both - due) < bound && fabs(both_ways - due) < bound);
    assert_true(fabs(twice_in_a_row - due) < bound);
}

static void seeds_differ(void **state)
{
    (void)state;
    const struct reference a = {.seed = 1, .share = {500000000}};
    const struct reference b = {.seed = 2, .share = {500000000}};
    unsigned same = 0;
    for (uint64_t i = 0; i < FRAMES; i++)
        same += faults_strike(&a, FAULT_DROP, 0, i) == faults_strike(&b, FAULT_DROP, 0, i);
    assert_true(fabs(same - FRAMES / 2.0) < 4 * sqrt(FRAMES * 0.25));
}

static void check_delays(const struct reference *r, double mean, double deviation, double low,
                         double high)
{
    double sum = 0, squares = 0, least = 1e18, most = 0;
    for (uint64_t i = 0; i < FRAMES; i++) {
        const double d = (double)faults_delay_ns(r, 0, i);
        sum += d;
        squares += (d - mean) * (d - mean);
        least = d < least ? d : least;
        most = d > most ? d : most;
    }
    assert_true(fabs(sum / FRAMES - mean) <= 4 * deviation / sqrt(FRAMES) + 1);
    assert_true(fabs(sqrt(squares / FRAMES) - deviation) <= 0.01 * deviation + 1);
    assert_true(least >= low && most <= high);
}

static void delays_have_the_set_distribution(void **state)
{
    (void)state;
    struct reference r = {.seed = 5, .delay_ns = 100000};
    check_delays(&r, 100000, 0, 100000, 100000);
    r.jitter_ns = 30000;
    check_delays(&r, 100000, 30000 / sqrt(3), 70000, 130000);
    r.jitter = JITTER_NORMAL;
    r.jitter_ns = 10000;
    check_delays(&r, 100000, 10000, 40000, 160000);
    unsigned within = 0;
    for (uint64_t i = 0; i < FRAMES; i++)
        within += fabs((double)faults_delay_ns(&r, 0, i) - 100000) <= 10000;
    assert_true(fabs((double)within / FRAMES - 0.683) < 0.01); /* one standard deviation */
    r.delay_ns = 0;
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(faults_delay_ns(&r, 0, i) <= 60000); /* never below 0 */
}

static void flipped_bits_are_detectable(void **state)
{
    (void)state;
    const struct reference r = {.seed = 4};
    uint8_t plain[500] = {FRAME_SIGNATURE, FRAME_DATA << 4};
    uint8_t touched[500] = {FRAME_SIGNATURE, (FRAME_DATA | FRAME_TOUCHED) << 4};
    bool drawn[500 * 8] = {false};
    for (uint64_t i = 0; i < FRAMES; i++) {
        const uint64_t bit = faults_bit(&r, 0, i, plain, sizeof plain);
        assert_true(bit >= 8 && bit < STAMP_BYTES * 8);
        drawn[faults_bit(&r, 0, i, touched, sizeof touched)] = true;
    }
    for (unsigned bit = 0; bit < 8; bit++)
        assert_false(drawn[bit]);
    for (unsigned bit = 8; bit < 500 * 8; bit++)
        assert_true(drawn[bit]);
}

static void frames_leave_by_due_time(void **state)
{
    (void)state;
    struct delay_line line;
    uint64_t random = 17, now = 0, in = 0, out = 0, refused = 0;
    uint64_t last_due = 0, last_order = 0;
    assert_true(delay_line_open(&line, 200, 64));
    while (out < 100000) {
        for (unsigned n = (unsigned)(test_random(&random) % 40); n > 0; n--) {
            uint8_t bytes[64] = {0};
            const uint64_t due =
                now + 20 + test_random(&random) % 400; /* later than all frames that have left */
            memcpy(bytes, &due, sizeof due);
            if (delay_line_add(&line, bytes, 40 + in % 20, due, 0))
                in++;
            else
                refused++;
        }
        now += 20;
        const unsigned ready = delay_line_ready(&line, now);
        const unsigned taken = ready == 0 ? 0 : (unsigned)(test_random(&random) % (ready + 1));
        for (unsigned i = 0; i < taken; i++) {
            const struct delayed *d = &line.ready[i];
            uint64_t due;
            memcpy(&due, d->bytes, sizeof due);
            assert_int_equal(due, d->due);
            assert_true(due <= now);
            assert_true(due > last_due || (due == last_due && d->order > last_order) || out == 0);
            last_due = due;
            last_order = d->order;
        }
        delay_line_sent(&line, taken);
        out += taken;
        assert_int_equal(in - out, line.count + line.ready_count);
    }
    assert_true(refused > 0 && line.arrived == in); /* the line was full at times */
    delay_line_close(&line);
}

static void full_line_refuses_and_keeps_frames(void **state)
{
    (void)state;
    struct delay_line line;
    const uint8_t bytes[60] = {1};
    assert_true(delay_line_open(&line, 2, 60));
    assert_true(delay_line_next(&line) == UINT64_MAX);
    assert_true(delay_line_add(&line, bytes, 60, 9, 0));
    assert_true(delay_line_add(&line, bytes, 60, 5, 0));
    assert_false(delay_line_add(&line, bytes, 60, 1, 0));
    assert_int_equal(delay_line_next(&line), 5);
    assert_int_equal(delay_line_ready(&line, 5), 1);
    assert_false(delay_line_add(&line, bytes, 60, 1, 0)); /* ready frames still count */
    delay_line_sent(&line, 1);
    assert_int_equal(delay_line_next(&line), 9);
    assert_true(delay_line_add(&line, bytes, 60, 1, 0));
    assert_int_equal(delay_line_ready(&line, 9), 2);
    assert_int_equal(line.ready[0].due, 1);
    delay_line_close(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_nth_fault_is_exact),
        cmocka_unit_test(fault_shares_are_binomial),
        cmocka_unit_test(faults_and_directions_are_independent),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(delays_have_the_set_distribution),
        cmocka_unit_test(flipped_bits_are_detectable),
        cmocka_unit_test(frames_leave_by_due_time),
        cmocka_unit_test(full_line_refuses_and_keeps_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
