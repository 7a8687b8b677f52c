/* Flows: the requested number of different flows, in the given ranges, and Zipf's law if requested.
 */
#include "test.h"

#include <math.h>

#include "traffic/flows.h"
#include "traffic/frame.h"
#include "traffic/zipf.h"

static const struct frame_address address = {
    .src_mac = {2, 0, 0, 0, 0, 1},
    .dst_mac = {2, 0, 0, 0, 0, 2},
    .src_ip = 0xc6120001,
    .dst_ip = 0xc6120002,
    .src_udp = 5000,
    .dst_udp = 5000,
    .tags = 1,
    .vlan = {100},
};
static struct flow_set flows;
static char error[200];

static void make(const char *text)
{
    if (!flows_parse(text, &flows, error, sizeof error) ||
        !flows_bind(&flows, &address, error, sizeof error))
        fail_msg("%s: %s", text, error);
}

static void is_bad(const char *text, const char *reason)
{
    if (flows_parse(text, &flows, error, sizeof error) &&
        flows_bind(&flows, &address, error, sizeof error))
        fail_msg("'%s' was accepted", text);
    if (strstr(error, reason) == NULL)
        fail_msg("'%s': %s", text, error);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, FLOW_FIELDS * sizeof(uint32_t));
}

/* All flows are different, and every value is in its range. */
static void check_distinct(const char *text)
{
    make(text);
    uint32_t(*all)[FLOW_FIELDS] = calloc(flows.count, sizeof *all);
    for (uint32_t flow = 0; flow < flows.count; flow++) {
        for (unsigned i = 0; i < FLOW_FIELDS; i++) {
            const struct flow_range *range = &flows.fields[i];
            if (range->count == 0)
                continue;
            all[flow][i] = flow_value(range, flow);
            assert_in_range(all[flow][i], range->base, range->base + range->count - 1);
        }
    }
    qsort(all, flows.count, sizeof *all, compare);
    for (uint32_t flow = 1; flow < flows.count; flow++)
        assert_true(compare(all[flow - 1], all[flow]) != 0);
    free(all);
}

static void number_of_flows_is_as_requested(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "1",
        "2:src-port/random",
        "3:vlan",
        "1000000",
        "1M:src-ip/random",
        "1M:src-port+dst-port",
        "1M:src-port/random+dst-port/random+vlan",
        "60k:src-port",
        "3995:vlan",
        "1000:src-ip=7+src-port=11+dst-port=13",
        "999999:src-ip=999983/random+dst-ip=2",
        "100k:src-mac+dst-mac/random:zipf=1.1:seed=5",
        "77:src-ip=77/random:seed=9",
        "100:src-ip=10+src-port=10",
        "1M:src-ip=1000/random+dst-port=1000/random",
        "95:src-mac=10+src-ip=2+vlan=6/random",
        "1M:src-mac=1M+src-ip=16M",
        "5:src-ip=1/random+dst-ip=2/random+src-port=3/random",
        "65k:src-ip=600/random+dst-ip=513/random",
    };
    for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++)
        check_distinct(sets[i]);
}

static void ranges_begin_at_address(void **state)
{
    (void)state;
    make("10:src-ip+src-port=5+vlan=2+src-mac");
    assert_int_equal(flow_value(&flows.fields[FLOW_SRC_IP], 9), 0xc612000a);
    assert_int_equal(flow_value(&flows.fields[FLOW_SRC_PORT], 9), 5004);
    assert_int_equal(flow_value(&flows.fields[FLOW_SRC_PORT], 5), 5000);
    assert_int_equal(flow_value(&flows.fields[FLOW_VLAN], 3), 101);
    assert_int_equal(flow_value(&flows.fields[FLOW_SRC_MAC], 9), 10);
    assert_int_equal(flows.fields[FLOW_DST_IP].count, 0);
    const struct flow_set swapped = flows_swapped(&flows);
    assert_int_equal(swapped.fields[FLOW_DST_IP].count, 10);
    assert_int_equal(swapped.fields[FLOW_DST_PORT].count, 5);
    assert_int_equal(swapped.fields[FLOW_VLAN].count, 2);
    assert_int_equal(swapped.fields[FLOW_SRC_IP].count, 0);
    make("1");
    assert_int_equal(flows.count, 1);
}

/* Fields whose counts have a common divisor make a grid: earlier fields advance first. */
static void fields_make_a_grid(void **state)
{
    (void)state;
    make("100:src-ip=10+src-port=10");
    for (uint32_t flow = 0; flow < 100; flow++) {
        assert_int_equal(flow_value(&flows.fields[FLOW_SRC_IP], flow), 0xc6120001 + flow % 10);
        assert_int_equal(flow_value(&flows.fields[FLOW_SRC_PORT], flow), 5000 + flow / 10);
    }
    make(
        "10:src-ip=10+src-port=10"); /* enough combinations without a grid: they advance together */
    assert_int_equal(flow_value(&flows.fields[FLOW_SRC_PORT], 3), 5003);
}

/* A random order is random: distances have no pattern, and the place does not determine the value.
 */
static void seed_decides_order(void **state)
{
    (void)state;
    enum { FLOWS = 1000, CELLS = 10 };
    static unsigned hits[CELLS][CELLS];
    make("1000:src-ip/random:seed=1");
    const struct flow_set single = flows;
    make("1000:src-ip/random:seed=2");
    unsigned like_before = 0, same = 0;
    uint32_t value = 0, last = 0, distance = 0;
    memset(hits, 0, sizeof hits);
    for (uint32_t i = 0; i < FLOWS; i++, last = value) {
        value = flow_value(&single.fields[FLOW_SRC_IP], i);
        like_before += (value - last + FLOWS) % FLOWS == distance;
        distance = (value - last + FLOWS) % FLOWS;
        same += value == flow_value(&flows.fields[FLOW_SRC_IP], i);
        hits[i * CELLS / FLOWS][(value - 0xc6120001) * CELLS / FLOWS]++;
    }
    assert_true(like_before < 20);
    assert_true(same < 20);
    double chi_square =
        0; /* 81 degrees of freedom: mean 81, standard deviation 13; the rest is uniform */
    for (unsigned i = 0; i < CELLS * CELLS; i++)
        chi_square +=
            (hits[i / CELLS][i % CELLS] - 10.0) * (hits[i / CELLS][i % CELLS] - 10.0) / 10;
    assert_true(chi_square > 81 - 5 * 13 && chi_square < 81 + 5 * 13);
}

static void impossible_flows_are_refused(void **state)
{
    (void)state;
    is_bad("0", "from 1 to 1000000");
    is_bad("1000001", "from 1 to 1000000");
    is_bad("", "from 1 to 1000000");
    is_bad("5:colour", "'colour' is not a field");
    is_bad("5:", "'' is not a field");
    is_bad("5:src-ip+", "'' is not a field");
    is_bad("5:src-ip+src-ip", "given twice");
    is_bad("5:src-ip=0", "from 1 to 16777216");
    is_bad("5:src-ip=x", "from 1 to 16777216");
    is_bad("5:vlan=4095", "from 1 to 4094");
    is_bad("5:src-ip/sorted", "only /random");
    is_bad("5:src-ip:zipf=-1", "exponent from 0 to 10");
    is_bad("5:src-ip:zipf=nan", "exponent from 0 to 10");
    is_bad("5:src-ip:zipf=11", "exponent from 0 to 10");
    is_bad("5:src-ip:zipf=", "exponent from 0 to 10");
    is_bad("5:src-ip:seed=x", "neither zipf=S nor seed=N");
    is_bad("5:src-ip:sed=1", "neither zipf=S nor seed=N");
    is_bad("61k:src-port", "cannot all differ");
    is_bad("10:src-port=60537", "do not fit behind the first, 5000");
    is_bad("201:src-ip=10+src-port=20", "have 200 combinations");
    is_bad("1M:src-ip=99+dst-ip=101+vlan=100", "have 999900 combinations");
    struct frame_address untagged = address;
    untagged.tags = 0;
    assert_true(flows_parse("5:vlan", &flows, error, sizeof error));
    assert_false(flows_bind(&flows, &untagged, error, sizeof error));
    assert_non_null(strstr(error, "--vlan"));
}

/* Ranks compared with the law, in bins with an expectation of at least 100 draws. */
static void check_zipf(uint32_t count, double exponent)
{
    static struct zipf z;
    const uint32_t draws = 2000000;
    uint32_t *hits = calloc(count, sizeof *hits);
    double sum = 0, expected = 0, chi_square = 0;
    uint64_t drawn = 0;
    unsigned bins = 0;

    zipf_make(&z, count, exponent);
    for (uint32_t i = 0; i < draws; i++) {
        const uint32_t rank = zipf_rank(&z, 12345 + i * 0x9e3779b97f4a7c15ULL);
        assert_true(rank < count);
        hits[rank]++;
    }
    for (uint32_t k = 1; k <= count; k++)
        sum += pow(k, -exponent);
    for (uint32_t k = 1; k <= count; k++) {
        expected += draws * pow(k, -exponent) / sum;
        drawn += hits[k - 1];
        if (expected < 100 && k < count)
            continue;
        chi_square += ((double)drawn - expected) * ((double)drawn - expected) / expected;
        bins++;
        expected = 0;
        drawn = 0;
    }
    const double freedom = bins - 1.0, deviation = sqrt(2 * freedom);
    if (bins > 1 && fabs(chi_square - freedom) > 5 * deviation)
        fail_msg("%u ranks, exponent %g: chi-square %g over %g degrees of freedom", count, exponent,
                 chi_square, freedom);
    free(hits);
}

static void eight_draws_equal_single_draws(void **state)
{
    (void)state;
    static struct zipf z;
    const double exponents[] = {0.0, 0.5, 1.0, 1.3, 10.0};
    for (unsigned e = 0; e < 5; e++) {
        zipf_make(&z, 1000000, exponents[e]);
        for (uint64_t key = 0; key < 20000; key += 37) {
            uint32_t ranks[37];
            zipf_ranks(&z, key, ranks, 37);
            for (unsigned i = 0; i < 37; i++)
                assert_int_equal(ranks[i], zipf_rank(&z, key + i * ZIPF_STEP));
        }
    }
}

static void zipf_ranks_follow_law(void **state)
{
    (void)state;
    check_zipf(1, 1.0);
    check_zipf(2, 1.0);
    check_zipf(1000, 1.0);
    check_zipf(1025, 0.0);
    check_zipf(50000, 0.5);
    check_zipf(1000000, 1.0);
    check_zipf(1000000, 0.0);
    check_zipf(1000000, 1.3);
    check_zipf(1000000, 10.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_of_flows_is_as_requested),
        cmocka_unit_test(ranges_begin_at_address),
        cmocka_unit_test(fields_make_a_grid),
        cmocka_unit_test(seed_decides_order),
        cmocka_unit_test(impossible_flows_are_refused),
        cmocka_unit_test(zipf_ranks_follow_law),
        cmocka_unit_test(eight_draws_equal_single_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
