/* The engine's clock: TSC ticks where the TSC is constant and nonstop, else CLOCK_MONOTONIC
 * nanoseconds. The hot path reads ticks; everything reported is converted to nanoseconds. */
#ifndef SM_CLOCK_H
#define SM_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define NS_PER_S 1000000000ULL

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

struct engine_clock {
    bool is_tsc;
    double hz;
    /* ns = (ticks * ns_multiplier) >> 32: exact to 1 ns in 4 s, and never a division. */
    uint64_t ns_multiplier;
};

extern struct engine_clock engine_clock;

/* Choose the source and take the first calibration point; call once, early. */
void clock_begin(void);

/* Take the second calibration point, waiting until at least 15 ms lie between the two. Called again
 * between trials it is more exact; no other thread may use the clock meanwhile. */
void clock_calibrate(void);

/* Ticks a second as far as they are known at this moment, which both clocks were read at. */
double clock_hz_at(uint64_t ticks, uint64_t monotonic_ns);

/* Does the kernel's own clock, named in this file, go by the TSC? */
bool clock_kernel_trusts_tsc(const char *path);

static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    if (engine_clock.is_tsc)
        return __rdtsc();
#endif
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
