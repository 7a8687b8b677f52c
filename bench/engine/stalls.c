/* Measures the stalls of this core: a loop reads the clock and records how long it was away, which
 * no program on this core can avoid. From that it calculates the lateness of a program that wakes
 * at a random moment and does nothing else: if it is due within a stall, it waits for the rest of
 * the stall.
 *
 * stalls SECONDS prints one JSON line; times in ns */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "stalls.c reads the counter of x86-64 or of 64-bit ARM"
#endif

#include "../../engine/measure/clock.h"

#define GAPS_MAX 1000000U
#define GAP_NS 150 /* shorter gaps are the loop itself */

static double gaps[GAPS_MAX]; /* ticks, then ns */
static unsigned count;

/* The longest time of the loop itself in ticks: ticks of x86-64 are at most half a nanosecond; ARM
 * has a separate rate, often 25 MHz. */
static uint64_t ticks_at_least(void)
{
#if defined(__x86_64__)
    return 2 * GAP_NS;
#elif defined(__aarch64__)
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return GAP_NS * hz / 1000000000U + 1;
#endif
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The share of all moments at which the wait is longer than this. */
static double share_above(double late_ns, double whole_ns)
{
    double above = 0;

    for (unsigned i = 0; i < count; i++)
        above += gaps[i] > late_ns ? gaps[i] - late_ns : 0;
    return above / whole_ns;
}

static double lateness(double share, double whole_ns)
{
    double low = 0, high = whole_ns;

    for (unsigned i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (share_above(middle, whole_ns) > share)
            low = middle;
        else
            high = middle;
    }
    return high;
}

int main(int argc, char **argv)
{
    const double begun = now_s(), seconds = argc == 2 ? atof(argv[1]) : 0;
    double longest = 0, whole_ns;
    unsigned above_1us = 0, above_10us = 0;
    struct rusage usage;

    if (seconds <= 0)
        return 2;
    const uint64_t first = clock_counter(), shortest = ticks_at_least();
    uint64_t last = first;
    for (unsigned turn = 1; count < GAPS_MAX; turn++) {
        const uint64_t now = clock_counter();
        if (now - last > shortest)
            gaps[count++] = (double)(now - last);
        last = now;
        if (turn % 65536 == 0) {
            if (now_s() - begun >= seconds)
                break;
            last = clock_counter(); /* the time for reading the other clock is not a stall */
        }
    }
    whole_ns = (now_s() - begun) * 1e9;
    const double ns_a_tick = whole_ns / (double)(last - first);
    for (unsigned i = 0; i < count; i++) {
        gaps[i] *= ns_a_tick;
        above_1us += gaps[i] > 1e3;
        above_10us += gaps[i] > 1e4;
        longest = gaps[i] > longest ? gaps[i] : longest;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"p99_ns\": %.0f, \"p999_ns\": %.0f, \"longest_ns\": %.0f, \"gaps_above_1us\": %u, "
           "\"gaps_above_10us\": %u, \"preempted\": %ld}\n",
           lateness(0.01, whole_ns), lateness(0.001, whole_ns), longest, above_1us, above_10us,
           usage.ru_nivcsw);
    return 0;
}
