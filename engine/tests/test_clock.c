/* The clock: ticks and CLOCK_MONOTONIC must tell the same time to 0.02 %, whatever keeps this
 * process from its core meanwhile: a reading counts for as well as it is known. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/clock.h"
#include "measure/sender_clock.h"

#define TRIES 20          /* others may set the pace of the kernel's clock, for seconds */
#define PACE 0.0002       /* how well the two must agree */
#define TOGETHER_NS 20000 /* how far from each other two clocks are read at one moment */

static unsigned stalled; /* this look at the kernel's clock comes late, counted from 1 */

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    const struct timespec rest = {0, 2000000};

    if (stalled > 0 && --stalled == 0)
        nanosleep(&rest, NULL);
    return __real_clock_gettime(id, now);
}

/* The ticks at some moment between two readings of the kernel's clock. */
struct moment {
    uint64_t before_ns, ticks, after_ns;
};

static struct moment look(void)
{
    struct moment m = {.before_ns = clock_monotonic_ns()};

    m.ticks = clock_ticks();
    m.after_ns = clock_monotonic_ns();
    return m;
}

static bool by_counter; /* the source that the tests of a group are about */

static void calibrate(void)
{
    clock_begin_by(by_counter);
    clock_calibrate();
}

static int take_counter(void **state)
{
    (void)state;
    by_counter = true;
    calibrate();
    return 0;
}

static int take_kernels(void **state)
{
    (void)state;
    by_counter = false;
    calibrate();
    return 0;
}

static bool interval_agrees(void)
{
    const struct timespec rest = {0, 200000000};

    calibrate();
    const struct moment first = look();
    nanosleep(&rest, NULL);
    const struct moment last = look();
    const double least = (double)(last.before_ns - first.after_ns);
    const double most = (double)(last.after_ns - first.before_ns);
    const double ours = (double)clock_ticks_to_ns(last.ticks - first.ticks);
    return ours > least * (1 - PACE) && ours < most * (1 + PACE);
}

static void intervals_agree_with_the_kernel(void **state)
{
    (void)state;
    bool agrees = false;
    for (unsigned tries = 0; tries < TRIES && !agrees; tries++)
        agrees = interval_agrees();
    assert_true(agrees);
}

/* To a tick, which can be 40 ns. */
static void conversions_invert_each_other(void **state)
{
    (void)state;
    const uint64_t spans[] = {1000, 1000000, 1000000000, 3600 * NS_PER_S, 1000000 * NS_PER_S};
    const double tick_ns = 1e9 / engine_clock.hz;
    for (unsigned i = 0; i < 5; i++) {
        const double back = (double)clock_ticks_to_ns(clock_ns_to_ticks(spans[i]));
        assert_true(back > (double)spans[i] * 0.999999 - 1 - tick_ns &&
                    back < (double)spans[i] * 1.000001 + 1 + tick_ns);
    }
}

/* This tick, as far as two clocks can be read together and their paces agree. */
static void is_tick_at(uint64_t tick, uint64_t at_ns)
{
    const struct moment now = look();
    const int64_t ahead_ns = tick >= now.ticks ? (int64_t)clock_ticks_to_ns(tick - now.ticks)
                                               : -(int64_t)clock_ticks_to_ns(now.ticks - tick);
    const int64_t earliest_ns = (int64_t)(at_ns - now.after_ns);
    const int64_t latest_ns = (int64_t)(at_ns - now.before_ns);
    const int64_t slack_ns = TOGETHER_NS + (int64_t)(PACE * (double)llabs(ahead_ns));
    assert_true(ahead_ns > earliest_ns - slack_ns && ahead_ns < latest_ns + slack_ns);
}

static void a_tick_can_be_named_ahead(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_monotonic_ns();
    is_tick_at(clock_ticks_at(now_ns + NS_PER_S), now_ns + NS_PER_S);
    is_tick_at(clock_ticks_at(now_ns - NS_PER_S), now_ns - NS_PER_S);
}

/* A process may lose its core between any two looks at a clock, and the tick is the same. */
static void a_tick_is_named_though_a_look_comes_late(void **state)
{
    (void)state;
    for (unsigned look_number = 1; look_number <= 3; look_number++) {
        const uint64_t at_ns = clock_monotonic_ns() + 10000000;
        stalled = look_number;
        const uint64_t tick = clock_ticks_at(at_ns);
        stalled = 0;
        is_tick_at(tick, at_ns);
    }
}

static void both_clocks_are_read_at_one_moment(void **state)
{
    (void)state;
    uint64_t ticks, ns;
    for (unsigned look_number = 0; look_number <= 3; look_number++) {
        stalled = look_number; /* 0: none */
        clock_both(&ticks, &ns);
        stalled = 0;
        is_tick_at(ticks, ns);
    }
}

/* The second point is taken again for each trial, whatever the first calibration made of it. */
static void a_later_calibration_replaces_the_first(void **state)
{
    (void)state;
    uint64_t ticks, ns;
    const double hz = engine_clock.hz;

    if (!by_counter)
        skip_because("nanoseconds need no calibration");
    engine_clock.hz = hz * 2;
    engine_clock.ns_multiplier /= 2;
    clock_calibrate();
    assert_true(engine_clock.hz > hz * (1 - PACE) && engine_clock.hz < hz * (1 + PACE));
    conversions_invert_each_other(state);
    clock_both(&ticks, &ns);
    const double now_hz = clock_hz_at(ticks, ns);
    assert_true(now_hz > hz * (1 - PACE) && now_hz < hz * (1 + PACE));
}

/* A kernel that has found the TSC unstable keeps time by another clock. */
static void the_kernels_choice_of_clock_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool trusted;
    } sources[] = {
#if defined(__aarch64__)
        {"arch_sys_counter\n", true},
        {"tsc\n", false},
        {"", true},
        {"jiffies\n", false},
        {"sp804\n", false},
#else
        {"tsc\n", true},
        {"kvm-clock\n", true},
        {"", true},
        {"hpet\n", false},
        {"acpi_pm\n", false},
        {"hyperv_clocksource_msr\n", false},
        {"jiffies\n", false},
        {"tscx\n", false},
        {"arch_sys_counter\n", false},
#endif
    };
    char path[] = "/tmp/clock_source_XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    for (unsigned i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, sources[i].name, strlen(sources[i].name), 0),
                         (ssize_t)strlen(sources[i].name));
        if (clock_kernel_trusts_counter(path) != sources[i].trusted)
            fail_msg("%s", sources[i].name);
    }
    close(fd);
    unlink(path);
    assert_true(clock_kernel_trusts_counter(path));
}

/* What a sender's clock is told to be agrees with what it is, to what two readings differ. */
static void a_clock_that_is_told_is_ours_again(void **state)
{
    (void)state;
    struct sender_clock_reading told = {.hz = (uint64_t)engine_clock.hz};
    clock_both(&told.ticks, &told.at_ns);
    const struct sender_clock clock = sender_clock_begin(&told);
    const uint64_t now = clock_ticks();
    const int64_t since = sender_clock_since(&clock, now, now & 0xffffffffffffULL);
    assert_true(since > -60000 && since < 60000);
}

/* A counter that counts several ticks at once, as ARM's may: its readings are of that grain. */
static void a_counters_step_divides_all_distances(void **state)
{
    (void)state;
    static const uint64_t by_one[] = {7, 7, 10, 12, 19}, by_forty[] = {80, 80, 200, 280, 1000},
                          still[] = {5, 5, 5};

    assert_int_equal(clock_step_of(by_one, 5, true), 1);
    assert_int_equal(clock_step_of(by_forty, 5, true), 40);
    assert_int_equal(clock_step_of(still, 3, true), 0);
}

/* 25 MHz in nanoseconds, which the kernel rounds after it has steered them. */
static void the_kernels_step_is_the_least_distance(void **state)
{
    (void)state;
    static const uint64_t ns[] = {1000, 1000, 1040, 1079, 1201, 1240};

    assert_int_equal(clock_step_of(ns, 6, false), 39);
}

static void the_clock_steps_by_whole_ticks(void **state)
{
    (void)state;
    const double ticks = clock_step_ns() * engine_clock.hz / 1e9;

    assert_true(ticks > 0.999 && llabs(llround(ticks * 1000) - 1000 * llround(ticks)) <= 1);
}

static void the_clock_has_a_name(void **state)
{
    (void)state;
#ifdef CLOCK_COUNTER
    assert_string_equal(clock_name(), by_counter ? CLOCK_COUNTER : "monotonic");
#else
    assert_string_equal(clock_name(), "monotonic");
#endif
}

/* Does the CPU's counter go at one rate here? The kernel says so of the TSC, ARM of its own. */
static bool counter_is_steady(void)
{
#if defined(__aarch64__)
    return true;
#else
    clock_begin();
    return engine_clock.by_counter;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_agree_with_the_kernel),
        cmocka_unit_test(conversions_invert_each_other),
        cmocka_unit_test(a_tick_can_be_named_ahead),
        cmocka_unit_test(a_tick_is_named_though_a_look_comes_late),
        cmocka_unit_test(both_clocks_are_read_at_one_moment),
        cmocka_unit_test(a_clock_that_is_told_is_ours_again),
        cmocka_unit_test(a_later_calibration_replaces_the_first),
        cmocka_unit_test(the_kernels_choice_of_clock_counts),
        cmocka_unit_test(a_counters_step_divides_all_distances),
        cmocka_unit_test(the_kernels_step_is_the_least_distance),
        cmocka_unit_test(the_clock_steps_by_whole_ticks),
        cmocka_unit_test(the_clock_has_a_name),
    };
    int failed = cmocka_run_group_tests_name("the kernel's clock", tests, take_kernels, NULL);

    if (counter_is_steady())
        failed += cmocka_run_group_tests_name("the CPU's counter", tests, take_counter, NULL);
    else
        print_message("[  SKIPPED ] the CPU's counter: the kernel does not trust it here\n");
    return failed;
}
