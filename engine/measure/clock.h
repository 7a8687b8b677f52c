/* The engine's clock: ticks of the CPU's counter if that is steady (the TSC of x86-64, the virtual
 * count of 64-bit ARM), otherwise CLOCK_MONOTONIC nanoseconds. The hot path reads ticks; everything
 * reported is converted to nanoseconds. docs/engine-cycles.md compares the counters. */
#ifndef SM_CLOCK_H
#define SM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#define CLOCK_COUNTER "tsc"
#elif defined(__aarch64__)
#define CLOCK_COUNTER "cntvct"
#endif

#define NS_PER_S 1000000000ULL

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

struct engine_clock {
    bool by_counter;
    double hz;
    /* ns = (ticks * ns_multiplier) >> 32: exact to 1 ns in 4 s, without a division. */
    uint64_t ns_multiplier;
};

extern struct engine_clock engine_clock;

/* Choose the source and take the first calibration point; call it once, early. */
void clock_begin(void);

/* The same for a given source. For CPUs without a readable counter only the clock of the kernel is
 * possible. */
void clock_begin_by(bool counter);

/* "tsc", "cntvct" or "monotonic". */
const char *clock_name(void);

/* The shortest time by which two different readings of the clock can differ, measured now. Counters
 * of ARM often count in steps of 40 ns, and some count several ticks at once. */
double clock_step_ns(void);

/* The same in ticks, from these readings. Readings of a counter differ by whole steps, so the step
 * is the greatest common divisor of their distances. Nanoseconds of the kernel's clock are rounded,
 * so the shortest distance is used. 0: all readings are equal. */
uint64_t clock_step_of(const uint64_t *ticks, unsigned count, bool counter);

/* Take the second calibration point, at least 15 ms after the first. Repeated calls between trials
 * increase the accuracy; no other thread may use the clock during the call. */
void clock_calibrate(void);

/* Ticks per second, as far as known at this moment, at which both clocks were read. */
double clock_hz_at(uint64_t ticks, uint64_t monotonic_ns);

/* Return true if the clock that the kernel uses, named in this file, is the CPU's counter. */
bool clock_kernel_trusts_counter(const char *path);

static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The counter of the CPU. ARM may read it before earlier loads of the program, for example the load
 * that found a frame; `isb` prevents that, as in the kernel's clock. */
static inline uint64_t clock_counter(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(count) : : "memory");
    return count;
#else
    return clock_monotonic_ns();
#endif
}

static inline uint64_t clock_ticks(void)
{
    if (engine_clock.by_counter)
        return clock_counter();
    return clock_monotonic_ns();
}

/* A hint for the core that this is a waiting loop. */
static inline void clock_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline uint64_t clock_ticks_to_ns(uint64_t ticks)
{
    return (uint64_t)(((uint128)ticks * engine_clock.ns_multiplier) >> 32);
}

static inline uint64_t clock_ns_to_ticks(uint64_t ns)
{
    return (uint64_t)((double)ns * engine_clock.hz / (double)NS_PER_S);
}

/* Read both clocks at the same moment, as exactly as possible. */
void clock_both(uint64_t *ticks, uint64_t *monotonic_ns);

/* The tick at which CLOCK_MONOTONIC reads `monotonic_ns`. The time must be near, because the
 * calibration has a drift. */
uint64_t clock_ticks_at(uint64_t monotonic_ns);
#endif
