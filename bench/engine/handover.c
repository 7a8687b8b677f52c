/* The cost of moving bytes between cores: two threads, each on one core, and a ring of buffers
 * between them, as with vhost-user. One thread writes a part of every buffer, the other copies the
 * whole buffer, as the vhost side does. No traffic generator that writes as much can be faster.
 *
 *   handover CORE CORE BYTES WRITTEN RING BURST SECONDS
 *
 * prints buffers per second: in the best of twenty samples of a millisecond, in which both threads
 * had their cores, and on average. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROOM 2304 /* size of a buffer, like an mbuf with its headroom */
#define SAMPLES_MAX 100000

static uint8_t *shared, *own;
static unsigned bytes, written, ring, burst, ahead;
static uint8_t pattern[ROOM + 512];
static _Alignas(128) _Atomic uint64_t produced;
static _Alignas(128) _Atomic uint64_t consumed;
static atomic_bool stop;

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *read_all(void *core)
{
    pin(*(int *)core);
    for (uint64_t next = 0; !atomic_load_explicit(&stop, memory_order_relaxed);) {
        uint64_t ready = atomic_load_explicit(&produced, memory_order_acquire);
        if (ready - next > burst)
            ready = next + burst;
        for (; next < ready; next++)
            memcpy(own + next % 512 * ROOM, shared + next % ring * ROOM, bytes);
        atomic_store_explicit(&consumed, next, memory_order_release);
    }
    return NULL;
}

static void *write_all(void *core)
{
    pin(*(int *)core);
    for (uint64_t next = 0; !atomic_load_explicit(&stop, memory_order_relaxed);) {
        while (next + burst - atomic_load_explicit(&consumed, memory_order_acquire) > ring)
            if (atomic_load_explicit(&stop, memory_order_relaxed))
                return NULL;
        for (unsigned i = 0; i < burst; i++, next++) {
            if (ahead > 0)
                for (unsigned at = 0; at < written; at += 64)
                    __builtin_prefetch(shared + (next + ahead) % ring * ROOM + at, 1);
            memcpy(shared + next % ring * ROOM, pattern + next % 64 * 8, written);
        }
        atomic_store_explicit(&produced, next, memory_order_release);
    }
    return NULL;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double rates[SAMPLES_MAX];
    pthread_t threads[2];
    unsigned count = 0;

    if (argc < 8)
        return 2;
    int cores[] = {atoi(argv[1]), atoi(argv[2])};
    bytes = (unsigned)atoi(argv[3]);
    written = (unsigned)atoi(argv[4]);
    ring = (unsigned)atoi(argv[5]);
    burst = (unsigned)atoi(argv[6]);
    if (argc > 8)
        ahead = (unsigned)atoi(argv[8]);
    const double seconds = atof(argv[7]);
    const size_t room = (size_t)2 << 20;
    shared = mmap(NULL, room * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
                  -1, 0);
    own = shared + room;
    if (shared == MAP_FAILED || bytes > ROOM || written > bytes || ring > 800 || burst > ring) {
        perror("handover");
        return 1;
    }
    memset(shared, 1, room * 2);
    for (unsigned i = 0; i < sizeof pattern; i++)
        pattern[i] = (uint8_t)rand();
    pthread_create(&threads[0], NULL, read_all, &cores[1]);
    pthread_create(&threads[1], NULL, write_all, &cores[0]);
    const double begun = now_s();
    double last = begun;
    uint64_t before = 0;
    while (last - begun < seconds && count < SAMPLES_MAX) {
        struct timespec nap = {0, 1000000};
        nanosleep(&nap, NULL);
        const uint64_t done = atomic_load(&consumed);
        const double t = now_s();
        if (t - last < 0.003)
            rates[count++] = (double)(done - before) / (t - last);
        before = done;
        last = t;
    }
    atomic_store(&stop, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    qsort(rates, count, sizeof rates[0], compare);
    printf("%.2f Mpps in the best samples, %.2f on average\n",
           count > 0 ? rates[count - 1 - count / 20] / 1e6 : 0,
           (double)atomic_load(&consumed) / (last - begun) / 1e6);
}
