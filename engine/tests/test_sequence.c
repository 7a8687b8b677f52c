/* Sequence tracking compared with a simple model that remembers everything (RFC 4737 as written).
 */
#include <math.h>

#include "test.h"

#include "measure/flow_groups.h"
#include "measure/sequence.h"

static struct sequence_tracker t;

static int reset(void **state)
{
    (void)state;
    sequence_reset(&t);
    return 0;
}

#define TICKS_APART 10 /* distance of arrivals in these tests */

static void arrive(uint32_t sequence)
{
    static uint64_t now;
    sequence_add(&t, sequence, now += TICKS_APART);
}

/* The metrics of RFC 4737 for late frames, from a list of all first copies. */
struct model {
    uint32_t firsts[100000];
    unsigned when[100000]; /* place among all arrivals */
    unsigned unique;
    uint64_t duplicates, reordered, highest, lowest;
    uint64_t max_extent, extent_sum, max_late, late_sum, max_degree, degrees[REORDER_DEGREES];
    bool early[100000]; /* first copies that were discontinuities */
    uint64_t runs, run_frames, longest_run, run, gaps, gap_frames, gap_ticks;
    double run_squares;
};
static struct model m;

static void model_late(uint32_t sequence, unsigned place)
{
    unsigned earliest = 0;
    uint64_t degree = 0;

    while (m.firsts[earliest] < sequence)
        earliest++;
    while (degree < m.unique && m.firsts[m.unique - 1 - degree] > sequence)
        degree++;
    const uint64_t extent = m.unique - earliest;
    const uint64_t late = (uint64_t)(place - m.when[earliest]) * TICKS_APART;
    m.early[earliest] = true;
    m.runs++;
    m.run_frames += m.run;
    m.run_squares += (double)(m.run * m.run);
    m.longest_run = m.run > m.longest_run ? m.run : m.longest_run;
    m.run = 0;
    m.reordered++;
    m.extent_sum += extent;
    m.late_sum += late;
    m.max_extent = extent > m.max_extent ? extent : m.max_extent;
    m.max_late = late > m.max_late ? late : m.max_late;
    m.max_degree = degree > m.max_degree ? degree : m.max_degree;
    for (unsigned i = 0; i < REORDER_DEGREES; i++)
        m.degrees[i] += degree >= reorder_degrees[i];
}

static void model_arrive(uint32_t sequence, unsigned place)
{
    for (unsigned i = 0; i < m.unique; i++) {
        if (m.firsts[i] == sequence) {
            m.duplicates++;
            return;
        }
    }
    if (m.unique > 0 && sequence < m.highest)
        model_late(sequence, place);
    else
        m.run++;
    m.when[m.unique] = place;
    m.firsts[m.unique++] = sequence;
    m.highest = sequence > m.highest ? sequence : m.highest;
    m.lowest = sequence < m.lowest ? sequence : m.lowest;
}

static void model_gaps(void)
{
    unsigned last = 0;
    bool any = false;

    for (unsigned i = 0; i < m.unique; i++) {
        if (!m.early[i])
            continue;
        if (any) {
            m.gaps++;
            m.gap_frames += i - last;
            m.gap_ticks += (m.when[i] - m.when[last]) * TICKS_APART;
        }
        any = true;
        last = i;
    }
}

static void check(const uint32_t *arrivals, unsigned count)
{
    memset(&m, 0, sizeof m);
    m.lowest = UINT64_MAX;
    sequence_reset(&t);
    for (unsigned i = 0; i < count; i++) {
        model_arrive(arrivals[i], i);
        arrive(arrivals[i]);
    }
    model_gaps();
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(t.reorder.gaps, m.gaps);
    assert_int_equal(t.reorder.gap_frames, m.gap_frames);
    assert_int_equal(t.reorder.gap_ticks, m.gap_ticks);
    assert_int_equal(t.reorder.runs, m.runs);
    assert_int_equal(t.reorder.run_frames, m.run_frames);
    assert_int_equal(t.reorder.longest_run, m.longest_run);
    assert_true(fabs(t.reorder.run_squares - m.run_squares) < 0.5);
    assert_int_equal(s.received_unique, m.unique);
    assert_int_equal(s.duplicates, m.duplicates);
    assert_int_equal(s.reordered, m.reordered);
    assert_int_equal(s.first_sequence, m.lowest);
    assert_int_equal(s.last_sequence, m.highest);
    assert_int_equal(s.expected, m.highest - m.lowest + 1);
    assert_int_equal(s.lost, m.highest - m.lowest + 1 - m.unique);
    assert_false(s.extent_is_lower_bound);
    assert_int_equal(s.beyond_window, 0);
    assert_int_equal(t.reorder.max_extent, m.max_extent);
    assert_int_equal(t.reorder.extent_sum, m.extent_sum);
    assert_int_equal(t.reorder.max_late_ticks, m.max_late);
    assert_int_equal(t.reorder.late_ticks_sum, m.late_sum);
    assert_int_equal(t.reorder.max_degree, m.max_degree);
    assert_memory_equal(t.reorder.degrees, m.degrees, sizeof m.degrees);
}

static void sequence_random_disorder_equals_model(void **state)
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
            const uint32_t saved = arrivals[a];
            arrivals[a] = arrivals[b];
            arrivals[b] = saved;
        }
        if (count > 0)
            check(arrivals, count);
    }
}

static void sequence_textbook_cases(void **state)
{
    (void)state;
    const uint32_t in_order[] = {0, 1, 2, 3};
    const uint32_t one_late[] = {1, 2, 3, 5, 6, 7, 8, 4, 9, 10}; /* RFC 4737 section 7 */
    const uint32_t before_first[] = {5, 3, 4, 6, 8, 7};
    const uint32_t twice[] = {1, 1, 1, 2, 4, 2};
    const uint32_t two_places[] = {1, 3, 2, 4, 5, 6, 8, 7, 9, 10};
    const uint32_t burst_late[] = {1, 2, 3, 7, 8, 9, 4, 5, 6, 10};
    check(in_order, 4);
    check(one_late, 10);
    assert_int_equal(t.reorder.max_extent, 4);
    assert_int_equal(t.reorder.max_degree, 4);
    check(before_first, 6);
    check(twice, 6);
    check(two_places, 10);
    assert_int_equal(t.reorder.gaps, 1); /* 3 and 8 came early, five frames apart */
    assert_int_equal(t.reorder.gap_frames, 5);
    assert_int_equal(t.reorder.runs, 2);
    assert_int_equal(t.reorder.longest_run, 4); /* 4, 5, 6, 8 */
    assert_int_equal(t.reorder.run_frames, 2 + 4);
    assert_true(fabs(reorder_run_stdev(&t.reorder) - 1) < 1e-9);
    check(burst_late, 10); /* three are reordered, but only the first is 1-reordered */
    assert_int_equal(t.reordered, 3);
    assert_int_equal(t.reorder.degrees[0], 1);
    assert_int_equal(t.reorder.degrees[2], 1);
}

static void sequence_numbers_beyond_32_bits(void **state)
{
    (void)state;
    const uint32_t start = 0xfffff000;
    for (uint32_t i = 0; i < 3 * 4096; i++) {
        if (i % 100 != 50)
            arrive(start + i);
    }
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.expected, 3 * 4096);
    assert_int_equal(s.lost, 123);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.reordered, 0);
    assert_int_equal(s.first_sequence, start);
    assert_int_equal(s.last_sequence, (uint64_t)start + 3 * 4096 - 1);
}

static void sequence_many_windows_exact_duplicates(void **state)
{
    (void)state;
    uint64_t lost = 0, duplicates = 0;
    for (uint32_t i = 0; i < 5 * SEQUENCE_WINDOW; i++) {
        if (i > 0 && i % 7 == 0) {
            lost++;
            continue;
        }
        arrive(i);
        if (i % 1001 == 0) {
            arrive(i);
            duplicates++;
        }
    }
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.lost, lost);
    assert_int_equal(s.duplicates, duplicates);
    assert_int_equal(s.reordered, 0);
}

static void sequence_late_by_almost_a_window(void **state)
{
    (void)state;
    arrive(0);
    for (uint32_t i = 2; i < SEQUENCE_WINDOW - 128; i++)
        arrive(i);
    arrive(1);
    arrive(1);
    struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.reordered, 1);
    assert_int_equal(s.duplicates, 1);
    assert_int_equal(t.reorder.max_extent, SEQUENCE_WINDOW - 130);
    assert_int_equal(s.beyond_window, 0);
    for (uint32_t i = SEQUENCE_WINDOW - 128; i < 2 * SEQUENCE_WINDOW; i++)
        arrive(i);
    arrive(1); /* cannot be distinguished any more, and is counted */
    s = sequence_summarise(&t);
    assert_int_equal(s.beyond_window, 1);
}

static void sequence_jump_clears_ring(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        arrive(i);
    arrive(500 + SEQUENCE_WINDOW); /* same place in the ring as 500 */
    arrive(499 + SEQUENCE_WINDOW); /* late, not a duplicate of 499 */
    arrive(10000 + 3 * SEQUENCE_WINDOW);
    arrive(10001 + 3 * SEQUENCE_WINDOW); /* the jump is valid */
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.reordered, 1);
    assert_int_equal(s.received_unique, 1004);
    assert_int_equal(s.early, 0);
}

static void sequence_too_many_gaps_are_reported(void **state)
{
    (void)state;
    const uint32_t last = 4 * SEQUENCE_GAPS;
    for (uint32_t i = 0; i <= last; i += 2)
        arrive(i);
    arrive(1);
    const struct sequence_summary s = sequence_summarise(&t);
    assert_true(s.extent_is_lower_bound);
    assert_true(t.reorder.max_extent >= SEQUENCE_GAPS);
}

/* A frame that waits for as many late frames as the stack has room for, and more. */
static void sequence_full_stack_gives_lower_bound(void **state)
{
    (void)state;
    const uint32_t far = 100000;
    arrive(0);
    arrive(far);
    for (uint32_t i = 0; i < 3 * REORDER_STACK; i++)
        arrive(1000 + i); /* each is late, each except the first 0-reordered */
    assert_int_equal(t.reorder.degrees[0], 1);
    arrive(999); /* the removed entries might have been lower: uncertain */
    assert_int_equal(t.reorder.max_extent, 3 * REORDER_STACK + 1);
    assert_true(t.reorder.max_degree >= REORDER_STACK &&
                t.reorder.max_degree <= t.reorder.max_extent);
}

/* For any arrivals: the sum of the groups is the total, and each equals the result of a separate
 * tracker. */
static void flow_groups_add_up(void **state)
{
    (void)state;
    static struct flow_groups groups;
    enum { GROUPS = 8 };
    uint64_t random = 21, unique[GROUPS] = {0}, again[GROUPS] = {0};
    const uint32_t first = 0xfffffff3U; /* wraps at 32 bits */
    static uint8_t arrived[3000];
    groups = (struct flow_groups){.count = GROUPS};
    memset(arrived, 0, sizeof arrived);
    for (unsigned i = 0; i < 6000; i++) {
        const uint32_t near = i / 2 + (uint32_t)(test_random(&random) % 20);
        if (near >= 3000 || near % 13 == 5) /* some never arrive */
            continue;
        const uint32_t sequence = i == 0 ? first : first + near;
        flow_groups_add(&groups, sequence, sequence_add(&t, sequence, i));
        *(arrived[sequence - first]++ == 0 ? &unique[sequence % GROUPS]
                                           : &again[sequence % GROUPS]) += 1;
    }
    const struct sequence_summary all = sequence_summarise(&t);
    uint64_t expected = 0, lost = 0, reordered = 0;
    for (uint32_t group = 0; group < GROUPS; group++) {
        const struct flow_group_summary s = flow_group_summarise(&groups, group, &all);
        assert_int_equal(s.received_unique, unique[group]);
        assert_int_equal(s.duplicates, again[group]);
        uint64_t due = 0;
        for (uint64_t n = all.first_sequence; n <= all.last_sequence; n++)
            due += n % GROUPS == group;
        assert_int_equal(s.expected, due);
        expected += s.expected;
        lost += s.lost;
        reordered += s.reordered;
    }
    assert_int_equal(expected, all.expected);
    assert_int_equal(lost, all.lost);
    assert_int_equal(reordered, all.reordered);
    assert_true(all.lost > 0 && all.reordered > 0 && all.duplicates > 0);
}

/* Wherever the numbers of the last trial were: no number of this trial is a duplicate of them. */
static void sequence_reset_clears_numbers(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (unsigned round = 0; round < 200; round++) {
        const uint32_t first = (uint32_t)test_random(&random);
        const uint32_t span = 1 + (uint32_t)(test_random(&random) % (round % 8 ? 3000 : 3000000));
        for (unsigned i = 0; i < 200; i++)
            arrive(first + (uint32_t)(test_random(&random) % span));
        sequence_reset(&t);
        for (unsigned i = 0; i < SEQUENCE_WORDS; i++)
            assert_int_equal(t.arrived[i], 0);
        assert_false(sequence_summarise(&t).any);
    }
}

/* Frames lost before the first and after the last arrival, all frames lost, or fewer sent than
 * arrived. */
static void sequence_sent_frames_give_loss(void **state)
{
    (void)state;
    static struct flow_groups groups = {.count = 4};
    flow_groups_reset(&groups);
    for (uint32_t i = 5; i < 90; i++)
        flow_groups_add(&groups, i, sequence_add(&t, i, i));
    struct sequence_summary s = sequence_summarise(&t);
    sequence_set_sent(&s, SENT_UNKNOWN);
    assert_int_equal(s.lost, 0);
    sequence_set_sent(&s, 50);
    assert_int_equal(s.expected, 85);
    sequence_set_sent(&s, 101);
    assert_int_equal(s.expected, 101);
    assert_int_equal(s.lost, 16);
    assert_int_equal(s.last_sequence, 89);
    const uint64_t lost[] = {5, 3, 4, 4}; /* 0 to 4, 90 to 100 */
    for (uint32_t group = 0; group < 4; group++)
        assert_int_equal(flow_group_summarise(&groups, group, &s).lost, lost[group]);
    sequence_reset(&t);
    s = sequence_summarise(&t);
    sequence_set_sent(&s, 7);
    assert_int_equal(s.lost, 7);
    assert_false(s.any);
}

/* A ring that is sent again after a stall: old copies are neither first copies nor duplicates, and
 * hide no loss. */
static void sequence_old_copies_hide_no_loss(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SEQUENCE_WINDOW + 2000; i++) {
        if (i < 1000 || i > 1002)
            arrive(i);
    }
    for (uint32_t i = 5; i < 10; i++) {
        arrive(i);
        assert_true(t.next - t.lowest >= t.unique);
    }
    struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.beyond_window, 5);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.reordered, 0);
    assert_int_equal(s.received_unique, SEQUENCE_WINDOW + 2000 - 3);
    assert_int_equal(s.lost, 3);
    assert_int_equal(s.lost_at_least, 0);
    sequence_set_sent(&s, SEQUENCE_WINDOW + 2007);
    assert_int_equal(s.lost, 10);
    assert_int_equal(s.lost_at_least, 5);
}

/* A single stray number moves no boundary: not in the middle, not repeated, not as the first. */
static void sequence_early_frame_moves_no_boundary(void **state)
{
    (void)state;
    const uint32_t far = 5 * SEQUENCE_WINDOW;
    arrive(far);
    arrive(far); /* its copy, which cannot be recognised as a copy */
    for (uint32_t i = 0; i < 200; i++) {
        arrive(i);
        if (i % 50 == 0) {
            arrive(far + i * SEQUENCE_WINDOW);
            arrive(far + i * SEQUENCE_WINDOW);
        }
    }
    const struct sequence_summary s = sequence_summarise(&t);
    assert_int_equal(s.early, 10);
    assert_int_equal(s.expected, 200);
    assert_int_equal(s.received_unique, 200);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.duplicates, 0);
    assert_int_equal(s.beyond_window, 0);
}

/* A frame near an early frame confirms it, whichever is higher. */
static void sequence_long_outage_is_exact(void **state)
{
    (void)state;
    for (unsigned swapped = 0; swapped < 2; swapped++) {
        const uint32_t again = 3 * SEQUENCE_WINDOW;
        sequence_reset(&t);
        for (uint32_t i = 0; i < 100; i++)
            arrive(i);
        arrive(again + swapped);
        arrive(again + 1 - swapped);
        for (uint32_t i = 2; i < 100; i++)
            arrive(again + i);
        const struct sequence_summary s = sequence_summarise(&t);
        assert_int_equal(s.received_unique, 200);
        assert_int_equal(s.lost, again - 100);
        assert_int_equal(s.lost_at_least, again - 100);
        assert_int_equal(s.early, 0);
        assert_int_equal(s.reordered, swapped);
        assert_int_equal(s.duplicates, 0);
    }
}

/* With 32 bits an outage of more than 2^31 frames looks like a late frame. The number of sent
 * frames still gives the loss, and undecided frames are counted. */
static void sequence_outage_beyond_31_bits(void **state)
{
    (void)state;
    const uint64_t outage = (1ULL << 31) + 1000;
    for (uint32_t i = 0; i < 100; i++)
        arrive(i);
    for (uint32_t i = 0; i < 100; i++)
        arrive((uint32_t)(100 + outage + i));
    struct sequence_summary s = sequence_summarise(&t);
    sequence_set_sent(&s, 200 + outage);
    assert_int_equal(s.received_unique, 100);
    assert_int_equal(s.lost, outage + 100);
    assert_int_equal(s.lost_at_least, outage);
    assert_int_equal(s.beyond_window, 100);
    assert_int_equal(s.duplicates, 0);
}

static void sequence_without_frames_is_valid(void **state)
{
    (void)state;
    assert_false(sequence_summarise(&t).any);
    assert_int_equal(sequence_summarise(&t).expected, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sequence_random_disorder_equals_model, reset),
        cmocka_unit_test_setup(sequence_textbook_cases, reset),
        cmocka_unit_test_setup(sequence_numbers_beyond_32_bits, reset),
        cmocka_unit_test_setup(sequence_many_windows_exact_duplicates, reset),
        cmocka_unit_test_setup(sequence_late_by_almost_a_window, reset),
        cmocka_unit_test_setup(sequence_jump_clears_ring, reset),
        cmocka_unit_test_setup(sequence_too_many_gaps_are_reported, reset),
        cmocka_unit_test_setup(sequence_full_stack_gives_lower_bound, reset),
        cmocka_unit_test_setup(flow_groups_add_up, reset),
        cmocka_unit_test_setup(sequence_reset_clears_numbers, reset),
        cmocka_unit_test_setup(sequence_sent_frames_give_loss, reset),
        cmocka_unit_test_setup(sequence_old_copies_hide_no_loss, reset),
        cmocka_unit_test_setup(sequence_early_frame_moves_no_boundary, reset),
        cmocka_unit_test_setup(sequence_long_outage_is_exact, reset),
        cmocka_unit_test_setup(sequence_outage_beyond_31_bits, reset),
        cmocka_unit_test_setup(sequence_without_frames_is_valid, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
