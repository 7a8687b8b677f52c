/* Counters of the kernel and the core for a trial: right, or missing with a reason. */
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "measure/cpu.h"
#include "measure/hardware.h"

enum { CYCLES, INSTRUCTIONS };

static volatile uint64_t sink;

static void *work(void *rounds)
{
    for (uint64_t i = 0; i < *(const uint64_t *)rounds; i++)
        sink += i;
    return NULL;
}

static uint64_t instructions_of(uint64_t rounds, bool in_thread, struct hardware *h)
{
    pthread_t thread;

    hardware_open(h);
    hardware_start(h);
    if (in_thread) {
        assert_int_equal(pthread_create(&thread, NULL, work, &rounds), 0);
        pthread_join(thread, NULL);
    } else {
        work(&rounds);
    }
    hardware_finish(h);
    return h->fds[INSTRUCTIONS] >= 0 ? h->counts[INSTRUCTIONS] : 0;
}

/* The kernel may have no counter, or no free counter at the moment. */
static bool were_counted(const struct hardware *h)
{
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++)
        assert_true(h->fds[i] >= 0 || h->reason[0] != '\0');
    if (h->fds[INSTRUCTIONS] < 0)
        print_message("[ SKIPPED ] hardware counters: %s\n", h->reason);
    return h->fds[INSTRUCTIONS] >= 0;
}

static void work_is_counted_or_has_reason(void **state)
{
    (void)state;
    for (unsigned in_thread = 0; in_thread < 2; in_thread++) {
        struct hardware h;
        const uint64_t few = instructions_of(1000000, in_thread, &h);
        if (!were_counted(&h))
            return;
        const uint64_t many = instructions_of(11000000, in_thread, &h);
        if (!were_counted(&h))
            return;
        const uint64_t more = many - few; /* for ten million rounds of at least 3 instructions */
        assert_true(many > few && more >= 20000000 && more < 500000000);
        assert_true(h.counted_share > 0 && h.counted_share <= 1);
    }
}

static void no_count_without_start(void **state)
{
    (void)state;
    struct hardware h;
    uint64_t rounds = 100000;
    hardware_open(&h);
    work(&rounds);
    hardware_finish(&h);
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++)
        assert_true(h.fds[i] < 0 || h.counts[i] == 0);
}

static void stolen_time_of_all_cores_is_their_sum(void **state)
{
    (void)state;
    int cores[1024];
    const long count = sysconf(_SC_NPROCESSORS_CONF);
    for (int i = 0; i < 1024; i++)
        cores[i] = i;
    const struct cpu_stolen before = cpu_stolen_read(cores, 1024);
    const struct cpu_stolen none = cpu_stolen_read(cores, 0);
    assert_int_equal(none.cores_ns, 0);
    assert_true(none.all_ns >= before.all_ns);
    /* the sum of each core is rounded down to ticks separately */
    const uint64_t rounding_ns = (uint64_t)count * 1000000000U / (uint64_t)sysconf(_SC_CLK_TCK);
    assert_true(before.cores_ns <= none.all_ns + rounding_ns);
    assert_true(before.cores_ns + rounding_ns >= before.all_ns);
}

static void stolen_time_is_eighth_number(void **state)
{
    (void)state;
    unsigned long long n[8];
    const struct cpu_stolen before = cpu_stolen_read(NULL, 0);
    FILE *file = fopen("/proc/stat", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &n[0], &n[1],
                            &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]),
                     8);
    fclose(file);
    const uint64_t stolen_ns = n[7] * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
    assert_true(before.all_ns <= stolen_ns);
    assert_true(cpu_stolen_read(NULL, 0).all_ns >= stolen_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_counted_or_has_reason),
        cmocka_unit_test(no_count_without_start),
        cmocka_unit_test(stolen_time_of_all_cores_is_their_sum),
        cmocka_unit_test(stolen_time_is_eighth_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
