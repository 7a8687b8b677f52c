/* Chooses and calibrates the clock. The counter of the CPU is compared with CLOCK_MONOTONIC at two
 * points at least 15 ms apart, each the tightest of several readings. So the error is about 15 ns
 * in 15 ms, about one part in a million. Each trial takes the second point again: after 15 s the
 * error is one part in 10^9. */
#include "measure/clock.h"

#include <stdio.h>
#include <string.h>

#include "common_divisor.h"

struct engine_clock engine_clock = {.by_counter = false, .hz = 1e9, .ns_multiplier = 1ULL << 32};

#define CLOCK_SOURCE_PATH "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define STEP_READINGS 1000U

static const uint64_t calibration_ns = 15 * 1000 * 1000;

struct point {
    uint64_t ticks;
    uint64_t ns;
};

static struct point first;

/* If the kernel finds the TSC unstable, it does not change the flags of the CPU, but uses another
 * clock. If the file is missing (no sysfs in a container), only the flags are known. */
bool clock_kernel_trusts_counter(const char *path)
{
    static const char *const by_counter[] = {
#if defined(__aarch64__)
        "arch_sys_counter",
#else
        "tsc",
        "tsc-early",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "xen",
#endif
    };
    char name[64] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return true;
    const bool named = fscanf(file, "%63s", name) == 1;
    fclose(file);
    for (size_t i = 0; i < sizeof by_counter / sizeof by_counter[0]; i++) {
        if (strcmp(name, by_counter[i]) == 0)
            return true;
    }
    return !named;
}

#if defined(__x86_64__)
static bool counter_is_constant(void)
{
    static char line[16384];
    FILE *file = fopen("/proc/cpuinfo", "re");
    bool steady = false;

    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "flags", 5) == 0) {
            steady = strstr(line, " constant_tsc") != NULL && strstr(line, " nonstop_tsc") != NULL;
            break;
        }
    }
    fclose(file);
    return steady;
}
#elif defined(__aarch64__)
static bool counter_is_constant(void)
{
    return true; /* guaranteed by the architecture: one rate, never stopping, equal on all cores */
}
#else
static bool counter_is_constant(void)
{
    return false;
}
#endif

static struct point take_point(void)
{
    struct point best = {0, 0};
    uint64_t best_width = UINT64_MAX;

    for (unsigned i = 0; i < 32; i++) {
        const uint64_t before = clock_counter();
        const uint64_t ns = clock_monotonic_ns();
        const uint64_t after = clock_counter();
        if (after - before < best_width) {
            best_width = after - before;
            best = (struct point){before + best_width / 2, ns};
        }
    }
    return best;
}

void clock_begin_by(bool counter)
{
#ifdef CLOCK_COUNTER
    engine_clock = (struct engine_clock){counter, 1e9, 1ULL << 32};
#else
    (void)counter;
#endif
    if (engine_clock.by_counter)
        first = take_point();
}

void clock_begin(void)
{
    clock_begin_by(counter_is_constant() && clock_kernel_trusts_counter(CLOCK_SOURCE_PATH));
}

const char *clock_name(void)
{
#ifdef CLOCK_COUNTER
    if (engine_clock.by_counter)
        return CLOCK_COUNTER;
#endif
    return "monotonic";
}

uint64_t clock_step_of(const uint64_t *ticks, unsigned count, bool counter)
{
    uint64_t step = 0;

    for (unsigned i = 1; i < count; i++) {
        const uint64_t distance = ticks[i] - ticks[i - 1];
        if (distance == 0)
            continue;
        if (counter)
            step = common_divisor(step, distance);
        else if (step == 0 || distance < step)
            step = distance;
    }
    return step;
}

double clock_step_ns(void)
{
    uint64_t ticks[STEP_READINGS], step = 0;

    while (step == 0) { /* the number of tries is limited in case the clock stands still */
        for (unsigned i = 0; i < STEP_READINGS; i++)
            ticks[i] = clock_ticks();
        step = clock_step_of(ticks, STEP_READINGS, engine_clock.by_counter);
    }
    return (double)step * 1e9 / engine_clock.hz;
}

void clock_calibrate(void)
{
    if (!engine_clock.by_counter)
        return;
    const uint64_t elapsed_ns = clock_monotonic_ns() - first.ns;
    if (elapsed_ns < calibration_ns) {
        const struct timespec rest = {0, (long)(calibration_ns - elapsed_ns)};
        nanosleep(&rest, NULL);
    }
    const struct point second = take_point();
    const double ticks = (double)(second.ticks - first.ticks);
    const double ns = (double)(second.ns - first.ns);
    engine_clock.hz = clock_hz_at(second.ticks, second.ns);
    engine_clock.ns_multiplier = (uint64_t)(ns / ticks * 4294967296.0 + 0.5);
}

double clock_hz_at(uint64_t ticks, uint64_t monotonic_ns)
{
    if (engine_clock.by_counter && monotonic_ns >= first.ns + calibration_ns)
        return (double)(ticks - first.ticks) * 1e9 / (double)(monotonic_ns - first.ns);
    return engine_clock.hz;
}

void clock_both(uint64_t *ticks, uint64_t *monotonic_ns)
{
    if (engine_clock.by_counter) {
        const struct point both = take_point();
        *ticks = both.ticks;
        *monotonic_ns = both.ns;
        return;
    }
    *ticks = *monotonic_ns = clock_monotonic_ns();
}

uint64_t clock_ticks_at(uint64_t monotonic_ns)
{
    uint64_t now_ticks, now_ns;

    clock_both(
        &now_ticks,
        &now_ns); /* if they were read separately, the time in between would move the trial */
    if (monotonic_ns >= now_ns)
        return now_ticks + clock_ns_to_ticks(monotonic_ns - now_ns);
    return now_ticks - clock_ns_to_ticks(now_ns - monotonic_ns);
}
