/* The clock: ticks and CLOCK_MONOTONIC must agree to 0.02 %, even if this process has no core for a
 * while: the comparison uses the uncertainty of each reading. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure/clock.h"
#include "measure/sender_clock.h"

#define TRIES 20          /* other programs may adjust the kernel's clock for seconds */
#define PACE 0.0002       /* permitted difference of the rates */
#define TOGETHER_NS 20000 /* maximum distance of two readings at one moment */

static unsigned stalled; /* number of the reading of the kernel's clock that comes late, from 1 */

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

static bool by_counter; /* the clock source of a group of tests */

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
    const double measured_ns = (double)clock_ticks_to_ns(last.ticks - first.ticks);
    return measured_ns > least * (1 - PACE) && measured_ns < most * (1 + PACE);
}

static void intervals_agree_with_kernel(void **state)
{
    (void)state;
    bool agrees = false;
    for (unsigned tries = 0; tries < TRIES && !agrees; tries++)
        agrees = interval_agrees();
    assert_true(agrees);
}

/* Exact to a tick, which can be 40 ns. */
static void conversions_are_inverse(void **state)
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

/* Check a tick, as exactly as two clocks can be read together. */
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

static void tick_of_future_time(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_monotonic_ns();
    is_tick_at(clock_ticks_at(now_ns + NS_PER_S), now_ns + NS_PER_S);
    is_tick_at(clock_ticks_at(now_ns - NS_PER_S), now_ns - NS_PER_S);
}

/* A process may lose its core between any two readings of a clock; the tick stays the same. */
static void tick_is_right_after_late_reading(void **state)
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

/* The second point is taken again for each trial, whatever the result of the first calibration was.
 */
static void later_calibration_replaces_first(void **state)
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
    conversions_are_inverse(state);
    clock_both(&ticks, &ns);
    const double now_hz = clock_hz_at(ticks, ns);
    assert_true(now_hz > hz * (1 - PACE) && now_hz < hz * (1 + PACE));
}

/* A kernel that has found the TSC unstable uses another clock. */
static void clock_of_kernel_decides(void **state)
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

/* The calculated clock of a sender agrees with the real clock, except for the error of two
 * readings. */
static void sender_clock_is_converted(void **state)
{
    (void)state;
    struct sender_clock_reading reading_of_sender = {.hz = (uint64_t)engine_clock.hz};
    clock_both(&reading_of_sender.ticks, &reading_of_sender.at_ns);
    const struct sender_clock clock = sender_clock_begin(&reading_of_sender);
    const uint64_t now = clock_ticks();
    const int64_t since = sender_clock_since(&clock, now, now & 0xffffffffffffULL);
    assert_true(since > -60000 && since < 60000);
}

/* The readings of a counter that counts several ticks at once, as on ARM, have that step. */
static void step_of_counter_divides_distances(void **state)
{
    (void)state;
    static const uint64_t by_one[] = {7, 7, 10, 12, 19}, by_forty[] = {80, 80, 200, 280, 1000},
                          still[] = {5, 5, 5};

    assert_int_equal(clock_step_of(by_one, 5, true), 1);
    assert_int_equal(clock_step_of(by_forty, 5, true), 40);
    assert_int_equal(clock_step_of(still, 3, true), 0);
}

/* 25 MHz in nanoseconds, which the kernel rounds after adjusting them. */
static void step_of_kernel_clock_is_least_distance(void **state)
{
    (void)state;
    static const uint64_t ns[] = {1000, 1000, 1040, 1079, 1201, 1240};

    assert_int_equal(clock_step_of(ns, 6, false), 39);
}

static void clock_step_is_whole_ticks(void **state)
{
    (void)state;
    const double ticks = clock_step_ns() * engine_clock.hz / 1e9;

    assert_true(ticks > 0.999 && llabs(llround(ticks * 1000) - 1000 * llround(ticks)) <= 1);
}

static void clock_has_a_name(void **state)
{
    (void)state;
#ifdef CLOCK_COUNTER
    assert_string_equal(clock_name(), by_counter ? CLOCK_COUNTER : "monotonic");
#else
    assert_string_equal(clock_name(), "monotonic");
#endif
}

/* Return true if the CPU's counter has a constant rate here, as the kernel reports for the TSC and
 * as ARM guarantees. */
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
        cmocka_unit_test(intervals_agree_with_kernel),
        cmocka_unit_test(conversions_are_inverse),
        cmocka_unit_test(tick_of_future_time),
        cmocka_unit_test(tick_is_right_after_late_reading),
        cmocka_unit_test(both_clocks_are_read_at_one_moment),
        cmocka_unit_test(sender_clock_is_converted),
        cmocka_unit_test(later_calibration_replaces_first),
        cmocka_unit_test(clock_of_kernel_decides),
        cmocka_unit_test(step_of_counter_divides_distances),
        cmocka_unit_test(step_of_kernel_clock_is_least_distance),
        cmocka_unit_test(clock_step_is_whole_ticks),
        cmocka_unit_test(clock_has_a_name),
    };
    int failed = cmocka_run_group_tests_name("the kernel's clock", tests, take_kernels, NULL);

    if (counter_is_steady())
        failed += cmocka_run_group_tests_name("the CPU's counter", tests, take_counter, NULL);
    else
        print_message("[  SKIPPED ] the CPU's counter: the kernel does not trust it here\n");
    return failed;
}
