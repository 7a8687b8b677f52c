/* Two threads, each on one core, pass a cache line back and forth. */
#include "measure/cache_line.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "measure/clock.h"

#define TURNS 200U /* passes per sample, in both directions */
#define SAMPLES 16U
#define LOOK_EVERY 4096U /* polls between two readings of the clock */
#define PATIENCE_NS 20000000ULL
#define STEPS 20000U
#define STEP_SAMPLES 5U

struct exchange {
    _Alignas(128) atomic_uint turn; /* odd: the turn of the answering thread */
    _Alignas(128) atomic_bool over;
    int core;
};

/* Pin this thread to a core with priority over threads that poll there, so that it gets the core
 * for a millisecond without sharing. */
static bool pin(int core)
{
    cpu_set_t set;
    const struct sched_param first = {.sched_priority = 50}; /* applications may have priority 1 */

    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
        return false;
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO,
                                &first); /* without permission it runs with normal priority */
    return true;
}

static void *answer(void *argument)
{
    struct exchange *x = argument;

    if (!pin(x->core)) {
        atomic_store(&x->over, true);
        return NULL;
    }
    for (unsigned next = 1;; next += 2) {
        while (atomic_load_explicit(&x->turn, memory_order_acquire) != next) {
            if (atomic_load_explicit(&x->over, memory_order_relaxed))
                return NULL;
        }
        atomic_store_explicit(&x->turn, next + 1, memory_order_release);
    }
}

/* Pass the line once in both directions; false if the other side does not answer in time. */
static bool ask(struct exchange *x, unsigned turn, uint64_t deadline_ns)
{
    atomic_store_explicit(&x->turn, turn + 1, memory_order_release);
    for (unsigned polls = 0; atomic_load_explicit(&x->turn, memory_order_acquire) != turn + 2;) {
        if (++polls % LOOK_EVERY == 0 &&
            (clock_monotonic_ns() > deadline_ns || atomic_load(&x->over)))
            return false;
    }
    return true;
}

static bool best_sample(struct exchange *x, double *ns)
{
    const uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
    bool found = false;
    unsigned turn = 0;

    for (unsigned sample = 0; sample < SAMPLES; sample++) {
        const uint64_t begun_ns = clock_monotonic_ns();
        for (unsigned i = 0; i < TURNS; i++, turn += 2) {
            if (!ask(x, turn, deadline_ns))
                return found;
        }
        const double each = (double)(clock_monotonic_ns() - begun_ns) / (2.0 * TURNS);
        if (!found || each < *ns)
            *ns = each;
        found = true;
    }
    return found;
}

struct reading {
    int core_a, core_b;
    double ns;
    bool found;
};

/* Runs in a separate thread, so that no other code inherits its core and priority. */
static void *exchange_lines(void *argument)
{
    struct reading *reading = argument;
    struct exchange x = {.core = reading->core_b};
    pthread_t other;

    /* Before this thread occupies its core, on which the other thread would otherwise wait for
     * ever. */
    if (pthread_create(&other, NULL, answer, &x) != 0)
        return NULL;
    reading->found = pin(reading->core_a) && best_sample(&x, &reading->ns);
    atomic_store(&x.over, true);
    pthread_join(other, NULL);
    return NULL;
}

static void *chain_steps(void *argument)
{
    struct reading *reading = argument;

    if (!pin(reading->core_a))
        return NULL;
    for (unsigned sample = 0; sample < STEP_SAMPLES; sample++) {
        uint64_t sum = sample;
        const uint64_t begun_ns = clock_monotonic_ns();
        for (unsigned i = 0; i < STEPS; i++) {
            sum += i;
            __asm__ volatile("" : "+r"(sum)); /* each addition waits for the previous addition */
        }
        const double each = (double)(clock_monotonic_ns() - begun_ns) / STEPS;
        if (!reading->found || each < reading->ns)
            reading->ns = each;
        reading->found = true;
    }
    return NULL;
}

static bool run(void *(*thread)(void *), struct reading *reading, double *ns)
{
    pthread_t worker;

    if (pthread_create(&worker, NULL, thread, reading) != 0)
        return false;
    pthread_join(worker, NULL);
    *ns = reading->ns;
    return reading->found;
}

bool cache_line_ns(int core_a, int core_b, double *ns)
{
    return run(exchange_lines, &(struct reading){.core_a = core_a, .core_b = core_b}, ns);
}

bool cache_line_step_ns(int core, double *ns)
{
    return run(chain_steps, &(struct reading){.core_a = core}, ns);
}
