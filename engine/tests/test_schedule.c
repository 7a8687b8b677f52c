/* Rates with units, and the properties of the shapes of schedules. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "traffic/pacing.h"

#define HZ 2599998140.0

static struct pacing p;
static char error[512];

static double pps_of(const char *text, uint64_t line_bps, double mean_bytes)
{
    struct rate rate;
    if (!rate_parse(text, &rate, error, sizeof error))
        fail_msg("%s: %s", text, error);
    return rate_pps(&rate, line_bps, mean_bytes);
}

static void rates_are_converted(void **state)
{
    (void)state;
    const double line = 10e9 / (8 * 84); /* the 14.88 Mpps of 64-byte frames at 10 Gbit/s */
    assert_true(pps_of("1.5M", 0, 64) == 1500000);
    assert_true(pps_of("800kpps", 0, 1518) == 800000);
    assert_true(fabs(pps_of("10Gbps-l1", 0, 64) - line) < 1e-6);
    assert_true(fabs(pps_of("10Gbit/s-l1", 0, 64) - 14880952.380952) < 1e-6);
    assert_true(fabs(pps_of("512Mbps-l2", 0, 64) - 1e6) < 1e-6);
    assert_true(fabs(pps_of("80%", 10000000000ULL, 64) - 0.8 * line) < 1e-6);
    assert_true(fabs(pps_of("0.5%", 10000000000ULL, 64) - 0.005 * line) < 1e-6);
    assert_true(pps_of("100%", 1000000000, 1518) == 1e9 / (8 * 1538));
    assert_true(fabs(pps_of("1Gbps-l2", 0, 353.833) - 1e9 / 8 / 353.833) < 1e-6); /* a mean size */
    assert_true(pps_of("max", 0, 64) == 0);
    assert_true(fabs(rate_l1_bps(line, 64) - 10e9) < 1e-3);
    assert_true(fabs(rate_l2_bps(1e6, 64) - 512e6) < 1e-3);
}

static void incomplete_rates_are_refused(void **state)
{
    (void)state;
    const char *const bad[][2] = {
        {"1Gbps", "write 1Gbps-l1"},   {"5bit/s", "does not name its layer"},
        {"1GBps-l1", "neither 'max'"}, {"1e6", "neither 'max'"},
        {"0", "neither 'max'"},        {"-1", "neither 'max'"},
        {"", "neither 'max'"},         {"101%", "not a share"},
        {"0%", "not a share"},         {"%", "not a share"},
        {"11G", "neither 'max'"},      {"11Tbps-l1", "neither 'max'"},
        {"1 Gbpsl1", "neither"},       {"99999999999999999999pps", "neither 'max'"},
        {"pps", "neither 'max'"},      {"1000000000000000000000000000000000000k", "neither"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rate rate;
        assert_false(rate_parse(bad[i][0], &rate, error, sizeof error));
        if (strstr(error, bad[i][1]) == NULL)
            fail_msg("'%s': %s", bad[i][0], error);
    }
    uint64_t line;
    assert_true(rate_parse_line("25Gbit/s", &line));
    assert_int_equal(line, 25000000000ULL);
    assert_false(rate_parse_line("10G", &line));
    assert_false(rate_parse_line("10Gbps-l2", &line));
}

static void schedules_are_parsed(void **state)
{
    (void)state;
    struct schedule s;
    assert_true(schedule_parse("constant", &s, error, sizeof error));
    assert_int_equal(s.shape, SCHEDULE_CONSTANT);
    assert_true(schedule_parse("poisson:42", &s, error, sizeof error));
    assert_int_equal(s.seed, 42);
    assert_true(schedule_parse("on-off:500us:1.5s", &s, error, sizeof error));
    assert_int_equal(s.on_ns, 500000);
    assert_int_equal(s.off_ns, 1500000000);
    assert_true(schedule_parse("ramp:0:1Gbps-l1:0.5", &s, error, sizeof error));
    assert_int_equal(s.from.amount, 0);
    assert_int_equal(s.to.unit, RATE_L1_BPS);
    assert_int_equal(s.over_ns, 500000000);
    const char *const bad[] = {"",
                               "posson",
                               "constant:1",
                               "poisson:x",
                               "on-off",
                               "on-off:0:1ms",
                               "on-off:1ms:0",
                               "on-off:1:2:3",
                               "ramp:1:2",
                               "ramp:0:0:1s",
                               "ramp:max:1k:1s",
                               "ramp:1k:2k:0",
                               "poisson:1:2",
                               "ramp:1Gbps:1k:1s",
                               ":::::::"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error[0] = '\0';
        assert_false(schedule_parse(bad[i], &s, error, sizeof error));
        assert_true(error[0] != '\0');
    }
}

static void begin(struct schedule_plan plan, uint32_t burst, unsigned index)
{
    pacing_begin(&p, plan.rate_pps, burst, HZ, 777, UINT64_MAX, 0);
    pacing_take_shape(&p, &plan, HZ, index);
}

static struct schedule_plan poisson(double pps, uint64_t seed)
{
    return (struct schedule_plan){.shape = SCHEDULE_POISSON, .rate_pps = pps, .seed = seed};
}

/* Mean, standard deviation and shape of the gaps, each within four standard errors, with a fixed
 * seed. Consecutive gaps must be uncorrelated. */
static void poisson_gaps_are_exponential(void **state)
{
    (void)state;
    enum { COUNT = 2000000 };
    const double mean_ticks = HZ / 1e6;
    double sum = 0, squares = 0, products = 0, before = 0;
    unsigned above[4] = {0};
    begin(poisson(1e6, 1), 1, 0);
    uint128 last = p.next;
    for (unsigned i = 0; i < COUNT; i++) {
        pacing_advance(&p);
        const double gap = (double)(p.next - last) * 0x1p-64 / mean_ticks;
        last = p.next;
        sum += gap;
        squares += gap * gap;
        products += (gap - 1) * (before - 1);
        before = gap;
        for (unsigned k = 0; k < 4; k++)
            above[k] += gap > 0.5 * (double)(1U << (2 * k)) / 2;
    }
    const double mean = sum / COUNT;
    const double deviation = sqrt(squares / COUNT - mean * mean);
    const double error_of_mean = 1 / sqrt(COUNT);
    assert_true(fabs(mean - 1) < 4 * error_of_mean);
    assert_true(fabs(deviation / mean - 1) <
                4 * error_of_mean * sqrt(2)); /* coefficient of variation 1 */
    assert_true(fabs(products / COUNT) < 4 * error_of_mean);
    for (unsigned k = 0; k < 4; k++) {
        const double expected = exp(-0.5 * (double)(1U << (2 * k)) / 2);
        const double spread = sqrt(expected * (1 - expected) / COUNT);
        assert_true(fabs(above[k] / (double)COUNT - expected) < 4 * spread);
    }
}

/* Counts in equal windows: the variance equals the mean. */
static void poisson_counts_have_poisson_variance(void **state)
{
    (void)state;
    enum { WINDOWS = 20000 };
    double sum = 0, squares = 0;
    begin(poisson(1e6, 2), 1, 0);
    for (unsigned w = 1; w <= WINDOWS; w++) {
        unsigned count = 0;
        const uint64_t end = 777 + (uint64_t)(HZ * 50e-6 * w);
        for (; pacing_due(&p) < end; count++)
            pacing_advance(&p);
        sum += count;
        squares += (double)count * count;
    }
    const double mean = sum / WINDOWS, variance = squares / WINDOWS - mean * mean;
    assert_true(fabs(mean - 50) < 4 * sqrt(50.0 / WINDOWS));
    assert_true(fabs(variance / mean - 1) < 4 * sqrt(2.0 / WINDOWS));
}

static void poisson_seed_decides_schedule(void **state)
{
    (void)state;
    /* Recorded once: equal on every machine, so that results can be repeated. */
    static const uint64_t expected[] = {3226, 13852, 14124, 15527, 17589, 21199, 23174, 26072};
    begin(poisson(1e6, 7), 1, 0);
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(pacing_due(&p), expected[i]);
        pacing_advance(&p);
    }
    begin(poisson(1e6, 7), 1, 1);
    assert_int_not_equal(pacing_due(&p), expected[0]);
    begin(poisson(1e6, 8), 1, 0);
    assert_int_not_equal(pacing_due(&p), expected[0]);
}

/* After a long stall the number of missed bursts is drawn, in bounded time. */
static void poisson_gives_up_in_bounded_time(void **state)
{
    (void)state;
    begin(poisson(1e10, 3), 1, 0);
    const uint64_t limit = 777 + (uint64_t)(100 * HZ);
    const uint64_t frames = pacing_give_up_before(&p, limit);
    assert_true(fabs((double)frames - 1e12) < 8 * 1e6);
    assert_true(pacing_due(&p) >= limit);
    begin(poisson(1e6, 3), 4, 0);
    struct pacing counted = p;
    const uint64_t short_limit = 777 + (uint64_t)(1e-3 * HZ);
    uint64_t count = 0;
    for (; pacing_due(&counted) < short_limit; count += 4)
        pacing_advance(&counted);
    assert_int_equal(pacing_give_up_before(&p, short_limit), count);
    assert_true(p.next == counted.next);
}

static void on_off_counts_are_exact(void **state)
{
    (void)state;
    const struct schedule_plan plan = {
        .shape = SCHEDULE_ON_OFF, .rate_pps = 1e6, .on_ns = 1000000, .off_ns = 3000000};
    begin(plan, 8, 0);
    uint64_t frames = 0, in_off = 0;
    while (pacing_due(&p) < 777 + (uint64_t)(1.0 * HZ)) {
        const double ms = (double)(pacing_due(&p) - 777 + 1) / HZ * 1e3;
        in_off += fmod(ms, 4.0) > 1.0 + 1e-6;
        frames += p.burst;
        pacing_advance(&p);
    }
    assert_int_equal(frames, 250 * 1000); /* 250 times 1000 frames */
    assert_int_equal(in_off, 0);
}

/* The mean follows from the rate and the share of on-times, however many bursts an on-time has;
 * none is due in an off-time, and all on-times are used. */
static void on_off_has_the_right_mean(void **state)
{
    (void)state;
    static const struct {
        double rate_pps;
        uint64_t on_ns, off_ns;
        uint32_t burst;
    } cases[] = {
        {1e6, 1000000, 9000000, 32},    /* 31.25 bursts per on-time */
        {1000, 10000000, 90000000, 32}, /* an on-time is shorter than the distance of bursts */
        {14880952.4, 333333, 77777, 7}, {50, 1000000, 1000000, 1}, {3e6, 1000, 2000, 1},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct schedule_plan plan = {.shape = SCHEDULE_ON_OFF,
                                           .rate_pps = cases[i].rate_pps,
                                           .on_ns = cases[i].on_ns,
                                           .off_ns = cases[i].off_ns};
        const double period_s = (double)(cases[i].on_ns + cases[i].off_ns) / 1e9;
        const double on_s = (double)cases[i].on_ns / 1e9;
        const unsigned windows = 1 + (unsigned)(10 / period_s);
        begin(plan, cases[i].burst, 0);
        uint64_t frames = 0;
        while (pacing_due(&p) < 777 + (uint64_t)(windows * period_s * HZ)) {
            const double s = (double)(pacing_due(&p) - 777) / HZ;
            assert_true(fmod(s + 1e-9, period_s) < on_s + 2e-9);
            frames += p.burst;
            pacing_advance(&p);
        }
        const double expected = cases[i].rate_pps * on_s * windows;
        assert_true((double)frames >= expected * (1 - 1e-9));
        assert_true((double)frames < expected * (1 + 1e-9) + cases[i].burst);
    }
}

static void ramp_counts_are_exact(void **state)
{
    (void)state;
    const double ends[][2] = {{1000, 100000}, {100000, 1000}, {0, 50000}, {50000, 0}, {7, 7}};
    for (unsigned i = 0; i < 5; i++) {
        const struct schedule_plan plan = {.shape = SCHEDULE_RAMP,
                                           .from_pps = ends[i][0],
                                           .rate_pps = ends[i][1],
                                           .over_ns = 2000000000};
        begin(plan, 1, 0);
        assert_false(p.unlimited);
        const double times[] = {0.1, 1.0, 2.0, 3.0};
        uint64_t frames = 0;
        for (unsigned k = 0; k < 4; k++) {
            const double t = times[k], ramp = t < 2 ? t : 2;
            const double expected = ends[i][0] * ramp +
                                    (ends[i][1] - ends[i][0]) * ramp * ramp / 4 +
                                    (t - ramp) * ends[i][1];
            for (; pacing_due(&p) < 777 + (uint64_t)(t * HZ); frames++)
                pacing_advance(&p);
            assert_true(fabs((double)frames - expected) <= 1.0);
        }
    }
}

/* Giving up jumps: it must reach the same state as stepping, and count the same. */
static void giving_up_equals_stepping(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (unsigned i = 0; i < 2000; i++) {
        struct schedule_plan plan = {.rate_pps = 1 + (double)(test_random(&random) % 3000000)};
        plan.shape = i % 2 == 0 ? SCHEDULE_ON_OFF : SCHEDULE_RAMP;
        plan.from_pps = (double)(test_random(&random) % 3000000);
        plan.on_ns = 1 + test_random(&random) % 2000000;
        plan.off_ns = 1 + test_random(&random) % 2000000;
        plan.over_ns = 1 + test_random(&random) % 2000000;
        begin(plan, 1 + (uint32_t)(test_random(&random) % 64), 0);
        for (unsigned k = 0; k < i % 7; k++)
            pacing_advance(&p);
        struct pacing stepped = p;
        const uint64_t limit = 777 + test_random(&random) % 10000000;
        const uint64_t given_up = pacing_give_up_before(&p, limit);
        uint64_t frames = 0;
        for (; pacing_due(&stepped) < limit; frames += stepped.burst)
            pacing_advance(&stepped);
        assert_int_equal(given_up, frames);
        for (unsigned k = 0; k < 3; k++) {
            assert_true(p.next == stepped.next);
            pacing_advance(&p);
            pacing_advance(&stepped);
        }
    }
}

static void on_off_unlimited_is_open_in_on_times(void **state)
{
    (void)state;
    const struct schedule_plan plan = {
        .shape = SCHEDULE_ON_OFF, .on_ns = 1000000, .off_ns = 3000000};
    begin(plan, 32, 0);
    assert_true(p.unlimited);
    unsigned open = 0;
    for (unsigned i = 0; i < 4000; i++) {
        const bool is = pacing_is_open(&p, 777 + (uint64_t)((i + 0.5) * 10e-6 * HZ));
        assert_int_equal(is, i % 400 < 100);
        open += is;
    }
    assert_int_equal(open, 1000);
    assert_true(pacing_is_open(&p, 777 + (uint64_t)(1000.0005 * HZ))); /* after a long stall */
    assert_false(pacing_is_open(&p, 777 + (uint64_t)(1000.0015 * HZ)));
    assert_true(fabs((double)(pacing_due(&p) - 777) / HZ - 1000.004) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_converted),
        cmocka_unit_test(incomplete_rates_are_refused),
        cmocka_unit_test(schedules_are_parsed),
        cmocka_unit_test(poisson_gaps_are_exponential),
        cmocka_unit_test(poisson_counts_have_poisson_variance),
        cmocka_unit_test(poisson_seed_decides_schedule),
        cmocka_unit_test(poisson_gives_up_in_bounded_time),
        cmocka_unit_test(on_off_counts_are_exact),
        cmocka_unit_test(on_off_has_the_right_mean),
        cmocka_unit_test(ramp_counts_are_exact),
        cmocka_unit_test(giving_up_equals_stepping),
        cmocka_unit_test(on_off_unlimited_is_open_in_on_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
