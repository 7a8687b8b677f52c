/* How far two cores are from each other, as cache lines travel: two threads, one core each, hand
 * one line to and fro. Prints the ns of one way in the best of samples of 2000 turns: whatever
 * disturbs only adds. Cores of a virtual machine are moved about, so this changes from minute to
 * minute.
 *
 *   distance CORE CORE */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS 500U
#define LASTS_NS 50e6
#define OVER 0xffffffffU

static _Alignas(128) atomic_uint turn;

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Answers every odd number. */
static void *answer(void *core)
{
    pin(*(int *)core);
    for (unsigned next = 1;; next += 2) {
        unsigned observed;
        while ((observed = atomic_load_explicit(&turn, memory_order_acquire)) != next) {
            if (observed == OVER)
                return NULL;
        }
        atomic_store_explicit(&turn, next + 1, memory_order_release);
    }
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int cores[2];
    pthread_t other;
    double best = 1e18, begun;
    unsigned next = 0;

    if (argc != 3)
        return 2;
    cores[0] = atoi(argv[1]);
    cores[1] = atoi(argv[2]);
    if (pthread_create(&other, NULL, answer, &cores[1]) != 0)
        return 1;
    pin(cores[0]);
    const double end = now_ns() + LASTS_NS;
    while ((begun = now_ns()) < end) {
        for (unsigned i = 0; i < TURNS; i++, next += 2) {
            atomic_store_explicit(&turn, next + 1, memory_order_release);
            while (atomic_load_explicit(&turn, memory_order_acquire) != next + 2)
                continue;
        }
        const double each = (now_ns() - begun) / (2.0 * TURNS);
        best = each < best ? each : best;
    }
    atomic_store(&turn, OVER);
    pthread_join(other, NULL);
    printf("%.1f\n", best);
    return 0;
}
