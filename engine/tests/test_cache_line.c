/* The time of a cache line between two cores is plausible, and a missing core is reported. */
#include "test.h"

#include <sched.h>

#include "measure/cache_line.h"

#define NO_CORE 1000
#define TRIES 2000 /* on a busy machine two cores may not run at the same time for long */

static unsigned own_cores(int *cores, unsigned max)
{
    cpu_set_t set;
    unsigned count = 0;

    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int core = 0; core < CPU_SETSIZE && count < max; core++) {
        if (CPU_ISSET(core, &set))
            cores[count++] = core;
    }
    return count;
}

static void cache_line_time_is_plausible(void **state)
{
    (void)state;
    int cores[2];
    double ns = 0;
    bool plausible = false;

    if (own_cores(cores, 2) < 2)
        skip_because("two cores are needed");
    for (unsigned tries = 0; tries < TRIES && !plausible; tries++) {
        if (!cache_line_ns(cores[0], cores[1], &ns))
            continue;
        assert_true(ns > 1); /* disturbances make the time longer, never shorter */
        plausible = ns < 10000;
    }
    assert_true(plausible);
}

static void addition_step_is_a_cycle(void **state)
{
    (void)state;
    int core = 0;
    double ns = 0;
    bool plausible = false;

    assert_int_equal(own_cores(&core, 1), 1);
    for (unsigned tries = 0; tries < TRIES && !plausible; tries++) {
        assert_true(cache_line_step_ns(core, &ns));
        assert_true(ns > 0.05);
        plausible = ns < 20;
    }
    assert_true(plausible);
}

static void missing_core_is_reported(void **state)
{
    (void)state;
    int core = 0;
    double ns = 0;

    assert_int_equal(own_cores(&core, 1), 1);
    assert_false(cache_line_ns(core, NO_CORE, &ns));
    assert_false(cache_line_ns(NO_CORE, core, &ns));
    assert_false(cache_line_step_ns(NO_CORE, &ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_line_time_is_plausible),
        cmocka_unit_test(addition_step_is_a_cycle),
        cmocka_unit_test(missing_core_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
