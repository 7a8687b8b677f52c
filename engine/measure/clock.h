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
    /* ns = (ticks * ns_multiplier) >> 32: exact to 1 ns in 4 s, and never a division. */
    uint64_t ns_multiplier;
};

extern struct engine_clock engine_clock;

/* Choose the source and take the first calibration point; call once, early. */
void clock_begin(void);

/* The same for a source that the caller chooses. CPUs without a counter that this file can read
 * have the kernel's clock alone. */
void clock_begin_by(bool counter);

/* "tsc", "cntvct" or "monotonic". */
const char *clock_name(void);

/* The least time by which two different readings of the clock can differ, from readings taken now.
 * Counters of ARM often count in steps of 40 ns, and some count several ticks at once. */
double clock_step_ns(void);

/* The same in ticks, of these readings. A counter's readings lie whole steps apart, so the step is
 * their distances' greatest common divisor; nanoseconds of the kernel's clock are rounded, and the
 * least distance stands for the step. 0: all readings are equal. */
uint64_t clock_step_of(const uint64_t *ticks, unsigned count, bool counter);

/* Take the second calibration point, waiting until at least 15 ms lie between the two. Called again
 * between trials it is more exact; no other thread may use the clock meanwhile. */
void clock_calibrate(void);

/* Ticks a second as far as they are known at this moment, which both clocks were read at. */
double clock_hz_at(uint64_t ticks, uint64_t monotonic_ns);

/* Does the kernel's own clock, named in this file, go by the CPU's counter? */
bool clock_kernel_trusts_counter(const char *path);

static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The CPU's counter. ARM may read it ahead of loads that stand before it in the program, such as
 * the one that found a frame: `isb` holds the reading back, as in the kernel's own clock. */
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

/* Tell the core that this is a waiting loop. */
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

/* Both clocks at one moment, as nearly as they can be read together. */
void clock_both(uint64_t *ticks, uint64_t *monotonic_ns);

/* The tick at which CLOCK_MONOTONIC reads `monotonic_ns` (near now: drift is the calibration's). */
uint64_t clock_ticks_at(uint64_t monotonic_ns);
#endif
